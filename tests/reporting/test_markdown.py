"""Tables as Markdown."""

from __future__ import annotations

from disco_mt.reporting.tables import Table, duration, markdown, number, signed


def test_markdown():
    table = Table("T", ("name", "BLEU"), (("a|b", "1.00"), ("c", "27.34")), "Note.")
    assert markdown(table) == (
        "**T**\n\n| name |  BLEU |\n| ---- | ----: |\n| a\\|b |  1.00 |\n| c    | 27.34 |\n\nNote."
    )
    assert [number(None), number(1.005, 1), signed(0.5), duration(90), duration(5400), duration(None)] == [
        "–",
        "1.0",
        "+0.50",
        "2 min",
        "1.5 h",
        "–",
    ]
