"""A MarianMT model of a few thousand weights, with SentencePiece models written byte by byte.

It imports nothing of Disco, so that interop/marian_expected.py can run it where transformers is installed.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)

LETTERS = "abcdefghilmnoprstuvw.,'-<>/é"
SOURCE = ["▁the", "▁cat", "▁dog", "▁sees", "▁a", "s", "▁and", "ing", "▁", "at", "▁<", "see", "▁th", "|", "▁|"]
TARGET = ["▁le", "▁chat", "▁chien", "▁voit", "▁un", "s", "▁et", "ent", "▁", "at", "voi", "▁l", "|"]
ABSENT = ("|", "▁|")  # pieces that the vocabulary lacks
SOURCE_PIECES = [*SOURCE, *(letter for letter in LETTERS if letter not in SOURCE)]
TARGET_PIECES = [*TARGET, *(letter for letter in LETTERS if letter not in TARGET)]
JOINT = [piece for piece in dict.fromkeys([*SOURCE_PIECES, *TARGET_PIECES]) if piece not in ABSENT]
VOCABULARY = {piece: id_ for id_, piece in enumerate(["</s>", "<unk>", *sorted(JOINT), "<pad>"])}

CONFIG: dict[str, Any] = {
    "model_type": "marian",
    "architectures": ["MarianMTModel"],
    "activation_function": "swish",
    "d_model": 16,
    "encoder_layers": 2,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 20,
    "decoder_layers": 3,
    "decoder_attention_heads": 4,
    "decoder_ffn_dim": 12,
    "dropout": 0.1,
    "max_position_embeddings": 40,
    "scale_embedding": True,
    "share_encoder_decoder_embeddings": True,
    "vocab_size": len(VOCABULARY),
    "decoder_vocab_size": len(VOCABULARY),
    "eos_token_id": VOCABULARY["</s>"],
    "pad_token_id": VOCABULARY["<pad>"],
    "decoder_start_token_id": VOCABULARY["<pad>"],
    "forced_eos_token_id": None,
}


def write_marian(folder: Path, charsmap: bytes = b"", config: dict[str, Any] | None = None) -> Path:
    """All files of the model; `config` changes entries of config.json and, with them, the weights."""
    content = CONFIG | (config or {})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(content))
    (folder / "vocab.json").write_text(json.dumps(VOCABULARY))
    (folder / "tokenizer_config.json").write_text('{"source_lang": "en", "target_lang": "fr"}')
    (folder / "source.spm").write_bytes(model_proto(SOURCE_PIECES, charsmap))
    (folder / "target.spm").write_bytes(model_proto(TARGET_PIECES, charsmap))
    save_file(tensors(content), folder / "model.safetensors", metadata={"format": "pt"})
    return folder


# SentencePiece's ModelProto


def model_proto(
    pieces: list[str],
    charsmap: bytes = b"",
    trainer: dict[int, int] | None = None,
    normalizer: dict[int, int] | None = None,
    kinds: dict[str, int] | None = None,
    denormalizer: bytes = b"",
) -> bytes:
    """A unigram model; longer and earlier pieces are likelier.

    trainer, normalizer: more fields of these messages; kinds: pieces that are not normal ones.
    """
    special = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]
    scored = [
        (piece, score(piece, place), (kinds or {}).get(piece, NORMAL)) for place, piece in enumerate(pieces)
    ]
    content = b"".join(message(1, _piece(*each)) for each in [*special, *scored])
    content += message(2, b"".join(number(*field) for field in (trainer or {3: 1}).items()))
    content += message(3, message(1, b"tiny") + message(2, charsmap) + _numbers(normalizer))
    return content + (message(5, message(2, denormalizer)) if denormalizer else b"")


def score(piece: str, place: int) -> float:
    """A log probability that float32 has exactly."""
    return -2.0 - place / 8 - 3.0 * (len(piece) == 1)


def _piece(text: str, log_probability: float, kind: int) -> bytes:
    type_ = b"" if kind == NORMAL else number(3, kind)
    return message(1, text.encode()) + varint(2 << 3 | 5) + struct.pack("<f", log_probability) + type_


def _numbers(fields: dict[int, int] | None) -> bytes:
    return b"".join(number(*field) for field in (fields or {}).items())


def message(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


# Weights


def tensors(config: dict[str, Any]) -> dict[str, Tensor]:
    """Random weights under transformers' names, the same on every machine and with every torch."""
    width, rows = config["d_model"], config["vocab_size"]
    shapes: dict[str, tuple[int, ...]] = {
        "model.shared.weight": (rows, width),
        "final_logits_bias": (1, rows),
    }
    for side, parts in (("encoder", ["self_attn"]), ("decoder", ["self_attn", "encoder_attn"])):
        for layer in range(config[f"{side}_layers"]):
            prefix = f"model.{side}.layers.{layer}"
            for part in parts:
                shapes |= linear(f"{prefix}.{part}.q_proj", width, width)
                shapes |= linear(f"{prefix}.{part}.k_proj", width, width)
                shapes |= linear(f"{prefix}.{part}.v_proj", width, width)
                shapes |= linear(f"{prefix}.{part}.out_proj", width, width)
                shapes |= norm(f"{prefix}.{part}_layer_norm", width)
            shapes |= linear(f"{prefix}.fc1", width, config[f"{side}_ffn_dim"])
            shapes |= linear(f"{prefix}.fc2", config[f"{side}_ffn_dim"], width)
            shapes |= norm(f"{prefix}.final_layer_norm", width)
    return {name: random(shape, seed, name) for seed, (name, shape) in enumerate(shapes.items())}


def linear(name: str, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def norm(name: str, width: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def random(shape: tuple[int, ...], seed: int, name: str) -> Tensor:
    """Uniform numbers from integer arithmetic, scaled so that the output depends on all of the input."""
    count = int(torch.tensor(shape).prod())
    state = torch.arange(count) * 40503 + seed * 2654435761 % 2**31
    for _ in range(4):
        state = (state * 1103515245 + 12345) % 2**31
        state ^= state >> 11
    uniform = (state.double() / 2**31 - 0.5).float().reshape(shape)
    if "norm.weight" in name:
        return uniform + 1
    return uniform * (0.4 if "bias" in name else 1.2 if "shared" in name else 2.5)
