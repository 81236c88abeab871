"""Tables 1-3: autoregressive, CMLM and DisCo on the test set, with steps and training time."""

from __future__ import annotations

from dataclasses import dataclass

from disco_mt.decoding.strategies import DecodingOptions
from disco_mt.experiments import paper, systems
from disco_mt.experiments.decode import Decoding, Hypotheses, Lab
from disco_mt.experiments.experiment import Experiment, Options
from disco_mt.experiments.judge import mean_difference
from disco_mt.experiments.report import Report, Verdict
from disco_mt.experiments.systems import mask_predict
from disco_mt.experiments.table import Table, duration, number

TEACHER = "AT teacher, beam 5"  # where it is another model than the AT it is compared with
ROLES = (systems.AT_RAW, systems.AT, systems.CMLM, systems.DISCO)
SUITES = (
    "wmt14.en-de",
    "wmt14.de-en",
    "wmt16.en-ro",
    "wmt16.ro-en",
    "wmt17.en-zh",
    "wmt17.zh-en",
    "wmt14.en-fr",
)


@dataclass(frozen=True)
class Row:
    """A line of the table, and the paper's line beside it."""

    label: str
    decoding: Decoding
    paper: str = ""


def run(lab: Lab, options: Options, command: str) -> Report:
    """Choose on dev, score the test set once, compare."""
    rows = _rows(lab)
    found = {row.label: lab.decode(row.decoding, "test") for row in rows}
    return Report(
        title=f"Main results: {lab.suite.name}",
        source=f"{paper.TABLE_1}, {paper.TABLE_2}, {paper.TABLE_3}",
        command=command,
        tables=(_ours(lab, rows, found, options), _theirs()),
        verdicts=_verdicts(lab, found),
        notes=_notes(found),
        inconsistencies=paper.INCONSISTENCIES["main"],
    )


def _rows(lab: Lab) -> list[Row]:
    at_raw, at, cmlm, disco = (lab.system(role) for role in ROLES)
    teacher = systems.teacher_of(lab.suite)

    def row(label: str, system: str, options: DecodingOptions) -> Row:
        return Row(label, Decoding(system, options), label)

    return [
        *([Row(TEACHER, lab.beam(teacher), "AT Transformer Large (teacher)")] if teacher != at_raw else []),
        Row("AT, greedy", Decoding(at_raw, systems.GREEDY)),
        Row("AT, beam 5", lab.beam(at_raw), "AT Transformer Base"),
        Row("AT + distillation, greedy", Decoding(at, systems.GREEDY)),
        Row("AT + distillation, beam 5", lab.beam(at), "AT Transformer Base + Distillation"),
        row("CMLM + Mask-Predict, T=4", cmlm, mask_predict(4)),
        row("CMLM + Mask-Predict, T=10", cmlm, mask_predict(10)),
        row("DisCo + Mask-Predict, T=4", disco, mask_predict(4)),
        row("DisCo + Mask-Predict, T=10", disco, mask_predict(10)),
        row("DisCo + Easy-First", disco, systems.EASY_FIRST),
    ]


def _ours(lab: Lab, rows: list[Row], found: dict[str, Hypotheses], options: Options) -> Table:
    direction = paper.direction(*lab.suite.data.languages, paper.DIRECTIONS)
    tokenised = ("tokenised BLEU",) if options.paper_bleu else ()
    header = ("system", "steps", "BLEU", "chrF", "repeated words", "training", *tokenised)
    cells = [_cells(lab, row, found[row.label], direction, options) for row in rows]
    signature = lab.quality(found[rows[0].label]).bleu_signature
    note = (
        f"Test set of {lab.suite.name}; length beam 5; steps of AT are passes, EOS included. BLEU is "
        f"sacreBLEU `{signature}`; the paper's is tokenised BLEU on {direction}, another corpus: compare the "
        "order, not the numbers."
    )
    theirs = (f"paper: steps ({direction})", f"paper: BLEU ({direction})")
    return Table(f"Ours ({lab.suite.name}) beside the paper's", (*header, *theirs), tuple(cells), note)


