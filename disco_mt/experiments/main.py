"""Tables 1-3: autoregressive, CMLM and DisCo on the test set, with steps and training time."""

from __future__ import annotations

from dataclasses import dataclass

from disco_mt.decoding.options import DecodingOptions
from disco_mt.experiments import paper
from disco_mt.experiments.decode import Decoding, Hypotheses, Lab
from disco_mt.experiments.experiment import Experiment, Options
from disco_mt.reporting.intervals import mean_difference
from disco_mt.reporting.reports import Report
from disco_mt.reporting.tables import Table, duration, number
from disco_mt.reporting.verdicts import Verdict
from disco_mt.suites import roles
from disco_mt.suites.roles import Role, mask_predict
from disco_mt.suites.suite import Suite

AT_BEAM, AT_DISTILLED = "AT, beam 5", "AT + distillation, beam 5"
CMLM_4, CMLM_10 = "CMLM + Mask-Predict, T=4", "CMLM + Mask-Predict, T=10"
DISCO_4, DISCO_10 = "DisCo + Mask-Predict, T=4", "DisCo + Mask-Predict, T=10"
EASY = "DisCo + Easy-First"
PENALISED = "DisCo + Easy-First, length penalty"  # ours
SPLICED = "DisCo + Easy-First, length penalty, spliced sources"  # ours
SPLICED_4 = "DisCo + Mask-Predict, T=4, length penalty, spliced sources"  # beside it
TEACHER = "AT teacher, beam 5"  # where it is another model than the AT it is compared with
ROLES = (roles.AT_RAW, roles.AT, roles.CMLM, roles.DISCO, roles.SPLICED)
NEEDED = (roles.AT_RAW, roles.DISCO)  # a suite may do without the others: their rows are missing then


@dataclass(frozen=True)
class Row:
    """A line of the table, and the paper's line beside it."""

    label: str
    decoding: Decoding
    paper: str = ""


def run(lab: Lab, options: Options) -> Report:
    """Choose on dev, score the test set once, compare."""
    rows = _rows(lab)
    found = {row.label: lab.decode(row.decoding, "test") for row in rows}
    return Report((_ours(lab, rows, found), _theirs()), _verdicts(lab, found), notes=_notes(found))


def needs(suite: Suite) -> list[str]:
    """The systems of the table, as far as the suite has them, and the teacher."""
    return roles.with_teacher(suite, [r for r in ROLES if r in NEEDED or roles.has(suite, r)])


def _rows(lab: Lab) -> list[Row]:
    return [row for role in ROLES if roles.has(lab.suite, role) for row in _rows_of(lab, role)]


def _rows_of(lab: Lab, role: Role) -> list[Row]:
    system, teacher = lab.system(role), roles.teacher_of(lab.suite)

    def row(label: str, options: DecodingOptions) -> Row:
        return Row(label, Decoding(system, options), label)

    if role == roles.AT_RAW:
        large = Row(TEACHER, lab.beam(teacher), "AT Transformer Large (teacher)")
        return [
            *([large] if teacher != system else []),
            Row("AT, greedy", Decoding(system, roles.GREEDY)),
            Row(AT_BEAM, lab.beam(system), "AT Transformer Base"),
        ]
    if role == roles.AT:
        return [
            Row("AT + distillation, greedy", Decoding(system, roles.GREEDY)),
            Row(AT_DISTILLED, lab.beam(system), "AT Transformer Base + Distillation"),
        ]
    if role == roles.CMLM:
        return [row(CMLM_4, mask_predict(4)), row(CMLM_10, mask_predict(10))]

    def tuned(label: str, options: DecodingOptions) -> Row:
        return Row(label, lab.tuned(Decoding(system, options), "length_penalty"))

    if role == roles.SPLICED:
        return [tuned(SPLICED_4, mask_predict(4)), tuned(SPLICED, roles.EASY_FIRST)]
    first = [row(DISCO_4, mask_predict(4)), row(DISCO_10, mask_predict(10)), row(EASY, roles.EASY_FIRST)]
    return [*first, tuned(PENALISED, roles.EASY_FIRST)]


