"""Drawing the clauses that sentences are made of."""

from __future__ import annotations

import random
from dataclasses import replace

from disco_mt.data.phrasebook import meaning as m
from disco_mt.data.phrasebook import verbs as w
from disco_mt.data.phrasebook import vocabulary as v
from disco_mt.data.phrasebook.frames import ACQUAINTED, FAMILY, GENDERED, OWNED, PEOPLE, Frame

Draw = random.Random

SUBJECTS: tuple[m.Person, ...] = ("I", "I", "you", "you", "he", "she", "we", "they")
OBJECTS: tuple[m.Person, ...] = ("I", "you", "you", "he", "she", "we", "they")
MODALS: tuple[m.Mode, ...] = ("can", "must", "want", "would like", "should")
FUTURE = (v.TODAY, v.TOMORROW, v.TOMORROW, v.TONIGHT, v.NEXT_WEEK, v.ON_MONDAY, v.ON_SUNDAY, v.SOON)
PAST = (v.YESTERDAY, v.YESTERDAY, v.LAST_WEEK, v.ON_MONDAY, v.ON_SUNDAY, v.THIS_MORNING)
_NEAR_PAST = (v.YESTERDAY, v.THIS_MORNING)
_NEAR_FUTURE = (v.TODAY, v.TOMORROW, v.TONIGHT)
HABIT = (v.OFTEN, v.SOMETIMES, v.USUALLY, v.EVERY_DAY)
HOURS = tuple(complement for _, complement in v.CLOCKS)
DAYS = (v.TOMORROW, v.ON_MONDAY, v.ON_SUNDAY)  # go well with an hour: tomorrow at seven
POSSESSIVES = {"I": "my", "you": "your", "he": "his", "she": "her", "we": "our", "they": "their"}


def action(draw: Draw, frame: Frame, subject: m.Nominal, negatable: bool = True) -> m.Clause:
    """Somebody does something, at some time."""
    mode = _mode(draw, frame)
    clause = replace(arguments(draw, frame, subject, mode), mode=mode)
    clause = replace(clause, time=draw_time(draw, mode, frame))
    if frame.verb is w.LIVE and mode == "past":  # nobody has lived in Berlin yesterday
        clause = replace(clause, time=None)
    if frame.clock:
        clause = _at_an_hour(draw, clause)
    firm = mode in ("present", "would like") and frame.kind != "state"  # habits are not denied
    if negatable and not firm and clause.time is not v.SOON and draw.random() < 0.18:
        clause = replace(clause, negated=True)
    return clause


def arguments(draw: Draw, frame: Frame, subject: m.Nominal, mode: m.Mode) -> m.Clause:
    return m.Clause(
        subject,
        frame.verb,
        mode,
        object=_object(draw, frame, subject, mode),
        recipient=_person(draw, subject) if frame.recipient else None,
        complements=_places(draw, frame, subject),
    )


def draw_subject(draw: Draw) -> m.Nominal:
    if draw.random() < 0.75:
        return m.Pronoun(draw.choice(SUBJECTS))
    return _named(draw, draw.choice(PEOPLE))


def taken_up(draw: Draw) -> tuple[m.Nominal, m.Pronoun]:
    """A subject, and the pronoun that names it again: my brother ... he."""
    if draw.random() < 0.7:
        person = m.Pronoun(draw.choice(SUBJECTS))
        return person, person
    noun = draw.choice(FAMILY)
    return m.NounPhrase(noun, draw.choice(OWNED)), m.Pronoun(GENDERED[noun])


def owner(draw: Draw, person: m.Pronoun) -> str:
    """Whose brother one visits: mostly one's own."""
    return POSSESSIVES[person.person] if draw.random() < 0.6 else draw.choice(OWNED)


def perhaps_fronted(draw: Draw, clause: m.Clause) -> m.Clause:
    """English opens with the time now and then."""
    time = clause.time
    movable = time is not None and time.english != "" and time.place == "end" and clause.mode != "present"
    return replace(clause, fronted=movable and draw.random() < 0.25)


def draw_time(draw: Draw, mode: m.Mode, frame: Frame) -> m.Adverb | None:
    past, future = (_NEAR_PAST, _NEAR_FUTURE) if frame.at_hand else (PAST, FUTURE)
    anyway: tuple[m.Adverb | None, ...] = (None, None, *future)
    times: dict[m.Mode, tuple[m.Adverb | None, ...]] = {
        "past": (None, *past),
        "future": future,
        # One stays somewhere, but not "gerade".
        "progressive": (None, v.TODAY) if frame.verb is w.STAY else (v.ONGOING, v.NOW, v.TODAY),
        "present": (None,) if frame.kind == "state" else HABIT,
        "like": (None,),
    }
    return draw.choice(times.get(mode, anyway))


