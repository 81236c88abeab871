"""Who is compared with whom, and what the verdict says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from runs import entry, measured, result

from disco_mt.bench.compare import BEST, PROCESSOR, baselines, best_threads, fastest_batch, ratios, verdict
from disco_mt.reporting.load import Load

DISCO, BEAM = entry("disco"), entry("autoregressive")
GREEDY = entry("autoregressive", strategy="greedy")


def test_compared_is_with_the_same_precision_and_shape() -> None:
    small = entry("autoregressive", "int8")
    deep = entry("autoregressive", layers=(12, 1))
    every = [result(each, t1=1) for each in (DISCO, BEAM, GREEDY, small, deep)]
    found = [each.label for each in baselines(every[0], every)]
    assert found == [BEAM.label, GREEDY.label]
    assert baselines(every[1], every) == []
    only_deep = [every[0], every[4]]
    assert baselines(every[0], only_deep) == [every[4]]  # no AT of that shape: the other one


def test_equal_threads_and_each_at_its_best() -> None:
    disco, beam = result(DISCO, t1=100, t2=50), result(BEAM, t1=150, t2=160)
    assert (best_threads(disco), best_threads(beam)) == (2, 1)
    found = {each.threads: each.value.estimate for each in ratios(measured(disco, beam))}
    assert found == pytest.approx({PROCESSOR: 1.5, 1: 1.5, 2: 3.2, BEST: 3.0})


def test_with_one_number_of_threads_there_is_no_best() -> None:
    run = measured(result(DISCO, t1=100), result(BEAM, t1=150), threads=(1,))
    assert [each.threads for each in ratios(run)] == [PROCESSOR, 1]


def test_the_verdict_names_winner_tie_and_loser() -> None:
    disco = result(DISCO, t1=100, t2=100, wobble=0.1)
    beam, greedy = result(BEAM, t1=200, t2=200), result(GREEDY, t1=105, t2=105, wobble=-0.1)
    run = measured(disco, beam, greedy)
    words = verdict(run, ratios(run))
    assert words[0].startswith(
        f"One sentence at a time, fp32: fastest is {DISCO.label} with 100.0 ms, in a tie"
    )
    assert any(line.startswith(f"{DISCO.label} is 2.00 times [") and BEAM.label in line for line in words)
    assert any(line.startswith(f"Tie: {DISCO.label} and {GREEDY.label} (each at its best") for line in words)
    assert not any("AT wins" in line for line in words)


def test_where_at_wins_the_verdict_says_so() -> None:
    run = measured(result(DISCO, t1=100, t2=100), result(BEAM, t1=40, t2=40))
    words = verdict(run, ratios(run))
    assert f"ahead of {DISCO.label} (2.50 times [2.50, 2.50] of its time)" in words[0]
    assert f"AT wins: {BEAM.label} is 2.50 times [2.50, 2.50] as fast as {DISCO.label}" in words[1]


def test_on_a_busy_machine_processor_time_is_judged_as_well() -> None:
    run = measured(result(DISCO, t1=100, t2=100), result(BEAM, t1=40, t2=40))
    busy = replace(run, load=Load(1.5, 1.5, 2.0, 2))
    assert sum("processor time" in line for line in verdict(busy, ratios(busy))) == 1
    assert not any("processor time" in line for line in verdict(run, ratios(run)))


def test_the_best_batch_is_reported_whoever_wins() -> None:
    disco, beam = result(DISCO, t1=100, t2=80), result(BEAM, t1=40, t2=30)
    assert fastest_batch(disco, 2) == (2, 32, pytest.approx(50))
    last = verdict(run := measured(disco, beam), ratios(run))[-1]
    assert last == (
        f"Best batch: {BEAM.label} has the highest throughput, 133.3 sentences/s "
        f"(batches of 32, 2 thread(s)); next is {DISCO.label} with 50.0."
    )


def test_a_system_that_died_takes_no_part() -> None:
    dead = result(BEAM)
    dead.died = "its process was ended by SIGILL"
    run = measured(result(DISCO, t1=100, t2=100), dead)
    assert ratios(run) == []
    assert all(BEAM.label not in line for line in verdict(run, []))
