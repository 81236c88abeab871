"""Which engines and precisions there are for a model, and the one place that makes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from disco_mt.core.errors import UserError
from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.decoding.results import Hypothesis
from disco_mt.engine import native
from disco_mt.engine.calibration import calibrated_threads
from disco_mt.engine.ctranslate2 import CTranslate2Engine, export_ctranslate2
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
from disco_mt.systems import strategy_for, system_for
from disco_mt.systems.disco.model import DisCo
from disco_mt.text.pair import TextPair

PRECISIONS: dict[str, tuple[str, ...]] = {
    "reference": ("fp32",),
    "incremental": ("fp32", "int8"),
    "ctranslate2": ("fp32", "int8"),
}
"""What each engine computes in; the first is its default."""


@dataclass(frozen=True)
class EngineOptions:
    """What runs a model, and how."""

    device: str = "cpu"
    """cpu, cuda or mps."""
    engine: str = ""
    """incremental (DisCo models on a CPU: the results of the plain algorithms, with less work), ctranslate2
    (autoregressive models), reference (the plain algorithms); empty: the fastest."""
    precision: str = ""
    """fp32 or int8, if the engine has it; empty: fp32. Pinned words and traces are always fp32."""
    threads: int = 0
    """For the whole process; 0: what is fastest for a model of this size, measured once."""
    shortlist: str = ""
    """A file that `disco shortlist` made: each sentence chooses among words that go with its own, which is
    faster and no longer exact."""


def engines_for(model: TranslationModel, device: str) -> tuple[str, ...]:
    """The engines that can run a model on a device; the first is the default."""
    if device != "cpu":
        return ("reference",)
    engines = system_for(model.config.kind).engines
    return tuple(name for name in engines if name != "ctranslate2" or not model.config.contextless)


def make_engine(model: TranslationModel, text: TextPair, options: EngineOptions = EngineOptions()) -> Engine:
    """The engine that the options ask for; `text` has the vocabularies."""
    fitting = engines_for(model, options.device)
    name = options.engine or fitting[0]
    if name not in fitting:
        what = "does not fit" if name in PRECISIONS else "is not known for"
        raise UserError(
            f"engine {name!r} {what} a model of kind {model.config.kind} on device {options.device}; "
            f"there are: {', '.join(fitting)}"
        )
    precision = options.precision or PRECISIONS[name][0]
    if precision not in PRECISIONS[name]:
        raise UserError(
            f"engine {name} has no precision {precision!r}; it has: {', '.join(PRECISIONS[name])}"
        )
    reference = ReferenceEngine(model, options.device, lambda: neighbours(text.target, options.device))
    if name == "incremental":
        assert isinstance(model, DisCo)
        fast: Engine = _incremental(model, precision, options)
        return WithFallback(fast, reference)
    if options.shortlist:
        raise UserError(
            f"engine {name} has no vocabulary shortlist; it is for engine incremental (disco models, CPU)"
        )
    if name == "ctranslate2":
        return WithFallback(ByCTranslate2(model, text, precision, options.threads), reference)
    return reference


def _incremental(model: DisCo, precision: str, options: EngineOptions) -> IncrementalEngine:
    if precision == "int8":
        check_int8(model.config)
    shortlist = _load_shortlist(options.shortlist, model.config) if options.shortlist else None
    computes = arithmetic(precision, model.config)
    threads = options.threads or calibrated_threads(model, precision, computes, make_runtime)
    return IncrementalEngine(make_runtime(model, precision, threads), precision, shortlist)


def _load_shortlist(file: str, config: ModelConfig) -> Shortlist:
    """A shortlist, if it is one of this model's vocabulary."""
    shortlist = Shortlist.load(Path(file))
    rows, top = len(shortlist.partners), int(max(shortlist.partners.max(), shortlist.common.max()))
    if rows != config.source_vocabulary or top >= config.target_vocabulary:
        raise UserError(
            f"{file} is a shortlist of another vocabulary: it has {rows} source tokens, the model "
            f"{config.source_vocabulary}"
        )
    return shortlist


def make_runtime(model: DisCo, precision: str, threads: int) -> Runtime:
    """The arithmetic in a precision, as measured fastest; torch's threads in this process are set with it.

    float32: torch, which shares each product among its threads, since memory gives the weights only once as
    fast as they are needed. int8: a thread for a share of the rows; torch must not have more.
    """
    if precision == "fp32":
        torch.set_num_threads(threads)
        return TorchRuntime(model)
    torch.set_num_threads(1)
    runtime = _int8_runtime(model, threads)
    return runtime if threads == 1 else SplitRuntime(runtime, threads)


def _int8_runtime(model: DisCo, shares: int) -> Runtime:
    """Kernels of our own where they can run the model, else ONNX Runtime."""
    if _in_kernels(model.config):
        return NativeRuntime(model, shares)
    from disco_mt.engine.onnx_runtime import OnnxRuntime

    return OnnxRuntime(model, "int8", shares)


def _in_kernels(config: ModelConfig) -> bool:
    """Can the kernels run such a model here?"""
    return native.kernels() is not None and not not_in_kernels(config)


def arithmetic(precision: str, config: ModelConfig | None = None) -> str:
    """What computes in a precision here. config: of the model; by default one of the paper's."""
    if precision == "fp32":
        return "torch"
    return "kernels" if _in_kernels(config or ModelConfig()) else "onnxruntime"


def check_int8(config: ModelConfig) -> None:
    """Refuse int8 where there is nothing for it."""
    if not _in_kernels(config):
        check_onnx("precision int8", "fp32")


def check_onnx(what: str, instead: str) -> None:
    """Refuse what needs ONNX Runtime where its packages are missing."""
    missing = [name for name in ("onnx", "onnxruntime") if find_spec(name) is None]
    if missing:
        raise UserError(
            f"{what} needs {' and '.join(missing)}: pip install 'disco-mt[onnx]'; "
            f"without it there is: {instead}"
        )


class ByCTranslate2:
    """CTranslate2 for autoregressive models, with the same weights."""

    name = "ctranslate2"

    def __init__(self, model: TranslationModel, text: TextPair, precision: str, threads: int) -> None:
        self.precision = precision
        with TemporaryDirectory(prefix="disco-") as folder:  # it is read once
            export_ctranslate2(model, *text.vocabularies(), Path(folder) / "model")
            kind = "float32" if precision == "fp32" else precision
            self.engine = CTranslate2Engine(Path(folder) / "model", threads or torch.get_num_threads(), kind)

    def supports(self, options: DecodingOptions, request: DecodeRequest) -> bool:
        """Both searches; it shows no passes."""
        return not request.watched

    def decode(
        self, sentences: Sequence[Sequence[int]], options: DecodingOptions, request: DecodeRequest
    ) -> Iterator[tuple[int, Hypothesis[int]]]:
        """See Engine. Batches are CTranslate2's own."""
        greedy = strategy_for("autoregressive", options.strategy) == "greedy"
        beam = 1 if greedy else options.beam
        longest = max((len(ids) + 1 for ids in sentences), default=1)
        step = max(1, request.batch_tokens // longest)
        for start in range(0, len(sentences), step):
            batch = [list(ids) for ids in sentences[start : start + step]]
            yield from enumerate(self.engine.translate(batch, beam, options.alpha), start)
