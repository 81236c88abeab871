"""German: all sentences for a meaning that this grammar can generate.

Most of it is word order. A German clause is a bracket: the finite verb in second (or first) place opens it, a
prefix, participle or infinitive closes it, and the middle field is between them; in a subordinate clause the
whole verb is at the end. This module decides what may open the sentence, and the order of the middle field.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product

from disco_mt.data.phrasebook import meaning as m
from disco_mt.data.phrasebook.inflection import (
    Address,
    Predicate,
    join,
    nominals,
    person_of,
    predicates,
    reflexive,
)
from disco_mt.data.phrasebook.verbs import BE

_ASK = {"": (), "why": ("warum", "wieso", "weshalb"), "when": ("wann",), "what": ("was",)}
_IF = {"if": ("wenn", "falls"), "although": ("obwohl",)}
_SO = {"but": ("aber",), "so": ("deshalb", "darum")}
_TAKEN_UP: dict[m.Gender, m.Person] = {"m": "he", "f": "she", "n": "it", "p": "they"}
# Opinions: the verb's forms, and whether a main clause may follow ("Ich glaube, er kommt").
_OPINIONS: dict[str, tuple[tuple[m.GermanVerb, bool], ...]] = {
    "think": (
        (m.GermanVerb(("glaube", "glaubst", "glaubt", "glauben", "glaubt")), True),
        (m.GermanVerb(("denke", "denkst", "denkt", "denken", "denkt")), True),
    ),
    "hope": ((m.GermanVerb(("hoffe", "hoffst", "hofft", "hoffen", "hofft")), True),),
    "know": ((m.GermanVerb(("weiß", "weißt", "weiß", "wissen", "wisst")), False),),
    "say": ((m.GermanVerb(("sage", "sagst", "sagt", "sagen", "sagt")), False),),
}


@dataclass(frozen=True)
class _Parts:
    """One choice of words for a clause, before they are ordered."""

    predicate: Predicate
    subject: str
    subject_is_pronoun: bool
    pronouns: str  # unstressed objects, which follow the verb at once
    time: str
    time_may_open: bool
    recipient: str
    definite: str  # an object that stands before "nicht" and "gern"
    indefinite: str  # an object that stands after them
    particle: str  # "nicht", "gern"
    end: str  # complements


def say(sentence: m.Sentence) -> tuple[str, ...]:
    """All German sentences for a meaning, distinct, in a fixed order."""
    texts = _say(sentence, "du")
    if texts != (plural := _say(sentence, "ihr")):  # the sentence addresses someone
        texts += plural + _say(sentence, "Sie")
    return tuple(dict.fromkeys(text[0].upper() + text[1:] for text in texts))


def _say(sentence: m.Sentence, address: Address) -> list[str]:  # noqa: PLR0911 (one per kind of sentence)
    match sentence:
        case m.Statement(clause):
            return [text + "." for text in _second(clause, address)]
        case m.Question(clause, word):
            openings = _ASK[word] or ("",)
            return [join(o, text) + "?" for o, text in product(openings, _first(clause, address, asked=True))]
        case m.Command(clause, please):
            return _command(clause, please, address)
        case m.Because(main, reason):
            return _because(main, reason, address)
        case m.Subordinate():
            return _subordinate(sentence, address)
        case m.Opinion():
            return _opinion(sentence, address)
        case m.Remark():
            return _remark(sentence, address)


def _because(main: m.Clause, reason: m.Clause, address: Address) -> list[str]:
    reasons = [f"weil {text}" for text in _final(reason, address)]
    reasons += [f"denn {text}" for text in _second(reason, address, fronting=False)]
    return [f"{first}, {second}." for first, second in product(_second(main, address), reasons)]


def _subordinate(sentence: m.Subordinate, address: Address) -> list[str]:
    conditions = list(product(_IF[sentence.word], _final(sentence.condition, address)))
    if sentence.condition_first:  # the condition is the first place, so the verb follows it
        pairs = product(conditions, _first(sentence.main, address))
        return [f"{word} {condition}, {main}." for (word, condition), main in pairs]
    mains = _second(sentence.main, address)
    return [f"{main}, {word} {condition}." for main, (word, condition) in product(mains, conditions)]


def _opinion(sentence: m.Opinion, address: Address) -> list[str]:
    texts = []
    person = person_of(sentence.subject, address)
    subject = nominals(sentence.subject, "nominative", address)[0]
    for verb, main_clause in _OPINIONS[sentence.verb]:
        finite = predicates(verb, "present", person, timed=False)[0].finite
        texts += [f"{subject} {finite}, dass {text}." for text in _final(sentence.content, address)]
        if main_clause:
            content = _second(sentence.content, address, fronting=False)
            texts += [f"{subject} {finite}, {text}." for text in content]
    return texts


def _remark(sentence: m.Remark, address: Address) -> list[str]:
    texts = []
    for noun in sentence.topic.noun.german:
        topic = replace(sentence.topic, noun=replace(sentence.topic.noun, german=(noun,)))
        it = m.Pronoun(_TAKEN_UP[noun.gender])
        clause = replace(sentence.clause, object=it)
        order = (
            _second(clause, address, fronting=False) if sentence.word == "but" else _first(clause, address)
        )
        quality = m.Complement(sentence.quality.english, sentence.quality.german)
        described = _second(m.Clause(topic, BE, "present", complements=(quality,)), address)
        parts = product(described, _SO[sentence.word], order)
        texts += [f"{first}, {word} {second}." for first, word, second in parts]
    return texts


def _command(clause: m.Clause, please: bool, address: Address) -> list[str]:
    texts = []
    for verb in clause.verb.german:
        forms = {"du": verb.imperative, "ihr": verb.forms[4], "Sie": f"{verb.infinitive} Sie"}
        predicate = Predicate(forms[address], verb.prefix, "")
        for parts in _choices(clause, verb, address, [predicate]):
            for field in _middle(parts):
                texts += _polite(parts, field, please)
    return texts


def _polite(parts: _Parts, field: str, please: bool) -> list[str]:
    verb, last = parts.predicate.finite, parts.predicate.last
    if not please:
        return [join(verb, parts.pronouns, field, last) + "!"]
    return [
        join("bitte", verb, parts.pronouns, field, last) + ".",
        join(verb, parts.pronouns, "bitte", field, last) + ".",
    ]


def _second(clause: m.Clause, address: Address, fronting: bool = True) -> list[str]:
    """Main clauses: the finite verb in second place, after the subject or after the time."""
    texts = []
    for parts in _all_choices(clause, address):
        verb = parts.predicate
        for field in _middle(parts):
            texts.append(join(parts.subject, verb.finite, parts.pronouns, field, verb.last))
        if fronting and parts.time and parts.time_may_open:
            for subject, field in product(_subjects(parts), _middle(replace(parts, time=""))):
                texts.append(join(parts.time, verb.finite, subject, field, verb.last))
    return texts


def _first(clause: m.Clause, address: Address, asked: bool = False) -> list[str]:
    """The finite verb first: in questions, after a question word, or after a subordinate clause."""
    return [
        join(parts.predicate.finite, subject, field, parts.predicate.last)
        for parts in _all_choices(clause, address, asked)
        for subject, field in product(_subjects(parts), _middle(parts))
    ]


def _final(clause: m.Clause, address: Address) -> list[str]:
    """Subordinate clauses: the verb at the end, with its prefix joined on again."""
    return [
        join(subject, field, parts.predicate.final)
        for parts in _all_choices(clause, address)
        for subject, field in product(_subjects(parts), _middle(parts))
    ]


def _subjects(parts: _Parts) -> list[str]:
    """The subject after the verb, and pronouns, which may come before a noun: hilft ihm mein Bruder."""
    orders = [join(parts.subject, parts.pronouns)]
    if parts.pronouns and not parts.subject_is_pronoun:
        orders.append(join(parts.pronouns, parts.subject))
    return orders


def _middle(parts: _Parts) -> list[str]:
    """The possible orders of the middle field after subject and pronouns."""
    time, recipient, definite, end = parts.time, parts.recipient, parts.definite, parts.end
    if parts.particle:  # what is known stands before "nicht" and "gern", what is new after
        return [join(recipient, definite, time, parts.particle, parts.indefinite, end)]
    thing = definite or parts.indefinite
    orders = [join(time, recipient, thing, end)]
    if recipient:
        orders.append(join(recipient, time, thing, end))
    elif definite:
        orders.append(join(definite, time, end))
    return list(dict.fromkeys(orders))


def _all_choices(clause: m.Clause, address: Address, asked: bool = False) -> Iterable[_Parts]:
    """Every choice of words; questions about the past are `asked` in the perfect, except of war and hatte."""
    person = person_of(clause.subject, address)
    for verb in clause.verb.german:
        spoken = replace(verb, preterite=None) if asked and verb.participle else verb
        ways = predicates(spoken, clause.mode, person, timed=clause.time is not None)
        yield from _choices(clause, verb, address, ways)


def _choices(
    clause: m.Clause, verb: m.GermanVerb, address: Address, ways: Iterable[Predicate]
) -> Iterable[_Parts]:
    """Every choice of words for a clause with this German verb."""
    free = clause.object if not verb.preposition else None  # an object after a preposition is a complement
    indefinite = isinstance(free, m.NounPhrase) and not free.definite
    kein = clause.negated and indefinite and clause.mode != "like"
    things = nominals(free, verb.case, address, kein) if free else [""]
    recipients = nominals(clause.recipient, "dative", address) if clause.recipient else [""]
    subjects = nominals(clause.subject, "nominative", address)
    denied = clause.negated and not kein and not verb.negated
    ends = _ends(clause, verb, address)
    weak = [reflexive(person_of(clause.subject, address)) if verb.reflexive else ""]
    for way, subject, thing, recipient, (time, opens), end in product(
        ways, subjects, things, recipients, _times(clause.time), ends
    ):
        unstressed = [
            *([thing] if isinstance(free, m.Pronoun) else []),
            *([recipient] if isinstance(clause.recipient, m.Pronoun) else []),
        ]
        yield _Parts(
            predicate=way,
            subject=subject,
            subject_is_pronoun=isinstance(clause.subject, m.Pronoun),
            pronouns=join(*unstressed, *weak),
            time=time,
            time_may_open=opens,
            recipient="" if isinstance(clause.recipient, m.Pronoun) else recipient,
            definite=thing if isinstance(free, m.NounPhrase) and not indefinite else "",
            indefinite=thing if indefinite else "",
            particle=join("nicht" if denied else "", way.particle),
            end=end,
        )


def _times(time: m.Adverb | None) -> tuple[tuple[str, bool], ...]:
    return time.german if time else (("", False),)


def _ends(clause: m.Clause, verb: m.GermanVerb, address: Address) -> list[str]:
    """What closes the middle field: German says whom with before where to, English the other way round."""
    slots = [_complements(complement, address) for complement in reversed(clause.complements)]
    if verb.preposition and clause.object:
        governed = nominals(clause.object, verb.case, address)
        slots.append([f"{verb.preposition} {text}" for text in governed])
    slots.append([verb.negated if clause.negated and verb.negated else verb.fixed])
    return [join(*words) for words in product(*slots)]


def _complements(complement: m.Complement, address: Address) -> list[str]:
    if complement.phrase is None:
        return list(complement.german)
    return [f"{complement.preposition} {text}" for text in nominals(complement.phrase, "dative", address)]
