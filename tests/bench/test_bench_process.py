"""Processes of systems: what they answer, and how one that dies is spoken of."""

from __future__ import annotations

import os
import signal

import pytest

from disco_mt.bench.entries import Entry, Weights
from disco_mt.bench.process import Child, Died, Worker, cause
from disco_mt.bench.sentences import Sentence, fixed_structures
from disco_mt.decoding.options import DecodingOptions
from tiny import tiny_config

SENTENCE = Sentence("", (6, 7, 8, 9), fixed_structures([4], 1)[0])


def plain() -> Entry:
    options = DecodingOptions("easy-first", length_beam=3)
    return Entry(Weights("DisCo 2-2", tiny_config(kind="disco")), "reference", "fp32", options)


def test_a_child_translates_and_counts() -> None:
    child = Child(plain(), [SENTENCE] * 3)
    try:
        child.ask(Worker.load, 1)
        assert all(each.wall > 0 and each.processor > 0 for each in child.ask(Worker.turn, [0, 1, 2]))
        assert child.ask(Worker.batches, [0, 1, 2], 2) > 0
        (outcome,) = child.ask(Worker.translate, [1], 1)
        assert (outcome.work.passes, outcome.work.rows, outcome.source) == (5, 5 * (4 + 3 + 5), 5)
        assert 3 <= outcome.words <= 5
        memory = child.ask(Worker.memory)
        assert memory.peak >= memory.libraries > 10
    finally:
        child.close()


def test_a_child_that_is_killed_is_reported_kindly() -> None:
    child = Child(plain(), [SENTENCE])
    try:
        child.ask(Worker.load, 1)
        os.kill(child.pid, signal.SIGILL)
        with pytest.raises(Died, match="SIGILL: the processor does not know an instruction"):
            child.ask(Worker.turn, [0])
    finally:
        child.close()


def test_what_a_child_refuses_reaches_the_parent() -> None:
    weights = Weights("AT 2-2", tiny_config(kind="autoregressive"), exported="nowhere")
    gone = Entry(weights, "ctranslate2", "fp32", DecodingOptions("beam"))
    child = Child(gone, [SENTENCE])
    try:
        with pytest.raises(Died, match="nowhere is not a CTranslate2 model"):
            child.ask(Worker.load, 1)
    finally:
        child.close()


def test_the_meter_measures_both_precisions() -> None:
    child = Child(None, ())
    try:
        peak = child.ask(Worker.peak, 1)
        assert set(peak) == {"fp32", "int8"}
        assert min(peak.values()) > 0
    finally:
        child.close()


def test_causes_in_words() -> None:
    assert "SIGKILL: memory may have run out" in cause(-9)
    assert "ended with code 3" in cause(3)
    assert "does not answer" in cause(None)
