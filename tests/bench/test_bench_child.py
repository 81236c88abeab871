"""Processes of systems: what they answer, and how one that dies is spoken of."""

from __future__ import annotations

import os
import signal

import pytest

from disco_mt.bench.child import Child, Died, cause
from disco_mt.bench.sentences import Sentence
from disco_mt.bench.structures import fixed_structures
from disco_mt.bench.system import System, Weights
from tiny import tiny_config

SENTENCE = Sentence("", (6, 7, 8, 9), fixed_structures([4], 1)[0])


def plain() -> System:
    return System(Weights("DisCo 2-2", tiny_config(kind="disco")), "plain", length_beam=3)


def test_a_child_translates_and_counts() -> None:
    child = Child(plain(), [SENTENCE] * 3)
    try:
        child.load(1)
        assert all(each.wall > 0 and each.processor > 0 for each in child.turn([0, 1, 2]))
        assert child.batches([0, 1, 2], 2) > 0
        (found,) = child.translate([1], 1)
        assert (found.steps, found.rows, found.source) == (5, 5 * (4 + 3 + 5), 5)
        assert 3 <= found.words <= 5
        memory = child.memory()
        assert memory.peak >= memory.libraries > 10
    finally:
        child.close()


def test_a_child_that_is_killed_is_reported_kindly() -> None:
    child = Child(plain(), [SENTENCE])
    try:
        child.load(1)
        os.kill(child.pid, signal.SIGILL)
        with pytest.raises(Died, match="SIGILL: the processor does not know an instruction"):
            child.turn([0])
    finally:
        child.close()


def test_what_a_child_refuses_reaches_the_parent() -> None:
    gone = System(Weights("AT 2-2", tiny_config(kind="autoregressive"), exported="nowhere"), "ctranslate2")
    child = Child(gone, [SENTENCE])
    try:
        with pytest.raises(Died, match="nowhere is not a CTranslate2 model"):
            child.load(1)
    finally:
        child.close()


def test_the_meter_measures_both_precisions() -> None:
    child = Child(None, ())
    try:
        found = child.peak(1)
        assert set(found) == {"fp32", "int8"}
        assert min(found.values()) > 0
    finally:
        child.close()


def test_causes_in_words() -> None:
    assert "SIGKILL: memory may have run out" in cause(-9)
    assert "ended with code 3" in cause(3)
    assert "does not answer" in cause(None)
