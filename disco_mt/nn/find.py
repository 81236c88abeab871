"""Finding a model by name (shipped, a directory, or on the hub), and a device to run it on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from disco_mt.core.errors import UserError

PRETRAINED = Path(__file__).parents[1] / "pretrained"
MODEL_FILES = ("*.json", "*.safetensors", "*.md")  # what is fetched from the hub


def find_model(name: str | Path, files: Sequence[str] = MODEL_FILES) -> Path:
    """The directory of a shipped model, a local one, or one of which `files` are fetched from the hub."""
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
    """Names of the models inside the package."""
    return sorted(path.parent.name for path in PRETRAINED.glob("*/config.json"))


def _from_hub(name: str, files: Sequence[str]) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=list(files)))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(
            f"{name!r} is no directory here, and the model hub did not give it either ({reason})"
        ) from None


def check_device(device: str) -> str:
    """The device, if this machine has it."""
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    try:
        kind = torch.device(device).type  # understands cuda:1, too
    except RuntimeError:
        kind = ""
    if kind not in available:
        raise UserError(f"device must be one of {', '.join(available)}; got {device!r}")
    if not available[kind]:
        usable = ", ".join(name for name, there in available.items() if there)
        raise UserError(f"device {device!r} is not available on this machine; there are: {usable}")
    return device