def _cells(lab: Lab, row: Row, found: Hypotheses, direction: str, options: Options) -> tuple[str, ...]:
    quality = lab.quality(found, options.paper_bleu)
    theirs = paper.MAIN.get(row.paper, {}).get(direction)
    own = (
        row.label,
        number(found.mean_steps),
        number(quality.bleu),
        number(quality.chrf),
        f"{quality.repetition_rate:.2f} %",
        duration(lab.workspace.training_seconds(row.decoding.system)),
    )
    tokenised = (number(quality.tokenised_bleu),) if options.paper_bleu else ()
    if theirs is None:
        return (*own, *tokenised, "–", "–")
    return (*own, *tokenised, "N" if theirs.steps is None else f"{theirs.steps:g}", number(theirs.bleu))


def _theirs() -> Table:
    """All of Tables 1-3, prior work included."""
    rows = []
    for name, results in (*paper.PRIOR.items(), *paper.MAIN.items()):
        cells = [_result(results.get(direction)) for direction in paper.DIRECTIONS]
        rows.append((name, *cells, _hours(name)))
    note = (
        f"{paper.TABLE_1}; {paper.TABLE_2}; {paper.TABLE_3}. Each cell: BLEU (steps). n: rescored "
        "candidates. “Small” models have 512 hidden dimensions. Hours: training for en-fr on 16 V100."
    )
    return Table("The paper's figures", ("system", *paper.DIRECTIONS, "hours"), tuple(rows), note)


def _result(result: paper.Result | None) -> str:
    if result is None:
        return "–"
    return f"{result.bleu:g} ({'N' if result.steps is None else f'{result.steps:g}'})"


def _hours(name: str) -> str:
    hours = paper.TRAINING_HOURS.get(name)
    return "–" if hours is None else str(hours)


def _verdicts(lab: Lab, found: dict[str, Hypotheses]) -> tuple[Verdict, ...]:
    judge = lab.judge("test")
    texts = {label: each.texts for label, each in found.items()}
    easy, cmlm10 = "DisCo + Easy-First", "CMLM + Mask-Predict, T=10"
    steps = mean_difference(found[easy].steps, found[cmlm10].steps, lab.samples)
    return (
        judge.comparable(
            "DisCo easy-first is at least comparable to the CMLM with 10 steps (Section 4.3)",
            texts[easy],
            texts[cmlm10],
        ),
        Verdict("... in fewer steps on average", steps.below(), f"{steps} steps"),
        judge.better(
            "DisCo mask-predict T=4 is below easy-first (Section 4.3)",
            texts[easy],
            texts["DisCo + Mask-Predict, T=4"],
        ),
        judge.better(
            "DisCo mask-predict T=10 is below easy-first (Section 4.3)",
            texts[easy],
            texts["DisCo + Mask-Predict, T=10"],
        ),
        judge.better(
            "The CMLM gains from more passes, T=4 to 10 (Table 1)",
            texts[cmlm10],
            texts["CMLM + Mask-Predict, T=4"],
        ),
        judge.better(
            "AT, too, gains from distillation (Section 5.1)",
            texts["AT + distillation, beam 5"],
            texts["AT, beam 5"],
        ),
        judge.better(
            "With distillation for both, AT stays ahead of DisCo (Section 7)",
            texts["AT + distillation, beam 5"],
            texts[easy],
        ),
        judge.comparable(
            "Ours: DisCo easy-first is within 1.5 BLEU of the AT teacher with beam 5",
            texts[easy],
            texts.get(TEACHER, texts["AT, beam 5"]),
            margin=1.5,
        ),
    )


def _notes(found: dict[str, Hypotheses]) -> tuple[str, ...]:
    empty = {label: sum(not text.strip() for text in each.texts) for label, each in found.items()}
    none = [f"{label}: {count}" for label, count in empty.items() if count]
    return (
        "Training time is that of this machine, with whatever ran beside it: an order of magnitude.",
        *([f"Empty translations: {'; '.join(none)}."] if none else []),
    )


EXPERIMENT = Experiment("Main results", lambda suite: systems.with_teacher(suite, ROLES), run, SUITES)
