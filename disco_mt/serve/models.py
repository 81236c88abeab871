"""The models of a server, by name and by language pair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from disco_mt.core.errors import UserError
from disco_mt.decoding.options import DecodingOptions
from disco_mt.decoding.results import OnPass, Translation
from disco_mt.engine.select import EngineOptions
from disco_mt.nn.directory import read_config
from disco_mt.nn.find import find_model
from disco_mt.serve.process import Batch, LocalDecoder, ProcessDecoder
from disco_mt.systems import check_pinnable, decoder_for, system_for
from disco_mt.text.languages import is_spaceless
from disco_mt.text.pair import TextPair
from disco_mt.text.sentences import split_sentences
from disco_mt.translator import Translator


@dataclass(frozen=True)
class ServedModel:
    name: str
    kind: str  # a key of systems.SYSTEMS
    text: TextPair
    decoder: LocalDecoder | ProcessDecoder

    @staticmethod
    def local(name: str, translator: Translator) -> ServedModel:
        kind = translator.model.config.kind
        return ServedModel(name, kind, translator.text, LocalDecoder(translator))

    @property
    def source(self) -> str:
        return self.text.source.language

    @property
    def target(self) -> str:
        return self.text.target.language

    @property
    def strategies(self) -> tuple[str, ...]:
        """What fits the model, the default first."""
        return tuple(system_for(self.kind).decoders)

    def lines(self, text: str) -> list[list[str]]:
        """The sentences of each line. Models are trained on sentences, and line breaks are to be kept."""
        if self.text.source.processing == "pretokenized":  # the end of a sentence cannot be recognised
            return [[line] if line.strip() else [] for line in text.splitlines()]
        return [split_sentences(line, self.source) for line in text.replace("\r\n", "\n").split("\n")]

    def join(self, lines: Sequence[Sequence[str]]) -> str:
        """The reverse of `lines`, of translations."""
        space = "" if is_spaceless(self.target) else " "
        return "\n".join(space.join(sentences) for sentences in lines)

    def check(self, options: DecodingOptions, pinned: bool) -> None:
        """Raise UserError if the options do not fit the model or the pins."""
        decoder_for(self.kind, options.strategy, options.effort)
        if pinned:
            check_pinnable(self.kind, options.strategy)

    def translate(self, batch: Batch, on_pass: OnPass[str] | None = None) -> list[Translation]:
        return self.decoder.translate(batch, on_pass)


@dataclass(frozen=True)
class Models:
    """All models; the first is the default, and the first of a language pair is that pair's default."""

    all: tuple[ServedModel, ...]

    def named(self, name: str) -> ServedModel | None:
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
        targets: dict[str, list[str]] = {m.source: [] for m in self.all}
        targets |= {m.target: [] for m in self.all if m.target not in targets}
        for model in self.all:
            if model.target not in targets[model.source]:
                targets[model.source].append(model.target)
        return targets


def load_models(names: Sequence[str], engine: EngineOptions) -> Models:
    """Every model in a process of its own, loaded side by side."""
    decoders = [ProcessDecoder(name, engine) for name in names]
    models = Models(tuple(_described(decoder) for decoder in decoders))
    name, count = Counter(model.name for model in models.all).most_common(1)[0]
    if count > 1:
        raise UserError(f"two models are called {name!r}; rename the directory of one")
    try:
        for decoder in decoders:
            decoder.start()
        for decoder in decoders:
            decoder.wait()
    except BaseException:
        for decoder in decoders:
            decoder.close()
        raise
    return models


def _described(decoder: ProcessDecoder) -> ServedModel:
    """What the server knows of a model without its weights. A directory goes by its last part."""
    directory = read_config(find_model(decoder.name))
    text = TextPair.load(directory.path, directory.text)
    shown = directory.path.resolve().name if Path(decoder.name).exists() else decoder.name
    return ServedModel(shown, directory.model.kind, text, decoder)
