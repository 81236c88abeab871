"""Spliced sources: new sentences of old parts, and what distillation makes of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disco_mt.cli import main
from disco_mt.data.dataset import Dataset, Side
from disco_mt.distill.run import DistillOptions, distill
from disco_mt.distill.sources import SHARED, with_spliced
from disco_mt.translator import Translator
from tiny_distill import make_dataset, make_teacher


def side(sentences: list[list[int]]) -> Side:
    ids = np.array([word for words in sentences for word in words], dtype=np.uint16)
    return Side(ids, np.cumsum([0, *map(len, sentences)], dtype=np.int64))


def listed(side: Side) -> list[list[int]]:
    return [side[index].tolist() for index in range(len(side.lengths))]


def nothing(sentence: list[int]) -> bool:
    """That nothing is held out."""
    return False


def test_two_sentences_go_on_as_each_other() -> None:
    old = [[1, 7, 8, 9, 2], [3, 7, 8, 9, 4]]
    new = listed(with_spliced(side(old), 1.0, nothing))
    assert new[:2] == old
    assert sorted(new[2:]) == [[1, 7, 8, 9, 4], [3, 7, 8, 9, 2]]


def test_what_is_held_out_is_not_made() -> None:
    old = [[1, 7, 8, 9, 2], [3, 7, 8, 9, 4]]
    new = with_spliced(side(old), 1.0, lambda sentence: sentence == [1, 7, 8, 9, 4])
    assert listed(new)[2:] == [[3, 7, 8, 9, 2]]


@pytest.mark.parametrize(
    "sentences",
    [
        [],
        [[], [5]],
        [[1, 7, 8, 2], [3, 7, 8, 4]],  # two tokens are no seam
        [[7, 8, 9, 2], [3, 7, 8, 9]],  # nothing in front of it, nothing behind it
        [[1, 7, 8, 9, 2]],
        [[1, 7, 8], [9, 2, 3], [4, 7, 8, 9, 2]],  # across the end of a sentence
    ],
)
def test_nothing_is_made_where_nothing_fits(sentences: list[list[int]]) -> None:
    assert listed(with_spliced(side(sentences), 3.0, nothing)) == sentences


def test_a_share_of_zero_is_the_corpus_itself() -> None:
    source = side([[1, 7, 8, 9, 2], [3, 7, 8, 9, 4]])
    assert with_spliced(source, 0.0, nothing) is source


@given(st.lists(st.lists(st.integers(1, 4), max_size=12), min_size=1, max_size=20), st.floats(0, 3))
@settings(deadline=None)
def test_new_sentences_are_new_and_of_two_old_ones(sentences: list[list[int]], share: float) -> None:
    every = listed(with_spliced(side(sentences), share, nothing))
    new = every[len(sentences) :]
    assert every[: len(sentences)] == sentences
    assert len(new) <= round(share * len(sentences))
    assert len({tuple(sentence) for sentence in new}) == len(new)
    assert all(sentence not in sentences for sentence in new)
    assert all(len(sentence) <= max(map(len, sentences)) for sentence in new)
    assert all(_is_spliced(sentence, sentences) for sentence in new)
    assert every == listed(with_spliced(side(sentences), share, nothing))


def _is_spliced(new: list[int], old: list[list[int]]) -> bool:
    """A seam is at some place: up to its end one sentence, from its start on another."""
    return any(
        any(each[: seam + SHARED] == new[: seam + SHARED] for each in old)
        and any(
            each[len(each) - len(new) + seam :] == new[seam:] for each in old if len(each) > len(new) - seam
        )
        for seam in range(1, len(new) - SHARED)
    )


def test_distillation_translates_them_too(tmp_path: Path) -> None:
    data = make_dataset(tmp_path / "data", pairs=300)
    make_teacher(tmp_path / "teacher", data, {}, steps=60)
    options = DistillOptions(str(tmp_path / "teacher"), tmp_path / "data", tmp_path / "plain", beam=2)
    distill(options, quiet=True)
    distill(replace(options, out=tmp_path / "more", splice=1.0), quiet=True)
    plain, more = (Dataset.open(tmp_path / name).splits for name in ("plain", "more"))
    expected = listed(with_spliced(data.splits["train"].source, 1.0, nothing))
    assert len(expected) > len(data.splits["train"])
    assert {*map(tuple, listed(more["train"].source))} <= {*map(tuple, expected)}
    assert len(more["train"]) > len(plain["train"])
    assert more["valid"].source_text() == plain["valid"].source_text()
    teacher = Translator.from_pretrained(tmp_path / "teacher")
    source, target = more["train"].pair(len(more["train"]) - 1)
    again = teacher.translate_ids([source.tolist()], options.decoding)[0]
    assert list(again.tokens) == data.text.target.tokens(target.tolist())


def test_a_bad_share_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["distill", "--model", "m", "--data", "d", "--out", str(tmp_path / "o"), "--splice", "-1"]
    assert main(command) == 2
    assert "splice must be at least 0, got -1.0" in capsys.readouterr().err
