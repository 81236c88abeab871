"""Pinned words: are they kept, and do the other words gain from them? On the test set.

Words are drawn from the reference and pinned anywhere. What comes out is compared with the same decoder's
output without pins, into which the words are pasted: of the other words alone (the pinned ones taken out of
outputs and references alike), by BLEU and by F1 of words in any order; and of whole texts.

All sentences count. On those alone whose output has the pinned words anyway, the output without pins looks
better than it is: it was chosen for having the reference's words.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from disco_mt.core.errors import UserError
from disco_mt.core.progress import stage
from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.evaluation.quality import measure
from disco_mt.experiments.decode import Decoding, Lab
from disco_mt.experiments.experiment import Experiment, Options
from disco_mt.pins.parse import Pin, contains, find, words_of
from disco_mt.reporting.intervals import Interval, bootstrap
from disco_mt.reporting.reports import Report
from disco_mt.reporting.tables import Table, number
from disco_mt.reporting.verdicts import Judge, Texts, Verdict
from disco_mt.suites import roles
from disco_mt.suites.roles import Role, mask_predict
from disco_mt.text.languages import is_spaceless

Words = tuple[str, ...]
Matches = NDArray[np.int64]  # see word_matches

NUMBERS = (1, 3)
DECODERS: dict[str, tuple[Role, DecodingOptions]] = {
    "DisCo + Easy-First": (roles.DISCO, roles.EASY_FIRST),
    "DisCo + Mask-Predict": (roles.DISCO, mask_predict(10)),
    "CMLM + Mask-Predict": (roles.CMLM, mask_predict(10)),
}


@dataclass(frozen=True)
class Sample:
    """Test sentences with enough words, and the words that are pinned in each."""

    places: list[int]  # in the test set
    words: list[Words]  # the most that are pinned; fewer are the first of them
    references: list[list[str]]

    def pinned(self, pins: int) -> list[Words]:
        """The words pinned in each sentence."""
        return [words[:pins] for words in self.words]

    def other_references(self, pins: int) -> list[list[str]]:
        """The references without the pinned words."""
        each = zip(self.references, self.pinned(pins), strict=True)
        return [[without(line, words) for line in lines] for lines, words in each]


@dataclass(frozen=True)
class Outcome:
    """One decoder with so many pins per sentence, beside its own output with the words pasted in."""

    label: str
    pins: int
    kept: float  # share of pins that the outputs have
    there_anyway: float  # share of pins that the outputs without pins have
    whole: tuple[Texts, Texts]  # pasted in, pinned
    others: tuple[Texts, Texts]  # the same without the pinned words
    refused: int


def run(lab: Lab, options: Options) -> Report:
    """Every decoder that takes pins, with one and with three."""
    if is_spaceless(lab.language):
        raise UserError(f"pins are drawn from words with spaces between them, which {lab.language} has not")
    sample = _sample(lab)
    found = [
        _outcome(lab, sample, label, Decoding(lab.system(role), decoding), pins)
        for label, (role, decoding) in DECODERS.items()
        if role == roles.DISCO or _is_there(lab, role)
        for pins in NUMBERS
    ]
    verdicts = tuple(verdict for each in found for verdict in _verdicts(lab, sample, each))
    return Report((_table(lab, sample, found),), verdicts, notes=_notes(found))


def _is_there(lab: Lab, role: Role) -> bool:
    """Has the suite such a model, and is it trained?"""
    return roles.has(lab.suite, role) and lab.workspace.stage(f"average:{lab.system(role)}").done


def _sample(lab: Lab) -> Sample:
    references = lab.references("test")
    drawn = [drawn_words(lines[0], max(NUMBERS), f"pins {n}") for n, lines in enumerate(references)]
    places = [n for n, words in enumerate(drawn) if words]
    if not places:
        raise UserError(f"no test sentence of {lab.suite.name} has more than {max(NUMBERS)} different words")
    return Sample(places, [drawn[n] for n in places], [references[n] for n in places])


def _outcome(lab: Lab, sample: Sample, label: str, decoding: Decoding, pins: int) -> Outcome:
    plain = [lab.decode(decoding, "test").texts[n] for n in sample.places]
    sources, wanted = [lab.sources("test")[n] for n in sample.places], sample.pinned(pins)
    with stage(f"{decoding.slug()}, {pins} pinned", len(sources), lab.quiet) as advance:
        found = lab.translator(decoding).translate(
            sources,
            decoding.options,
            DecodeRequest([[Pin(word) for word in words] for words in wanted], progress=advance),
        )
    texts = [each.text for each in found]
    first = [lines[0] for lines in sample.references]
    put_in = [pasted(*each) for each in zip(plain, wanted, first, strict=True)]
    return Outcome(
        label,
        pins,
        _share(texts, wanted),
        _share(plain, wanted),
        (tuple(put_in), tuple(texts)),
        (_without(put_in, wanted), _without(texts, wanted)),
        sum(bool(each.refused) for each in found),
    )


def _share(texts: list[str], wanted: list[Words]) -> float:
    """Share of the words that the texts contain."""
    held = [contains(text, word) for text, words in zip(texts, wanted, strict=True) for word in words]
    return sum(held) / len(held)


def _without(texts: list[str], wanted: list[Words]) -> Texts:
    return tuple(without(text, words) for text, words in zip(texts, wanted, strict=True))


def _table(lab: Lab, sample: Sample, found: list[Outcome]) -> Table:
    scores = ("other words, BLEU", "other words, F1", "whole texts, BLEU")
    pairs = [name for score in scores for name in (f"{score}: pasted in", "pinned")]
    header = ("", "pins", "there anyway", "kept", *pairs)
    note = (
        f"Test set of {lab.suite.name}: the {len(sample.places)} sentences with more than {max(NUMBERS)} "
        "different words; T=10, length beam 5. Pins are drawn from the (first) reference, without their "
        "places. “Other words”: pinned words are taken out of outputs and references. “Pasted in”: output "
        "without pins, and missing words put about where the reference has them. F1: words in any order."
    )
    return Table("One and three pins", header, tuple(_row(lab, sample, each) for each in found), note)


def _row(lab: Lab, sample: Sample, each: Outcome) -> tuple[str, ...]:
    others = [measure(texts, sample.other_references(each.pins), lab.language) for texts in each.others]
    whole = [measure(texts, sample.references, lab.language) for texts in each.whole]
    return (
        each.label,
        str(each.pins),
        f"{100 * each.there_anyway:.1f} %",
        f"{100 * each.kept:.1f} %",
        *(number(quality.bleu) for quality in others),
        *(number(word_f1(matches)) for matches in _matches(sample, each)),
        *(number(quality.bleu) for quality in whole),
    )


def _verdicts(lab: Lab, sample: Sample, each: Outcome) -> tuple[Verdict, ...]:
    who = f"{each.label}, {each.pins} pinned"
    others = Judge(sample.other_references(each.pins), lab.language, lab.samples)
    whole = Judge(sample.references, lab.language, lab.samples)
    return (
        Verdict(f"{who}: all are kept", "yes" if each.kept == 1 else "no", f"{100 * each.kept:.2f} %"),
        others.better(f"{who}: the other words are better than without pins", *reversed(each.others)),
        _f1_verdict(f"{who}: more of the other words are right than without pins", lab, sample, each),
        whole.better(f"{who}: the whole is better than with the words pasted in", *reversed(each.whole)),
    )


def _f1_verdict(claim: str, lab: Lab, sample: Sample, each: Outcome) -> Verdict:
    found = f1_gain(*_matches(sample, each), lab.samples)
    return Verdict(claim, found.above(), f"{found} F1")


def f1_gain(before: Matches, after: Matches, samples: int) -> Interval:
    """F1 of `after` minus that of `before`, by the paired bootstrap over sentences."""
    return bootstrap(lambda drawn: word_f1(after[drawn]) - word_f1(before[drawn]), len(before), samples)


def _matches(sample: Sample, each: Outcome) -> tuple[Matches, Matches]:
    """Of the other words, pasted in and pinned, with those of the reference that the pins come from."""
    first = [lines[0] for lines in sample.other_references(each.pins)]
    pasted_in, pinned = (word_matches(texts, first) for texts in each.others)
    return pasted_in, pinned


def _notes(found: list[Outcome]) -> tuple[str, ...]:
    refused = [f"{each.label}, {each.pins}: {each.refused}" for each in found if each.refused]
    return (f"Refused, and counted as not kept: {'; '.join(refused)}.",) if refused else ()


def drawn_words(reference: str, number: int, key: str) -> Words:
    """So many different words of the reference, at random by `key`; none where no other would be left."""
    words = sorted(set(words_of(reference)))
    return tuple(random.Random(key).sample(words, number)) if len(words) > number else ()


def without(text: str, words: Sequence[str]) -> str:
    """The text with the first of each of the words taken out, where it has them."""
    for word in words:
        start = find(text, word)
        if start >= 0:
            text = " ".join(f"{text[:start]}{text[start + len(word) :]}".split())
    return text


def pasted(text: str, words: Sequence[str], reference: str) -> str:
    """The text with the words that it lacks put in, each about where the reference has it.

    What a person could do without the model; where the reference has them is a help that pins do not get.
    """
    order = words_of(reference)
    for word in words:
        if not contains(text, word):
            there = text.split()
            place = round(order.index(word) / len(order) * len(there))
            text = " ".join([*there[:place], word, *there[place:]])
    return text


def word_matches(texts: Sequence[str], references: Sequence[str]) -> Matches:
    """(sentences, 3): words that text and reference share, of the text, of the reference; in any order."""
    pairs = [(Counter(words_of(a)), Counter(words_of(b))) for a, b in zip(texts, references, strict=True)]
    return np.array([((a & b).total(), a.total(), b.total()) for a, b in pairs])


def word_f1(matches: Matches) -> float:
    """Of all words of some sentences, from 0 to 100: as many shared as possible, and none besides."""
    shared, found, wanted = matches.sum(0)
    return float(200 * shared / max(1, found + wanted))


EXPERIMENT = Experiment(
    "Pinned words",
    "not there; it follows from predicting any word from any subset of the others",
    lambda suite: roles.systems_for(suite, [roles.DISCO]),
    run,
)
