"""Import of MarianMT models (OPUS-MT) in the format of Hugging Face's transformers.

The format is a directory with config.json, model.safetensors or pytorch_model.bin, source.spm, target.spm and
vocab.json.

The original has one vocabulary for both languages, vocab.json, and two SentencePiece models that each use a
part of it. The imported model has a separate vocabulary per side:

- source: the pieces of source.spm.
- target: the pieces of target.spm, then all other entries of vocab.json. The latter never occur in target
text,
  but the original can produce them, and they are part of its softmax.

The rows of the original's table are copied in that order, once for the encoder, once for decoder and output.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from disco_mt.core.errors import UserError
from disco_mt.core.files import atomic_directory
from disco_mt.core.special_tokens import BOS, EOS, MASK, NUM_SPECIAL, PAD, UNK
from disco_mt.nn.config import ModelConfig, Stack
from disco_mt.nn.directory import load_tensors, save_model
from disco_mt.systems.build import build_model
from disco_mt.text.pair import TextPair
from disco_mt.text.sentencepiece import SentencePieceModel
from disco_mt.text.tokenizer import Tokenizer
from disco_mt.text.typography import rewrites

FILES = ("*.json", "*.safetensors", "pytorch_model.bin", "*.spm")  # downloaded from the hub

_CONFIG, _VOCABULARY, _TOKENIZER = "config.json", "vocab.json", "tokenizer_config.json"
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_NEVER = -100.0  # output bias of tokens that the original does not have: a probability of zero
_ABSENT = -1  # stands for a row of zeros
_NORM_EPSILON = 1e-5
_ACTIVATIONS: dict[str, Literal["silu", "gelu", "relu"]] = {
    "swish": "silu",
    "silu": "silu",
    "gelu": "gelu",
    "relu": "relu",
}
_LANGUAGE = re.compile(r">>(.+)<<")
_TABLE = "model.shared.weight"
_COPIES = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
_COMPUTED = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
_BIAS = "final_logits_bias"


@dataclass(frozen=True)
class MarianOptions:
    source_language: str = ""
    """Language code; empty: as the model itself states."""
    target_language: str = ""
    exact_tokenizer: bool = False
    """Segment text exactly like the original. Default: unknown typographic characters are replaced by known
    ones (’ by '), and pieces without a row of their own are left out."""


@dataclass(frozen=True)
class _Original:
    """The content of the original's files."""

    path: Path
    config: dict[str, Any]
    vocabulary: dict[str, int]  # vocab.json
    tensors: dict[str, Tensor]

    @property
    def start(self) -> int:
        return _whole_number(self, "decoder_start_token_id")

    @property
    def end(self) -> int:
        return _whole_number(self, "eos_token_id")

    @property
    def unknown(self) -> int:
        return self.vocabulary["<unk>"]


@dataclass(frozen=True)
class _Side:
    """The tokenizer of one side, and the original's row for each of its ids."""

    tokenizer: Tokenizer
    rows: list[int]
    never: list[int]  # ids that must not be produced


def import_marian(model: Path, origin: str, out: Path, options: MarianOptions) -> ModelConfig:
    """Write a model directory from a MarianMT directory. Returns the model's config.

    origin: the name of the original in the model card.
    """
    original = _read(model)
    languages = _languages(model, options)
    source, target = (
        _side(original, side, language, options.exact_tokenizer)
        for side, language in zip(("source", "target"), languages, strict=True)
    )
    config = _config(original, len(source.rows), len(target.rows))
    built = build_model(config)
    load_tensors(built, _weights(original, config, source, target), model)
    text = TextPair(source.tokenizer, target.tokenizer, joint=False)
    with atomic_directory(out) as directory:
        description = text.save(directory)
        extra = {"imported_from": origin}
        save_model(directory, built, description, _card(origin, *languages), extra, _precision(original))
    return config


# Files


def _read(path: Path) -> _Original:
    config = _json(path / _CONFIG)
    _check_config(path, config)
    vocabulary = _vocabulary(path)
    tensors = _tensors(path)
    _check_table(path, config, vocabulary, tensors)
    return _Original(path, config, vocabulary, tensors)


def _json(path: Path) -> dict[str, Any]:
    if not path.parent.is_dir():
        raise UserError(f"{path.parent} is not a directory; a MarianMT model is a directory with {_CONFIG}")
    native = sorted(path.parent.glob("*.npz"))
    if native and not path.exists():
        raise UserError(
            f"{path.parent} has a model of Marian itself ({native[0].name}); convert it to the Hugging Face "
            "format first (transformers: convert_marian_to_pytorch.py)"
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} is missing; a MarianMT model directory has it") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} must be a JSON object, found {type(content).__name__}")
    return content


