"""Which engines and precisions there are for a model, and the one place that makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import torch

from disco_mt.core.errors import UserError
from disco_mt.decoding.options import DecodingOptions, strategy_for
from disco_mt.decoding.reranking import reading_ways
from disco_mt.decoding.results import Hypothesis
from disco_mt.engine import native
from disco_mt.engine.calibration import calibrated_threads
from disco_mt.engine.ctranslate2 import CTranslate2Engine, export_ctranslate2
from disco_mt.engine.incremental import ORDERS, IncrementalEngine, Work
from disco_mt.engine.native_runtime import NativeRuntime, not_in_kernels
from disco_mt.engine.pruning import Pruning
from disco_mt.engine.runtime import Runtime
from disco_mt.engine.split import SplitRuntime
from disco_mt.engine.torch_runtime import TorchRuntime
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.config import ModelConfig
from disco_mt.systems.autoregressive.model import Autoregressive
from disco_mt.systems.disco.model import DisCo
from disco_mt.systems.disco.orders import JOINT

PRECISIONS: dict[str, tuple[str, ...]] = {
    "reference": ("fp32",),
    "incremental": ("fp32", "int8"),
    "ctranslate2": ("fp32", "int8"),
}
"""What each engine computes in; the first is its default."""


Vocabularies = Callable[[], tuple[list[str], list[str]]]


class Engine(Protocol):
    """Translates what the plain algorithms translate, faster."""

    name: str
    precision: str

    def fits(self, options: DecodingOptions) -> bool:
        """Does it know this strategy?"""
        ...

    def decode(
        self, sentences: Sequence[list[int]], options: DecodingOptions, batch_tokens: int, read: bool = False
    ) -> Iterator[tuple[int, Hypothesis[int]]]:
        """(place, hypothesis) of each sentence, as they are finished.

        read: the model should read its candidates, if the engine can; hypotheses then have `readings`.
        """
        ...


def engines_for(model: TranslationModel, device: str) -> tuple[str, ...]:
    """The engines that can run a model on a device; the first is the default."""
    if device == "cpu" and isinstance(model, DisCo):
        return ("incremental", "reference")
    if device == "cpu" and isinstance(model, Autoregressive) and not model.config.contextless:
        return ("reference", "ctranslate2")
    return ("reference",)


def make_engine(
    model: TranslationModel,
    vocabularies: Vocabularies,
    device: str = "cpu",
    name: str = "",
    precision: str = "",
    threads: int = 0,
    pruning: Pruning | None = None,
) -> Engine | None:
    """The engine of that name, or None for the reference: the plain algorithms in decoding/.

    vocabularies: gives the tokens of source and target by id. threads: 0: chosen by a short calibration.
    """
    fitting = engines_for(model, device)
    name = name or fitting[0]
    if name not in fitting:
        what = "does not fit" if name in PRECISIONS else "is not known for"
        kind, listed = model.config.kind, ", ".join(fitting)
        raise UserError(
            f"engine {name!r} {what} a model of kind {kind} on device {device}; there are: {listed}"
        )
    precision = precision or PRECISIONS[name][0]
    if precision not in PRECISIONS[name]:
        raise UserError(
            f"engine {name} has no precision {precision!r}; it has: {', '.join(PRECISIONS[name])}"
        )
    if name == "incremental" and isinstance(model, DisCo):
        return Incremental(model, precision, threads, pruning)
    if pruning is not None and not pruning.exact:
        raise UserError(f"engine {name} cannot prune; pruning is for engine incremental (disco models, CPU)")
    if name == "ctranslate2":
        return ByCTranslate2(model, vocabularies, precision, threads)
    return None


class Incremental:
    """Exact incremental easy-first for DisCo models."""

    name = "incremental"

    def __init__(
        self, model: DisCo, precision: str, threads: int = 0, pruning: Pruning | None = None
    ) -> None:
        if precision == "int8":
            check_int8(model.config)
        self.precision = precision
        computes = arithmetic(precision, model.config)
        self.threads = threads or calibrated_threads(model, precision, computes, make_runtime)
        self.engine = IncrementalEngine(make_runtime(model, precision, self.threads), pruning)
        self._check_shortlist(model)

    def _check_shortlist(self, model: DisCo) -> None:
        """Is it one of this vocabulary?"""
        shortlist, config = self.engine.shortlist, model.config
        if shortlist is None:
            return
        rows, top = len(shortlist.partners), int(max(shortlist.partners.max(), shortlist.common.max()))
        if rows != config.source_vocabulary or top >= config.target_vocabulary:
            raise UserError(
                f"{self.engine.pruning.shortlist} is a shortlist of another vocabulary: it has {rows} source "
                f"tokens, the model {config.source_vocabulary}"
            )

    @property
    def work(self) -> Work:
        """What was computed so far."""
        return self.engine.work

    def fits(self, options: DecodingOptions) -> bool:
        """Every strategy whose visible sets are fixed."""
        return set(strategy_for("disco", options.strategy).split(JOINT)) <= set(ORDERS)

    def decode(
        self, sentences: Sequence[list[int]], options: DecodingOptions, batch_tokens: int, read: bool = False
    ) -> Iterator[tuple[int, Hypothesis[int]]]:
        """See Engine."""
        strategy = strategy_for("disco", options.strategy)
        passes = strategy, options.iterations, options.length_beam, batch_tokens
        reading = reading_ways(options.both_ways) if read and self.engine.pruning.exact else ()
        ending = None, options.alpha, options.settle_all, reading
        for found in self.engine.decode(sentences, *passes, *ending):
            yield found.place, found.hypothesis


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

    def __init__(
        self, model: TranslationModel, vocabularies: Vocabularies, precision: str, threads: int
    ) -> None:
        self.precision = precision
        with TemporaryDirectory(prefix="disco-") as folder:  # it is read once
            export_ctranslate2(model, *vocabularies(), Path(folder) / "model")
            kind = "float32" if precision == "fp32" else precision
            self.engine = CTranslate2Engine(Path(folder) / "model", threads or torch.get_num_threads(), kind)

    def fits(self, options: DecodingOptions) -> bool:
        """Both searches."""
        return True

    def decode(
        self, sentences: Sequence[list[int]], options: DecodingOptions, batch_tokens: int, read: bool = False
    ) -> Iterator[tuple[int, Hypothesis[int]]]:
        """See Engine. Batches are CTranslate2's own; it reads nothing."""
        greedy = strategy_for("autoregressive", options.strategy) == "greedy"
        beam = 1 if greedy else options.beam
        step = max(1, batch_tokens // max((len(ids) + 1 for ids in sentences), default=1))
        for start in range(0, len(sentences), step):
            batch = list(sentences[start : start + step])
            yield from enumerate(self.engine.translate(batch, beam, options.alpha), start)
