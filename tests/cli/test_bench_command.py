"""`disco bench` as people type it: real processes, all systems, small models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from disco_command import Disco
from disco_mt.bench.inputs import random_inputs
from disco_mt.bench.sentences import read_structures
from disco_mt.cli.bench import BenchCommand, quick
from small_model import Small

SYSTEM_KEYS = {
    *("label", "model", "kind", "engine", "precision", "decoding", "died", "best_threads", "threads"),
    *("memory_mb", "steps", "rows", "plain_rows", "gflop", "quality"),
}


def bench(disco: Disco, small: Small, *more: object) -> dict[str, object]:
    models = (small.disco, small.cmlm, small.autoregressive)
    files = ("--source", small.corpus / "valid.en", "--reference", small.corpus / "valid.de")
    done = disco("bench", "--quick", "--json", "--quiet", "--models", *models, *files, *more)
    assert done.code == 0, done.err
    found: dict[str, object] = json.loads(done.out)
    return found


def test_trained_models_of_all_kinds(disco: Disco, small: Small, tmp_path: Path) -> None:
    out = tmp_path / "report"
    found = bench(disco, small, "--out", out)
    assert set(found) == {
        *("format", "title", "command", "clock", "machine", "load", "plan", "peak_gflops", "systems"),
        *("ratios", "verdict"),
    }
    systems = found["systems"]
    assert isinstance(systems, list)
    assert {(each["kind"], each["engine"], each["precision"]) for each in systems} >= {
        ("autoregressive", "ctranslate2", "fp32"),
        ("autoregressive", "ctranslate2", "int8"),
        ("disco", "reference", "fp32"),
        ("disco", "incremental", "fp32"),
        ("cmlm", "reference", "fp32"),
    }
    for each in systems:
        assert each["died"] == ""
        assert set(each) == SYSTEM_KEYS
        times = each["threads"]["1"]
        assert set(times) == {*("latency_ms", "seconds", "processor_seconds", "batch_seconds", "gflops")}
        assert set(times["latency_ms"]) == {"mean", "low", "high", "p50", "p90", "p99"}
        assert [len(repeat) for repeat in times["seconds"]] == [2, 2]
        assert 0 <= each["quality"]["bleu"] <= 100
        assert 0 < each["rows"] <= each["plain_rows"]
    plain, fast = (
        next(
            each
            for each in systems
            if each["engine"] == name and "K=5" in each["label"] and each["kind"] == "disco"
        )
        for name in ("reference", "incremental")
    )
    for exact in ("quality", "steps", "plain_rows"):
        assert plain[exact] == fast[exact]
    assert fast["rows"] < plain["rows"]
    for ratio in found["ratios"]:  # type: ignore[attr-defined]
        assert set(ratio) == {"system", "baseline", "threads", "estimate", "low", "high", "tie"}
        assert ratio["low"] <= ratio["estimate"] <= ratio["high"]
    report = (out / "report.md").read_text(encoding="utf-8")
    assert str(tmp_path) not in report
    assert "| DisCo 2-2 (disco) easy-first K=5, fp32, incremental" in report
    assert json.loads((out / "measurements.json").read_text(encoding="utf-8")) == found


def test_random_weights_are_driven_by_a_structure(disco: Disco) -> None:
    only = ("--only", "greedy fp32", "--only", "DisCo incremental fp32")
    done = disco("bench", "--quick", "--lengths", 5, 9, "--quiet", *only)
    assert done.code == 0, done.err
    assert "Weights are random" in done.out
    assert "100, 96, 50, 30, 20 %" in done.out
    assert "p50 / p90 / p99 in ms by length" in done.out
    assert "WARNING: the machine was busy" in done.out or "Other processes used" in done.out
    assert "AT wins" in done.out or "as fast as" in done.out or "Tie" in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "nonsense"], "fits none of the systems; there are: AT 6-6 beam 5"),
        (["--repeats", "0"], "--repeats must be at least 1, got 0"),
        (["--threads", "0"], "--threads must be at least 1, got 0"),
        (["--lengths", "-3"], "--lengths"),
        (["--models", "nowhere", "--source", "x", "--reference", "y"], "x"),
        (["--models", "nowhere"], "give --source FILE and --reference FILE"),
        (["--source", "x"], "go with --models"),
        (["--models", "a", "--suite", "b"], "not both"),
        (["--recipe", "multi30k.en-de"], "--recipe is now --suite"),
        (
            ["--structure", "nowhere.json"],
            "there is no such file, and no recording of that name ships (there are: multi30k)",
        ),
    ],
)
def test_bad_input_is_refused(refused: Disco, arguments: list[str], message: str) -> None:
    assert message in refused("bench", *arguments).said


def test_quick_keeps_what_was_asked_for() -> None:
    found = quick(BenchCommand(quick=True, repeats=7, lengths=(3,)))
    assert (found.size, found.repeats, found.sentences, found.threads) == ("desk", 7, 2, (1,))


def test_the_command_can_be_typed_again() -> None:
    command = BenchCommand(only=("int8 beam 5",), lengths=(10, 25), quick=True, source=None)
    assert command.typed() == "disco bench --lengths 10 25 --only 'int8 beam 5' --quick"
    trained = BenchCommand(
        models=("runs/disco",), source=Path("data/test.en"), reference=(Path("data/t.de"),)
    )
    assert trained.typed() == "disco bench --models disco --source test.en --reference t.de"


def test_inputs_at_base_size_have_every_system() -> None:
    labels = [system.label for system in random_inputs("base", (25,), 1).entries]
    assert len(set(labels)) == len(labels)
    for wanted in (
        "AT 6-6 beam 5, fp32, ctranslate2",
        "AT 6-6 greedy, int8, ctranslate2",
        "AT 12-1 greedy, int8, ctranslate2",
        "DisCo 6-6 easy-first K=5, fp32, reference",
        "DisCo 6-6 easy-first K=1, fp32, incremental",
        "CMLM 6-6 mask-predict T=10 K=5, fp32, reference",
    ):
        assert wanted in labels


def test_structures_are_recorded_from_a_model_and_drive_random_weights(
    disco: Disco, small: Small, tmp_path: Path
) -> None:
    file = tmp_path / "structures.json"
    source = small.corpus / "valid.en"
    done = disco("bench", "--record", file, "--models", small.disco, "--source", source, "--sentences", 3)
    assert done.code == 0, done.err
    assert "3 sentences, " in done.out
    for structure in read_structures(str(file)):
        assert structure.passes >= 2
        assert structure.rows[0] == tuple(tuple(range(length)) for length in structure.lengths)
    only = ("--only", "DisCo reference", "--only", "DisCo incremental fp32 K=5")
    done = disco("bench", "--quick", "--structure", file, "--quiet", "--json", *only)
    assert done.code == 0, done.err
    plain, fast = json.loads(done.out)["systems"]
    assert "recorded from a trained model" in json.loads(done.out)["clock"]
    assert fast["steps"] == plain["steps"]
    assert fast["rows"] < fast["plain_rows"] == plain["rows"]


def test_scaling(disco: Disco, tmp_path: Path) -> None:
    out = tmp_path / "scaling"
    done = disco("bench", "--scaling", "--quick", "--quiet", "--json", "--only", "fp32", "--out", out)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert [(each["axis"], len(each["times"])) for each in found["growth"]] == [("length", 3), ("K", 2)]
    assert (out / "scaling-length.svg").exists()
    assert "time ~ length to the power" in (out / "report.md").read_text(encoding="utf-8")