def _check_config(path: Path, config: dict[str, Any]) -> None:
    if config.get("model_type") != "marian":
        found = config.get("model_type", "none")
        raise UserError(f"{path} is not a MarianMT model: model_type should be 'marian', is {found!r}")
    if not config.get("share_encoder_decoder_embeddings", True):
        raise UserError(f"{path}: models with separate vocabularies for source and target are not supported")
    if not config.get("tie_word_embeddings", True):
        raise UserError(f"{path}: models whose output layer is not tied to the embeddings are not supported")
    for name in ("normalize_before", "normalize_embedding", "add_final_layer_norm", "add_bias_logits"):
        if config.get(name):
            raise UserError(f"{path}: {name} is set, which MarianMT does not compute; set it to false")


def _vocabulary(path: Path) -> dict[str, int]:
    vocabulary = _json(path / _VOCABULARY)
    if not all(type(id_) is int for id_ in vocabulary.values()) or (
        sorted(vocabulary.values()) != list(range(len(vocabulary)))
    ):
        raise UserError(f"{path / _VOCABULARY} must give each of its entries one of the ids from 0 on")
    if "<unk>" not in vocabulary:
        raise UserError(f"{path / _VOCABULARY} has no <unk>; is it the vocabulary of a MarianMT model?")
    languages = [found[1] for found in map(_LANGUAGE.fullmatch, vocabulary) if found]
    if languages:
        shown = ", ".join(languages[:10]) + (", ..." if len(languages) > 10 else "")
        raise UserError(
            f"{path} translates into several languages ({shown}), which is not supported; choose a model "
            "of one language pair"
        )
    return vocabulary


def _tensors(path: Path) -> dict[str, Tensor]:
    file = next((path / name for name in _WEIGHTS if (path / name).is_file()), None)
    if file is None:
        raise UserError(f"{path} has no weights: neither {' nor '.join(_WEIGHTS)} is in it")
    try:
        if file.suffix == ".safetensors":
            return load_file(file)
        content = torch.load(file, map_location="cpu", weights_only=True)  # runs no code
    except (SafetensorError, OSError) as error:
        raise UserError(f"{file} cannot be read: {error}; the file is damaged, get it again") from None
    except Exception:  # a broken or hostile file may raise anything
        raise UserError(
            f"{file} cannot be read as weights: it is damaged, or has more than tensors"
        ) from None
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise UserError(f"{file} must have tensors by name, and nothing else")
    return content


def _check_table(
    path: Path, config: dict[str, Any], vocabulary: dict[str, int], tensors: dict[str, Tensor]
) -> None:
    if _TABLE not in tensors:
        raise UserError(f"{path} has no tensor {_TABLE}: not a MarianMT model")
    rows = len(tensors[_TABLE])
    for name, size in ((f"{_CONFIG}: vocab_size", config.get("vocab_size")), (_VOCABULARY, len(vocabulary))):
        if size != rows:
            raise UserError(f"{path}: {name} has {size} entries, but {_TABLE} has {rows} rows")
    for name in _COPIES:
        if name in tensors and not torch.equal(tensors[name], tensors[_TABLE]):
            raise UserError(f"{path}: {name} differs from {_TABLE}; untied embeddings are not supported")


def _whole_number(original: _Original, name: str) -> int:
    value = original.config.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise UserError(f"{original.path / _CONFIG}: {name} must be a whole number, got {value!r}")
    if name.endswith("_token_id") and not 0 <= value < len(original.vocabulary):
        raise UserError(f"{original.path / _CONFIG}: {name} is {value}, which {_VOCABULARY} does not have")
    return value


