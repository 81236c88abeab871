"""Verbs with the objects, places and times that make sense with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from disco_mt.data.phrasebook import verbs as w
from disco_mt.data.phrasebook import vocabulary as v
from disco_mt.data.phrasebook.meaning import Complement, Noun, Person, Verb

OWNED = ("my", "your", "his", "her", "our")

FAMILY = (v.BROTHER, v.SISTER, v.MOTHER, v.FATHER, v.GRANDMOTHER, v.GRANDFATHER, v.PARENTS, v.CHILDREN)
ACQUAINTED = (v.FRIEND, v.NEIGHBOR, v.TEACHER, v.DOCTOR, v.BOSS)
PEOPLE = FAMILY + ACQUAINTED
# People with a known pronoun in English.
GENDERED: dict[Noun, Person] = {
    v.BROTHER: "he", v.SISTER: "she", v.MOTHER: "she", v.FATHER: "he", v.GRANDMOTHER: "she",
    v.GRANDFATHER: "he", v.PARENTS: "they", v.CHILDREN: "they",
}  # fmt: skip

_LARGE = (v.CAR, v.BICYCLE, v.HOUSE, v.APARTMENT, v.SOFA, v.COMPUTER, v.PHONE, v.JACKET, v.BAG, v.PICTURE)
_FOOD = (v.APPLE, v.ROLL, v.CAKE)
_MISLAID = (v.KEY, v.PHONE, v.BAG, v.BOOK, v.JACKET, v.BICYCLE, v.LETTER, v.PICTURE)
_PRESENTS = (v.BOOK, v.BAG, v.BICYCLE, v.JACKET, v.PHONE, v.COMPUTER, v.PICTURE)
_HANDED = (v.KEY, v.BOOK, v.LETTER, v.NEWSPAPER, v.PICTURE)
_CARRIED = (v.BOOK, v.KEY, v.LETTER, v.NEWSPAPER, v.BAG, v.JACKET, v.CAKE, v.PICTURE, v.ROLL)

_DRIVEN_TO = (v.TO_BERLIN, v.TO_HAMBURG, v.INTO_TOWN, v.HOME)
_GONE_TO = (v.TO_CINEMA, v.TO_OFFICE, v.TO_SCHOOL, v.TO_DOCTOR, v.HOME, v.INTO_TOWN)
_WORKED_IN = (v.AT_HOME, v.IN_BERLIN, v.IN_HAMBURG, v.IN_OFFICE, v.IN_GARDEN)

Kind = Literal["usual", "event", "state"]


@dataclass(frozen=True)
class Frame:
    """What a verb can be combined with. `kind`: usual actions can be habits, states have no "-ing" form."""

    verb: Verb
    objects: tuple[Noun, ...] = ()
    determiners: tuple[str, ...] = ("a", "the")
    people: bool = False  # the object is a person
    recipient: bool = False
    places: tuple[Complement, ...] = ()
    companion: bool = False
    clock: bool = False
    kind: Kind = "event"
    pleasant: bool = False  # one can like to do it
    command: bool = False
    at_hand: bool = False  # takes a moment, so not "next week"


ACTIONS = (
    Frame(w.BUY, _LARGE, ("a", "a", "the")),
    Frame(w.GET, _FOOD, kind="usual", command=True),
    Frame(w.SELL, (v.CAR, v.BICYCLE, v.HOUSE, v.SOFA, v.COMPUTER, v.PHONE), ("the", *OWNED)),
    Frame(w.NEED, (*_LARGE, v.KEY, v.BOOK), ("a", "a", "the", "my", "your"), kind="state"),
    Frame(w.LOOK_FOR, _MISLAID, ("the", *OWNED)),
    Frame(w.WATCH, (v.MOVIE,), kind="usual"),
    Frame(w.SEE, people=True, kind="state"),
    Frame(w.VISIT, people=True, kind="usual", pleasant=True, command=True),
    Frame(w.CALL, people=True, kind="usual", command=True),
    Frame(w.PICK_UP, people=True, clock=True, command=True),
    Frame(w.HELP, people=True, kind="usual", pleasant=True, command=True),
    Frame(w.WAIT_FOR, (v.BUS, v.TRAIN), ("the",), kind="usual"),
    Frame(w.WAIT_FOR, people=True, kind="usual", command=True),
    Frame(w.EAT, _FOOD, ("a", "a", "the"), kind="usual"),
    Frame(w.EAT, (v.SOUP,), ("the",), at_hand=True),
    Frame(w.DRINK, (v.COFFEE, v.TEA, v.BEER, v.WATER), ("",), kind="usual", pleasant=True),
    Frame(w.READ, (v.BOOK, v.NEWSPAPER), kind="usual", command=True),
    Frame(w.READ, (v.LETTER,), ("the", "your"), command=True),
    Frame(w.OPEN, (v.WINDOW, v.DOOR), ("the",), command=True, at_hand=True),
    Frame(w.OPEN, (v.LETTER,), ("the", "your"), at_hand=True),
    Frame(w.CLOSE, (v.WINDOW, v.DOOR), ("the",), command=True, at_hand=True),
    Frame(w.TIDY_UP, (v.ROOM, v.APARTMENT), ("the", *OWNED), kind="usual", command=True),
    Frame(w.GIVE, _HANDED, ("the", "my"), recipient=True, command=True),
    Frame(w.GIVE, _PRESENTS, ("a",), recipient=True),
    Frame(w.BRING, _CARRIED, recipient=True, command=True),
    Frame(w.GET_UP, clock=True, kind="usual"),
    Frame(w.ARRIVE, clock=True),
    Frame(w.COME, clock=True, command=True),
    Frame(w.COME, places=(v.HOME,), clock=True, kind="usual", command=True),
    Frame(w.DRIVE, places=_DRIVEN_TO, companion=True, kind="usual", pleasant=True),
    Frame(w.GO, places=_GONE_TO, companion=True, kind="usual", command=True),
    Frame(w.STAY, places=(v.AT_HOME, v.IN_BERLIN, v.IN_HAMBURG), kind="usual", command=True),
    Frame(w.WORK, places=_WORKED_IN, kind="usual", pleasant=True),
    Frame(w.LIVE, places=(v.IN_BERLIN, v.IN_HAMBURG), kind="state", pleasant=True),
    Frame(w.PLAY_SOCCER, companion=True, kind="usual", pleasant=True),
    Frame(w.PLAY_PIANO, kind="usual", pleasant=True),
)  # fmt: skip
COMMANDS = tuple(frame for frame in ACTIONS if frame.command)
STATES = (w.BE_TIRED, w.BE_SICK, w.BE_HUNGRY, w.BE_THIRSTY, w.BE_AT_HOME)
