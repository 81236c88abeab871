"""The teacher: a model behind one of two engines, and whether it fits the data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import torch

from disco_mt.core.errors import UserError
from disco_mt.core.progress import Advance
from disco_mt.decoding.batching import with_eos
from disco_mt.decoding.options import DecodingOptions
from disco_mt.engine.ctranslate2 import CTranslate2Engine, export_ctranslate2
from disco_mt.nn.directory import Directory
from disco_mt.systems import decode
from disco_mt.translator import Translator

EngineName = Literal["torch", "ctranslate2"]
Sentences = Sequence[list[int]]
Translate = Callable[[Sentences, Advance], list[tuple[int, ...]]]
"""Source ids without EOS, the shortest first -> target ids without EOS; says how many tokens it has done."""


def check_engine(teacher: Directory, engine: EngineName, device: str) -> None:
    """Refuse early what only one of the engines can do."""
    if engine == "ctranslate2" and teacher.model.kind != "autoregressive":
        raise UserError(
            f"engine ctranslate2 runs autoregressive teachers only, but {teacher.path} is of kind "
            f"{teacher.model.kind}; use --engine torch"
        )
    if engine == "ctranslate2" and device != "cpu":
        raise UserError(f"engine ctranslate2 is for device cpu here, got {device!r}; use --engine torch")


@contextmanager
def open_teacher(
    teacher: Translator, engine: EngineName, options: DecodingOptions, batch_tokens: int, scratch: Path
) -> Iterator[Translate]:
    """The function that translates. What an engine needs on disk is put into `scratch` for the time being."""
    if engine == "torch":
        yield partial(_by_torch, teacher, options, batch_tokens)
        return
    with TemporaryDirectory(prefix=".engine.", dir=scratch) as directory:
        exported = Path(directory) / "model"
        export_ctranslate2(teacher.model, *teacher.text.vocabularies(), exported)
        by_batches = CTranslate2Engine(exported, workers=torch.get_num_threads())
        yield partial(_by_ctranslate2, by_batches, options)


def _by_torch(
    teacher: Translator, options: DecodingOptions, batch_tokens: int, sentences: Sentences, advance: Advance
) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for batch in _batches(sentences, batch_tokens):
        source = with_eos(batch).to(teacher.device)
        found += [hypothesis.tokens for hypothesis in decode(teacher.model, source, options)]
        advance(sum(map(len, batch)))
    return found


def _batches(sentences: Sentences, tokens: int) -> Iterator[list[list[int]]]:
    """Neighbours, at most `tokens` together with EOS and padding; the last of a batch is its longest."""
    batch: list[list[int]] = []
    for ids in sentences:
        if batch and (len(batch) + 1) * (len(ids) + 1) > tokens:
            yield batch
            batch = []
        batch.append(ids)
    if batch:
        yield batch


def _by_ctranslate2(
    engine: CTranslate2Engine, options: DecodingOptions, sentences: Sentences, advance: Advance
) -> list[tuple[int, ...]]:
    hypotheses = engine.translate(list(sentences), options.beam, options.alpha, with_probabilities=False)
    advance(sum(map(len, sentences)))
    return [hypothesis.tokens for hypothesis in hypotheses]
