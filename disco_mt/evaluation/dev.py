"""The dev scorer that training is given: the model's own decoder at fixed T and K, scored by sacreBLEU."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from disco_mt.core.errors import UserError
from disco_mt.data.dataset import Dataset
from disco_mt.decoding.options import DecodingOptions
from disco_mt.engine.select import EngineOptions, make_engine
from disco_mt.evaluation.quality import measure
from disco_mt.nn.base import TranslationModel
from disco_mt.translator import Translator


@dataclass(frozen=True)
class DevScore:
    """What the scorer found out about a model."""

    bleu: float
    steps: float  # mean decoder passes per sentence
    seconds: float


Scorer = Callable[[TranslationModel], DevScore]


def dev_scorer(dataset: Dataset, options: DecodingOptions, device: str = "cpu") -> Scorer:
    """Scores a model on the valid split of a dataset, against all its references."""
    if "valid" not in dataset.splits:
        raise UserError(
            f"{dataset.path} has no valid split, and training chooses its checkpoints by dev BLEU; "
            "prepare it with --valid-source and --valid-target"
        )
    valid = dataset.splits["valid"]
    sources, references = valid.source_text(), valid.references()

    def score(model: TranslationModel) -> DevScore:
        started = time.perf_counter()
        threads = EngineOptions(device, threads=torch.get_num_threads())
        engine = make_engine(model, dataset.text, threads)
        translator = Translator(model, dataset.text, engine, device=device)
        found = translator.translate(sources, options)  # long sources as in `disco evaluate`
        quality = measure([each.text for each in found], references, dataset.text.target.language)
        steps = sum(each.steps for each in found) / max(1, len(found))
        return DevScore(quality.bleu, steps, time.perf_counter() - started)

    return score
