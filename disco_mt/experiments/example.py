"""Figure 4: one dev sentence, pass by pass, by mask-predict and easy-first with T=5."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from disco_mt.core.errors import UserError
from disco_mt.decoding.options import DecodeRequest
from disco_mt.evaluation.quality import repetition_rate
from disco_mt.experiments import paper
from disco_mt.experiments.decode import Decoding, Hypotheses, Lab
from disco_mt.experiments.experiment import Experiment, Options
from disco_mt.reporting.intervals import mean_difference
from disco_mt.reporting.reports import Picture, Report
from disco_mt.reporting.tables import Table, number
from disco_mt.reporting.verdicts import Verdict
from disco_mt.suites import roles
from disco_mt.suites.roles import mask_predict
from disco_mt.views import TraceView, render_svg
from disco_mt.views.view import candidate_passes, piece, readable_pieces

T = 5
TOLERANCE = 0.1  # percentage points of repeated words above the references: none to speak of
DECODERS = {"mask-predict": mask_predict(T), "easy-first": replace(roles.EASY_FIRST, iterations=T)}
FIRST_PASS = "one pass"


def run(lab: Lab, options: Options) -> Report:
    """Choose a sentence, trace it; and count repetitions over the whole dev set."""
    system = lab.system(roles.DISCO)
    decodings = {name: Decoding(system, decoding) for name, decoding in DECODERS.items()}
    one_pass = Decoding(system, replace(roles.EASY_FIRST, iterations=1))
    found = lab.decode_all({**decodings, FIRST_PASS: one_pass}, "valid")
    place = _place(lab, options, found)
    source = lab.sources("valid")[place]
    views = [_view(lab, decoding, source) for decoding in decodings.values()]
    return Report(
        (*(_passes(view) for view in views), _repetitions(lab, found)),
        _verdicts(lab, found),
        (Picture("example", f"Dev sentence {place + 1}, pass by pass", render_svg(source, views)),),
        (
            f"Dev sentence {place + 1}: “{source}”. Reference: “{lab.references('valid')[place][0]}”.",
            "Chosen by rule, not by eye: the first dev sentence whose first pass repeats a word and that "
            "easy-first ends in fewer than T passes; `--sentence N` shows another one.",
        ),
    )


def _place(lab: Lab, options: Options, found: dict[str, Hypotheses]) -> int:
    number_of = len(lab.sources("valid"))
    if options.sentence > number_of:
        raise UserError(
            f"--sentence must be at most {number_of}, the number of dev sentences; got {options.sentence}"
        )
    if options.sentence:
        return options.sentence - 1
    repeats = _rates(lab, found[FIRST_PASS].texts)
    easy = found["easy-first"]
    repaired = [n for n in range(number_of) if repeats[n] and easy.steps[n] < T and easy.tokens[n]]
    return repaired[0] if repaired else max(range(number_of), key=lambda n: easy.steps[n])


def _view(lab: Lab, decoding: Decoding, source: str) -> TraceView:
    translator = lab.translator(decoding)
    found = translator.translate(source, decoding.options, DecodeRequest(trace=True), long="refuse")
    if found.trace is None:
        raise UserError(
            f"this sentence cannot be traced: {found.refused or 'it is empty'}; choose another one"
        )
    pieces = readable_pieces(found.trace, translator.text.target)
    return TraceView(decoding.options.strategy, found.trace, found.text, found.steps, pieces)


def _passes(view: TraceView) -> Table:
    """One row per pass of the winning candidate; words that changed are bold."""
    rows, before = [], None
    for step, now in enumerate(candidate_passes(view), start=1):
        words = [
            f"**{piece(view, token)}**" if before is not None and before[n] != token else piece(view, token)
            for n, token in enumerate(now.tokens)
        ]
        rows.append((str(step), " ".join(words), number(now.score)))
        before = now.tokens
    header = ("step", "tokens (bold: changed)", "score")
    return Table(f"{view.strategy}, {view.steps} steps: “{view.text}”", header, tuple(rows), words=(1,))


def _repetitions(lab: Lab, found: dict[str, Hypotheses]) -> Table:
    rows = [
        (name, number(each.mean_steps), f"{repetition_rate(each.texts, lab.language):.2f} %")
        for name, each in found.items()
    ]
    rows.append(("references", number(None), f"{repetition_rate(_references(lab), lab.language):.2f} %"))
    title = f"Words equal to the word before them, all of dev (T={T})"
    return Table(title, ("", "steps", "repeated words"), tuple(rows))


def _verdicts(lab: Lab, found: dict[str, Hypotheses]) -> tuple[Verdict, ...]:
    """Fewer repetitions are not enough: they are resolved if there are no more than in the references."""
    first, natural = _rates(lab, found[FIRST_PASS].texts), _rates(lab, _references(lab))
    unit = "percentage points of repeated words, mean over sentences"
    verdicts = []
    for name in DECODERS:
        rates = _rates(lab, found[name].texts)
        fewer = mean_difference(rates, first, lab.samples)
        left = mean_difference(rates, natural, lab.samples)
        verdicts += [
            Verdict(f"{name} repeats fewer words than one pass", fewer.below(), f"{fewer} {unit}"),
            Verdict(
                f"Refinement resolves repetition: {name} repeats no more words than the references "
                "(Section 5.2)",
                left.below(TOLERANCE),
                f"{left} {unit}; the claim needs less than +{TOLERANCE:g}",
            ),
        ]
    return tuple(verdicts)


def _references(lab: Lab) -> list[str]:
    return [lines[0] for lines in lab.references("valid")]


def _rates(lab: Lab, texts: Sequence[str]) -> list[float]:
    return [repetition_rate([text], lab.language) for text in texts]


EXPERIMENT = Experiment(
    "Example", paper.FIGURE_EXAMPLE, lambda suite: roles.systems_for(suite, [roles.DISCO]), run
)
