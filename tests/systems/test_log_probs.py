"""`log_probs`: every word at every position under any visibility, for experiments from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from disco_mt import context
from disco_mt.core.special_tokens import EOS, MASK, NUM_SPECIAL
from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.nn.base import ParallelModel
from disco_mt.systems import decode
from disco_mt.systems.build import reranker_of
from leakage import visibilities
from tiny import MARIAN, VOCABULARY, padded, random_sources

Make = Callable[..., Any]
OPTIONS = [("disco", {}), ("disco", MARIAN), ("cmlm", {})]


@pytest.mark.parametrize(("kind", "options"), OPTIONS)
@torch.no_grad()
def test_they_are_normalised_and_do_not_depend_on_the_batch(
    make_model: Make, kind: str, options: dict[str, object]
) -> None:
    model = make_model(2, kind=kind, **options)
    sources, targets = random_sources([3, 6], 1), random_sources([5, 2], 2)
    tokens = padded(targets)
    visible = context.all_but_itself(*context.words_and_eos(tokens))
    found = model.log_probs(tokens, visible, padded(sources))
    assert found.shape == (2, 6, VOCABULARY)
    torch.testing.assert_close(found.exp().sum(dim=2), torch.ones(2, 6, dtype=torch.double))
    for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
        width = len(target) + 1
        alone = model.log_probs(padded([target]), visible[row : row + 1, :width, :width], padded([source]))
        torch.testing.assert_close(alone[0], found[row, :width], rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", [{}, MARIAN], ids=["default", "converted"])
@torch.no_grad()
def test_any_visibility_may_be_asked_for_and_nothing_else_is_seen(
    make_model: Make, options: dict[str, object]
) -> None:
    """Words that a position does not see may be anything; a word that it sees makes a difference."""
    model, source = make_model(4, **options), padded(random_sources([4]))
    target = padded(random_sources([5], 3))
    for name, visible in visibilities(target, 3).items():
        before = model.log_probs(target, visible, source)
        for m in range(5):
            changed = target.clone()
            changed[0, m] = NUM_SPECIAL + (target[0, m] - NUM_SPECIAL + 1) % (VOCABULARY - NUM_SPECIAL)
            differs = (model.log_probs(changed, visible, source) != before).any(dim=2)[0]
            assert torch.equal(differs[:5], visible[0, :5, m]), name


@torch.no_grad()
def test_seeing_nothing_gives_the_first_pass_of_a_decoder(make_model: Make) -> None:
    model, source = make_model(6), padded(random_sources([4]))
    options = DecodingOptions("easy-first", iterations=1, length_beam=1)
    (found,) = decode(model, source, options, DecodeRequest(trace=True))
    size = len(found.tokens)
    tokens = torch.tensor([[MASK] * size + [EOS]])
    visible = context.nothing(*context.words_and_eos(tokens))
    best = model.log_probs(tokens, visible, source)[0, :size, NUM_SPECIAL:].max(dim=1)
    assert (best.indices + NUM_SPECIAL).tolist() == list(found.tokens)
    assert best.values.exp().tolist() == pytest.approx(found.probabilities, abs=1e-12)


@torch.no_grad()
def test_seeing_what_is_to_the_left_gives_the_scores_of_a_reranker(make_model: Make) -> None:
    model, source, words = make_model(6), padded(random_sources([4])), (7, 9, 8)
    assert isinstance(model, ParallelModel)
    tokens = torch.tensor([[*words, EOS]])
    visible = context.left_to_right(*context.words_and_eos(tokens))
    logs = model.log_probs(tokens, visible, source)[0, range(3), list(words)]
    reranker = reranker_of(model)
    assert reranker is not None
    ((score,),) = reranker.candidate_scores(source, [[words]])
    assert logs.tolist() == pytest.approx(score.words, abs=1e-12)
