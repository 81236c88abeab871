"""Finding a model by name (shipped, a directory, or on the hub), and checking the device."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from disco_mt.core.errors import UserError

PRETRAINED = Path(__file__).parents[1] / "pretrained"
MODEL_FILES = ("*.json", "*.safetensors", "*.md")  # downloaded from the hub


def find_model(name: str | Path, files: Sequence[str] = MODEL_FILES) -> Path:
    """The directory of a shipped or local model, or of one on the hub, of which `files` are downloaded."""
    path = Path(name)
    if path.exists():
        return path
    if str(name) in shipped_models():
        return PRETRAINED / str(name)
    if str(name).count("/") == 1 and not str(name).startswith((".", "/", "~")):
        return _from_hub(str(name), files)
    shipped = ", ".join(shipped_models()) or "none yet: `disco demo` trains one"
    raise UserError(
        f"there is no model {str(name)!r}: neither a directory nor a shipped model (shipped: {shipped})"
    )


def shipped_models() -> list[str]:
    return sorted(path.parent.name for path in PRETRAINED.glob("*/config.json"))


def _from_hub(name: str, files: Sequence[str]) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=list(files)))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(
            f"{name!r} is not a directory, and it cannot be downloaded from the model hub either ({reason})"
        ) from None


def check_device(device: str) -> str:
    """Return the device, or raise an error if this machine does not have it."""
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    try:
        kind = torch.device(device).type  # also accepts cuda:1
    except RuntimeError:
        kind = ""
    if kind not in available:
        raise UserError(f"device must be one of {', '.join(available)}; got {device!r}")
    if not available[kind]:
        usable = ", ".join(name for name, there in available.items() if there)
        raise UserError(f"device {device!r} is not available on this machine; there are: {usable}")
    return device
