"""The models inside the package: small enough, attributed, and saying what their cards say."""

from __future__ import annotations

import re

import pytest
import torch
from safetensors.torch import load_file

from disco_mt.cli import main
from disco_mt.nn.find import PRETRAINED, shipped_models
from disco_mt.suites.package import EVERYDAY
from disco_mt.translator import DEFAULT_MODEL, Translator

MEGABYTES = 1_000_000


def card(name: str) -> str:
    return (PRETRAINED / name / "README.md").read_text(encoding="utf-8")


def test_there_is_one_to_begin_with() -> None:
    assert DEFAULT_MODEL in shipped_models()


@pytest.mark.parametrize("name", shipped_models())
def test_weights_are_small_and_in_half_precision(name: str) -> None:
    file = PRETRAINED / name / "model.safetensors"
    assert file.stat().st_size <= 16 * MEGABYTES
    assert {tensor.dtype for tensor in load_file(file).values()} == {torch.float16}


def test_all_together_are_small() -> None:
    assert sum(file.stat().st_size for file in PRETRAINED.rglob("*")) <= 32 * MEGABYTES


@pytest.mark.parametrize("name", shipped_models())
def test_whose_sentences_they_learnt_from_is_said(name: str) -> None:
    for text in ((PRETRAINED / name / "NOTICE").read_text(encoding="utf-8"), card(name)):
        assert "https://tatoeba.org" in text
        assert "CC-BY 2.0 FR" in text


@pytest.mark.parametrize("name", shipped_models())
def test_nobodys_folders_are_in_them(name: str) -> None:
    for file in ("config.json", "README.md"):
        assert not re.search(r'[\s"]/\w', (PRETRAINED / name / file).read_text(encoding="utf-8")), file


@pytest.mark.parametrize("name", shipped_models())
def test_a_card_has_what_the_model_says(name: str) -> None:
    """Nearly all of it: another processor may round a tie otherwise."""
    on_card = dict(re.findall(r"^\| (.+?) \| (.+) \|$", card(name), re.MULTILINE))
    said = Translator.from_pretrained(name).translate(EVERYDAY)
    same = [on_card[sentence] == each.text for sentence, each in zip(EVERYDAY, said, strict=True)]
    assert len(same) == 20
    assert sum(same) >= 18


def test_no_option_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", EVERYDAY[0]]) == 0
    assert f"| {EVERYDAY[0]} | {capsys.readouterr().out.strip()} |" in card(DEFAULT_MODEL)
