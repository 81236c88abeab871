"""Beam search: exact where it can be checked, teacher-forced scores, independent of batch mates."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from disco_mt.core.errors import UserError
from disco_mt.core.special_tokens import EOS, NUM_SPECIAL, PAD
from disco_mt.nn.config import ModelConfig, Stack
from disco_mt.systems.autoregressive.decoding import beam_search, word_limit
from disco_mt.systems.autoregressive.model import Autoregressive
from disco_mt.systems.build import build_model


def tiny(vocabulary: int = 12, sharpness: float = 20.0, **changes: object) -> Autoregressive:
    """Random weights in float64, with outputs far from uniform."""
    config = ModelConfig(
        kind="autoregressive",
        width=16,
        encoder=Stack(2, 2, 32),
        decoder=Stack(2, 2, 32),
        max_source=40,
        max_target=40,
        source_vocabulary=vocabulary,
        target_vocabulary=vocabulary,
        **changes,  # type: ignore[arg-type]
    )
    model = build_model(config, seed=3)
    assert isinstance(model, Autoregressive)
    model = model.double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(sharpness)
    return model


def sentences(lengths: list[int], vocabulary: int = 12, seed: int = 0) -> Tensor:
    """Random sources with EOS, padded."""
    draw = torch.Generator().manual_seed(seed)
    source = torch.full((len(lengths), max(lengths) + 1), PAD)
    for row, length in zip(source, lengths, strict=True):
        row[:length] = torch.randint(NUM_SPECIAL, vocabulary, (length,), generator=draw)
        row[length] = EOS
    return source


def forced(model: Autoregressive, source: Tensor, words: tuple[int, ...]) -> Tensor:
    """log P of each word and of EOS, teacher-forced."""
    target = torch.tensor([[*words, EOS]])
    with torch.inference_mode():
        return model.word_log_probs(model.decode(target, model.encode(source))[0], target[0])


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0, 2.0])
def test_a_wide_beam_is_exhaustive_search(length_penalty: float) -> None:
    words, longest = range(NUM_SPECIAL, NUM_SPECIAL + 3), 4
    model, source = tiny(NUM_SPECIAL + 3, sharpness=10), sentences([3], NUM_SPECIAL + 3)
    every = [s for n in range(longest + 1) for s in itertools.product(words, repeat=n)]
    scores = {s: float(forced(model, source, s).sum()) / (len(s) + 1) ** length_penalty for s in every}
    best = max(scores, key=scores.__getitem__)
    found = beam_search(model, source, beam=len(every), length_penalty=length_penalty, longest=longest)[0]
    assert found.tokens == best
    assert found.score == pytest.approx(scores[best], abs=1e-12)


def test_exhaustive_search_differs_from_greedy_somewhere() -> None:
    model, source = tiny(), sentences([5, 3, 8, 6, 4, 7, 9, 2])
    greedy = beam_search(model, source, 1, 0.0, longest=6)
    wide = beam_search(model, source, 50, 0.0, longest=6)
    assert any(g.tokens != w.tokens for g, w in zip(greedy, wide, strict=True))
    assert all(w.score >= g.score - 1e-12 for g, w in zip(greedy, wide, strict=True))


@pytest.mark.parametrize("contextless", [False, True])
@pytest.mark.parametrize("beam", [1, 2, 5])
def test_scores_and_probabilities_are_the_teacher_forced_ones(beam: int, contextless: bool) -> None:
    model, source = tiny(contextless=contextless), sentences([5, 1, 9, 4])
    found = beam_search(model, source, beam, length_penalty=0.7)
    for row, hypothesis in zip(source, found, strict=True):
        log_probs = forced(model, row[None], hypothesis.tokens)
        expected = float(log_probs.sum()) / len(log_probs) ** 0.7
        assert hypothesis.score == pytest.approx(expected, abs=1e-10)
        assert hypothesis.probabilities == pytest.approx(log_probs[:-1].exp().tolist(), abs=1e-10)


def test_greedy_takes_the_likeliest_word_each_time() -> None:
    model, source = tiny(), sentences([6, 2])
    for row, hypothesis in zip(source, beam_search(model, source, 1, 1.0, longest=12), strict=True):
        words: list[int] = []
        while len(words) < 12:
            target = torch.tensor([[*words, EOS]])
            logits = model.decode(target, model.encode(row[None]))[0, -1] @ model.output.weight.T
            logits[[0, 1, 3, 4]] = -torch.inf
            word = int(logits.argmax())
            if word == EOS:
                break
            words.append(word)
        assert hypothesis.tokens == tuple(words)
        assert hypothesis.steps == len(words) + 1


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_batch_mates_and_padding_change_nothing(beam: int, norm: str) -> None:
    model, source = tiny(norm=norm), sentences([5, 12, 1, 7, 3, 9])
    together = beam_search(model, torch.nn.functional.pad(source, (0, 3), value=PAD), beam, 0.8)
    for row, hypothesis in zip(source, together, strict=True):
        alone = beam_search(model, row[None, : int((row == EOS).nonzero()) + 1], beam, 0.8)[0]
        assert (alone.tokens, alone.steps) == (hypothesis.tokens, hypothesis.steps)
        assert alone.score == pytest.approx(hypothesis.score, abs=1e-10)
        assert alone.probabilities == pytest.approx(hypothesis.probabilities, abs=1e-10)


def test_sentences_end_at_different_steps_and_special_tokens_never_come() -> None:
    found = beam_search(tiny(), sentences([5, 12, 1, 7, 3, 9, 2, 2, 4]), 3, 1.0)
    assert len({hypothesis.steps for hypothesis in found}) > 2
    assert all(word >= NUM_SPECIAL for hypothesis in found for word in hypothesis.tokens)


def test_a_hypothesis_as_long_as_allowed_is_ended_and_scored() -> None:
    model, source = tiny(tying="none"), sentences([6, 7, 8])
    with torch.no_grad():
        model.output.weight[EOS] = 0  # never the likeliest
    for row, hypothesis in zip(source, beam_search(model, source, 2, 1.0, longest=3), strict=True):
        assert hypothesis.score == pytest.approx(float(forced(model, row[None], hypothesis.tokens).mean()))
        assert len(hypothesis.tokens) == 3


def test_default_limit_grows_with_the_source_in_few_groups() -> None:
    assert [word_limit(n, 199) for n in (1, 11, 12, 27, 28, 500)] == [32, 32, 64, 64, 96, 199]
    assert word_limit(50, 199, longest=7) == 7


def test_impossible_options_are_named() -> None:
    with pytest.raises(UserError, match="beam must be at least 1, got 0"):
        beam_search(tiny(), sentences([2]), 0, 1.0)
    with pytest.raises(UserError, match=r"length_penalty must be at least 0, got -0\.5"):
        beam_search(tiny(), sentences([2]), 1, -0.5)