def _fraction(original: _Original, name: str) -> float:
    value = original.config.get(name, 0.0)
    if not isinstance(value, int | float):
        raise UserError(f"{original.path / _CONFIG}: {name} must be a number, got {value!r}")
    return float(value)


def _languages(path: Path, options: MarianOptions) -> tuple[str, str]:
    described = _json(path / _TOKENIZER) if (path / _TOKENIZER).exists() else {}
    source = options.source_language or described.get("source_lang")
    target = options.target_language or described.get("target_lang")
    for side, language in (("source", source), ("target", target)):
        if not language or not isinstance(language, str):
            raise UserError(
                f"{path} does not say what its {side} language is ({_TOKENIZER}: {side}_lang); "
                f"give it with --{side}-language"
            )
    return str(source), str(target)


# Vocabularies


def _side(original: _Original, side: str, language: str, exact: bool) -> _Side:
    path = original.path / f"{side}.spm"
    if not path.is_file():
        raise UserError(f"{path} is missing; without it text cannot be segmented for this model")
    model = SentencePieceModel.read(path)
    taken = {original.start, original.end, original.unknown}
    rows = {piece: row for piece, row in original.vocabulary.items() if row not in taken}
    _check_fits(path, model, rows)
    if not exact:
        model = model.restricted(rows)
    unreachable = _unreachable(model, rows) if side == "target" else []
    backend = model.backend(unreachable, () if exact else _typography(model))
    pieces = [piece for piece, _ in model.pieces] + unreachable
    absent = [id_ for id_, piece in enumerate(pieces, start=NUM_SPECIAL) if piece not in rows]
    return _Side(
        Tokenizer(backend, language, "sentencepiece"),
        rows=[*_special_rows(original), *(rows.get(piece, original.unknown) for piece in pieces)],
        never=[PAD, MASK, *absent],
    )


def _special_rows(original: _Original) -> list[int]:
    """The rows of the special tokens. Our decoder starts with BOS, the original with <pad>.

    The original has no visible padding and no mask: their rows are zeros, and their output bias excludes them
    from the softmax, which stays that of the original.
    """
    rows = {BOS: original.start, PAD: _ABSENT, EOS: original.end, UNK: original.unknown, MASK: _ABSENT}
    return [rows[token] for token in range(NUM_SPECIAL)]


def _check_fits(path: Path, model: SentencePieceModel, rows: dict[str, int]) -> None:
    """Raise an error if the SentencePiece model shares few pieces with the vocabulary."""
    shared = sum(piece in rows for piece, _ in model.pieces)
    if shared < 0.9 * len(model.pieces):
        raise UserError(
            f"{path} does not belong to this model: only {shared} of its {len(model.pieces)} pieces are in "
            f"{_VOCABULARY}"
        )


def _unreachable(model: SentencePieceModel, rows: dict[str, int]) -> list[str]:
    reachable = {piece for piece, _ in model.pieces}
    return [piece for piece in rows if piece not in reachable]


def _typography(model: SentencePieceModel) -> list[tuple[str, str]]:
    known = {piece for piece, _ in model.pieces if len(piece) == 1} | {" "}
    return rewrites(known, model.backend().normalizer.normalize_str)


# Weights


def _config(original: _Original, source_vocabulary: int, target_vocabulary: int) -> ModelConfig:
    activation = original.config.get("activation_function")
    if activation not in _ACTIVATIONS:
        raise UserError(
            f"{original.path / _CONFIG}: activation_function must be one of {', '.join(_ACTIVATIONS)}, "
            f"got {activation!r}"
        )
    longest = _whole_number(original, "max_position_embeddings")
    return ModelConfig(
        kind="autoregressive",
        width=_whole_number(original, "d_model"),
        encoder=_stack(original, "encoder"),
        decoder=_stack(original, "decoder"),
        dropout=_fraction(original, "dropout"),
        attention_dropout=_fraction(original, "attention_dropout"),
        activation_dropout=_fraction(original, "activation_dropout"),
        norm_epsilon=_NORM_EPSILON,
        activation=_ACTIVATIONS[activation],
        positions="marian",
        scale_embeddings=bool(original.config.get("scale_embedding", False)),
        output_bias=True,
        tying="decoder",
        max_source=longest,
        max_target=longest,
        source_vocabulary=source_vocabulary,
        target_vocabulary=target_vocabulary,
    )


