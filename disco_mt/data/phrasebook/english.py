"""English: one sentence for each meaning."""

from __future__ import annotations

from disco_mt.data.phrasebook import meaning as m

_OBJECT: dict[m.Person, str] = {
    "I": "me", "you": "you", "he": "him", "she": "her", "it": "it", "we": "us", "they": "them",
}  # fmt: skip
_BE = {"I": ("am", "was"), "he": ("is", "was"), "she": ("is", "was"), "it": ("is", "was")}
_INVARIANT = {"future": "will", "can": "can", "must": "must", "would like": "would", "should": "should"}


def say(sentence: m.Sentence) -> str:
    """The English sentence, with capital letter and full stop."""
    text = _say(sentence)
    return text[0].upper() + text[1:]


def _say(sentence: m.Sentence) -> str:  # noqa: PLR0911 (one per kind of sentence)
    match sentence:
        case m.Statement(clause):
            return _statement(clause) + "."
        case m.Question(clause, word):
            return _join(word, _question(clause)) + "?"
        case m.Command(clause, please):
            order = _join("do not" if clause.negated else "", clause.verb.base, _rest(clause))
            return f"please {order}." if please else f"{order}!"
        case m.Because(main, reason):
            return f"{_statement(main)} because {_statement(reason)}."
        case m.Subordinate(word, condition, main, True):
            return f"{word} {_statement(condition)}, {_statement(main)}."
        case m.Subordinate(word, condition, main, _):
            return f"{_statement(main)} {word} {_statement(condition)}."
        case m.Opinion(subject, verb, content):
            third = verb + "s" if _agreement(subject) in ("he", "she") else verb
            return f"{subject.person} {third} that {_statement(content)}."
        case m.Remark(topic, quality, word, clause):
            be = "are" if topic.noun.plural else "is"
            return f"{_phrase(topic)} {be} {quality.english}, {word} {_statement(clause)}."


def _statement(clause: m.Clause) -> str:
    auxiliary, main = _verb(clause, asked=False)
    time = clause.time.english if clause.time else ""
    middle = time if clause.time and clause.time.place == "middle" else ""
    subject = _nominal(clause.subject, subject=True)
    if clause.fronted:
        return _join(time, subject, _denied(auxiliary, clause.negated), main, _rest(clause, time=False))
    return _join(subject, _denied(auxiliary, clause.negated), middle, main, _rest(clause))


def _question(clause: m.Clause) -> str:
    auxiliary, main = _verb(clause, asked=True)
    middle = clause.time.english if clause.time and clause.time.place == "middle" else ""
    return _join(auxiliary, _nominal(clause.subject, subject=True), middle, main, _rest(clause))


def _verb(clause: m.Clause, asked: bool) -> tuple[str, str]:
    """(auxiliary, main verb); the auxiliary is empty where English has none, as in "I buy"."""
    person, verb, mode = _agreement(clause.subject), clause.verb, clause.mode
    present, past = _BE.get(person, ("are", "were"))
    if verb.base == "be" and mode in ("present", "past"):
        return (present if mode == "present" else past), ""
    if mode == "progressive":
        return present, verb.ing
    if mode == "must" and (clause.negated or asked):
        return _do(person), f"have to {verb.base}"
    if mode in _INVARIANT:
        return _INVARIANT[mode], f"like to {verb.base}" if mode == "would like" else verb.base
    return _simple(verb, person, mode, asked or clause.negated)


def _simple(verb: m.Verb, person: m.Person, mode: str, supported: bool) -> tuple[str, str]:
    """Present, past, want to and like to; with "do" in questions and denials."""
    third = person in ("he", "she", "it")
    if mode in ("want", "like"):
        if supported:
            return _do(person), f"{mode} to {verb.base}"
        return "", f"{mode}{'s' if third else ''} to {verb.base}"
    if supported:
        return ("did" if mode == "past" else _do(person)), verb.base
    if mode == "past":
        return "", verb.past
    return "", verb.third if third else verb.base


def _do(person: m.Person) -> str:
    return "does" if person in ("he", "she", "it") else "do"


def _denied(auxiliary: str, negated: bool) -> str:
    if not negated:
        return auxiliary
    return "cannot" if auxiliary == "can" else f"{auxiliary} not"


def _rest(clause: m.Clause, time: bool = True) -> str:
    """What follows the verb: objects, complements, the time if it belongs at the end."""
    verb = clause.verb
    recipient = _nominal(clause.recipient) if clause.recipient else ""
    thing = _nominal(clause.object) if clause.object else ""
    if isinstance(clause.object, m.Pronoun):
        objects = _join(verb.preposition, recipient, thing, verb.particle)
    else:
        objects = _join(verb.particle, verb.preposition, recipient, thing)
    places = " ".join(_complement(complement) for complement in clause.complements)
    last = clause.time.english if time and clause.time and clause.time.place == "end" else ""
    return _join(verb.tail, objects, places, last)


def _complement(complement: m.Complement) -> str:
    return _join(complement.english, _phrase(complement.phrase) if complement.phrase else "")


def _nominal(nominal: m.Nominal, subject: bool = False) -> str:
    if isinstance(nominal, m.Pronoun):
        return nominal.person if subject else _OBJECT[nominal.person]
    return _phrase(nominal)


def _phrase(phrase: m.NounPhrase) -> str:
    words = _join(phrase.adjective.english if phrase.adjective else "", phrase.noun.english)
    determiner = phrase.determiner
    if determiner == "a" and words[0] in "aeiou":
        determiner = "an"
    return _join(determiner, words)


def _agreement(nominal: m.Nominal) -> m.Person:
    if isinstance(nominal, m.Pronoun):
        return nominal.person
    return "they" if nominal.noun.plural else "it"


def _join(*words: str) -> str:
    return " ".join(filter(None, words))
