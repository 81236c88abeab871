"""What sentencepiece, transformers and CTranslate2 make of an OPUS-MT model; for test_opus_mt.py.

    python tests/slow/opus_mt_reference.py MODEL_DIRECTORY SOURCE.gz NUMBER OUT.json

It imports nothing of Disco, so that it can run in an environment of its own:
pip install torch 'transformers<5' sentencepiece ctranslate2
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import ctranslate2
import torch
from transformers import MarianMTModel, MarianTokenizer

BATCH = 16


def limit(pieces: int) -> int:
    """The most words of a translation, as in Disco (systems/autoregressive/decoding.py: word_limit)."""
    return min(-(2 * pieces + 10) // 32 * -32, 510)


def batches(pieces: list[list[str]]) -> list[tuple[int, list[int]]]:
    """Sentences of one limit, of similar length together."""
    groups: dict[int, list[int]] = defaultdict(list)
    for place in sorted(range(len(pieces)), key=lambda place: len(pieces[place])):
        groups[limit(len(pieces[place]))].append(place)
    return [
        (most, places[start : start + BATCH])
        for most, places in groups.items()
        for start in range(0, len(places), BATCH)
    ]


@torch.inference_mode()
def by_transformers(
    model: MarianMTModel, tokenizer: MarianTokenizer, pieces: list[list[str]], beam: int
) -> list[list[str]]:
    """Tokens without EOS. Neither <pad> nor <unk> is produced, as in Disco; scores are not renormalised."""
    found: dict[int, list[str]] = {}
    for most, places in batches(pieces):
        ids = [tokenizer.convert_tokens_to_ids([*pieces[place], "</s>"]) for place in places]
        inputs = tokenizer.pad({"input_ids": ids}, return_tensors="pt")
        outputs = model.generate(
            **inputs,
            num_beams=beam,
            do_sample=False,
            length_penalty=1.0,
            max_length=None,
            max_new_tokens=most + 1,
            renormalize_logits=False,
            bad_words_ids=[[tokenizer.pad_token_id], [tokenizer.unk_token_id]],
        )
        for place, output in zip(places, outputs, strict=True):
            tokens = tokenizer.convert_ids_to_tokens(output[1:])
            found[place] = tokens[: tokens.index("</s>")] if "</s>" in tokens else tokens
    return [found[place] for place in range(len(pieces))]


def by_ctranslate2(folder: Path, pieces: list[list[str]], beam: int) -> list[list[str]]:
    """CTranslate2's own conversion of the model."""
    with tempfile.TemporaryDirectory() as temporary:
        converted = Path(temporary, "converted")
        ctranslate2.converters.TransformersConverter(str(folder)).convert(str(converted))
        translator = ctranslate2.Translator(str(converted), compute_type="float32", intra_threads=1)
        found: dict[int, list[str]] = {}
        for most, places in batches(pieces):
            results = translator.translate_batch(
                [[*pieces[place], "</s>"] for place in places],
                beam_size=beam,
                length_penalty=1.0,
                max_decoding_length=most + 1,
                max_input_length=0,
                disable_unk=True,
            )
            found |= {place: result.hypotheses[0] for place, result in zip(places, results, strict=True)}
    return [found[place] for place in range(len(pieces))]


def main(folder: Path, source: Path, number: int, out: Path) -> None:
    torch.set_num_threads(1)
    with gzip.open(source, "rt", encoding="utf-8", newline="\n") as lines:
        texts = [line.rstrip("\n") for line in lines][:number]
    tokenizer = MarianTokenizer.from_pretrained(folder)
    model = MarianMTModel.from_pretrained(folder, dtype=torch.float32).eval()
    pieces = [tokenizer.tokenize(text) for text in texts]
    found: dict[str, Any] = {"texts": texts, "pieces": pieces}
    found["greedy"] = by_transformers(model, tokenizer, pieces, beam=1)
    found["beam"] = by_transformers(model, tokenizer, pieces, beam=4)
    found["ctranslate2"] = by_ctranslate2(folder, pieces, beam=1)
    for name in ("greedy", "beam", "ctranslate2"):
        found[f"{name}_texts"] = [tokenizer.convert_tokens_to_string(tokens) for tokens in found[name]]
    out.write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
