"""German words in their forms: articles, adjectives, pronouns, verbs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Literal

from disco_mt.data.phrasebook import meaning as m

Address = Literal["du", "ihr", "Sie"]  # the three German words for "you": a sentence keeps to one of them
ADDRESSES: tuple[Address, ...] = ("du", "ihr", "Sie")

#             subject, accusative, dative, dative reflexive, possessive stem, verb form
_PERSONS: dict[str, tuple[str, str, str, str, str, int]] = {
    "I": ("ich", "mich", "mir", "mir", "mein", 0),
    "du": ("du", "dich", "dir", "dir", "dein", 1),
    "he": ("er", "ihn", "ihm", "sich", "sein", 2),
    "she": ("sie", "sie", "ihr", "sich", "ihr", 2),
    "it": ("es", "es", "ihm", "sich", "sein", 2),
    "we": ("wir", "uns", "uns", "uns", "unser", 3),
    "they": ("sie", "sie", "ihnen", "sich", "ihr", 3),
    "Sie": ("Sie", "Sie", "Ihnen", "sich", "Ihr", 3),
    "ihr": ("ihr", "euch", "euch", "euch", "euer", 4),
}
_OWNERS = {"my": "I", "your": "you", "his": "he", "her": "she", "our": "we", "their": "they"}

# Endings by case, then by gender: m f n p.
_DEFINITE: dict[m.Case, dict[m.Gender, str]] = {
    "nominative": {"m": "der", "f": "die", "n": "das", "p": "die"},
    "accusative": {"m": "den", "f": "die", "n": "das", "p": "die"},
    "dative": {"m": "dem", "f": "der", "n": "dem", "p": "den"},
}
_INDEFINITE: dict[m.Case, dict[m.Gender, str]] = {  # ein, kein, mein ...
    "nominative": {"m": "", "f": "e", "n": "", "p": "e"},
    "accusative": {"m": "en", "f": "e", "n": "", "p": "e"},
    "dative": {"m": "em", "f": "er", "n": "em", "p": "en"},
}
_WEAK: dict[m.Case, dict[m.Gender, str]] = {  # der neue Wagen
    "nominative": {"m": "e", "f": "e", "n": "e", "p": "en"},
    "accusative": {"m": "en", "f": "e", "n": "e", "p": "en"},
    "dative": {"m": "en", "f": "en", "n": "en", "p": "en"},
}
_MIXED: dict[m.Case, dict[m.Gender, str]] = {  # ein neuer Wagen
    "nominative": {"m": "er", "f": "e", "n": "es", "p": "en"},
    "accusative": {"m": "en", "f": "e", "n": "es", "p": "en"},
    "dative": {"m": "en", "f": "en", "n": "en", "p": "en"},
}

_HAVE = ("habe", "hast", "hat", "haben", "habt")
_BE = ("bin", "bist", "ist", "sind", "seid")
_WILL = ("werde", "wirst", "wird", "werden", "werdet")
_WOULD = ("würde", "würdest", "würde", "würden", "würdet")
_WOULD_LIKE = ("möchte", "möchtest", "möchte", "möchten", "möchtet")
_MODALS: dict[m.Mode, tuple[tuple[str, ...], ...]] = {
    "can": (("kann", "kannst", "kann", "können", "könnt"),),
    "must": (("muss", "musst", "muss", "müssen", "müsst"),),
    "want": (("will", "willst", "will", "wollen", "wollt"), _WOULD_LIKE),
    "would like": (_WOULD_LIKE,),
    "should": (("sollte", "solltest", "sollte", "sollten", "solltet"),),
}


@dataclass(frozen=True)
class Predicate:
    """A verb in its form: V2 clauses part it around the middle field, verb-final clauses do not."""

    finite: str  # "habe", "stehe"
    last: str  # what closes the sentence bracket: "gekauft", "auf", ""
    final: str  # the whole in a verb-final clause: "gekauft habe", "aufstehe"
    particle: str = ""  # "gern", in the middle field


def person_of(nominal: m.Nominal, address: Address) -> str:
    """The key of the German person."""
    if isinstance(nominal, m.Pronoun):
        return address if nominal.person == "you" else nominal.person
    return "they" if nominal.noun.plural else "it"


def pronoun(person: str, case: m.Case) -> str:
    subject, accusative, dative, *_ = _PERSONS[person]
    return {"nominative": subject, "accusative": accusative, "dative": dative}[case]


def reflexive(person: str) -> str:
    return _PERSONS[person][3]


def nominals(nominal: m.Nominal, case: m.Case, address: Address, denied: bool = False) -> list[str]:
    """All the ways to say a nominal; `denied` makes an indefinite one kein."""
    if isinstance(nominal, m.Pronoun):
        return [pronoun(person_of(nominal, address), case)]
    adjectives = nominal.adjective.german if nominal.adjective else ("",)
    choices = product(nominal.noun.german, adjectives)
    return [_noun_phrase(nominal, noun, adjective, case, address, denied) for noun, adjective in choices]


def _noun_phrase(
    phrase: m.NounPhrase, noun: m.GermanNoun, adjective: str, case: m.Case, address: Address, denied: bool
) -> str:
    determiner = _determiner(phrase.determiner, noun.gender, case, address, denied)
    endings = _WEAK if phrase.determiner == "the" else _MIXED
    described = adjective + endings[case][noun.gender] if adjective else ""
    return join(determiner, described, noun.form(case))


def _determiner(determiner: str, gender: m.Gender, case: m.Case, address: Address, denied: bool) -> str:
    if determiner == "the":
        return _DEFINITE[case][gender]
    ending = _INDEFINITE[case][gender]
    if determiner in ("a", ""):
        if denied:
            return "kein" + ending
        return "ein" + ending if determiner else ""
    owner = _OWNERS[determiner]
    stem = _PERSONS[address if owner == "you" else owner][4]
    if stem == "euer" and ending:
        stem = "eur"
    return stem + ending


def predicates(verb: m.GermanVerb, mode: m.Mode, person: str, timed: bool) -> list[Predicate]:
    """All the ways to put a verb into a mode; `timed`: a time is said, so the present can mean the future."""
    form = _PERSONS[person][5]
    present = _simple(verb, verb.forms[form])
    match mode:
        case "present" | "progressive":
            return [present]
        case "past":
            return _past(verb, person, form)
        case "future":
            future = _with_infinitive(verb, _WILL[form])
            return [present, future] if timed else [future]
        case "like":
            return [
                Predicate(present.finite, present.last, present.final, word) for word in ("gern", "gerne")
            ]
        case _:
            modals = [_with_infinitive(verb, modal[form]) for modal in _MODALS[mode]]
            if mode == "would like":
                modals.append(_with_infinitive(verb, _WOULD[form], "gern"))
            return modals


def _simple(verb: m.GermanVerb, form: str) -> Predicate:
    return Predicate(form, verb.prefix, verb.prefix + form)


def _with_infinitive(verb: m.GermanVerb, finite: str, particle: str = "") -> Predicate:
    infinitive = verb.prefix + verb.infinitive
    return Predicate(finite, infinitive, f"{infinitive} {finite}", particle)


def _past(verb: m.GermanVerb, person: str, form: int) -> list[Predicate]:
    """The perfect, and the simple past where people use it: hardly ever to a person they speak to."""
    ways = []
    if verb.participle:
        auxiliary = (_HAVE if verb.auxiliary == "haben" else _BE)[form]
        ways.append(Predicate(auxiliary, verb.participle, f"{verb.participle} {auxiliary}"))
    if verb.preterite and not (verb.participle and person in ADDRESSES):
        ways.append(_simple(verb, _preterite(verb.preterite, form)))
    return ways


def _preterite(preterite: tuple[str, str], form: int) -> str:
    singular, plural = preterite
    return (singular, singular + "st", singular, plural, singular + "t")[form]


def join(*words: str) -> str:
    return " ".join(filter(None, words))
