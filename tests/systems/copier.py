"""A complete toy system in one file: it copies the source. docs/adding-a-system.md walks through it."""

from __future__ import annotations

import torch
from torch import Tensor

from disco_mt.core.batch import Batch
from disco_mt.core.special_tokens import EOS, PAD
from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.decoding.results import CandidatePass, Hypothesis, Pass, Trace
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.config import ModelConfig
from disco_mt.nn.losses import Losses, word_loss
from disco_mt.nn.objective import Learning
from disco_mt.systems import register
from disco_mt.systems.system import Decoder, System


class Copier(TranslationModel):
    """Word n of the target is word n of the source; it must learn which output word an input word is."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, with_length=False)

    def hidden(self, source: Tensor) -> Tensor:
        """(batch, src) -> (batch, src, width)."""
        embedded: Tensor = self.words(source)
        return embedded


def copying(model: Copier, batch: Batch, key: int, learning: Learning) -> Losses:
    """The words of the source, from themselves; targets are not looked at."""
    words = (batch.source != PAD) & (batch.source != EOS)
    return word_loss(model, model.hidden(batch.source), batch.source, words, learning.smoothing)


@torch.inference_mode()
def copy(
    model: Copier, source: Tensor, options: DecodingOptions, request: DecodeRequest
) -> list[Hypothesis[int]]:
    """Two passes: the first half of the words, then all of them. So its passes differ in length."""
    found = []
    for number, row in enumerate(source):
        words = row[(row != PAD) & (row != EOS)]
        best = model.best_words(model.hidden(words[None])[0])
        ids, log_probs = best.ids.tolist(), best.log_probs.tolist()
        passes = [_pass(ids[:end], log_probs[:end]) for end in ((len(ids) + 1) // 2, len(ids))]
        lengths = (len(ids),)
        for step, now in enumerate(passes, start=1):
            if request.on_pass is not None:
                request.on_pass(Pass("copy", step, lengths, (0.0,), (now,), 0, number))
        trace = Trace("copy", lengths, (0.0,), tuple((now,) for now in passes), (0, 0))
        last = passes[-1]
        found.append(
            Hypothesis(last.tokens, last.probabilities, last.score, 2, trace if request.trace else None)
        )
    return found


def _pass(ids: list[int], log_probs: list[float]) -> CandidatePass[int]:
    probabilities = torch.tensor(log_probs).exp().tolist()
    return CandidatePass(
        tuple(ids),
        tuple(probabilities),
        observed=((),) * len(ids),
        predicted=(True,) * len(ids),
        score=sum(log_probs) / max(1, len(ids)),
    )


register(
    System(
        name="copier",
        label="Copier",
        build=Copier,
        objectives={"copying": copying},
        decoders={"copy": Decoder(copy, trace=True)},
    )
)
