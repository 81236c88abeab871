"""The verbs of the phrasebook: each English verb with its German translations."""

from __future__ import annotations

from dataclasses import replace

from disco_mt.data.phrasebook.meaning import GermanVerb, Verb


def _german(forms: str, participle: str = "", preterite: str = "", imperative: str = "") -> GermanVerb:
    """`forms`: ich, du, er, wir, ihr; `participle`: "ist gegangen" with sein; `preterite`: ich, wir."""
    ich, du, er, wir, ihr = forms.split()
    past = preterite.split()
    return GermanVerb(
        (ich, du, er, wir, ihr),
        participle.removeprefix("ist "),
        (past[0], past[1]) if past else None,
        "sein" if participle.startswith("ist ") else "haben",
        imperative=imperative,
    )


def _separable(verb: GermanVerb, prefix: str, preterite: bool = False) -> GermanVerb:
    """aufmachen from machen; without `preterite` only the perfect is used, as in spoken German."""
    past = verb.preterite if preterite else None
    return replace(verb, prefix=prefix, participle=prefix + verb.participle, preterite=past)


def _verb(
    english: str, *german: GermanVerb, particle: str = "", preposition: str = "", tail: str = ""
) -> Verb:
    """`english`: base, third person, past and -ing form."""
    base, third, past, ing = english.split()
    return Verb(base, third, past, ing, german, particle, preposition, tail)


_KAUFEN = _german("kaufe kaufst kauft kaufen kauft", "gekauft", "kaufte kauften", "kauf")
_BESORGEN = _german("besorge besorgst besorgt besorgen besorgt", "besorgt", imperative="besorg")
_VERKAUFEN = _german("verkaufe verkaufst verkauft verkaufen verkauft", "verkauft")
_BRAUCHEN = _german("brauche brauchst braucht brauchen braucht", "gebraucht", "brauchte brauchten")
_SUCHEN = _german("suche suchst sucht suchen sucht", "gesucht")
_SEHEN = _german("sehe siehst sieht sehen seht", "gesehen", "sah sahen")
_ANSEHEN = replace(_separable(_SEHEN, "an"), reflexive=True)
_BESUCHEN = _german("besuche besuchst besucht besuchen besucht", "besucht", "besuchte besuchten", "besuch")
_ANRUFEN = _separable(_german("rufe rufst ruft rufen ruft", "gerufen", imperative="ruf"), "an")
_ABHOLEN = _separable(_german("hole holst holt holen holt", "geholt", imperative="hol"), "ab")
_HELFEN = replace(
    _german("helfe hilfst hilft helfen helft", "geholfen", "half halfen", "hilf"), case="dative"
)
_WARTEN_AUF = replace(
    _german("warte wartest wartet warten wartet", "gewartet", imperative="warte"), preposition="auf"
)
_ESSEN = _german("esse isst isst essen esst", "gegessen", "aß aßen")
_TRINKEN = _german("trinke trinkst trinkt trinken trinkt", "getrunken", "trank tranken")
_LESEN = _german("lese liest liest lesen lest", "gelesen", "las lasen", "lies")
_OEFFNEN = _german("öffne öffnest öffnet öffnen öffnet", "geöffnet", imperative="öffne")
_SCHLIESSEN = _german("schließe schließt schließt schließen schließt", "geschlossen", imperative="schließ")
_MACHEN = _german("mache machst macht machen macht", "gemacht", imperative="mach")
_AUFRAEUMEN = _separable(_german("räume räumst räumt räumen räumt", "geräumt", imperative="räum"), "auf")
_GEBEN = _german("gebe gibst gibt geben gebt", "gegeben", "gab gaben", "gib")
_BRINGEN = _german("bringe bringst bringt bringen bringt", "gebracht", "brachte brachten", "bring")
_AUFSTEHEN = replace(
    _german("stehe stehst steht stehen steht", "ist aufgestanden", imperative="steh"), prefix="auf"
)
_KOMMEN = _german("komme kommst kommt kommen kommt", "ist gekommen", "kam kamen", "komm")
_FAHREN = _german("fahre fährst fährt fahren fahrt", "ist gefahren", "fuhr fuhren", "fahr")
_GEHEN = _german("gehe gehst geht gehen geht", "ist gegangen", "ging gingen", "geh")
_BLEIBEN = _german("bleibe bleibst bleibt bleiben bleibt", "ist geblieben", "blieb blieben", "bleib")
_ARBEITEN = _german("arbeite arbeitest arbeitet arbeiten arbeitet", "gearbeitet")
_WOHNEN = _german("wohne wohnst wohnt wohnen wohnt", "gewohnt", "wohnte wohnten")
_LEBEN = _german("lebe lebst lebt leben lebt", "gelebt")
_FANGEN = _german("fange fängst fängt fangen fangt", "gefangen", "fing fingen")
_BEGINNEN = _german("beginne beginnst beginnt beginnen beginnt", "begonnen", "begann begannen")
_SPIELEN = _german("spiele spielst spielt spielen spielt", "gespielt", "spielte spielten")
_REGNEN = _german("regne regnest regnet regnen regnet", "geregnet", "regnete regneten")
# No participle: in everyday German these two are said in the simple past.
_SEIN = _german("bin bist ist sind seid", preterite="war waren")
_HABEN = _german("habe hast hat haben habt", preterite="hatte hatten")

