"""Figure 2: time and BLEU of AT, the CMLM over T, and DisCo easy-first; one sentence at a time."""

from __future__ import annotations

from dataclasses import asdict
from math import ceil, floor

from disco_mt.experiments import paper
from disco_mt.experiments.decode import Decoding, Hypotheses, Lab
from disco_mt.experiments.experiment import Experiment, Options
from disco_mt.reporting.plots import Figure, Series
from disco_mt.reporting.reports import Report
from disco_mt.reporting.tables import Table, number
from disco_mt.reporting.timing import Timing
from disco_mt.reporting.verdicts import Verdict
from disco_mt.suites import roles
from disco_mt.suites.roles import Role, mask_predict
from disco_mt.suites.suite import Suite

PASSES = tuple(range(1, 11))
BEAM, GREEDY, EASY = "AT, b=5", "AT, b=1", "DisCo + Easy-First, T=10"


def needs(suite: Suite) -> list[str]:
    """All on the same data."""
    return roles.systems_for(suite, [_at(suite), roles.CMLM, roles.DISCO])


def run(lab: Lab, options: Options) -> Report:
    """Score the whole test set (batched, cached), then time some of it."""
    decodings = _decodings(lab)
    found = lab.decode_all(decodings, "test")
    timing = lab.timed(decodings, options.sentences, options.repeats)
    bleu = {label: lab.quality(each).bleu for label, each in found.items()}
    return Report(
        (_table(lab, found, bleu, timing), _lengths(lab, found, timing)),
        _verdicts(lab, found, timing),
        (_figure(lab, bleu, timing),),
        notes=(*timing.notes(lab.runtime), *_winners(timing)),
        data={"load": asdict(timing.load), "seconds": timing.seconds},
    )


def _at(suite: Suite) -> Role:
    """AT trained on the same distilled data as the others, where the suite has it."""
    return roles.AT if roles.has(suite, roles.AT) else roles.AT_RAW


def _decodings(lab: Lab) -> dict[str, Decoding]:
    at = lab.system(_at(lab.suite))
    cmlm, disco = lab.system(roles.CMLM), lab.system(roles.DISCO)
    passes = {_cmlm(t): Decoding(cmlm, mask_predict(t)) for t in PASSES}
    return {
        GREEDY: Decoding(at, roles.GREEDY),
        BEAM: lab.beam(at),
        **passes,
        EASY: Decoding(disco, roles.EASY_FIRST),
    }


def _cmlm(passes: int) -> str:
    return f"CMLM + Mask-Predict, T={passes}"


def _table(lab: Lab, found: dict[str, Hypotheses], bleu: dict[str, float], timing: Timing) -> Table:
    rows = []
    for label, each in found.items():
        taken = timing.latency(label)
        times = f"{taken.mean:.1f} [{taken.low:.1f}, {taken.high:.1f}]"
        ratios = [f"{timing.speedup(label, over, lab.samples).estimate:.2f}x" for over in (BEAM, GREEDY)]
        quantiles = [number(value, 1) for value in (taken.p50, taken.p90)]
        rows.append((label, number(each.mean_steps), number(bleu[label]), times, *quantiles, *ratios))
    header = (
        "system",
        "steps",
        "BLEU",
        "ms per sentence",
        "p50",
        "p90",
        f"speedup over {BEAM}",
        f"over {GREEDY}",
    )
    note = (
        f"BLEU and steps: the whole test set of {lab.suite.name}; length beam 5. The paper (en-zh, one "
        f"V100): DisCo in {paper.SPEED_STEPS} steps is about {paper.SPEED_SPEEDUP:g} times as fast as AT, "
        f"between the CMLM with T={paper.SPEED_CMLM_BETWEEN[0]} and {paper.SPEED_CMLM_BETWEEN[1]}; its curve "
        "is a picture without numbers."
    )
    return Table(f"Ours ({lab.suite.name})", header, tuple(rows), note)


