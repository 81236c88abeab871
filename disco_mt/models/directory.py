"""A model directory: config.json, model.safetensors, tokenizer files and a model card; nothing executable.

The tokenizer's description and hashes stand in config.json under "text"; text/ reads and checks them.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from disco_mt.errors import UserError
from disco_mt.files import write_text
from disco_mt.models.base import TranslationModel
from disco_mt.models.build import empty_model
from disco_mt.models.config import ModelConfig
from disco_mt.settings import from_dict

FORMAT_VERSION = 1
CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"


@dataclass(frozen=True)
class Directory:
    """What config.json says."""

    path: Path
    model: ModelConfig
    text: dict[str, Any]  # the tokenizers' description, see text/pair.py
    extra: dict[str, Any]  # provenance: recipe, scores, tuned decoding options


def save_model(
    path: Path,
    model: TranslationModel,
    text: dict[str, Any],
    card: str,
    extra: dict[str, Any],
    dtype: torch.dtype = torch.float32,
) -> None:
    """Write config, weights and card into `path`, which exists and already has the tokenizer files."""
    stored = {name: tensor.to(dtype) for name, tensor in weights(model).items()}
    save_file(stored, path / WEIGHTS, metadata={"format": "pt"})
    config = {
        "format_version": FORMAT_VERSION,
        "model_type": model.config.kind,
        "model": asdict(model.config),
        "text": text,
        "extra": extra,
    }
    write_text(path / CONFIG, json.dumps(config, indent=2, ensure_ascii=False) + "\n")
    write_text(path / CARD, card)


def weights(model: TranslationModel) -> dict[str, torch.Tensor]:
    """The state of a model, each tied table once."""
    seen: set[int] = set()
    kept = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            kept[name] = tensor.detach().contiguous()
    return kept


def read_config(path: Path) -> Directory:
    """Read and check config.json."""
    file = path / CONFIG
    if not path.is_dir():
        raise UserError(f"{path} is not a model directory: there is no such directory")
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
    config = from_dict(ModelConfig, content["model"], str(file))
    return Directory(path, config, content["text"], content.get("extra", {}))


def check_fits(directory: Directory, what: str, data: Path, text: dict[str, Any]) -> None:
    """Refuse a model of another direction or vocabulary: ids are taken as they are, so all must agree.

    what: how to call the model. text: the description in the dataset.json of `data`.
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
            its, ours = directory.text[side][key], text[side][key]
            if its != ours:
                raise UserError(
                    f"the {what} {directory.path} has another {side} tokenizer ({key} {its}) than the data "
                    f"in {data} ({ours}); prepare the data with: disco prepare --tokenizers {directory.path}"
                )


def load_weights(directory: Directory) -> TranslationModel:
    """The model, on the CPU, in float32 and ready to translate."""
    file = directory.path / WEIGHTS
    if not file.is_file():
        raise UserError(f"{directory.path} is not a whole model directory: {WEIGHTS} is missing in it")
    try:
        tensors = load_file(file)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{file} cannot be read: {error}; the file is damaged, get it again") from None
    model = empty_model(directory.model)
    load_tensors(model, tensors, file)
    return model.eval()


def load_tensors(model: TranslationModel, tensors: dict[str, torch.Tensor], file: Path) -> None:
    """Copy tensors into a model; missing, unknown and misshapen ones are named."""
    wanted = weights(model)
    missing, unknown = sorted(wanted.keys() - tensors.keys()), sorted(tensors.keys() - wanted.keys())
    if missing or unknown:
        raise UserError(f"{file} does not fit its config: missing {missing[:3]}, unknown {unknown[:3]}")
    for name, tensor in wanted.items():
        if tensor.shape != tensors[name].shape:
            expected, found = tuple(tensor.shape), tuple(tensors[name].shape)
            raise UserError(f"{file} does not fit its config: {name} should be {expected}, is {found}")
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
