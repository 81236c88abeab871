"""Batches use the token budget with little padding, in an order determined by seed and epoch."""

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from disco_mt.core.errors import UserError
from disco_mt.core.special_tokens import EOS, PAD
from disco_mt.data.batches import collate, plan_epoch
from disco_mt.data.dataset import Dataset, Lengths, Side, Split
from disco_mt.data.prepare import PrepareOptions, prepare

lengths = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=200)


def columns(pairs: list[tuple[int, int]]) -> tuple[Lengths, Lengths]:
    array = np.array(pairs, dtype=np.int32).reshape(-1, 2)
    return array[:, 0], array[:, 1]


def padding(plan: list[NDArray[np.int64]], source: Lengths, target: Lengths) -> float:
    """The share of positions in the source and target matrices that is padding."""
    real = int((source + 1).sum() + (target + 1).sum())
    return 1 - real / sum(len(batch) * int(source[batch].max() + target[batch].max() + 2) for batch in plan)


@given(lengths, st.integers(31, 500), st.integers(0, 2**32), st.integers(0, 5))
def test_every_pair_once_and_never_over_budget(
    pairs: list[tuple[int, int]], max_tokens: int, seed: int, epoch: int
) -> None:
    source, target = columns(pairs)
    plan = plan_epoch(source, target, max_tokens, seed, epoch)
    assert sorted(index for batch in plan for index in batch) == list(range(len(pairs)))
    for batch in plan:
        assert len(batch) > 0
        assert len(batch) * (1 + max(source[batch].max(), target[batch].max())) <= max_tokens


def plain_plan(source: Lengths, target: Lengths, max_tokens: int, seed: int, epoch: int) -> list[list[int]]:
    """A slow version of the same plan: resumed runs must continue with the same batches."""
    random = np.random.Generator(np.random.PCG64([seed, epoch]))
    order = random.permutation(len(source))
    longer, difference = np.maximum(source, target), source - target
    key = [(longer[i], difference[i] if longer[i] % 2 == 0 else -difference[i]) for i in order]
    batches: list[list[int]] = []
    for place in sorted(range(len(order)), key=key.__getitem__):
        pair = int(order[place])
        if not batches or (len(batches[-1]) + 1) * (longer[pair] + 1) > max_tokens:
            batches.append([])
        batches[-1].append(pair)
    return [batches[number] for number in random.permutation(len(batches))]


@given(lengths, st.sampled_from([1, 20]), st.integers(0, 2000), st.integers(0, 2**32), st.integers(0, 5))
def test_a_plan_is_what_the_plain_way_gives(
    pairs: list[tuple[int, int]], scale: int, room: int, seed: int, epoch: int
) -> None:
    source, target = (scale * column for column in columns(pairs))  # up to 600: beyond 16 bits, too
    max_tokens = 1 + max(source.max(initial=0), target.max(initial=0)) + room
    plan = plan_epoch(source, target, max_tokens, seed, epoch)
    assert [batch.tolist() for batch in plan] == plain_plan(source, target, max_tokens, seed, epoch)


def test_a_plan_never_changes() -> None:
    """Known batches: a run that is resumed with a newer Disco must not repeat or skip a sentence."""
    random = np.random.default_rng(0)
    source = random.integers(1, 60, 5000).astype(np.int32)
    target = np.maximum(1, source + random.integers(-9, 9, 5000)).astype(np.int32)
    digest = hashlib.sha256()
    for batch in plan_epoch(source, target, 1024, seed=3, epoch=2):
        digest.update(f"{batch.tolist()}\n".encode())
    assert digest.hexdigest()[:16] == "b8aa67693d673d6e"


def test_batches_are_cut_greedily() -> None:
    source, target = columns([(3, 3)] * 10)
    assert sorted(len(batch) for batch in plan_epoch(source, target, 17, 0, 0)) == [2, 4, 4]


def test_the_order_depends_on_seed_and_epoch_only() -> None:
    source, target = columns([(length % 7, length % 5) for length in range(500)])

    def order(seed: int, epoch: int) -> list[list[int]]:
        return [batch.tolist() for batch in plan_epoch(source, target, 50, seed, epoch)]

    assert order(1, 2) == order(1, 2)
    assert len({str(order(seed, epoch)) for seed in (1, 2, 3) for epoch in (1, 2, 3)}) == 9


def test_batch_mates_change_from_epoch_to_epoch() -> None:
    source, target = columns([(5, 5)] * 100)
    first = {frozenset(batch.tolist()) for batch in plan_epoch(source, target, 60, 1, 0)}
    second = {frozenset(batch.tolist()) for batch in plan_epoch(source, target, 60, 1, 1)}
    assert len(first) == len(second) == 10
    assert not first & second


def test_a_pair_over_the_budget_is_named() -> None:
    source, target = columns([(3, 5), (12, 4)])
    with pytest.raises(UserError, match=r"max_tokens must be at least .* 13 tokens with its end, got 12"):
        plan_epoch(source, target, 12, 0, 0)
    assert len(plan_epoch(source, target, 13, 0, 0)) == 2


def test_padding_of_everyday_sentences_is_low() -> None:
    """Lengths like those of a phrasebook: 4 to 15 words, and a translation of about the same length."""
    random = np.random.default_rng(0)
    source = random.integers(4, 16, 20_000).astype(np.int32)
    target = np.maximum(2, source + random.normal(0, 2, len(source)).round()).astype(np.int32)
    assert padding(plan_epoch(source, target, 4096, 1, 0), source, target) < 0.05


def test_padding_of_a_long_tailed_corpus_is_low() -> None:
    random = np.random.default_rng(0)
    source = np.minimum(250, random.lognormal(3, 0.6, 50_000) + 1).astype(np.int32)
    target = np.clip(source * random.lognormal(0.1, 0.25, len(source)), 1, 250).astype(np.int32)
    assert padding(plan_epoch(source, target, 8192, 1, 0), source, target) < 0.10


@pytest.mark.skipif("DISCO_DATA" not in os.environ, reason="DISCO_DATA names a folder with multi30k/")
@pytest.mark.parametrize("max_tokens", [1000, 4096, 16384])
def test_padding_of_multi30k_is_below_a_tenth(tmp_path: Path, max_tokens: int) -> None:
    folder = Path(os.environ["DISCO_DATA"]) / "multi30k"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    options = PrepareOptions(
        folder / "train.en.gz", folder / "train.de.gz", tmp_path / "out", "en", "de", vocabulary_size=8000
    )
    prepare(options, quiet=True)
    train = Dataset.open(options.out).splits["train"]
    plan = plan_epoch(train.source_lengths, train.target_lengths, max_tokens, 1, 0)
    assert padding(plan, train.source_lengths, train.target_lengths) < 0.10


def test_collate_adds_eos_and_pads_on_the_right() -> None:
    source = Side(np.array([7, 8, 9, 5], dtype=np.uint16), np.array([0, 3, 3, 4]))
    target = Side(np.array([6, 6, 7, 8], dtype=np.uint32), np.array([0, 1, 2, 4]))
    batch = collate(Split(Path("nowhere"), "train", source, target), np.array([2, 0, 1]))
    assert batch.sentence.tolist() == [2, 0, 1]
    assert batch.source.tolist() == [[5, EOS, PAD, PAD], [7, 8, 9, EOS], [EOS, PAD, PAD, PAD]]
    assert batch.target.tolist() == [[7, 8, EOS], [6, EOS, PAD], [6, EOS, PAD]]
    assert str(batch.source.dtype) == str(batch.target.dtype) == "torch.int64"
    assert batch.target_words == 4
