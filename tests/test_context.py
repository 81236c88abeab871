"""Visibility masks, against matrices written by hand (rows: queries, columns: keys, the last one EOS)."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from disco_mt import context
from disco_mt.core.counter_rng import sentence_keys
from disco_mt.core.special_tokens import EOS, PAD

A, B, C, D = 5, 6, 7, 8


def masks(*targets: list[int]) -> tuple[Tensor, Tensor]:
    return context.words_and_eos(torch.tensor(targets))


def matrix(text: str) -> Tensor:
    """ "x" may be seen, "." may not."""
    return torch.tensor([[mark == "x" for mark in row.split()] for row in text.strip().split("\n")])


def test_words_and_eos() -> None:
    words, eos = masks([A, B, EOS, PAD])
    assert words.tolist() == [[True, True, False, False]]
    assert eos.tolist() == [[False, False, True, False]]


def test_figure_1() -> None:
    """A from {C}, B from {A, C}, C from {B}: Figure 1's three contexts are one valid visibility."""
    visible = matrix("""
        . . x x
        x . x x
        . x . x
        . . . x
    """)
    words, eos = masks([A, B, C, EOS])
    observed = [{2}, {0, 2}, {1}]
    for n, sight in enumerate(observed):
        alone = context.observed_set(torch.tensor([[m in sight for m in range(4)]]), eos)[0, n]
        assert torch.equal(alone, visible[n])
    assert not (visible[:3, :3].diagonal()).any()
    assert words.sum() == 3


def test_nothing_sees_eos_alone() -> None:
    found = context.nothing(*masks([A, B, EOS], [A, EOS, PAD]))
    assert torch.equal(found[0], matrix(". . x\n. . x\n. . x"))
    assert torch.equal(found[1], matrix(". x .\n. x .\n. x ."))


def test_observed_set() -> None:
    _, eos = masks([A, B, C, EOS])
    found = context.observed_set(torch.tensor([[True, False, True, False]]), eos)
    assert torch.equal(found[0], matrix("x . x x\nx . x x\nx . x x\nx . x x"))


def test_left_to_right() -> None:
    found = context.left_to_right(*masks([A, B, C, EOS, PAD]))
    assert torch.equal(found[0][:3], matrix(". . . x .\nx . . x .\nx x . x ."))


def test_right_to_left() -> None:
    found = context.right_to_left(*masks([A, B, C, EOS, PAD]))
    assert torch.equal(found[0][:3], matrix(". x x x .\n. . x x .\n. . . x ."))


def test_all_but_itself() -> None:
    found = context.all_but_itself(*masks([A, B, C, EOS, PAD]))
    assert torch.equal(found[0][:3], matrix(". x x x .\nx . x x .\nx x . x ."))


def test_easy_first_with_a_tie() -> None:
    """Probabilities .5 .9 .5: B is easiest, then the first A, then the last word (ties: the earlier)."""
    words, eos = masks([A, B, A, EOS])
    order = context.easy_first_order(torch.tensor([[0.5, 0.9, 0.5, 1.0]]).log(), words)
    assert order.tolist() == [[1, 0, 2, 3]]
    found = context.by_order(order, words, eos)
    assert torch.equal(found[0][:3], matrix(". x . x\n. . . x\nx x . x"))


def test_random_never_sees_itself_or_padding_and_always_eos() -> None:
    words, eos = masks([A, B, C, D, EOS], [A, B, EOS, PAD, PAD])
    for key in range(200):
        found = context.random(sentence_keys(key, torch.tensor([3, 4])), words, eos)
        assert not found.diagonal(dim1=1, dim2=2)[words].any()
        assert found.transpose(1, 2)[eos].all()
        assert not found[1, :, 3:].any()


def test_random_number_and_choice_are_uniform() -> None:
    """Chi-square of the number of visible words (0..3) and of which ones, over 4,000 draws."""
    words, eos = masks([A, B, C, D, EOS])
    keys = sentence_keys(7, torch.arange(4000))
    found = context.random(keys, words.expand(4000, -1), eos.expand(4000, -1))[:, :4, :4]
    for n in range(4):
        numbers = torch.bincount(found[:, n].sum(1), minlength=4).double()
        assert ((numbers - 1000) ** 2 / 1000).sum() < 16.3  # 3 degrees of freedom, p = 0.001
        seen = found[:, n].double().mean(0)
        others = [m for m in range(4) if m != n]
        assert (seen[others] - 0.5).abs().max() < 0.04
    numbers_differ = found[:, 0].sum(1) != found[:, 1].sum(1)
    assert numbers_differ.double().mean() > 0.7  # drawn for each position, not for the sentence


