"""What sentencepiece and transformers make of tests/tiny_marian.py: writes marian_expected.json beside this.

Not a test. Run it again when tiny_marian.py changes, from the root of the repository:

    python -m venv expected && expected/bin/pip install torch 'transformers<5' sentencepiece safetensors
    PYTHONPATH=tests expected/bin/python tests/interop/marian_expected.py
"""

from __future__ import annotations

import base64
import io
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from transformers import MarianMTModel, MarianTokenizer

from tiny_marian import write_marian

# A few of the rules of nmt_nfkc; the compiled form of all of them has 240 kB.
RULES = {
    "\u00a0": " ",
    "\u2003": " ",
    "\t": " ",
    "\n": " ",
    "\u2581": " ",
    "\u00ad": "",
    "\x01": "",
    "\u2026": "...",
    "\ufb01": "fi",
    "\uff41": "a",
    "\uff1c": "<",
    "\uff1e": ">",
    "e\u0301": "é",
}
TEXTS = [
    "the cat sees the dog",
    "a dog and the cat",
    "  the   cats\u00a0seeing\tdogs  ",
    "voit-il le chat, un chien et l'été.",
    "the \ufb01sh\u2026 \uff41 co\u00adde cafe\u0301",
    "</s> the <s> <pad> <unk> <mask> cat</s>",
    "\uff1cs\uff1e \uff1c/s\uff1e <<s>> < s>",
    "the quick 猫 zebra 犬犬 x",
    "a|b | c||",
    "the\u2028cat\x01\n▁dog",
    "",
    " ",
    "\u00a0",
    "s" * 60,
    "the cat " * 4,
]
SOURCES = ["the cat sees the dog", "a dog and the cat.", "a", "dogs, seeing the 猫 - the cat's cats."]
GIVEN = [
    "▁le",
    "▁chat",
    "▁sees",
    "<unk>",
    "voi",
    "ent",
    "▁the",
    ".",
    "</s>",
]  # a target, also with source pieces
CONFIGS: dict[str, dict[str, Any]] = {
    "swish": {},
    "gelu, embeddings not scaled": {"activation_function": "gelu", "scale_embedding": False},
    "relu": {"activation_function": "relu", "encoder_layers": 1, "decoder_layers": 1},
}


def charsmap() -> bytes:
    """The rules as sentencepiece compiles them."""
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as rules:
        for text, replacement in RULES.items():
            columns = (" ".join(f"{ord(character):X}" for character in each) for each in (text, replacement))
            rules.write("\t".join(columns) + "\n")
        rules.flush()
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["the cat sees the dog and the cat", "a dog sees a cat"] * 50),
            model_writer=model,
            vocab_size=30,
            normalization_rule_tsv=rules.name,
            hard_vocab_limit=False,
            minloglevel=2,
        )
    return _field(_field(model.getvalue(), 3), 2)


def _field(content: bytes, wanted: int) -> bytes:
    """The bytes of a field of a message."""
    at, found = 0, b""
    while at < len(content):
        key, at = _varint(content, at)
        if key & 7 == 0:
            _, at = _varint(content, at)
            continue
        size, at = (4, at) if key & 7 == 5 else _varint(content, at)
        found = content[at : at + size] if key >> 3 == wanted else found
        at += size
    return found


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = content[at]
        at, value, shift = at + 1, value | (byte & 0x7F) << shift, shift + 7
        if byte < 0x80:
            return value, at


def segmented(folder: Path, side: str) -> list[list[str]]:
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
    return [[processor.id_to_piece(id_) for id_ in processor.encode(text)] for text in TEXTS]


@torch.inference_mode()
def translated(folder: Path) -> list[dict[str, Any]]:
    """Greedy translations of at most 12 words; neither <pad> nor <unk> is produced, as in Disco."""
    tokenizer = MarianTokenizer.from_pretrained(folder)
    model = MarianMTModel.from_pretrained(folder, dtype=torch.float32).eval()
    found, given = [], tokenizer.convert_tokens_to_ids(GIVEN)
    for source in SOURCES:
        inputs = tokenizer([source], return_tensors="pt")
        ids = model.generate(
            **inputs,
            num_beams=1,
            do_sample=False,
            max_new_tokens=12,
            bad_words_ids=[[tokenizer.pad_token_id], [tokenizer.unk_token_id]],
        )
        target = ids[:, 1:]
        found.append(
            {
                "source": source,
                "source_tokens": tokenizer.convert_ids_to_tokens(inputs["input_ids"][0]),
                "tokens": tokenizer.convert_ids_to_tokens(target[0]),
                "log_probabilities": log_probabilities(model, inputs, target),
                "text": tokenizer.decode(target[0], skip_special_tokens=True),
                "given": GIVEN,
                "given_log_probabilities": log_probabilities(model, inputs, torch.tensor([given])),
            }
        )
    return found


def log_probabilities(model: MarianMTModel, inputs: Any, target: torch.Tensor) -> list[float]:
    """Of each token of a target, after the tokens before it."""
    logits = model(**inputs, labels=target).logits
    log_probs = logits.log_softmax(-1).gather(2, target[..., None])[0, :, 0]
    return [round(value, 6) for value in log_probs.tolist()]


def main() -> None:
    rules = charsmap()
    expected: dict[str, Any] = {"charsmap": base64.b64encode(rules).decode(), "texts": TEXTS, "models": []}
    for name, config in CONFIGS.items():
        with tempfile.TemporaryDirectory() as temporary:
            folder = write_marian(Path(temporary), rules, config)
            expected["pieces"] = {side: segmented(folder, side) for side in ("source", "target")}
            expected["models"].append({"name": name, "config": config, "translations": translated(folder)})
    path = Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
