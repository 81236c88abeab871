"""A model directory: config.json, model.safetensors, tokenizer files and a model card; nothing executable.

Frozen parts (`training.freeze`) are in frozen.safetensors, which later versions of the model share.

The tokenizers' description and hashes are in config.json under "text"; text/ reads and checks them.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from disco_mt.core.errors import UserError
from disco_mt.core.files import check_readable, write_text
from disco_mt.core.settings import from_dict
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.config import ModelConfig

FORMAT_VERSION = 2  # the newest that can be read; 2: frozen parts are in a separate file
CONFIG, WEIGHTS, FROZEN, CARD = "config.json", "model.safetensors", "frozen.safetensors", "README.md"


@dataclass(frozen=True)
class Directory:
    """A model directory: the content of config.json."""

    path: Path
    model: ModelConfig
    text: dict[str, Any]  # description of the tokenizers, see text/pair.py
    extra: dict[str, Any]  # provenance: recipe, scores, tuned decoding options
    frozen: tuple[str, ...] = ()  # parts with weights in a separate file


def save_model(
    path: Path,
    model: TranslationModel,
    text: dict[str, Any],
    card: str,
    extra: dict[str, Any],
    dtype: torch.dtype = torch.float32,
) -> None:
    """Write config, weights and card to `path`, which must exist and contain the tokenizer files."""
    tensors = weights(model)
    frozen = {name: tensor for name, tensor in tensors.items() if is_frozen(name, model.frozen)}
    trained = {name: tensor.to(dtype) for name, tensor in tensors.items() if name not in frozen}
    save_file(trained, path / WEIGHTS, metadata={"format": "pt"})
    if frozen:
        halved = {name: _halved(tensor) for name, tensor in frozen.items()}
        save_file(halved, path / FROZEN, metadata={"format": "pt"})
    config: dict[str, Any] = {
        "format_version": 2 if frozen else 1,
        "model_type": model.config.kind,
        "model": asdict(model.config),
        "text": text,
        "extra": extra,
    }
    config |= {"frozen": list(model.frozen)} if frozen else {}
    write_text(path / CONFIG, json.dumps(config, indent=2, ensure_ascii=False) + "\n")
    write_text(path / CARD, card)


def is_frozen(name: str, parts: tuple[str, ...]) -> bool:
    """Does the tensor of this name belong to one of these parts of a model?"""
    return any(name == part or name.startswith(f"{part}.") for part in parts)


def _halved(tensor: torch.Tensor) -> torch.Tensor:
    """In half precision if that is exact, as for teachers that were published in half precision."""
    half = tensor.half()
    return half if torch.equal(half.to(tensor.dtype), tensor) else tensor


def weights(model: TranslationModel) -> dict[str, torch.Tensor]:
    """The tensors of a model, each tied table once."""
    seen: set[int] = set()
    kept = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            kept[name] = tensor.detach().contiguous()
    return kept


def read_config(path: Path) -> Directory:
    file = path / CONFIG
    if not path.is_dir():
        raise UserError(f"{path} is not a model directory: there is no such directory")
    if file.is_file():
        check_readable(file)
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} is not a model directory: {CONFIG} is missing in it") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{file} cannot be read as JSON: {error}") from None
    _check_version(file, content)
    for key in ("model", "text"):
        if not isinstance(content.get(key), dict):
            raise UserError(f"{file}: the table '{key}' is missing; is this a Disco model directory?")
    config, frozen = from_dict(ModelConfig, content["model"], str(file)), content.get("frozen", [])
    if not isinstance(frozen, list) or not all(isinstance(part, str) for part in frozen):
        raise UserError(f"{file}: 'frozen' must be a list of parts of the model, got {frozen!r}")
    return Directory(path, config, content["text"], content.get("extra", {}), tuple(frozen))


def check_vocabulary(directory: Directory, source_size: int, target_size: int) -> None:
    """Raise an error if the tokenizers, of these sizes, belong to another model."""
    sides = (
        ("source", directory.model.source_vocabulary, source_size),
        ("target", directory.model.target_vocabulary, target_size),
    )
    for side, rows, size in sides:
        if rows != size:
            raise UserError(
                f"{directory.path}: the {side} tokenizer has {size} tokens, but the weights have {rows}; "
                "it belongs to another model"
            )


def check_fits(directory: Directory, what: str, data: Path, text: dict[str, Any]) -> None:
    """Raise an error if a model and a dataset differ in languages or vocabularies.

    what: what the message calls the model. text: the description in the dataset.json of `data`.
    """
    pairs = [
        f"{description['source']['language']}-{description['target']['language']}"
        for description in (directory.text, text)
    ]
    if pairs[0] != pairs[1]:
        raise UserError(
            f"the {what} {directory.path} translates {pairs[0]}, but the data in {data} are {pairs[1]}; "
            f"choose a {what} and data of the same languages"
        )
    for side in ("source", "target"):
        for key in ("sha256", "processing"):
            of_model, of_data = directory.text[side][key], text[side][key]
            if of_model != of_data:
                raise UserError(
                    f"the {what} {directory.path} has another {side} tokenizer ({key} {of_model}) than the "
                    f"data in {data} ({of_data}); prepare the data with: disco prepare --tokenizers "
                    f"{directory.path}"
                )


def read_tensors(file: Path) -> dict[str, torch.Tensor]:
    if not file.is_file():
        raise UserError(f"{file.parent} is not a whole model directory: {file.name} is missing in it")
    check_readable(file)
    try:
        return dict(load_file(file))
    except (SafetensorError, OSError) as error:
        raise UserError(f"{file} cannot be read: {error}; the file is damaged, get it again") from None


def load_tensors(model: TranslationModel, tensors: dict[str, torch.Tensor], file: Path) -> None:
    """Copy tensors into a model; errors name missing, unknown and misshapen ones."""
    wanted = weights(model)
    missing, unknown = sorted(wanted.keys() - tensors.keys()), sorted(tensors.keys() - wanted.keys())
    if missing or unknown:
        raise UserError(f"{file} does not fit its config: missing {missing[:3]}, unknown {unknown[:3]}")
    for name, tensor in wanted.items():
        if tensor.shape != tensors[name].shape:
            expected, actual = tuple(tensor.shape), tuple(tensors[name].shape)
            raise UserError(f"{file} does not fit its config: {name} should be {expected}, is {actual}")
        tensor.copy_(tensors[name])  # shares memory with the parameter; converts half precision


def _check_version(file: Path, content: Any) -> None:
    version = content.get("format_version") if isinstance(content, dict) else None
    if not isinstance(version, int):
        raise UserError(f"{file}: 'format_version' is missing; is this a Disco model directory?")
    if version > FORMAT_VERSION:
        raise UserError(
            f"{file}: format version {version} is newer than this Disco reads ({FORMAT_VERSION}); "
            "upgrade with: pip install -U disco-mt"
        )
