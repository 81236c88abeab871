"""Drawing meanings at random: statements, questions, commands, and sentences of two clauses."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from disco_mt.data.phrasebook import clauses as c
from disco_mt.data.phrasebook import meaning as m
from disco_mt.data.phrasebook import verbs as w
from disco_mt.data.phrasebook import vocabulary as v
from disco_mt.data.phrasebook.frames import ACTIONS, COMMANDS, FAMILY, GENDERED, OWNED, STATES, Frame

_THINGS = (v.CAR, v.BICYCLE, v.HOUSE, v.APARTMENT, v.SOFA, v.COMPUTER, v.PHONE, v.JACKET, v.BAG)
# The modes of a main clause and of its reason.
_TENSES: tuple[tuple[m.Mode, m.Mode], ...] = (
    ("past", "past"),
    ("future", "present"),
    ("progressive", "present"),
)
_SEPARABLE = tuple(f for f in ACTIONS if any(german.prefix for german in f.verb.german))
_LEISURE = (w.VISIT, w.CALL, w.HELP, w.GO, w.DRIVE, w.PLAY_SOCCER, w.PLAY_PIANO, w.READ, w.WATCH)
_EFFORTS = (w.VISIT, w.HELP, w.GO, w.DRIVE, w.PLAY_SOCCER, w.WORK)
_FAVOURS = (w.CALL, w.PICK_UP, w.VISIT, w.HELP)  # what people do for one another
_ANY = Frame(w.GO)  # of no particular time
# The car is [quality], [but or so] I [verb, mode, negated] it.
_REMARKS: tuple[tuple[m.Adjective, Literal["but", "so"], m.Verb, m.Mode, bool], ...] = (
    (v.OLD, "but", w.NEED, "present", False), (v.OLD, "so", w.SELL, "want", False),
    (v.OLD, "so", w.SELL, "progressive", False), (v.EXPENSIVE, "so", w.SELL, "must", False),
    (v.EXPENSIVE, "but", w.BUY, "want", False), (v.EXPENSIVE, "so", w.BUY, "can", True),
    (v.BEAUTIFUL, "so", w.BUY, "want", False), (v.BEAUTIFUL, "but", w.SELL, "must", False),
    (v.BEAUTIFUL, "but", w.NEED, "present", True), (v.NEW, "but", w.SELL, "want", False),
    (v.OLD, "but", w.BUY, "would like", False),
)  # fmt: skip


def draw_sentence(draw: c.Draw) -> m.Sentence:
    """A meaning, with kinds of sentences in fixed proportions."""
    kinds = (_statement, _question, _command, _because, _subordinate, _opinion, _remark, _state, _schedule)
    weights = (30, 18, 12, 8, 12, 10, 5, 4, 3)
    return draw.choices(kinds, weights)[0](draw)


def _statement(draw: c.Draw) -> m.Sentence:
    return m.Statement(c.perhaps_fronted(draw, c.action(draw, draw.choice(ACTIONS), c.draw_subject(draw))))


def _question(draw: c.Draw) -> m.Sentence:
    subject = m.Pronoun("you") if draw.random() < 0.7 else c.draw_subject(draw)
    word = draw.choices(("", "why", "when", "what"), (5, 3, 2, 2))[0]
    if word == "what":
        return m.Question(_what(draw, subject), "what")
    if word == "":
        return m.Question(_sensible(c.action(draw, draw.choice(ACTIONS), subject, negatable=False)))
    clause = c.action(draw, draw.choice([f for f in ACTIONS if f.kind != "state"]), subject, negatable=False)
    if word == "why":
        return m.Question(clause, "why")
    modes: tuple[m.Mode, ...] = ("past", "future", "can", "must", "want")
    places = tuple(place for place in clause.complements if place not in c.HOURS)
    return m.Question(replace(clause, mode=draw.choice(modes), time=v.IMPLIED, complements=places), "when")


def _sensible(clause: m.Clause) -> m.Clause:
    """One asks whether one can oneself, and whether others must, not should."""
    if clause.subject in (m.Pronoun("I"), m.Pronoun("we")) and clause.mode not in ("must", "should"):
        return replace(clause, mode="can", time=v.TOMORROW)
    return replace(clause, mode="must") if clause.mode == "should" else clause


def _what(draw: c.Draw, subject: m.Nominal) -> m.Clause:
    verb = draw.choice((w.BUY, w.NEED, w.LOOK_FOR, w.EAT, w.DRINK, w.READ))
    modes: tuple[m.Mode, ...] = ("past", "future", "want", "would like", "progressive")
    mode: m.Mode = draw.choice(("present", "past", "future")) if verb is w.NEED else draw.choice(modes)
    time = None if mode == "present" else c.draw_time(draw, mode, _ANY)
    return m.Clause(subject, verb, mode, time=time)


def _command(draw: c.Draw) -> m.Sentence:
    frame = draw.choice(COMMANDS)
    clause = c.arguments(draw, frame, m.Pronoun("you"), "future")
    time = draw.choice((v.TODAY, v.TOMORROW)) if draw.random() < 0.25 else None
    negated = not frame.recipient and draw.random() < 0.15
    return m.Command(replace(clause, time=time, negated=negated), please=not negated and draw.random() < 0.6)


def _because(draw: c.Draw) -> m.Sentence:
    subject, again = c.taken_up(draw)
    main_mode, mode = draw.choice(_TENSES)
    kind = draw.choice(("rest", "meal", "person", "refusal"))
    if kind == "person":
        return _because_of_a_person(draw, again, main_mode, mode)
    if kind == "refusal":
        return m.Because(_refusal(draw, subject, main_mode), _excuse(draw, again, mode))
    main, why = c.rest(draw, subject) if kind == "rest" else c.meal(draw, subject)
    main = replace(main, mode=main_mode, time=c.draw_time(draw, main_mode, Frame(main.verb)))
    return m.Because(main, c.reason(why, again, mode))


def _because_of_a_person(draw: c.Draw, subject: m.Pronoun, main_mode: m.Mode, mode: m.Mode) -> m.Sentence:
    """I am visiting my grandmother because she is sick."""
    noun = draw.choice(FAMILY)
    verb = draw.choice((w.VISIT, w.CALL, w.HELP))
    whom = m.NounPhrase(noun, c.owner(draw, subject))
    main = m.Clause(subject, verb, main_mode, object=whom, time=c.draw_time(draw, main_mode, _ANY))
    return m.Because(main, m.Clause(m.Pronoun(GENDERED[noun]), w.BE_SICK, mode))


def _refusal(draw: c.Draw, subject: m.Nominal, mode: m.Mode) -> m.Clause:
    """I did not go to the cinema ..."""
    frame = draw.choice([frame for frame in ACTIONS if frame.verb in _LEISURE])
    time = draw.choice((v.YESTERDAY, v.LAST_WEEK) if mode == "past" else (v.TODAY, v.TOMORROW))
    clause = c.arguments(draw, frame, subject, mode)
    return replace(clause, negated=True, time=None if mode == "progressive" else time)


def _excuse(draw: c.Draw, subject: m.Pronoun, mode: m.Mode) -> m.Clause:
    """... because I did not have time."""
    verb = draw.choice((w.HAVE_TIME, w.BE_TIRED, w.BE_SICK))
    return m.Clause(subject, verb, mode, negated=verb is w.HAVE_TIME)


def _subordinate(draw: c.Draw) -> m.Sentence:
    first = draw.random() < 0.5
    kind = draw.choices((_favour, _if, _although), (20, 45, 35))[0]
    return kind(draw, first)


def _although(draw: c.Draw, first: bool) -> m.Sentence:
    """Although I am tired, I am going to the cinema."""
    who, actor = _same_subjects(draw, first)
    main_mode, mode = draw.choice(_TENSES)
    frame = draw.choice([frame for frame in ACTIONS if frame.verb in _EFFORTS])
    time = None if main_mode == "progressive" else c.draw_time(draw, main_mode, _ANY)
    verb = draw.choice((w.BE_TIRED, w.BE_SICK, w.HAVE_TIME, w.RAIN))
    condition = replace(c.reason(verb, who, mode), negated=verb is w.HAVE_TIME)
    return m.Subordinate(
        "although", condition, replace(c.arguments(draw, frame, actor, main_mode), time=time), first
    )


def _same_subjects(draw: c.Draw, condition_first: bool) -> tuple[m.Nominal, m.Nominal]:
    """The subjects of condition and main clause: named in the earlier one, a pronoun in the later."""
    named, again = c.taken_up(draw)
    return (named, again) if condition_first else (again, named)


def _if(draw: c.Draw, first: bool) -> m.Sentence:
    """If I have time tomorrow, I will visit you."""
    who, actor = _same_subjects(draw, first)
    kind = draw.choice(("leisure", "leisure", "rest", "meal"))
    if kind == "leisure":
        frame = draw.choice([frame for frame in ACTIONS if frame.verb in _LEISURE])
        main, why = c.arguments(draw, frame, actor, "future"), w.HAVE_TIME
    else:
        main, why = c.rest(draw, actor) if kind == "rest" else c.meal(draw, actor)
    times = (None, v.TODAY, v.TOMORROW, v.TONIGHT) if why in (w.HAVE_TIME, w.RAIN) else (None,)
    subject: m.Nominal = m.Pronoun("it") if why is w.RAIN else who
    condition = m.Clause(subject, why, "present", time=draw.choice(times))
    return m.Subordinate("if", condition, replace(main, time=v.IMPLIED), first)


def _favour(draw: c.Draw, first: bool) -> m.Sentence:
    """If you call me tomorrow, I will pick you up."""
    pairs: tuple[tuple[m.Person, m.Person], ...] = (
        ("you", "I"), ("you", "we"), ("I", "you"), ("we", "you"), ("he", "I"), ("she", "we"), ("they", "I"),
        ("he", "you"), ("she", "you"), ("they", "you"),
    )  # fmt: skip
    one, other = (m.Pronoun(person) for person in draw.choice(pairs))
    verb, thanks = draw.sample(_FAVOURS, 2)
    time = draw.choice((None, v.TODAY, v.TOMORROW, v.TONIGHT, v.NEXT_WEEK, v.ON_SUNDAY))
    condition = m.Clause(one, verb, "present", object=other, time=time)
    return m.Subordinate(
        "if", condition, m.Clause(other, thanks, "future", object=one, time=v.IMPLIED), first
    )


def _opinion(draw: c.Draw) -> m.Sentence:
    who = draw.choice((m.Pronoun("I"), m.Pronoun("I"), m.Pronoun("we"), m.Pronoun("he"), m.Pronoun("she")))
    verbs: list[Literal["think", "know", "hope", "say"]] = ["think", "know", "hope"]
    verb = draw.choice([*verbs, "say"] if who.person in ("he", "she") else verbs)
    subject = c.draw_subject(draw)
    while subject in (who, *((m.Pronoun("I"), m.Pronoun("we")) if who.person in ("I", "we") else ())):
        subject = c.draw_subject(draw)
    frame = draw.choice(_SEPARABLE if draw.random() < 0.3 else ACTIONS)
    clause = c.action(draw, frame, subject)
    if verb == "hope":
        clause = replace(clause, mode="future", time=c.draw_time(draw, "future", frame), negated=False)
    return m.Opinion(who, verb, clause)


def _remark(draw: c.Draw) -> m.Sentence:
    person = draw.choice(c.SUBJECTS)
    noun = draw.choice(_THINGS)
    quality, word, verb, mode, negated = draw.choice(_REMARKS)
    topic = m.NounPhrase(noun, "the" if verb is w.BUY else c.POSSESSIVES[person])
    return m.Remark(
        topic, quality, word, m.Clause(m.Pronoun(person), verb, mode, m.Pronoun("it"), negated=negated)
    )


def _state(draw: c.Draw) -> m.Sentence:
    """I am tired. Do you have time tomorrow? Your apartment is beautiful."""
    clause = _quality(draw) if draw.random() < 0.3 else _condition(draw)
    if draw.random() < 0.35:
        return m.Question(replace(clause, negated=False))
    return m.Statement(c.perhaps_fronted(draw, clause))


def _quality(draw: c.Draw) -> m.Clause:
    noun = draw.choice(_THINGS)
    adjective = draw.choice((*noun.adjectives, v.EXPENSIVE))
    quality = m.Complement(adjective.english, adjective.german)
    return m.Clause(m.NounPhrase(noun, draw.choice(("the", *OWNED))), w.BE, "present", complements=(quality,))


def _condition(draw: c.Draw) -> m.Clause:
    verb = draw.choice((*STATES, w.HAVE_TIME, w.HAVE_TIME))
    modes: tuple[m.Mode, ...] = ("present", "past")
    mode = draw.choice((*modes, "future") if verb in (w.HAVE_TIME, w.BE_AT_HOME) else modes)
    times: dict[m.Mode, tuple[m.Adverb | None, ...]] = {
        "present": (None, v.TODAY),
        "past": (v.YESTERDAY, v.LAST_WEEK, v.ON_MONDAY, v.ON_SUNDAY),
        "future": (v.TOMORROW, v.TONIGHT, v.NEXT_WEEK),
    }
    return m.Clause(
        c.draw_subject(draw), verb, mode, time=draw.choice(times[mode]), negated=draw.random() < 0.3
    )


def _schedule(draw: c.Draw) -> m.Sentence:
    """The train arrives at seven. When does the movie start?"""
    noun, verb = draw.choice(
        ((v.TRAIN, w.ARRIVE), (v.BUS, w.ARRIVE), (v.MOVIE, w.START), (v.CONCERT, w.START))
    )
    subject = m.NounPhrase(noun, draw.choice(("the", "our", "your") if verb is w.ARRIVE else ("the",)))
    mode: m.Mode = draw.choice(("present", "past", "future"))
    if draw.random() < 0.3:
        return m.Question(m.Clause(subject, verb, mode, time=v.IMPLIED), "when")
    hour, at_hour = draw.choice(v.CLOCKS)
    if mode == "present" or draw.random() < 0.3:
        return m.Statement(m.Clause(subject, verb, mode, time=hour))
    day = draw.choice(c.DAYS if mode == "future" else (v.YESTERDAY, v.ON_MONDAY, v.ON_SUNDAY))
    return m.Statement(
        c.perhaps_fronted(draw, m.Clause(subject, verb, mode, complements=(at_hour,), time=day))
    )
