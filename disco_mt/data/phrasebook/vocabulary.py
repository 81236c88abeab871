"""The nouns, times and places of the phrasebook: few, with synonyms that inflect differently."""

from __future__ import annotations

from typing import Literal

from disco_mt.data.phrasebook.meaning import Adjective, Adverb, Complement, GermanNoun, Noun

# ---------------------------------------------------------------------------------------------- adjectives

NEW = Adjective("new", ("neu",))
OLD = Adjective("old", ("alt",))
BIG = Adjective("big", ("groß",))
SMALL = Adjective("small", ("klein",))
BEAUTIFUL = Adjective("beautiful", ("schön", "hübsch"))
EXPENSIVE = Adjective(
    "expensive", ("teuer",)
)  # said of things, never before a noun: it would become "teures"

# --------------------------------------------------------------------------------------------------- nouns


def _noun(english: str, german: str, adjectives: tuple[Adjective, ...] = ()) -> Noun:
    """`german`: "der Wagen | das Auto"; a weak noun gives its other form: "der Kollege Kollegen"."""
    return Noun(english, tuple(_german_noun(word) for word in german.split(" | ")), adjectives)


def _german_noun(text: str) -> GermanNoun:
    article, word, *oblique = text.split()
    if article == "pl":  # only the dative differs: den Kindern
        return GermanNoun(word, "p", dative="".join(oblique))
    other = "".join(oblique)
    if article == "der":
        return GermanNoun(word, "m", accusative=other, dative=other)
    return GermanNoun(word, "f" if article == "die" else "n")


_AGED = (NEW, OLD)
_SEEN = (NEW, OLD, BEAUTIFUL)
_SIZED = (NEW, OLD, BIG, SMALL, BEAUTIFUL)

BROTHER = _noun("brother", "der Bruder")
SISTER = _noun("sister", "die Schwester")
MOTHER = _noun("mother", "die Mutter")
FATHER = _noun("father", "der Vater")
GRANDMOTHER = _noun("grandmother", "die Oma | die Großmutter")
GRANDFATHER = _noun("grandfather", "der Opa | der Großvater")
PARENTS = _noun("parents", "pl Eltern")
CHILDREN = _noun("children", "pl Kinder Kindern")
FRIEND = _noun("friend", "der Freund | die Freundin")
NEIGHBOR = _noun("neighbor", "der Nachbar Nachbarn | die Nachbarin")
TEACHER = _noun("teacher", "der Lehrer | die Lehrerin", _AGED)
DOCTOR = _noun("doctor", "der Arzt | die Ärztin", _AGED)
BOSS = _noun("boss", "der Chef | die Chefin", _AGED)

CAR = _noun("car", "das Auto | der Wagen", _SIZED)
BICYCLE = _noun("bicycle", "das Fahrrad | das Rad", _SEEN)
HOUSE = _noun("house", "das Haus", _SIZED)
APARTMENT = _noun("apartment", "die Wohnung", _SIZED)
SOFA = _noun("sofa", "das Sofa | die Couch", _SIZED)
COMPUTER = _noun("computer", "der Computer | der Rechner", _AGED)
PHONE = _noun("phone", "das Telefon | das Handy", _AGED)
JACKET = _noun("jacket", "die Jacke", _SEEN)
BAG = _noun("bag", "die Tasche", _SIZED)
KEY = _noun("key", "der Schlüssel", _AGED)
PICTURE = _noun("picture", "das Bild", _SEEN)
BOOK = _noun("book", "das Buch", _AGED)
NEWSPAPER = _noun("newspaper", "die Zeitung")
LETTER = _noun("letter", "der Brief")
MOVIE = _noun("movie", "der Film", _AGED)
CONCERT = _noun("concert", "das Konzert")
DOOR = _noun("door", "die Tür")
WINDOW = _noun("window", "das Fenster")
ROOM = _noun("room", "das Zimmer")
BUS = _noun("bus", "der Bus")
TRAIN = _noun("train", "der Zug | die Bahn")
APPLE = _noun("apple", "der Apfel")
ROLL = _noun("roll", "das Brötchen | die Semmel")
CAKE = _noun("cake", "der Kuchen | die Torte")
SOUP = _noun("soup", "die Suppe")
COFFEE = _noun("coffee", "der Kaffee")
TEA = _noun("tea", "der Tee")
BEER = _noun("beer", "das Bier")
WATER = _noun("water", "das Wasser")

# --------------------------------------------------------------------------------------- times and places


def _time(english: str, *german: str, place: Literal["end", "middle"] = "end") -> Adverb:
    """A synonym that may not open a sentence begins with "~"."""
    words = tuple((word.removeprefix("~"), word[:1] not in ("", "~")) for word in german)
    return Adverb(english, words, place)


TODAY = _time("today", "heute")
YESTERDAY = _time("yesterday", "gestern")
THIS_MORNING = _time("this morning", "heute Morgen", "heute früh")
LAST_WEEK = _time("last week", "letzte Woche", "vorige Woche")
ON_MONDAY = _time("on Monday", "am Montag")
ON_SUNDAY = _time("on Sunday", "am Sonntag")
TOMORROW = _time("tomorrow", "morgen")
TONIGHT = _time("tonight", "heute Abend")
NEXT_WEEK = _time("next week", "nächste Woche", "kommende Woche")
SOON = _time("soon", "bald")
NOW = _time("now", "jetzt", "~gerade")
ONGOING = _time("", "", "~gerade")  # "is reading": German may add "gerade"
# A time that is not said, as in "when?": the German present can still mean the future.
IMPLIED = _time("", "")
OFTEN = _time("often", "oft", "~häufig", place="middle")
SOMETIMES = _time("sometimes", "manchmal", place="middle")
USUALLY = _time("usually", "meistens", "normalerweise", place="middle")
EVERY_DAY = _time("every day", "jeden Tag", "~täglich")

HOURS = {"seven": "sieben", "eight": "acht", "nine": "neun"}
CLOCKS = tuple(
    (
        _time(f"at {english}", f"um {german} Uhr", f"um {german}"),
        Complement(f"at {english}", (f"um {german} Uhr", f"um {german}")),
    )
    for english, german in HOURS.items()
)

HOME = Complement("home", ("nach Hause",))
AT_HOME = Complement("at home", ("zu Hause", "daheim"))
TO_CINEMA = Complement("to the cinema", ("ins Kino",))
TO_OFFICE = Complement("to the office", ("ins Büro",))
TO_SCHOOL = Complement("to school", ("zur Schule", "in die Schule"))
TO_DOCTOR = Complement("to the doctor", ("zum Arzt", "zur Ärztin"))
TO_BERLIN = Complement("to Berlin", ("nach Berlin",))
TO_HAMBURG = Complement("to Hamburg", ("nach Hamburg",))
INTO_TOWN = Complement("into town", ("in die Stadt",))
IN_BERLIN = Complement("in Berlin", ("in Berlin",))
IN_HAMBURG = Complement("in Hamburg", ("in Hamburg",))
IN_OFFICE = Complement("in the office", ("im Büro",))
IN_GARDEN = Complement("in the garden", ("im Garten",))