def _ours(lab: Lab, rows: list[Row], found: dict[str, Hypotheses]) -> Table:
    direction = paper.direction(*lab.suite.data.languages, paper.DIRECTIONS)
    tokenised = ("tokenised BLEU",) if lab.papers_corpus else ()
    header = ("system", "steps", "BLEU", "chrF", "repeated words", "training", *tokenised)
    cells = [_cells(lab, row, found[row.label], direction) for row in rows]
    signature = lab.quality(found[rows[0].label]).bleu_signature
    note = (
        f"Test set of {lab.suite.name}; length beam 5; steps of AT are passes, EOS included. BLEU is "
        f"sacreBLEU `{signature}`; the paper's is tokenised BLEU on {direction}, another corpus: compare the "
        "order, not the numbers."
    )
    theirs = (f"paper: steps ({direction})", f"paper: BLEU ({direction})")
    return Table(f"Ours ({lab.suite.name}) beside the paper's", (*header, *theirs), tuple(cells), note)


def _cells(lab: Lab, row: Row, found: Hypotheses, direction: str) -> tuple[str, ...]:
    quality = lab.quality(found, paper_bleu=lab.papers_corpus)
    theirs = paper.MAIN.get(row.paper, {}).get(direction)
    own = (
        row.label,
        number(found.mean_steps),
        number(quality.bleu),
        number(quality.chrf),
        f"{quality.repetition_rate:.2f} %",
        duration(lab.workspace.training_seconds(row.decoding.system)),
    )
    tokenised = (number(quality.tokenised_bleu),) if lab.papers_corpus else ()
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
        f"{paper.TABLE_1}; {paper.TABLE_2}; {paper.TABLE_3}. Each cell: BLEU (steps). n: reranked "
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
    teacher = TEACHER if TEACHER in found else AT_BEAM

    def better(claim: str, one: str, other: str) -> list[Verdict]:
        return [judge.better(claim, texts[one], texts[other])] if {one, other} <= {*found} else []

    return (
        *_against_cmlm(lab, found),
        *better("DisCo mask-predict T=4 is below easy-first (Section 4.3)", EASY, DISCO_4),
        *better("DisCo mask-predict T=10 is below easy-first (Section 4.3)", EASY, DISCO_10),
        *better("The CMLM gains from more passes, T=4 to 10 (Table 1)", CMLM_10, CMLM_4),
        *better("AT, too, gains from distillation (Section 5.1)", AT_DISTILLED, AT_BEAM),
        *better("With distillation for both, AT stays ahead of DisCo (Section 7)", AT_DISTILLED, EASY),
        *better("Ours: a length penalty chosen on dev helps easy-first", PENALISED, EASY),
        *better("Ours: spliced sources help it further", SPLICED, PENALISED),
        *better("Ours: with both, DisCo mask-predict T=4 is below easy-first", SPLICED, SPLICED_4),
        *(
            judge.comparable(
                f"Ours: {one} is within 1.5 BLEU of the AT teacher with beam 5",
                texts[one],
                texts[teacher],
                margin=1.5,
            )
            for one in (EASY, PENALISED, SPLICED)
            if one in found
        ),
    )


def _against_cmlm(lab: Lab, found: dict[str, Hypotheses]) -> tuple[Verdict, ...]:
    if CMLM_10 not in found:
        return ()
    steps = mean_difference(found[EASY].steps, found[CMLM_10].steps, lab.samples)
    claim = "DisCo easy-first is at least comparable to the CMLM with 10 steps (Section 4.3)"
    return (
        lab.judge("test").comparable(claim, found[EASY].texts, found[CMLM_10].texts),
        Verdict("... in fewer steps on average", steps.below(), f"{steps} steps"),
    )


def _notes(found: dict[str, Hypotheses]) -> tuple[str, ...]:
    empty = {label: sum(not text.strip() for text in each.texts) for label, each in found.items()}
    none = [f"{label}: {count}" for label, count in empty.items() if count]
    return (
        "Training time is that of this machine, with whatever ran beside it: an order of magnitude.",
        "Not in the paper: the length penalty (candidates are compared by log P / N^alpha, with alpha chosen "
        "on dev; the paper has 1) and, where the suite has it, DisCo trained further on made-up sources that "
        "the teacher translated (`disco distill --splice`).",
        *([f"Empty translations: {'; '.join(none)}."] if none else []),
    )


EXPERIMENT = Experiment(
    "Main results",
    f"{paper.TABLE_1}, {paper.TABLE_2}, {paper.TABLE_3}",
    needs,
    run,
    inconsistencies=paper.INCONSISTENCIES["main"],
)
