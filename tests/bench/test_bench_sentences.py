"""Pass structures: fixed, narrowed, shipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from disco_mt.bench.sentences import (
    fixed_structures,
    narrowed,
    random_sentences,
    read_structures,
    shipped_structures,
    write_structures,
)
from disco_mt.core.errors import UserError


def test_the_fixed_structure_has_the_shares_of_the_rows() -> None:
    (found,) = fixed_structures([25], 1)
    assert found.lengths == (25, 24, 26, 23, 27)
    counts = [sum(map(len, rows)) for rows in found.rows]
    assert counts[0] == 125
    assert [count / 125 for count in counts] == pytest.approx([1.0, 0.96, 0.5, 0.3, 0.2], abs=0.01)
    assert found.changed == found.rows


@pytest.mark.parametrize("beam", [1, 2, 5, 10])
def test_candidates_have_distinct_lengths(beam: int) -> None:
    (found,) = fixed_structures([25], 1, beam=beam)
    assert len(set(found.lengths)) == len(found.lengths) == beam


def test_narrowed_keeps_the_first_candidates() -> None:
    found = narrowed(fixed_structures([10], 1)[0], 1)
    assert found.lengths == (10,)
    assert [len(rows) for rows in found.rows] == [1] * 5


def test_what_is_written_is_read(tmp_path: Path) -> None:
    structures = fixed_structures([4, 6], 2)
    write_structures(structures, "a model", tmp_path / "s.json")
    assert read_structures(str(tmp_path / "s.json")) == structures


@pytest.mark.parametrize("content", ["", "[]", '{"structures": [{"lengths": 3}]}', "\x00"])
def test_other_files_are_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "s.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match="is not what `disco bench --record` writes"):
        read_structures(str(path))


@pytest.mark.parametrize("name", shipped_structures())
def test_shipped_recordings_are_whole(name: str) -> None:
    found = read_structures(name)
    assert len(found) >= 20
    for each in found:
        assert len(each.rows) == len(each.changed) >= 2
        assert len(each.lengths) == len(set(each.lengths)) == 5
        for rows, changed in zip(each.rows, each.changed, strict=True):
            for length, places, new in zip(each.lengths, rows, changed, strict=True):
                assert set(new) <= set(places) <= set(range(length))
    done = sum(len(places) for each in found for rows in each.rows for places in rows)
    # 40 of 1,000 sentences; all of them together are at 64.3 % (docs/speed.md)
    assert done <= 0.7 * sum(len(each.rows) * sum(each.lengths) for each in found)
    assert [len(sentence.source) for sentence in random_sentences(found, 100)] == [
        s.lengths[0] for s in found
    ]
