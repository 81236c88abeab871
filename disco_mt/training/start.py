"""Where a training starts: random weights, those of a model of the same shape, or a teacher's, converted.

A DisCo that starts from an autoregressive teacher takes over its encoder, embeddings, attention to the source
and chosen decoder layers. Copied keys and values would be useless above the first layer: the teacher made
them from contextual states, a DisCo makes them from word + position. `fit` finds, by least squares, the
affine map from word + position to those states and puts it into the projections. Nothing is trained for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from disco_mt.core.batch import Batch
from disco_mt.core.errors import UserError
from disco_mt.core.files import sha256
from disco_mt.core.settings import at_least, one_of
from disco_mt.core.special_tokens import EOS, NUM_SPECIAL, PAD
from disco_mt.data.batches import collate
from disco_mt.data.dataset import Dataset, Split
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.config import ModelConfig
from disco_mt.nn.directory import WEIGHTS, check_fits, load_tensors, read_config, weights
from disco_mt.nn.find import find_model
from disco_mt.systems.autoregressive.model import Autoregressive
from disco_mt.systems.build import load_weights
from disco_mt.systems.disco.model import DisCo

Fit = Literal["copy", "least-squares"]

# What can change during a model's life. A student may begin as its teacher: kinds differ in who sees whom,
# and in their weights only by the length predictor.
_CHANGEABLE = {"kind", "contextless", "dropout", "attention_dropout", "activation_dropout", "attention_init"}
_ONLY_STUDENTS = {"start_token", "query_word", "length", "length_classes"}
_NEVER = -100.0  # output bias of what a DisCo never predicts
_RIDGE = 1e-6  # of the mean variance of the inputs
_SENTENCES_AT_ONCE = 64


@dataclass(frozen=True)
class StartOptions:
    """The model that a training starts from; none: random weights."""

    model: str = ""
    """A model directory, a shipped model, or the id of one on the hub; its tokenizers must be the data's."""
    layers: tuple[int, ...] = ()
    """The decoder layers to take over, counted from 1, such as 1 3 6; none named: all of them."""
    fit: Fit = "copy"
    """copy: weights as they are. least-squares: a DisCo's keys and values are fitted to the states that an
    autoregressive teacher would make them from."""
    positions: int = 45_000
    """Target positions of the training data that the fit looks at."""

    def __post_init__(self) -> None:
        one_of("start.fit", self.fit, get_args(Fit))
        at_least("start.positions", self.positions, 1)


def start_from(model: TranslationModel, start: StartOptions, dataset: Dataset) -> dict[str, Any]:
    """Give a new model the weights of another; says which they were. What that one lacks stays as it is."""
    directory = read_config(find_model(start.model))
    check_fits(directory, "model to start from", dataset.path, dataset.description)
    layers = _layers(start, directory.model, model.config)
    _check_same(str(directory.path), directory.model, model.config)
    teacher = load_weights(directory)
    theirs = weights(teacher)
    taken = {name: theirs.get(_name_there(name, layers), own) for name, own in weights(model).items()}
    load_tensors(model, taken, directory.path / WEIGHTS)
    if start.fit == "least-squares":
        fit_to_teacher(model, teacher, layers, _batches(dataset.splits["train"], start.positions))
    return {**asdict(start), "weights_sha256": sha256(directory.path / WEIGHTS)}


def lengths_to_start_from(start: StartOptions, ours: ModelConfig) -> dict[str, int]:
    """The lengths that must be those of the model to start from."""
    its = read_config(find_model(start.model)).model
    lengths = {} if its.kind == "autoregressive" else {"length_classes": its.length_classes}
    if ours.positions == "learned":
        positions = its.max_target + its.start_token  # a start token has one
        lengths |= {"max_source": its.max_source, "max_target": positions - ours.start_token}
    return lengths


def fit_to_teacher(
    model: TranslationModel, teacher: TranslationModel, layers: tuple[int, ...], batches: Iterator[Batch]
) -> None:
    """The start in closed form, for a DisCo whose layers are copies of those layers of the teacher."""
    if not isinstance(model, DisCo) or not isinstance(teacher, Autoregressive):
        raise UserError(
            f"start.fit 'least-squares' turns an autoregressive model into a disco one, not "
            f"{teacher.config.kind} into {model.config.kind}; use start.fit 'copy'"
        )
    fit = Fitted(teacher.config.width, len(layers))
    for batch in batches:
        _add(fit, teacher, layers, batch)
    with torch.no_grad():
        for layer, (weight, bias) in zip(model.decoder_layers, fit.maps(), strict=True):
            project = layer.self_attention.key_value
            project.bias.copy_(project.bias + project.weight.double() @ bias)
            project.weight.copy_(project.weight.double() @ weight)
        # The teacher's decoder never read EOS: as an anchor it is the mean of what it did read. (An encoder
        # with the same table did read it, and stays as it was.)
        if model.config.tying != "all":
            model.words.weight[EOS].copy_(fit.mean_word() / model.config.embedding_scale)
        if model.query_word is not None:
            model.query_word.copy_(fit.mean_word())
        if model.output_bias is not None:
            model.output_bias[:NUM_SPECIAL] = _NEVER


