"""The output of a frozen encoder, kept on disk: computed once, read in every epoch.

    FOLDER/KEY.bin   float16: the states of all source tokens, EOS included, sentence after sentence
    FOLDER/KEY.json  how many sentences are done; a killed run goes on there

The key names the encoder's weights and the data, so that other weights or data have files of their own.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from disco_mt.core.errors import UserError
from disco_mt.core.files import write_text
from disco_mt.core.progress import stage
from disco_mt.data.batches import Indices, collate
from disco_mt.data.dataset import Split
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.directory import weights
from disco_mt.training.speed import MixedPrecision

_SENTENCES = 4096  # that are encoded between two notes of how many are done
_TOKENS_AT_ONCE = 4096


@dataclass(frozen=True)
class EncoderStates:
    """States of every source sentence of a split."""

    split: Split
    states: NDArray[np.float16]  # (tokens, width), memory-mapped
    starts: NDArray[np.int64]  # (sentences + 1,)

    def batch(self, indices: Indices) -> Tensor:
        """The states of these sentences, padded with 0 on the right: (batch, longest, width) float32."""
        lengths = self.split.source_lengths[indices] + 1
        padded = np.zeros((len(indices), int(lengths.max()), self.states.shape[1]), np.float32)
        for row, (start, length) in enumerate(zip(self.starts[indices], lengths, strict=True)):
            padded[row, :length] = self.states[start : start + length]
        return torch.from_numpy(padded)


def keep_encoder_states(
    model: TranslationModel, split: Split, data: str, folder: Path, precision: str, quiet: bool = True
) -> EncoderStates:
    """Open the states of a split, after computing those that are missing. data: names the contents."""
    check_frozen_encoder(model)
    key = _key(model, data, precision)
    starts = split.source.offsets + np.arange(len(split) + 1)
    file, note = folder / f"{key}.bin", folder / f"{key}.json"
    folder.mkdir(parents=True, exist_ok=True)
    shape = int(starts[-1]), model.config.width
    done = _prepare_file(file, note, 2 * shape[0] * shape[1])
    states = np.memmap(file, np.float16, "r+", shape=shape)
    with stage("encoding the sources", len(split), quiet) as advance:
        advance(done)
        for first in range(done, len(split), _SENTENCES):
            last = min(first + _SENTENCES, len(split))
            _encode(model, split, np.arange(first, last, dtype=np.int32), states, starts, precision)
            states.flush()
            write_text(note, json.dumps({"sentences": last}) + "\n")
            advance(last - first)
    return EncoderStates(split, np.memmap(file, np.float16, "r", shape=shape), starts)


def check_frozen_encoder(model: TranslationModel) -> None:
    """Only what never changes can be kept."""
    if "encoder" not in model.frozen:
        raise UserError("training.encoder_states is for a frozen encoder; set training.freeze to encoder")
    if model.encoder.length is not None:
        raise UserError(
            "training.encoder_states does not fit a length slot, which is trained inside the encoder; use "
            "model.length.predictor 'pooled'"
        )


def _key(model: TranslationModel, data: str, precision: str) -> str:
    digest = hashlib.sha256(f"{data} {precision}".encode())
    for name, tensor in weights(model).items():
        if name.startswith("encoder."):
            digest.update(name.encode())
            digest.update(tensor.cpu().numpy().tobytes())
    return digest.hexdigest()[:32]


def _prepare_file(file: Path, note: Path, size: int) -> int:
    """Make the file if there is none of this size; says how many sentences are in it.

    One of the right size is never cut: another process may be filling it with the same numbers.
    """
    if file.is_file() and file.stat().st_size == size:
        return _noted(note)
    note.unlink(missing_ok=True)
    file.unlink(missing_ok=True)
    free = shutil.disk_usage(file.parent).free
    if free < size:
        raise UserError(
            f"training.encoder_states needs {size / 1e9:.1f} GB in {file.parent}, but {free / 1e9:.1f} GB "
            "are free there; make room, name another folder, or do without"
        )
    with contextlib.suppress(FileExistsError), file.open("xb") as stream:
        stream.truncate(size)
    return 0


def _noted(note: Path) -> int:
    """How many sentences are done; 0 if nothing says so."""
    try:
        return int(json.loads(note.read_text(encoding="utf-8"))["sentences"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


@torch.no_grad()
def _encode(
    model: TranslationModel,
    split: Split,
    indices: Indices,
    states: NDArray[np.float16],
    starts: NDArray[np.int64],
    precision: str,
) -> None:
    device = next(model.parameters()).device
    for chosen in _batches(split, indices):
        source = collate(split, chosen).source.to(device)
        with MixedPrecision(precision, str(device)).computing():
            memory, _, _ = model.encoder(source)
        found = memory.to(torch.float16).cpu().numpy()
        for row, index in enumerate(chosen):
            start, end = int(starts[index]), int(starts[index + 1])
            states[start:end] = found[row, : end - start]


def _batches(split: Split, indices: Indices) -> Iterator[Indices]:
    order = indices[np.argsort(split.source_lengths[indices], kind="stable")]
    first = 0
    for last, length in enumerate(split.source_lengths[order] + 1):
        if (last + 1 - first) * length > _TOKENS_AT_ONCE and last > first:
            yield order[first:last]
            first = last
    yield order[first:]
