"""The meaning of a sentence of the phrasebook, independent of the language.

The grammar does not translate words: it draws a meaning and expresses it in each language. There is one
English sentence, and all German ones (synonyms, forms of address, word orders), which makes the corpus
multimodal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Gender = Literal["m", "f", "n", "p"]  # p: plural, where German has no gender
Case = Literal["nominative", "accusative", "dative"]
Person = Literal["I", "you", "he", "she", "it", "we", "they"]
Mode = Literal[
    "present", "progressive", "past", "future", "can", "must", "want", "would like", "should", "like"
]


@dataclass(frozen=True)
class GermanNoun:
    word: str
    gender: Gender
    accusative: str = ""  # only where it differs from `word`: den Nachbarn
    dative: str = ""  # only where it differs from `word`: den Kindern

    def form(self, case: Case) -> str:
        forms = {"nominative": self.word, "accusative": self.accusative, "dative": self.dative}
        return forms[case] or self.word


@dataclass(frozen=True)
class Adjective:
    english: str
    german: tuple[str, ...]


@dataclass(frozen=True)
class Noun:
    english: str
    german: tuple[GermanNoun, ...]  # synonyms, often of another gender
    adjectives: tuple[Adjective, ...] = ()

    @property
    def plural(self) -> bool:
        return self.german[0].gender == "p"


@dataclass(frozen=True)
class Pronoun:
    person: Person


@dataclass(frozen=True)
class NounPhrase:
    noun: Noun
    determiner: str  # "the", "a", "my" ... or "" (coffee)
    adjective: Adjective | None = None

    @property
    def definite(self) -> bool:
        return self.determiner not in ("a", "")


Nominal = Pronoun | NounPhrase


@dataclass(frozen=True)
class GermanVerb:
    """One German way of saying a verb; `forms` are ich, du, er, wir, ihr."""

    forms: tuple[str, str, str, str, str]
    participle: str = ""  # "" where the simple past is the only natural one: war, hatte
    preterite: tuple[str, str] | None = None  # ich/er and wir/sie; None where only the perfect is natural
    auxiliary: Literal["haben", "sein"] = "haben"
    prefix: str = ""  # separable
    imperative: str = ""  # to one friend
    case: Case = "accusative"
    preposition: str = ""  # warten auf
    reflexive: bool = False  # sich (dative) etwas ansehen
    fixed: str = ""  # a word that always goes along: Hunger (haben)
    negated: str = ""  # how it is denied where that is not "nicht" and the word: keinen Hunger

    @property
    def infinitive(self) -> str:
        return "sein" if self.forms[3] == "sind" else self.forms[3]


@dataclass(frozen=True)
class Verb:
    """An English verb and the German verbs that say the same."""

    base: str
    third: str
    past: str
    ing: str
    german: tuple[GermanVerb, ...]
    particle: str = ""  # pick you up, but: pick up my brother
    preposition: str = ""  # wait for
    tail: str = ""  # be hungry


@dataclass(frozen=True)
class Adverb:
    """A time; `german` pairs each synonym with whether it may open a sentence."""

    english: str
    german: tuple[tuple[str, bool], ...]
    place: Literal["end", "middle"] = "end"  # in English: "often" stands before the verb


@dataclass(frozen=True)
class Complement:
    """Where to, where, at what time, with whom: closes the German middle field."""

    english: str
    german: tuple[str, ...] = ()
    preposition: str = ""  # "mit", "in": governs the dative of `phrase`
    phrase: NounPhrase | None = None


@dataclass(frozen=True)
class Clause:
    subject: Nominal
    verb: Verb
    mode: Mode
    object: Nominal | None = None
    recipient: Nominal | None = None
    complements: tuple[Complement, ...] = ()  # in English order; German has them the other way round
    time: Adverb | None = None
    negated: bool = False
    fronted: bool = False  # in English: "Tomorrow I will ..."


@dataclass(frozen=True)
class Statement:
    clause: Clause


@dataclass(frozen=True)
class Question:
    clause: Clause
    word: Literal["", "why", "when", "what"] = ""


@dataclass(frozen=True)
class Command:
    clause: Clause
    please: bool


@dataclass(frozen=True)
class Because:
    main: Clause
    reason: Clause


@dataclass(frozen=True)
class Subordinate:
    """If it rains, I will stay at home. Although I am tired, I am going to the cinema."""

    word: Literal["if", "although"]
    condition: Clause
    main: Clause
    condition_first: bool


@dataclass(frozen=True)
class Opinion:
    """I think that ..."""

    subject: Pronoun
    verb: Literal["think", "know", "hope", "say"]
    content: Clause


@dataclass(frozen=True)
class Remark:
    """The car is old, but I need it: the German pronoun has the gender of whichever noun was chosen."""

    topic: NounPhrase
    quality: Adjective
    word: Literal["but", "so"]
    clause: Clause  # its object is replaced by the pronoun


Sentence = Statement | Question | Command | Because | Subordinate | Opinion | Remark