def _lengths(lab: Lab, found: dict[str, Hypotheses], timing: Timing) -> Table:
    steps = found[EASY].mean_steps
    rows = []
    for label in (GREEDY, BEAM):
        length = sum(found[label].tokens) / len(found[label].tokens)
        ratio = timing.speedup(EASY, label, lab.samples)
        rows.append(
            (
                f"ours, {label}",
                number(length),
                number(steps),
                f"{length / steps:.1f}x",
                f"{ratio.estimate:.2f}x",
            )
        )
    rows.append(
        (
            "paper, en-zh",
            number(paper.SPEED_AT_LENGTH),
            number(paper.SPEED_STEPS),
            f"{paper.SPEED_STEP_RATIO:g}x",
            f"about {paper.SPEED_SPEEDUP:g}x",
        )
    )
    header = ("", "AT length (tokens)", "DisCo steps", "length over steps", "speedup of DisCo")
    return Table("Fewer steps are not as much less time", header, tuple(rows))


def _verdicts(lab: Lab, found: dict[str, Hypotheses], timing: Timing) -> tuple[Verdict, ...]:
    verdicts = []
    for label in (BEAM, GREEDY):
        ratio = timing.speedup(EASY, label, lab.samples)
        evidence = f"{ratio.estimate:.2f}x [{ratio.low:.2f}, {ratio.high:.2f}]"
        length = sum(found[label].tokens) / len(found[label].tokens) / found[EASY].mean_steps
        verdicts += [
            Verdict(f"DisCo easy-first is faster than {label} (Section 4.4)", ratio.above(1.0), evidence),
            Verdict(
                f"... but by less than AT length over steps, {length:.1f}x (Section 4.4)",
                ratio.below(length),
                evidence,
            ),
        ]
    return (*verdicts, *_between(lab, found, timing))


def _between(lab: Lab, found: dict[str, Hypotheses], timing: Timing) -> tuple[Verdict, ...]:
    """Steps translate to time: DisCo with 5.44 steps lies between the CMLM with T=5 and T=6."""
    steps = found[EASY].mean_steps
    low, high = max(PASSES[0], floor(steps)), min(PASSES[-1], ceil(steps))
    slower = timing.speedup(_cmlm(low), EASY, lab.samples)  # DisCo's time over that of the fewer passes
    faster = timing.speedup(EASY, _cmlm(high), lab.samples)
    answers = {slower.above(1.0), faster.above(1.0)}
    return (
        Verdict(
            f"Steps translate to time: DisCo ({steps:.2f} steps) lies between the CMLM with T={low} and "
            f"{high} (Section 4.4)",
            "no" if "no" in answers else "undecided" if "undecided" in answers else "yes",
            f"takes {slower.estimate:.2f} times as long as T={low} and {1 / faster.estimate:.2f} times as "
            f"long as T={high}",
        ),
    )


def _figure(lab: Lab, bleu: dict[str, float], timing: Timing) -> Figure:
    def points(label: str, names: dict[str, str]) -> Series:
        ratios = [timing.speedup(each, BEAM, lab.samples).estimate for each in names]
        scores = tuple(bleu[each] for each in names)
        return Series(label, tuple(ratios), scores, len(names) > 2, tuple(names.values()))

    series = (
        points("CMLM + Mask-Predict", {_cmlm(t): f"T={t}" for t in PASSES}),
        points("DisCo + Easy-First", {EASY: "T=10"}),
        points("AT", {GREEDY: "b=1", BEAM: "b=5"}),
    )
    return Figure("speed", f"BLEU against speedup over {BEAM}, {lab.suite.name}", "speedup", "BLEU", series)


def _winners(timing: Timing) -> tuple[str, ...]:
    """When AT wins, the report says so in words."""
    disco = timing.latency(EASY).mean
    faster = [label for label in (GREEDY, BEAM) if timing.latency(label).mean < disco]
    return tuple(
        f"{label} is faster than DisCo easy-first on this machine, at this batch size." for label in faster
    )


EXPERIMENT = Experiment("Decoding speed", paper.FIGURE_SPEED, needs, run, plots=True)
