"""States of a frozen encoder on disk: the same training, computed once, mended after a kill."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_run
import torch
from test_freeze import FREEZE
from tiny_run import frozen_model, go, story

from disco_mt.core.errors import UserError
from disco_mt.data.batches import collate
from disco_mt.data.dataset import Split
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.config import Length
from disco_mt.training import encoder_states
from disco_mt.training.encoder_states import EncoderStates, keep_encoder_states


@pytest.fixture
def split(tmp_path: Path) -> Split:
    return tiny_run.dataset(tmp_path / "data").splits["train"]


@pytest.fixture
def model() -> TranslationModel:
    made = frozen_model()
    made.freeze(("encoder",))
    return made.eval()


def keep(model: TranslationModel, split: Split, folder: Path, data: str = "these") -> EncoderStates:
    return keep_encoder_states(model, split, data, folder, "fp32")


def files(folder: Path) -> tuple[Path, Path]:
    (states,), (note,) = folder.glob("*.bin"), folder.glob("*.json")
    return states, note


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sentences that are encoded, in their order."""
    seen: list[int] = []
    real = encoder_states._encode

    def watched(model: Any, split: Any, indices: Any, *others: Any) -> None:
        seen.extend(indices.tolist())
        real(model, split, indices, *others)

    monkeypatch.setattr(encoder_states, "_encode", watched)
    monkeypatch.setattr(encoder_states, "_SENTENCES", 16)
    return seen


@torch.no_grad()
def test_states_are_the_encoders(model: TranslationModel, split: Split, tmp_path: Path) -> None:
    """Of any sentences in any order, padded with zeros, within the rounding of half precision."""
    kept = keep(model, split, tmp_path / "states")
    indices = np.array([69, 0, 13, 13], dtype=np.int32)
    batch, found = collate(split, indices), kept.batch(indices)
    expected, visible, _ = model.encoder(batch.source)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found[visible[:, 0]], expected[visible[:, 0]], rtol=1e-3, atol=1e-3)
    assert (found[~visible[:, 0]] == 0).all()
    assert (~visible).any()


def test_training_is_the_same(tmp_path: Path) -> None:
    options = replace(FREEZE, log_every=1)
    go(tmp_path / "without", options, trained=frozen_model())
    states = tmp_path / "states"
    go(tmp_path / "with", replace(options, encoder_states=str(states)), trained=frozen_model())
    ours, theirs = story(tmp_path / "with"), story(tmp_path / "without")
    losses = [[line["loss"] for line in lines if line["kind"] == "train"] for lines in (ours, theirs)]
    assert losses[0] == pytest.approx(losses[1], rel=2e-3)
    assert losses[0] != losses[1]  # they were rounded, so they were read
    assert losses[0][-1] < losses[0][0]


def test_a_second_run_computes_nothing(tmp_path: Path, encoded: list[int]) -> None:
    options = replace(FREEZE, encoder_states=str(tmp_path / "states"), max_steps=2)
    go(tmp_path / "one", options, trained=frozen_model())
    assert encoded == list(range(70))
    states, note = files(tmp_path / "states")
    before = states.read_bytes()
    go(tmp_path / "two", replace(options, seed=5), trained=frozen_model())
    assert encoded == list(range(70))
    assert states.read_bytes() == before
    assert json.loads(note.read_text()) == {"sentences": 70}


def test_a_run_may_go_on_with_or_without(tmp_path: Path) -> None:
    options = replace(FREEZE, max_steps=3)
    go(tmp_path / "run", options, trained=frozen_model())
    kept = replace(options, max_steps=5, encoder_states=str(tmp_path / "states"))
    assert go(tmp_path / "run", kept, resume=True, trained=frozen_model(seed=7)).step == 5
    assert go(tmp_path / "run", replace(options, max_steps=6), resume=True, trained=frozen_model()).step == 6


def test_a_killed_computation_goes_on(
    model: TranslationModel, split: Split, tmp_path: Path, encoded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in the third part: the file has its size, the note knows of two parts."""
    whole = keep(model, split, tmp_path / "whole").states.tobytes()
    watched = encoder_states._encode

    def killed(model: Any, split: Any, indices: Any, *others: Any) -> None:
        if indices[0] == 32:
            raise KeyboardInterrupt
        watched(model, split, indices, *others)

    monkeypatch.setattr(encoder_states, "_encode", killed)
    with pytest.raises(KeyboardInterrupt):
        keep(model, split, tmp_path / "states")
    _, note = files(tmp_path / "states")
    assert json.loads(note.read_text()) == {"sentences": 32}
    monkeypatch.setattr(encoder_states, "_encode", watched)
    encoded.clear()
    assert keep(model, split, tmp_path / "states").states.tobytes() == whole
    assert encoded == list(range(32, 70))


def remove(path: Path) -> None:
    path.unlink()


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"more")


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("spoil", [remove, shorten, lengthen, empty])
@pytest.mark.parametrize("which", ["states", "note"])
def test_spoilt_files_are_made_anew(
    model: TranslationModel, split: Split, tmp_path: Path, encoded: list[int], which: str, spoil: Any
) -> None:
    """A note without its states (or with others) must not be believed."""
    whole = keep(model, split, tmp_path / "states").states.tobytes()
    states, note = files(tmp_path / "states")
    spoil(states if which == "states" else note)
    encoded.clear()
    assert keep(model, split, tmp_path / "states").states.tobytes() == whole
    assert encoded == list(range(70))
    encoded.clear()
    keep(model, split, tmp_path / "states")
    assert encoded == []


def test_other_weights_data_or_precision_have_files_of_their_own(
    model: TranslationModel, split: Split, tmp_path: Path
) -> None:
    folder, other = tmp_path / "states", frozen_model(seed=2)
    other.freeze(("encoder",))
    keep(model, split, folder)
    keep(model, split, folder)
    keep(other.eval(), split, folder)
    keep(model, split, folder, data="others")
    keep_encoder_states(model, split, "these", folder, "bf16")
    assert len(list(folder.glob("*.bin"))) == 4
    with torch.no_grad():
        model.words.weight.add_(1)  # of the decoder: nothing to the encoder
    keep(model, split, folder)
    assert len(list(folder.glob("*.bin"))) == 4


def test_refusals_come_before_a_run_directory(tmp_path: Path) -> None:
    options = replace(FREEZE, encoder_states=str(tmp_path / "states"))
    with pytest.raises(UserError, match="for a frozen encoder; set"):
        go(tmp_path / "run", replace(options, freeze=("words",)), trained=frozen_model())
    with pytest.raises(UserError, match="does not fit a length slot"):
        go(tmp_path / "run", options, trained=frozen_model(length=Length()))
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "states").exists()


def test_a_full_disk_is_named(
    model: TranslationModel, split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 10, 0))  # type: ignore[attr-defined]
    with pytest.raises(UserError, match=r"needs 0\.0 GB in .*states, but 0\.0 GB are free"):
        keep(model, split, tmp_path / "states")
