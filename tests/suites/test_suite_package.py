"""A packaged model: half precision, and a card whose figures are those of the file."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from disco_mt.cli import main
from disco_mt.core.errors import UserError
from disco_mt.data.dataset import Dataset
from disco_mt.decoding.options import DecodingDefaults, DecodingOptions
from disco_mt.evaluation.quality import measure
from disco_mt.evaluation.tune import Weight, choose, tune
from disco_mt.suites.package import EVERYDAY, HIGH, PLAIN, RERANKED, package
from disco_mt.suites.suite import load_suite
from disco_mt.suites.workspace import Workspace
from disco_mt.translator import Translator
from tiny_suite import write_corpus, write_suite

FEW = DecodingOptions(iterations=2, length_beam=2)  # as the suite decodes


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    folder = tmp_path_factory.mktemp("package")
    made = Workspace(load_suite(str(write_suite(folder))), folder / "runs", write_corpus(folder / "data"))
    made.run(("average:disco", "average:mixed", "evaluate:teacher"), quiet=True)
    return made


def test_a_packaged_model_scores_what_its_card_says(workspace: Workspace, tmp_path: Path) -> None:
    made = package(workspace, "disco", tmp_path / "en-de")
    translator = Translator.from_pretrained(made.out)
    test = Dataset.open(workspace.dataset("raw")).splits["test"]
    found = translator.translate(test.source_text(), FEW)
    again = measure([each.text for each in found], test.references(), "de")
    assert again == made.scored.quality
    card = (made.out / "README.md").read_text(encoding="utf-8")
    [row] = [line for line in card.splitlines() if line.startswith("| this model, easy-first")]
    assert [cell.strip() for cell in row.split("|")[2:5]] == [f"{again.bleu:.2f}", "", f"{again.chrf:.2f}"]
    [line] = [line for line in card.splitlines() if line.startswith("| its teacher (teacher), beam 5")]
    bleu, difference, low, high = map(float, re.findall(r"[-+]?\d+\.\d\d", line)[:4])
    assert difference == pytest.approx(bleu - again.bleu, abs=0.011)
    assert low <= difference <= high
    for sentence, each in zip(EVERYDAY, translator.translate(EVERYDAY, FEW), strict=True):
        escaped = each.text.replace("|", r"\|")
        assert re.search(rf"^\| {re.escape(sentence)} +\| {re.escape(escaped)} ", card, flags=re.MULTILINE)


def test_the_length_penalty_of_a_packaged_model_is_its_own(workspace: Workspace, tmp_path: Path) -> None:
    made = package(workspace, "disco", tmp_path / "en-de")
    config = json.loads((made.out / "config.json").read_text())
    assert config["extra"]["decoding"] == {"length_penalty": made.scored.options.length_penalty}
    config["extra"]["decoding"]["length_penalty"] = 40.0  # so that the longest candidate wins
    (made.out / "config.json").write_text(json.dumps(config))
    translator = Translator.from_pretrained(made.out)
    own, asked, mean = (
        sum(
            len(each.tokens)
            for each in translator.translate(EVERYDAY, DecodingOptions(length_penalty=penalty))
        )
        for penalty in (None, 40.0, 1.0)
    )
    assert own == asked > mean


def test_a_model_that_can_rerank_ships_as_it_is_best_on_dev(workspace: Workspace, tmp_path: Path) -> None:
    made = package(workspace, "mixed", tmp_path / "en-de")
    card = (made.out / "README.md").read_text()
    rows = [line for line in card.splitlines() if "easy-first" in line]
    for setting in (PLAIN, RERANKED, HIGH):
        assert any(f"| {setting}, easy-first" in row for row in rows)
    valid = Dataset.open(workspace.dataset("raw")).splits["valid"]
    scores = {}
    for reranker in ("none", "self"):
        translator = Translator.from_pretrained(made.out, rerank_with=reranker)
        translator = replace(translator, defaults=DecodingDefaults())
        weight: Weight = "length_penalty" if reranker == "none" else "length_weight"
        tried = [*tune(translator, valid.source_text(), valid.references(), FEW, weight)]
        scores[reranker] = next(each.bleu for each in tried if each.value == choose(tried))
    own = json.loads((made.out / "config.json").read_text())["extra"]["decoding"]
    assert own.get("rerank", "none") == max(scores, key=lambda reranker: scores[reranker])
    test = Dataset.open(workspace.dataset("raw")).splits["test"]
    found = Translator.from_pretrained(made.out).translate(test.source_text(), FEW)
    assert measure([each.text for each in found], test.references(), "de") == made.scored.quality
    assert sum(each.steps for each in found) / len(found) == made.scored.steps


def test_what_effort_high_gives_is_what_the_options_of_its_card_give(
    workspace: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = (package(workspace, "mixed", tmp_path / "en-de").out / "README.md").read_text()
    [bleu] = re.findall(r"effort high, easy-first.*, beta [\d.]+ +\| +([\d.]+) \|", card)
    [asked] = re.findall(r"Effort high takes longer: `disco translate (.*)`", card)
    data = workspace.dataset("raw")
    files = ["--source", data / "test.source.txt", "--references", data / "test.references.tsv"]
    given = ["--model", tmp_path / "en-de", *files, "--iterations", 2, "--length-beam", 2, "--json"]
    assert main(["evaluate", *map(str, given), *asked.split()]) == 0
    assert f"{json.loads(capsys.readouterr().out)['bleu']:.2f}" == bleu


def test_weights_are_stored_in_half_precision_and_the_data_attributed(
    workspace: Workspace, tmp_path: Path
) -> None:
    package(workspace, "teacher", tmp_path / "teacher")
    tensors = load_file(tmp_path / "teacher" / "model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float16}
    assert "tatoeba.org" in (tmp_path / "teacher" / "NOTICE").read_text(encoding="utf-8")


def test_models_of_data_that_may_not_be_passed_on_are_refused(workspace: Workspace, tmp_path: Path) -> None:
    suite = load_suite("multi30k.en-de")
    other = Workspace(suite, tmp_path / "runs")
    other.model = lambda _: workspace.model("teacher")  # type: ignore[method-assign]
    with pytest.raises(UserError, match="may not be passed on"):
        package(other, "at-raw", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_command_says_what_it_wrote(
    workspace: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = workspace.folder.parent.parent
    options = ["--runs", str(folder / "runs"), "--data", str(folder / "data"), "--out", str(tmp_path / "de")]
    assert main(["suite", "package", str(folder / "animals.toml"), "--system", "disco", *options]) == 0
    assert "BLEU on the test set in" in capsys.readouterr().out
    assert main(["suite", "package", str(folder / "animals.toml"), "--system", "disco", *options]) == 2
