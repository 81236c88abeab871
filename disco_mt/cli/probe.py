"""disco probe: the loss of a DisCo by what a word may see."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Literal

from disco_mt.cli.common import Json, ModelName, Threads, use_threads
from disco_mt.core.errors import UserError
from disco_mt.core.settings import at_least
from disco_mt.data.dataset import Dataset
from disco_mt.evaluation import probe as probing
from disco_mt.nn.directory import check_fits, read_config
from disco_mt.nn.find import find_model
from disco_mt.systems.build import load_weights
from disco_mt.systems.disco.model import DisCo


def probe(
    model: ModelName,
    data: Path,
    split: Literal["train", "valid", "test"] = "valid",
    sentences: int = 1000,
    threads: Threads = 0,
    json_: Json = False,
) -> int:
    """Show the loss per word of a DisCo by what a word may see, and the loss of its length predictor.

    disco probe --model my-model --data distilled

    Args:
        data: Dataset directory with the same tokenizers.
        split: Which part of it.
        sentences: How many pairs, from the first on.
    """
    use_threads(threads)
    at_least("--sentences", sentences, 1)
    dataset, directory = Dataset.open(data), read_config(find_model(model))
    check_fits(directory, "model", data, dataset.description)
    if split not in dataset.splits:
        raise UserError(f"{data} has no {split} split; it has: {', '.join(dataset.splits)}")
    weights = load_weights(directory)
    if not isinstance(weights, DisCo):
        raise UserError(f"disco probe is for models of kind disco; {model} is of kind {weights.config.kind}")
    figures = probing.probe(weights, dataset.splits[split], sentences).figures()
    if json_:
        print(json.dumps({name: None if math.isnan(value) else value for name, value in figures.items()}))
    else:
        print("\n".join(f"{name:<16}{value:7.3f}" for name, value in figures.items()))
    return 0