def _stack(original: _Original, side: str) -> Stack:
    return Stack(
        layers=_whole_number(original, f"{side}_layers"),
        heads=_whole_number(original, f"{side}_attention_heads"),
        hidden=_whole_number(original, f"{side}_ffn_dim"),
    )


def _weights(original: _Original, config: ModelConfig, source: _Side, target: _Side) -> dict[str, Tensor]:
    """The original's tensors under our names. The positions are computed, not stored."""
    tensors = original.tensors
    table = tensors[_TABLE].float()
    bias = tensors.get(_BIAS, torch.zeros(1, len(table))).float().flatten()
    if len(bias) != len(table):
        raise UserError(f"{original.path}: {_BIAS} has {len(bias)} entries, but {_TABLE} {len(table)} rows")
    output_bias = select_rows(bias, target.rows)
    output_bias[target.never] = _NEVER
    ours = {
        "encoder.words.weight": select_rows(table, source.rows),
        "words.weight": select_rows(table, target.rows),
        "output_bias": output_bias,
    }
    layers = tensors.keys() - {_TABLE, _BIAS, *_COPIES, *_COMPUTED}
    return ours | _packed({_our_name(name): tensors[name] for name in layers})


def select_rows(table: Tensor, rows: Sequence[int]) -> Tensor:
    """The rows of a table, or the entries of a vector, in this order; zeros for -1."""
    index = torch.tensor(rows)
    chosen = table[index.clamp(min=0)]
    chosen[index == _ABSENT] = 0
    return chosen


_PARTS = {
    "encoder": {"self_attn": "attention", "self_attn_layer_norm": "attention_frame.norm"},
    "decoder": {
        "self_attn": "self_attention",
        "self_attn_layer_norm": "self_frame.norm",
        "encoder_attn": "cross_attention",
        "encoder_attn_layer_norm": "cross_frame.norm",
    },
}
_FEED_FORWARD = {
    "fc1": "feed_forward.up",
    "fc2": "feed_forward.down",
    "final_layer_norm": "feed_forward_frame.norm",
}
_PROJECTIONS = {"q_proj": "query", "k_proj": "key", "v_proj": "value", "out_proj": "out"}
_LAYER = re.compile(
    r"model\.(encoder|decoder)\.layers\.(\d+)\.(\w+)(?:\.(q_proj|k_proj|v_proj|out_proj))?\.(weight|bias)"
)


def _our_name(name: str) -> str:
    """Our name of a layer's tensor; unknown names are kept, and load_tensors reports them."""
    match = _LAYER.fullmatch(name)
    if match is None:
        return name
    side, layer, part, projection, kind = match.groups()
    ours = {**_PARTS[side], **_FEED_FORWARD}.get(part, part)
    prefix = f"encoder.layers.{layer}.{ours}" if side == "encoder" else f"layers.{layer}.{ours}"
    return f"{prefix}.{kind}" if projection is None else f"{prefix}.{_PROJECTIONS[projection]}.{kind}"


def _packed(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Keys and values packed into one projection, as our layers have them."""
    packed = dict(tensors)
    for key in (name for name in tensors if ".key." in name):
        value = key.replace(".key.", ".value.")
        if value in tensors and tensors[value].shape == tensors[key].shape:
            packed[key.replace(".key.", ".key_value.")] = torch.cat([packed.pop(key), packed.pop(value)])
    return packed


def _precision(original: _Original) -> torch.dtype:
    dtype = original.tensors[_TABLE].dtype
    return dtype if dtype in (torch.float16, torch.bfloat16) else torch.float32


def _card(origin: str, source: str, target: str) -> str:
    return (
        f"# {origin}, imported\n\n"
        f"An autoregressive model that translates {source} into {target}, imported by `disco import-marian` "
        f"from `{origin}`, a MarianMT model. It keeps the licence of its origin: see the model card there.\n"
    )
