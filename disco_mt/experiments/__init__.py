"""The paper's tables and figures, one file each, with an `EXPERIMENT`. `disco experiment NAME` runs one."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from disco_mt.core.errors import UserError

if TYPE_CHECKING:
    from disco_mt.experiments.experiment import Experiment

EXPERIMENTS = {
    "curves": "how the models were trained: dev BLEU by epoch, time",
    "main": "Tables 1-3: AT, CMLM and DisCo, every decoder",
    "speed": "Figure 2: time and BLEU, one sentence at a time",
    "batch-size": "Figure 3: quality against training batch size (suite multi30k-sizes.en-de)",
    "example": "Figure 4: one sentence, pass by pass, T=5",
    "length-beam": "Figure 5: BLEU against the length beam",
    "steps-by-length": "Figure 6: steps against length",
    "distillation": "Table 4: raw and distilled data",
    "contextless": "Table 5: AT with contextless keys and values",
    "easy-first-training": "Table 6: training in the easy-first order",
    "strategies": "Table 7: decoding strategies of one DisCo",
    "data-size": "Section 4.3: DisCo against CMLM as data grows (suite multi30k-sizes.en-de)",
    "reranking": "beyond the paper: one model that decodes in parallel and reranks its own candidates",
    "pins": "beyond the paper: pinned words, and what the other words gain from them",
}
"""Names, with what they repeat. A module is imported only when its experiment runs."""


def load(name: str) -> Experiment:
    """An experiment by its name."""
    if name not in EXPERIMENTS:
        raise UserError(f"there is no experiment {name!r}; there are: {', '.join(EXPERIMENTS)}")
    module = importlib.import_module(f"disco_mt.experiments.{name.replace('-', '_')}")
    experiment: Experiment = module.EXPERIMENT
    return experiment
