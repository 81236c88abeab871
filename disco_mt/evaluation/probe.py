"""What a DisCo has learnt, independent of search: loss per word by what a word may see, and length loss.

Left to right, random contexts as in training, and nothing; and random contexts by the number of visible
words. Draws are keyed by the sentence, so that two models are asked the same questions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from disco_mt import context
from disco_mt.core.batch import Batch
from disco_mt.core.counter_rng import sentence_keys
from disco_mt.core.errors import UserError
from disco_mt.core.special_tokens import PAD
from disco_mt.data.batches import collate
from disco_mt.data.dataset import Split
from disco_mt.nn.encoder import Encoded
from disco_mt.systems.disco.model import DisCo

_SENTENCES_AT_ONCE = 32
_SEED = 1
SEEN = (0, 1, 2, 4, 8, 16)  # bins of visible words begin here

Context = Callable[[Batch, Tensor, Tensor], Tensor]
CONTEXTS: dict[str, Context] = {
    "left to right": lambda _, words, eos: context.left_to_right(words, eos),
    "random": lambda batch, words, eos: context.random(sentence_keys(_SEED, batch.sentence), words, eos),
    "nothing": lambda _, words, eos: context.nothing(words, eos),
}


@dataclass
class Mean:
    """A running mean."""

    total: float = 0.0
    number: int = 0

    def add(self, values: Tensor) -> None:
        """Add values."""
        self.total += float(values.sum(dtype=torch.float64))
        self.number += values.numel()

    @property
    def value(self) -> float:
        """NaN if nothing was added."""
        return self.total / self.number if self.number else float("nan")


@dataclass(frozen=True)
class Probe:
    """Mean negative log-likelihoods, in nats."""

    contexts: dict[str, Mean] = field(default_factory=lambda: {name: Mean() for name in CONTEXTS})
    seen: dict[int, Mean] = field(default_factory=lambda: {start: Mean() for start in SEEN})
    length: Mean = field(default_factory=Mean)

    def figures(self) -> dict[str, float]:
        """By name, for a table or JSON."""
        figures = {name: mean.value for name, mean in self.contexts.items()}
        ends = [f" to {end - 1}" if end - start > 1 else "" for start, end in pairwise(SEEN)]
        for (start, mean), end in zip(self.seen.items(), [*ends, " or more"], strict=True):
            figures[f"{start}{end} visible"] = mean.value
        return figures | {"length": self.length.value}


@torch.inference_mode()
def probe(model: DisCo, split: Split, sentences: int) -> Probe:
    """Measure a model on the first `sentences` pairs of a split that are not too long for it."""
    found = Probe()
    for batch in _batches(model, split, sentences):
        words, eos = context.words_and_eos(batch.target)
        encoded = model.encode(batch.source)
        _add_lengths(found, encoded, batch)
        for name, who_sees_whom in CONTEXTS.items():
            visible = who_sees_whom(batch, words, eos)
            hidden = model.decode(batch.target, visible, encoded)
            losses = -model.word_log_probs(hidden[words], batch.target[words])
            found.contexts[name].add(losses)
            if name == "random":
                _add_seen(found, losses, (visible & words[:, None]).sum(dim=-1)[words])
    return found


def _add_lengths(found: Probe, encoded: Encoded, batch: Batch) -> None:
    assert encoded.length_log_probs is not None
    lengths = (batch.target != PAD).sum(dim=1, keepdim=True)
    lengths = lengths.clamp(max=encoded.length_log_probs.shape[1] - 1)
    found.length.add(-encoded.length_log_probs.gather(1, lengths))


def _add_seen(found: Probe, losses: Tensor, seen: Tensor) -> None:
    for start, end in zip(SEEN, [*SEEN[1:], torch.iinfo(seen.dtype).max], strict=True):
        found.seen[start].add(losses[(seen >= start) & (seen < end)])


def _batches(model: DisCo, split: Split, sentences: int) -> Iterator[Batch]:
    limits = model.config.max_source, model.config.max_target
    fitting = (split.source_lengths < limits[0]) & (split.target_lengths < limits[1])  # EOS comes on top
    chosen = fitting.nonzero()[0][:sentences].astype(np.int32)
    if not len(chosen):
        raise UserError(
            f"the {split.name} split has no pair that the model can read: it reads {limits[0]} source and "
            f"{limits[1]} target tokens"
        )
    chosen = chosen[np.argsort(split.target_lengths[chosen], kind="stable")]
    for first in range(0, len(chosen), _SENTENCES_AT_ONCE):
        yield collate(split, chosen[first : first + _SENTENCES_AT_ONCE])
