"""--pin: words that a translation must contain, as they are typed."""

from __future__ import annotations

import json

from disco_command import Disco
from disco_mt.pins.parse import contains
from small_model import Small

TEXT = "The old house sees the child."


def test_pins_are_kept(disco: Disco, small: Small) -> None:
    done = disco("translate", "--model", small.disco, TEXT, "--pin", "das Haus@2", "--pin", "Kind", "--json")
    shown = json.loads(done.out)
    assert done.code == 0
    assert shown["tokens"][2:4] == ["Ġdas", "ĠHaus"]
    assert contains(shown["text"], "das Haus")
    assert contains(shown["text"], "Kind")
    assert shown["pinned"][2:4] == [True, True]
    assert "pinned" not in json.loads(disco("translate", "--model", small.disco, TEXT, "--json").out)


def test_pins_of_a_line_of_standard_input(disco: Disco, small: Small) -> None:
    done = disco("translate", "--model", small.cmlm, "--pin", "Haus", stdin=TEXT.encode())
    assert contains(done.lines[0], "Haus")


def test_pins_as_tokens(disco: Disco, small: Small) -> None:
    tokens = ("translate", "--model", small.disco, "--tokens", "--pin")
    assert disco(*tokens, "Ġdas ĠHaus@1", stdin="ĠThe Ġhouse".encode()).lines[0].split()[1:3] == [
        "Ġdas",
        "ĠHaus",
    ]
    done = disco(*tokens, "nothing", stdin="ĠThe Ġhouse".encode())
    assert done.code == 2
    assert "only words of the vocabulary" in done.said


def test_what_cannot_be_pinned_is_refused(disco: Disco, refused: Disco, small: Small) -> None:
    model = ("translate", "--model", small.disco)
    assert "--pin is for one text, but there are 2" in refused(*model, TEXT, TEXT, "--pin", "Haus").said
    assert "must have a text" in refused(*model, TEXT, "--pin", "").said
    assert "at least 0, got -3" in refused(*model, TEXT, "--pin", "Haus@-3").said
    said = refused(*model, TEXT, "--pin", "Haus@400").said
    assert "line 1 was left empty: a pin of 1 tokens at 400 does not fit: the model writes at most 22" in said
    assert "--long" not in said
    assert "cannot be pinned" in refused(*model, TEXT, "--strategy", "autoregressive", "--pin", "Haus").said
    at = ("translate", "--model", small.autoregressive, TEXT, "--pin", "Haus")
    assert "mask-predict of cmlm models" in refused(*at).said


def test_a_trace_around_pins(disco: Disco, refused: Disco, small: Small) -> None:
    done = disco("trace", "--model", small.disco, TEXT, "--pin", "Haus@1", "--pin", "Kind", "--json")
    for trace in json.loads(done.out)["traces"]:
        assert contains(trace["text"], "Kind")
        assert all(candidate["words"][1] == "Haus" for now in trace["passes"] for candidate in now)
    said = refused("trace", "--model", small.disco, TEXT, "--pin", "Haus@400").said
    assert "this sentence cannot be traced: a pin of 1 tokens at 400 does not fit" in said
