"""The public face: load a model once, translate many texts.

from disco_mt import Translator
translator = Translator.from_pretrained("en-de")
translator.translate(["How are you?"])[0].text
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from disco_mt.decoding.rescoring import Reader, check_same_vocabulary, rescore
from disco_mt.decoding.strategies import DecodingOptions, decode, strategy_for
from disco_mt.decoding.translation import CandidatePass, Hypothesis, Trace, Translation
from disco_mt.errors import UserError
from disco_mt.models.base import TranslationModel
from disco_mt.models.directory import Directory, load_weights, read_config
from disco_mt.settings import at_least
from disco_mt.special import EOS, PAD
from disco_mt.text.lines import one_line
from disco_mt.text.pair import TextPair
from disco_mt.text.sentences import split_sentences
from disco_mt.text.tokenizer import Tokenizer

PRETRAINED = Path(__file__).parent / "pretrained"
DEFAULT_MODEL = "en-de"
BATCH_TOKENS = 2048  # padded source tokens that are decoded together

Long = Literal["split", "refuse"]
Ids = list[int]


@dataclass(frozen=True)
class Translator:
    """A model and its tokenizers."""

    model: TranslationModel
    text: TextPair
    device: str = "cpu"
    rescorer: Reader | None = None

    @staticmethod
    def from_pretrained(
        name: str | Path = DEFAULT_MODEL, device: str = "cpu", rescore_with: str | Path = ""
    ) -> Translator:
        """`name`: a shipped model, a model directory, or the id of a model on the hub ("owner/model").

        rescore_with: another model, or "self", that reads the length candidates left to right and picks one.
        """
        directory = read_config(find_model(name))
        text = TextPair.load(directory.path, directory.text)
        _check_vocabulary(directory, text)
        model = load_weights(directory).to(check_device(device))
        rescorer = _rescorer(directory, model, rescore_with) if str(rescore_with) else None
        return Translator(model, text, device, rescorer)

    def translate(
        self,
        texts: Sequence[str],
        strategy: str = "",
        iterations: int = 10,
        length_beam: int = 5,
        beam: int = 5,
        length_penalty: float = 1.0,
        length_weight: float = 0.0,
        split: bool = False,
        long: Long = "split",
        trace: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        progress: Callable[[int], None] | None = None,
    ) -> list[Translation]:
        """One translation a text, in order; an empty text gives an empty translation.

        split: cut each text into sentences first (they come back as `parts`).
        long: a sentence longer than the model reads is cut up ("split") or comes back with `refused` set.
        trace: keep every pass; sentences are then decoded one at a time.
        batch_tokens: padded source tokens that are decoded together; 1: one sentence at a time.
        progress: called with the number of sentences done since the last call.
        """
        options = DecodingOptions(strategy, iterations, length_beam, beam, length_penalty, length_weight)
        segments = [self._segments(text, split, long) for text in texts]
        ids = [piece for pieces in segments if not isinstance(pieces, str) for piece in pieces]
        done = iter(self.translate_ids(ids, options, trace, batch_tokens, progress))
        return [
            _empty(refused=pieces) if isinstance(pieces, str) else self._join([next(done) for _ in pieces])
            for pieces in segments
        ]

    def translate_ids(
        self,
        sentences: Sequence[Ids],
        options: DecodingOptions,
        trace: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        progress: Callable[[int], None] | None = None,
    ) -> list[Translation]:
        """Sentences as source ids without EOS, batched by length; results in the order given.

        A sentence longer than the model reads comes back with `refused` set.
        """
        strategy_for(self.model.config.kind, options.strategy)  # refuse before any work
        at_least("batch_tokens", batch_tokens, 1)
        refused = {i: self._too_long(len(ids)) for i, ids in enumerate(sentences)}
        results = {i: _empty(refused[i]) for i, ids in enumerate(sentences) if refused[i] or not ids}
        # A trace shows what a lone sentence does to the last bit: batches round differently, and a tie of
        # probabilities within rounding could then show another order.
        for batch in _batches(sentences, results, 1 if trace else batch_tokens):
            source = self._tensor([sentences[i] for i in batch])
            hypotheses = decode(self.model, source, options, trace)
            if self.rescorer is not None:
                hypotheses = rescore(self.rescorer, source, hypotheses, options.length_weight)
            results |= {i: self._named(h) for i, h in zip(batch, hypotheses, strict=True)}
            if progress is not None:
                progress(len(batch))
        return [results[i] for i in range(len(sentences))]

    @cached_property
    def longest_source(self) -> int:
        """The most tokens of a sentence, EOS apart, that the model reads."""
        return self.model.config.max_source - 1

    def _segments(self, text: str, split: bool, long: Long) -> list[Ids] | str:
        """What is translated one by one: sentences as ids. A string says why a text is refused."""
        tokenizer = self.text.source
        sentences = split_sentences(text, tokenizer.language) if split else [text]
        pieces: list[Ids] = []
        for ids in tokenizer.encode_batch(sentences):
            if len(ids) <= self.longest_source:
                pieces.append(ids)
            elif long == "split":
                pieces += _cut(ids, tokenizer, self.longest_source)
            else:
                return self._too_long(len(ids))
        return [ids for ids in pieces if ids]

    def _too_long(self, tokens: int) -> str:
        """Why a sentence of so many tokens cannot be read; "" if it can."""
        if tokens <= self.longest_source:
            return ""
        return f"a sentence has {tokens} tokens, but the model reads at most {self.longest_source}"

    def _tensor(self, sentences: list[Ids]) -> Tensor:
        width = max(len(ids) for ids in sentences) + 1
        rows = [[*ids, EOS, *[PAD] * (width - 1 - len(ids))] for ids in sentences]
        return torch.tensor(rows, device=self.device)

    def _named(self, found: Hypothesis[int]) -> Translation:
        """Ids -> tokens and text."""
        target = self.text.target
        return Translation(
            tuple(target.tokens(found.tokens)),
            found.probabilities,
            found.score,
            found.steps,
            None if found.trace is None else _named_trace(found.trace, target),
            one_line(target.decode(found.tokens)),
            tuple(target.pieces(found.tokens)),
        )

    def _join(self, parts: list[Translation]) -> Translation:
        """Several sentences as one text: tokens end to end, score by token, steps added up."""
        if len(parts) <= 1:
            return parts[0] if parts else _empty()
        space = "" if self.text.target.language in ("zh", "ja", "th") else " "
        tokens = sum(len(part.tokens) for part in parts)
        return Translation(
            tuple(token for part in parts for token in part.tokens),
            tuple(p for part in parts for p in part.probabilities),
            sum(part.score * len(part.tokens) for part in parts) / max(1, tokens),
            sum(part.steps for part in parts),
            None,
            space.join(part.text for part in parts),
            tuple(piece for part in parts for piece in part.pieces),
            tuple(parts),
        )


def find_model(name: str | Path) -> Path:
    """The directory of a shipped model, a local one, or one fetched from the hub."""
    path = Path(name)
    if path.exists():
        return path
    if str(name) in shipped_models():
        return PRETRAINED / str(name)
    if str(name).count("/") == 1 and not str(name).startswith((".", "/", "~")):
        return _from_hub(str(name))
    shipped = ", ".join(shipped_models()) or "none yet: `disco demo` trains one"
    raise UserError(
        f"there is no model {str(name)!r}: neither a directory nor a shipped model (shipped: {shipped})"
    )


def shipped_models() -> list[str]:
    """Names of the models inside the package."""
    return sorted(path.parent.name for path in PRETRAINED.glob("*/config.json"))


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


def _rescorer(directory: Directory, model: TranslationModel, name: str | Path) -> Reader:
    """The model that rescores: the same weights ("self") or another model of the same vocabulary."""
    if directory.model.kind == "autoregressive":
        raise UserError("an autoregressive model has no length candidates to rescore; rescore disco or cmlm")
    other: TranslationModel = model
    if str(name) != "self":
        chosen = read_config(find_model(name))
        check_same_vocabulary(directory.text, chosen.text)
        other = load_weights(chosen).to(next(model.parameters()).device)
    if not isinstance(other, Reader):
        raise UserError(f"a model of kind {other.config.kind} cannot rescore; use disco or autoregressive")
    return other


def _from_hub(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=["*.json", "*.safetensors", "*.md"]))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(
            f"{name!r} is no directory here, and the model hub did not give it either ({reason})"
        ) from None


def _check_vocabulary(directory: Directory, text: TextPair) -> None:
    sides = (
        ("source", directory.model.source_vocabulary, text.source.vocabulary_size),
        ("target", directory.model.target_vocabulary, text.target.vocabulary_size),
    )
    for side, rows, size in sides:
        if rows != size:
            raise UserError(
                f"{directory.path}: the {side} tokenizer has {size} tokens, but the weights have {rows}; "
                "it belongs to another model"
            )


def _cut(ids: Ids, tokenizer: Tokenizer, longest: int) -> list[Ids]:
    """Pieces of at most `longest` tokens, cut before a word where one begins in the second half."""
    pieces = []
    while len(ids) > longest:
        surfaces = tokenizer.pieces(ids[: longest + 1])
        starts = [n for n in range(longest // 2, longest + 1) if surfaces[n].startswith(" ")]
        end = max(1, starts[-1] if starts else longest)
        pieces.append(ids[:end])
        ids = ids[end:]
    return [*pieces, ids]


def _batches(sentences: Sequence[Ids], done: Container[int], tokens: int) -> list[list[int]]:
    """Places of the sentences not yet done, long ones first, at most `tokens` padded tokens together."""
    batches: list[list[int]] = []
    widest = 0
    places = (place for place in range(len(sentences)) if place not in done)
    for place in sorted(places, key=lambda place: -len(sentences[place])):
        if not batches or (len(batches[-1]) + 1) * widest > tokens:
            batches.append([])
            widest = len(sentences[place]) + 1
        batches[-1].append(place)
    return batches


def _empty(refused: str = "") -> Translation:
    return Translation((), (), 0.0, 0, refused=refused)


def _named_trace(trace: Trace[int], target: Tokenizer) -> Trace[str]:
    passes = tuple(tuple(_named_pass(candidate, target) for candidate in now) for now in trace.passes)
    return Trace(trace.strategy, trace.lengths, trace.length_log_probabilities, passes, trace.winners)


def _named_pass(candidate: CandidatePass[int], target: Tokenizer) -> CandidatePass[str]:
    return CandidatePass(
        tuple(target.tokens(candidate.tokens)),
        candidate.probabilities,
        candidate.observed,
        candidate.predicted,
        candidate.score,
    )


__all__ = ["Long", "Translator", "check_device", "find_model", "shipped_models"]