def rest(draw: Draw, subject: m.Nominal) -> tuple[m.Clause, m.Verb]:
    """Staying in, and why."""
    verb, place = draw.choice(((w.STAY, v.AT_HOME), (w.GO, v.HOME), (w.DRIVE, v.HOME)))
    why = draw.choice((w.BE_TIRED, w.BE_SICK, w.RAIN))
    if why is w.BE_SICK and draw.random() < 0.5:
        verb, place = w.GO, v.TO_DOCTOR
    return m.Clause(subject, verb, "future", complements=(place,)), why


def meal(draw: Draw, subject: m.Nominal) -> tuple[m.Clause, m.Verb]:
    """Eating or drinking, and why."""
    if draw.random() < 0.5:
        drink = m.NounPhrase(draw.choice((v.COFFEE, v.TEA, v.BEER, v.WATER)), "")
        return m.Clause(subject, w.DRINK, "future", object=drink), w.BE_THIRSTY
    food = m.NounPhrase(draw.choice((v.APPLE, v.ROLL, v.CAKE)), draw.choice(("a", "the")))
    return m.Clause(subject, draw.choice((w.EAT, w.GET)), "future", object=food), w.BE_HUNGRY


def reason(verb: m.Verb, subject: m.Nominal, mode: m.Mode) -> m.Clause:
    if verb is w.RAIN:
        return m.Clause(m.Pronoun("it"), verb, "progressive" if mode == "present" else mode)
    return m.Clause(subject, verb, mode)


def _mode(draw: Draw, frame: Frame) -> m.Mode:
    if frame.kind == "state":
        modes: tuple[m.Mode, ...] = ("present", "past", "future")
        return draw.choice(("like", *modes)) if frame.pleasant else draw.choice(modes)
    modes = ("past", "past", "future", "future", draw.choice(MODALS), draw.choice(MODALS))
    if not frame.clock:
        modes += ("progressive",)
    if frame.kind == "usual":
        modes += ("present",)
    if frame.pleasant:
        modes += ("like",)
    return draw.choice(modes)


def _at_an_hour(draw: Draw, clause: m.Clause) -> m.Clause:
    """Add an hour; it takes the place of the time, or follows a day."""
    if clause.mode == "like" or (clause.object and draw.random() < 0.5):
        return clause
    hour, at_hour = draw.choice(v.CLOCKS)
    if clause.mode == "present" and draw.random() < 0.5:
        return replace(clause, time=hour)
    if clause.mode == "past":
        day = draw.choice((v.YESTERDAY, v.ON_MONDAY, v.ON_SUNDAY))
    else:
        day = clause.time if clause.mode == "present" and clause.time else draw.choice(DAYS)
    return replace(clause, complements=(*clause.complements, at_hour), time=day)


def _object(draw: Draw, frame: Frame, subject: m.Nominal, mode: m.Mode) -> m.Nominal | None:
    if frame.people:
        return _person(draw, subject)
    if not frame.objects:
        return None
    determiner = draw.choice(frame.determiners)
    if mode == "present" and frame.kind == "usual" and "a" in frame.determiners:
        determiner = "a"  # one often reads a book, not the book
    return _described(draw, draw.choice(frame.objects), determiner, 0.3)


def _person(draw: Draw, subject: m.Nominal) -> m.Nominal:
    if draw.random() < 0.35:
        taken = {"I": ("I", "we"), "we": ("I", "we")}
        own = subject.person if isinstance(subject, m.Pronoun) else "it"
        return m.Pronoun(draw.choice([p for p in OBJECTS if p not in taken.get(own, (own,))]))
    return _named(draw, _other(draw, subject))


def _other(draw: Draw, subject: m.Nominal) -> m.Noun:
    return draw.choice([noun for noun in PEOPLE if isinstance(subject, m.Pronoun) or noun != subject.noun])


def _named(draw: Draw, noun: m.Noun) -> m.NounPhrase:
    owners = (*OWNED, "the") if noun in ACQUAINTED and noun is not v.FRIEND else OWNED
    return _described(draw, noun, draw.choice(owners), 0.15)


def _described(draw: Draw, noun: m.Noun, determiner: str, often: float) -> m.NounPhrase:
    described = bool(noun.adjectives) and draw.random() < often
    return m.NounPhrase(noun, determiner, draw.choice(noun.adjectives) if described else None)


def _places(draw: Draw, frame: Frame, subject: m.Nominal) -> tuple[m.Complement, ...]:
    places: tuple[m.Complement, ...] = (draw.choice(frame.places),) if frame.places else ()
    if frame.companion and draw.random() < 0.35:
        friend = _named(draw, _other(draw, subject))
        places += (m.Complement("with", preposition="mit", phrase=friend),)
    return places