BUY = _verb("buy buys bought buying", _KAUFEN)
GET = _verb("buy buys bought buying", _KAUFEN, _BESORGEN)  # small things one can also "besorgen"
SELL = _verb("sell sells sold selling", _VERKAUFEN)
NEED = _verb("need needs needed needing", _BRAUCHEN)
LOOK_FOR = _verb("look looks looked looking", _SUCHEN, preposition="for")
SEE = _verb("see sees saw seeing", _SEHEN)
WATCH = _verb("watch watches watched watching", _SEHEN, _ANSEHEN)
VISIT = _verb("visit visits visited visiting", _BESUCHEN)
CALL = _verb("call calls called calling", _ANRUFEN)
PICK_UP = _verb("pick picks picked picking", _ABHOLEN, particle="up")
HELP = _verb("help helps helped helping", _HELFEN)
WAIT_FOR = _verb("wait waits waited waiting", _WARTEN_AUF, preposition="for")
EAT = _verb("eat eats ate eating", _ESSEN)
DRINK = _verb("drink drinks drank drinking", _TRINKEN)
READ = _verb("read reads read reading", _LESEN)
OPEN = _verb("open opens opened opening", _OEFFNEN, _separable(_MACHEN, "auf"))
CLOSE = _verb("close closes closed closing", _SCHLIESSEN, _separable(_MACHEN, "zu"))
TIDY_UP = _verb("tidy tidies tidied tidying", _AUFRAEUMEN, particle="up")
GIVE = _verb("give gives gave giving", _GEBEN)
BRING = _verb("bring brings brought bringing", _BRINGEN, _separable(_BRINGEN, "mit"))
GET_UP = _verb("get gets got getting", _AUFSTEHEN, particle="up")
ARRIVE = _verb("arrive arrives arrived arriving", _separable(_KOMMEN, "an", preterite=True))
COME = _verb("come comes came coming", _KOMMEN)
DRIVE = _verb("drive drives drove driving", _FAHREN)
GO = _verb("go goes went going", _GEHEN)
STAY = _verb("stay stays stayed staying", _BLEIBEN)
WORK = _verb("work works worked working", _ARBEITEN)
LIVE = _verb("live lives lived living", _WOHNEN, _LEBEN)
START = _verb("start starts started starting", _separable(_FANGEN, "an", preterite=True), _BEGINNEN)
PLAY_SOCCER = _verb("play plays played playing", replace(_SPIELEN, fixed="Fußball"), tail="soccer")
PLAY_PIANO = _verb("play plays played playing", replace(_SPIELEN, fixed="Klavier"), tail="the piano")
RAIN = _verb("rain rains rained raining", _REGNEN)
BE = _verb("be is was being", _SEIN)
HAVE_TIME = _verb("have has had having", replace(_HABEN, fixed="Zeit", negated="keine Zeit"), tail="time")


def _be(english: str, *german: str, have: str = "") -> Verb:
    """To be tired; `have`: a German noun that is also used, as in "Hunger haben"."""
    ways = [replace(_SEIN, fixed=word) for word in german]
    if have:
        ways.append(replace(_HABEN, fixed=have, negated=f"keinen {have}"))
    return replace(BE, german=tuple(ways), tail=english)


BE_TIRED = _be("tired", "müde")
BE_SICK = _be("sick", "krank")
BE_HUNGRY = _be("hungry", "hungrig", have="Hunger")
BE_THIRSTY = _be("thirsty", "durstig", have="Durst")
BE_AT_HOME = _be("at home", "zu Hause", "daheim")