class Fitted:
    """Sums for a least-squares fit of the inputs of a teacher's decoder layers from word + position."""

    def __init__(self, width: int, layers: int) -> None:
        self.moments = torch.zeros(width + 1, width + 1, dtype=torch.float64)
        self.products = torch.zeros(layers, width + 1, width, dtype=torch.float64)
        self.words = torch.zeros(width, dtype=torch.float64)
        self.count = 0

    def take(self, inputs: Tensor, states: Sequence[Tensor]) -> None:
        """Word + position vectors, and what each layer reads at the same positions: (rows, width) each."""
        with_one = torch.cat([inputs.double(), inputs.new_ones(len(inputs), 1).double()], dim=1)
        self.moments += with_one.T @ with_one
        self.products += torch.stack([with_one.T @ read.double() for read in states])

    def take_words(self, words: Tensor) -> None:
        """Word vectors without positions, for their mean: (rows, width)."""
        self.words += words.double().sum(dim=0)
        self.count += len(words)

    def maps(self) -> list[tuple[Tensor, Tensor]]:
        """For each layer the matrix A and the vector b of A x + b."""
        width = len(self.words)
        ridge = torch.full((width + 1,), _RIDGE * float(self.moments.diagonal()[:width].mean()))
        ridge[width] = 0.0
        solved = torch.linalg.solve(self.moments + torch.diag(ridge), self.products)
        return [(each[:width].T, each[width]) for each in solved]

    def mean_word(self) -> Tensor:
        """The mean of the word vectors that the decoder reads."""
        return self.words / max(1, self.count)


@torch.inference_mode()
def _add(fit: Fitted, teacher: Autoregressive, layers: tuple[int, ...], batch: Batch) -> None:
    """The teacher's states on these translations, teacher-forced."""
    real = batch.target != PAD
    states = teacher.states(batch.target, teacher.encode(batch.source))
    entered = [teacher.decoder_layers[each - 1].self_frame.enter(states[each - 1]) for each in layers]
    fit.take(states[0][real], [state[real] for state in entered])
    words = states[0] - teacher.positions(real.shape[1])
    fit.take_words(words[:, 1:][real[:, 1:]])  # not the start token


def _layers(start: StartOptions, its: ModelConfig, ours: ModelConfig) -> tuple[int, ...]:
    layers = start.layers or tuple(range(1, its.decoder.layers + 1))
    lacking = [layer for layer in layers if not 1 <= layer <= its.decoder.layers]
    if lacking:
        raise UserError(
            f"start.layers names decoder layer {lacking[0]}, but {start.model} has layers 1 to "
            f"{its.decoder.layers}"
        )
    if len(layers) != ours.decoder.layers:
        raise UserError(
            f"start.layers takes over {len(layers)} decoder layers ({', '.join(map(str, layers))}), but "
            f"model.decoder.layers is {ours.decoder.layers}; make them equal"
        )
    return layers


def _check_same(path: str, its: ModelConfig, ours: ModelConfig) -> None:
    free = _CHANGEABLE | (_ONLY_STUDENTS if its.kind == "autoregressive" else set())
    free |= set() if ours.positions == "learned" else {"max_source"}  # others are computed for any length
    theirs, mine = _compared(its), _compared(ours)
    different = [
        f"model.{key} is {theirs[key]!r} there, {mine[key]!r} here"
        for key in mine
        if key not in free and theirs[key] != mine[key]
    ]
    if different:
        raise UserError(
            f"the model to start from, {path}, is another one: {'; '.join(different)}. Change the "
            "recipe, or start from random weights"
        )
    # Learned target positions are taken over one by one, and a start token has the first of them.
    there = its.max_target + its.start_token
    if ours.positions == "learned" and there != ours.max_target + ours.start_token:
        first = ", of which the start token has one" if ours.start_token else ""
        raise UserError(
            f"model.max_target must be {there - ours.start_token}, got {ours.max_target}: the model to start "
            f"from, {path}, has {there} learned positions{first}"
        )


def _compared(config: ModelConfig) -> dict[str, Any]:
    """What two models may have to agree in: not the number of layers, nor the numbers of a length prior."""
    table = asdict(config)
    del table["decoder"]["layers"], table["max_target"]
    table["length"] = {key: table["length"][key] for key in ("predictor", "prior")}
    return table


def _name_there(name: str, layers: tuple[int, ...]) -> str:
    """The name of a tensor in the other model, whose layers are chosen."""
    if not name.startswith("layers."):
        return name
    _, place, rest = name.split(".", 2)
    return f"layers.{layers[int(place)] - 1}.{rest}"


def _batches(split: Split, positions: int) -> Iterator[Batch]:
    """Sentences spread evenly over the training data, with about so many target positions."""
    mean = 1 + float(split.target_lengths.mean())
    number = min(len(split), max(1, round(positions / mean)))
    chosen = np.linspace(0, len(split) - 1, number).astype(np.int32)
    chosen = chosen[np.argsort(split.target_lengths[chosen], kind="stable")]
    for first in range(0, number, _SENTENCES_AT_ONCE):
        yield collate(split, chosen[first : first + _SENTENCES_AT_ONCE])
