"""The engines and precisions available for a model, and the function that creates them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch

from disco_mt.core.errors import UserError
from disco_mt.engine import native
from disco_mt.engine.calibration import calibrated_threads
from disco_mt.engine.ctranslate2 import CTranslate2Engine
from disco_mt.engine.incremental import IncrementalEngine
from disco_mt.engine.native_runtime import NativeRuntime, not_in_kernels
from disco_mt.engine.reference import Engine, ReferenceEngine, WithFallback
from disco_mt.engine.runtime import Runtime
from disco_mt.engine.shortlist import Shortlist
from disco_mt.engine.split import SplitRuntime
from disco_mt.engine.torch_runtime import TorchRuntime
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.config import ModelConfig
from disco_mt.pins.tokens import neighbours
from disco_mt.systems import system_for
from disco_mt.systems.disco.model import DisCo
from disco_mt.text.pair import TextPair

PRECISIONS: dict[str, tuple[str, ...]] = {
    "reference": ("fp32",),
    "incremental": ("fp32", "int8"),
    "ctranslate2": ("fp32", "int8"),
}
"""The precisions of each engine; the first is its default."""


@dataclass(frozen=True)
class EngineOptions:
    """How a model is run."""

    device: str = "cpu"
    """cpu, cuda or mps."""
    engine: str = ""
    """incremental (DisCo models on a CPU: the same results as the plain algorithms, with less work),
    ctranslate2 (autoregressive models), reference (the plain algorithms); empty: the fastest."""
    precision: str = ""
    """fp32 or int8, if the engine has it; empty: fp32. Pinned words and traces are always fp32."""
    threads: int = 0
    """For the whole process; 0: the fastest number for a model of this size, measured once."""
    shortlist: str = ""
    """A file that `disco shortlist` wrote: restricts the output vocabulary of each sentence, which is faster
    but no longer exact."""


def engines_for(model: TranslationModel, device: str) -> tuple[str, ...]:
    """The engines that can run a model on a device; the first is the default."""
    if device != "cpu":
        return ("reference",)
    engines = system_for(model.config.kind).engines
    return tuple(name for name in engines if name != "ctranslate2" or not model.config.contextless)


def make_engine(model: TranslationModel, text: TextPair, options: EngineOptions = EngineOptions()) -> Engine:
    """The engine that the options ask for. text: the model's tokenizers."""
    available = engines_for(model, options.device)
    name = options.engine or available[0]
    if name not in available:
        what = "does not fit" if name in PRECISIONS else "is not known for"
        raise UserError(
            f"engine {name!r} {what} a model of kind {model.config.kind} on device {options.device}; "
            f"there are: {', '.join(available)}"
        )
    precision = options.precision or PRECISIONS[name][0]
    if precision not in PRECISIONS[name]:
        raise UserError(
            f"engine {name} has no precision {precision!r}; it has: {', '.join(PRECISIONS[name])}"
        )
    reference = ReferenceEngine(model, options.device, lambda: neighbours(text.target, options.device))
    if name == "incremental":
        assert isinstance(model, DisCo)
        return WithFallback(_incremental(model, precision, options), reference)
    if options.shortlist:
        raise UserError(
            f"engine {name} has no vocabulary shortlist; it is for engine incremental (disco models, CPU)"
        )
    if name == "ctranslate2":
        threads = options.threads or torch.get_num_threads()
        return WithFallback(
            CTranslate2Engine.for_model(model, text.vocabularies(), precision, threads), reference
        )
    return reference


def _incremental(model: DisCo, precision: str, options: EngineOptions) -> IncrementalEngine:
    if precision == "int8":
        check_int8(model.config)
    shortlist = _load_shortlist(options.shortlist, model.config) if options.shortlist else None
    library = arithmetic(precision, model.config)
    threads = options.threads or calibrated_threads(model, precision, library, make_runtime)
    return IncrementalEngine(make_runtime(model, precision, threads), precision, shortlist)


def _load_shortlist(file: str, config: ModelConfig) -> Shortlist:
    """A shortlist, which must be for this model's vocabulary."""
    shortlist = Shortlist.load(Path(file))
    rows = len(shortlist.partners)
    highest = int(max(shortlist.partners.max(), shortlist.common.max()))
    if rows != config.source_vocabulary or highest >= config.target_vocabulary:
        raise UserError(
            f"{file} is a shortlist for another vocabulary: it has {rows} source tokens, the model "
            f"{config.source_vocabulary}"
        )
    return shortlist


def make_runtime(model: DisCo, precision: str, threads: int) -> Runtime:
    """The fastest runtime in a precision; also sets the number of torch's threads in this process.

    float32: torch, which divides each product among its threads, because memory bandwidth does not suffice to
    load all weights once per thread. int8: each thread computes its own rows, and torch must use only one.
    """
    if precision == "fp32":
        torch.set_num_threads(threads)
        return TorchRuntime(model)
    torch.set_num_threads(1)
    runtime = _int8_runtime(model, threads)
    return runtime if threads == 1 else SplitRuntime(runtime, threads)


def _int8_runtime(model: DisCo, shares: int) -> Runtime:
    """Our own kernels if they can run the model, else ONNX Runtime."""
    if _in_kernels(model.config):
        return NativeRuntime(model, shares)
    from disco_mt.engine.onnx_runtime import OnnxRuntime

    return OnnxRuntime(model, "int8", shares)


def _in_kernels(config: ModelConfig) -> bool:
    """Can the kernels run such a model on this machine?"""
    return native.kernels() is not None and not not_in_kernels(config)


def arithmetic(precision: str, config: ModelConfig | None = None) -> str:
    """The library that computes in a precision on this machine. config: the model's; default: the paper's."""
    if precision == "fp32":
        return "torch"
    return "kernels" if _in_kernels(config or ModelConfig()) else "onnxruntime"


def check_int8(config: ModelConfig) -> None:
    """Raise an error if nothing on this machine can compute in int8."""
    if not _in_kernels(config):
        check_onnx("precision int8", "fp32")


def check_onnx(what: str, instead: str) -> None:
    """Raise an error if ONNX Runtime's packages are missing. what: needs them."""
    missing = [name for name in ("onnx", "onnxruntime") if find_spec(name) is None]
    if missing:
        raise UserError(
            f"{what} needs {' and '.join(missing)}: pip install 'disco-mt[onnx]'; "
            f"without it there is: {instead}"
        )
