"""The report: sentences grouped by length, systems whose arithmetic is not known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from runs import entry, measured, result

from disco_mt.bench.report import About, groups, make_report
from disco_mt.reporting.reports import to_markdown
from disco_mt.systems import SYSTEMS


def test_groups_by_length() -> None:
    assert groups([25, 10, 25]) == {"10": [1], "25": [0, 2]}
    lengths = [5, 6, 7, 8, 9, 10, 11, 12, 40]
    by_length = groups(lengths)
    assert sorted(place for places in by_length.values() for place in places) == list(range(len(lengths)))
    assert list(by_length) == ["5-7", "8-9", "10-11", "12-40"]


def test_work_is_counted_only_where_the_arithmetic_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SYSTEMS, "toy", replace(SYSTEMS["cmlm"], name="toy", label="Toy", bench={}))
    run = measured(result(entry("toy"), t1=10, t2=8), result(entry("autoregressive"), t1=20, t2=15))
    report = make_report(run, About("Speed", "disco bench", "Clock.", {}))
    text = to_markdown(report)
    (toy,) = [line for line in text.splitlines() if line.startswith("| Toy 6-6") and "59.2 %" in line]
    assert toy.split("|")[5].strip() == toy.split("|")[6].strip() == "–"
    assert report.data is not None
    assert [each["gflop"] is None for each in report.data["systems"]] == [True, False]
    assert "Toy 6-6 mask-predict T=10 K=5, fp32, reference is 1.88 times" in text