def test_permutation_is_a_total_order() -> None:
    words, eos = masks([A, B, C, D, EOS, PAD])
    seen_orders = set()
    for key in range(300):
        found = context.permutation(sentence_keys(key, torch.tensor([0])), words, eos)[0, :4, :4]
        ranks = found.sum(1)
        assert sorted(ranks.tolist()) == [0, 1, 2, 3]
        assert torch.equal(found, ranks[None, :] < ranks[:, None])
        seen_orders.add(tuple(ranks.tolist()))
    assert len(seen_orders) == 24


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(0, 3), st.integers(-(2**63), 2**63 - 1)
)
@settings(max_examples=100, deadline=None)
def test_draws_do_not_depend_on_the_batch(lengths: list[int], extra: int, key: int) -> None:
    width = max(lengths) + 1 + extra
    target = torch.tensor([[A] * n + [EOS] + [PAD] * (width - n - 1) for n in lengths])
    sentence = torch.arange(len(lengths)) * 11
    for draw in (context.random, context.permutation, context.prefix):
        together = draw(sentence_keys(key, sentence), *context.words_and_eos(target))
        for row, length in enumerate(lengths):
            alone = context.words_and_eos(target[row : row + 1, : length + 1])
            found = draw(sentence_keys(key, sentence[row : row + 1]), *alone)
            assert torch.equal(found[0], together[row, : length + 1, : length + 1])


def test_prefix_sees_eos_never_itself_nor_padding() -> None:
    words, eos = masks([A, B, C, D, EOS], [A, B, EOS, PAD, PAD])
    for key in range(200):
        found = context.prefix(sentence_keys(key, torch.tensor([3, 4])), words, eos)
        assert not found.diagonal(dim1=1, dim2=2)[words].any()
        assert found.transpose(1, 2)[eos].all()
        assert not found[1, :, 3:].any()


def test_prefix_of_one_and_of_two_words() -> None:
    """One word sees nothing. Of two, each sees the other or not; the first has no prefix."""
    words, eos = masks([A, EOS])
    assert context.prefix(sentence_keys(1, torch.tensor([0])), words, eos)[0, 0].tolist() == [False, True]
    words, eos = (each.expand(4000, -1) for each in masks([A, B, EOS]))
    found = context.prefix(sentence_keys(1, torch.arange(4000)), words, eos).double().mean(0)
    assert found[0].tolist() == [0, approx(0.5), 1]  # 0 or 1 of the words behind an empty prefix
    assert found[1].tolist() == [approx(0.75), 0, 1]  # half the time in the prefix, else half the time behind


def test_prefix_lengths_are_uniform() -> None:
    """The last of four words: the prefix has 0 to 3 words, equally often; behind it any number is seen.

    What the probabilities must be, by counting: for each prefix length l of 0..3 there are 3 - l words
    behind it (itself apart), of which 0..3-l are seen, equally often.
    """
    words, eos = (each.expand(8000, -1) for each in masks([A, B, C, D, EOS]))
    found = context.prefix(sentence_keys(5, torch.arange(8000)), words, eos)
    last = found[:, 3, :3]
    # l = 3: all seen; l = 2: A, B and C half the time; l = 1: A and half of B, C; l = 0: half of each.
    expected = [(1 + 1 + 1 + 0.5) / 4, (1 + 1 + 0.5 + 0.5) / 4, (1 + 0.5 + 0.5 + 0.5) / 4]
    assert last.double().mean(0).tolist() == [approx(each) for each in expected]
    nothing_seen = (~last.any(dim=1)).double().mean().item()
    assert nothing_seen == approx(1 / 4 / 4)  # no prefix, and 0 of the 3 behind it
    assert last.all(dim=1).double().mean().item() == approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)
    first = found[:, 0, 1:4].sum(dim=1)  # no prefix: 0 to 3 of the words behind, equally often
    counts = torch.bincount(first, minlength=4).double()
    assert ((counts - 2000) ** 2 / 2000).sum() < 16.3  # 3 degrees of freedom, p = 0.001


def test_prefix_and_words_behind_it_occur_as_often_as_counting_says() -> None:
    """All that the third of four words may see: a prefix of 0, 1 or 2 words, and any others behind it."""
    expected: Counter[tuple[int, ...]] = Counter()
    for length in range(3):
        behind = [place for place in range(length, 4) if place != 2]
        for number in range(len(behind) + 1):
            chosen = list(combinations(behind, number))
            for words_behind in chosen:
                share = 8000 / 3 / (len(behind) + 1) / len(chosen)
                expected[(*range(length), *words_behind)] += share  # type: ignore[assignment]
    words, eos = (each.expand(8000, -1) for each in masks([A, B, C, D, EOS]))
    found = context.prefix(sentence_keys(9, torch.arange(8000)), words, eos)[:, 2, :4]
    counts = Counter(tuple(row.nonzero().flatten().tolist()) for row in found)
    assert counts.keys() == expected.keys()
    assert len(counts) == 8
    assert sum((counts[seen] - each) ** 2 / each for seen, each in expected.items()) < 24.3  # p = 0.001


def approx(value: float) -> Any:
    return pytest.approx(value, abs=0.03)
