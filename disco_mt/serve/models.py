"""The models of a server, by name and by language pair, and what it asks of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path

from torch import Tensor

from disco_mt.decoding.strategies import STRATEGIES, DecodingOptions, check_pinnable, strategy_for
from disco_mt.decoding.translation import OnPass, Translation
from disco_mt.errors import UserError
from disco_mt.models.base import BestWords, TranslationModel
from disco_mt.serve.invariant import batch_invariant
from disco_mt.text.pins import SPACELESS, Pin
from disco_mt.text.sentences import split_sentences
from disco_mt.translator import Translator


@dataclass(frozen=True)
class Sentence:
    """What is decoded as one, and what it must contain."""

    text: str
    pins: tuple[Pin, ...] = ()


@dataclass
class RowCount:
    """Target positions that a model has predicted, whatever the algorithm that asked for them."""

    rows: int = 0

    def watch(self, model: TranslationModel) -> None:
        """Count from now on."""
        best_words = model.best_words

        def counted(hidden: Tensor, allowed: Tensor | None = None) -> BestWords:
            self.rows += len(hidden)
            return best_words(hidden, allowed)

        object.__setattr__(model, "best_words", counted)


@dataclass(frozen=True)
class ServedModel:
    """A translator under the name by which clients know it."""

    name: str
    translator: Translator
    predicted: RowCount = field(default_factory=RowCount, init=False)

    def __post_init__(self) -> None:
        self.predicted.watch(self.translator.model)

    @property
    def rows(self) -> int:
        """Target positions predicted so far, by the plain algorithms and by an engine that counts."""
        work = getattr(self.translator.engine, "work", None)
        return self.predicted.rows + (0 if work is None else int(work.rows))

    @property
    def source(self) -> str:
        """Source language."""
        return self.translator.text.source.language

    @property
    def target(self) -> str:
        """Target language."""
        return self.translator.text.target.language

    @property
    def kind(self) -> str:
        """disco, cmlm or autoregressive."""
        return self.translator.model.config.kind

    @property
    def strategies(self) -> tuple[str, ...]:
        """What fits the model, the default first."""
        return tuple(STRATEGIES[self.kind])

    def lines(self, text: str) -> list[list[str]]:
        """Sentences of each line. Models are trained on sentences, and line breaks are to be kept."""
        if self.translator.text.source.processing == "pretokenized":  # the end of a sentence cannot be told
            return [[line] if line.strip() else [] for line in text.splitlines()]
        return [split_sentences(line, self.source) for line in text.replace("\r\n", "\n").split("\n")]

    def join(self, lines: Sequence[Sequence[str]]) -> str:
        """The reverse of `lines`, of translations."""
        space = "" if self.target in SPACELESS else " "
        return "\n".join(space.join(sentences) for sentences in lines)

    def check(self, options: DecodingOptions, pinned: bool) -> str:
        """The strategy that will be used; raises UserError if it does not fit the model or the pins."""
        strategy = strategy_for(self.kind, options.strategy)
        if pinned:
            check_pinnable(self.kind, strategy)
        return strategy

    def translate(
        self,
        sentences: Sequence[Sentence],
        options: DecodingOptions,
        trace: bool = False,
        on_pass: OnPass[str] | None = None,
    ) -> list[Translation]:
        """One translation a sentence, each to the last bit as if it were alone."""
        pinned = [sentence.pins for sentence in sentences]
        with batch_invariant() if self.translator.device == "cpu" else nullcontext():
            return self.translator.translate(
                [sentence.text for sentence in sentences],
                **asdict(options),
                long="refuse" if trace or on_pass is not None else "split",
                trace=trace,
                batch_tokens=1 << 30,  # what comes here together is decoded together
                pinned=pinned if any(pinned) else None,
                on_pass=on_pass,
            )

    def warm_up(self) -> None:
        """The first translation is slow, and would be some client's."""
        self.translate([Sentence("Hello.")], DecodingOptions(iterations=2))


@dataclass(frozen=True)
class Models:
    """All models; the first is the default, and the first of its language pair is that pair's."""

    all: tuple[ServedModel, ...]

    def named(self, name: str) -> ServedModel | None:
        """The model of that name."""
        return next((model for model in self.all if model.name == name), None)

    def pair(self, source: str, target: str) -> ServedModel | None:
        """The first model for the languages; "" is any."""
        return next(
            (m for m in self.all if source in ("", m.source) and target in ("", m.target)),
            None,
        )

    @property
    def languages(self) -> dict[str, list[str]]:
        """Every language -> those into which it can be translated; sources first."""
        sources = {m.source: [t.target for t in self.all if t.source == m.source] for m in self.all}
        targets: dict[str, list[str]] = {m.target: [] for m in self.all}
        return {code: list(dict.fromkeys(found)) for code, found in (sources | targets | sources).items()}


def load_models(names: Sequence[str], load: Callable[[str], Translator]) -> Models:
    """Load every model; a directory goes by its last part."""
    models = tuple(
        ServedModel(Path(name).resolve().name if Path(name).exists() else name, load(name)) for name in names
    )
    for model in models:
        if sum(other.name == model.name for other in models) > 1:
            raise UserError(f"two models are called {model.name!r}; rename the directory of one")
    return Models(models)
