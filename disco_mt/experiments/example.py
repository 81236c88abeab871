"""Figure 4: one dev sentence, pass by pass, by mask-predict and easy-first with T=5."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from disco_mt.core.errors import UserError
from disco_mt.decoding.options import DecodeRequest
from disco_mt.evaluation.quality import repetition_rate
from disco_mt.experiments import paper, systems
from disco_mt.experiments.decode import Decoding, Hypotheses, Lab
from disco_mt.experiments.experiment import Experiment, Options
from disco_mt.experiments.systems import mask_predict
from disco_mt.reporting.intervals import mean_difference
from disco_mt.reporting.reports import Picture, Report
from disco_mt.reporting.tables import Table, number
from disco_mt.reporting.verdicts import Verdict
from disco_mt.views import TraceView, render_svg
from disco_mt.views.view import candidate_passes, piece, readable_pieces

T = 5
DECODERS = {"mask-predict": mask_predict(T), "easy-first": replace(systems.EASY_FIRST, iterations=T)}
FIRST_PASS = "one pass"


def run(lab: Lab, options: Options, command: str) -> Report:
    """Choose a sentence, trace it; and count repetitions over the whole dev set."""
    system = lab.system(systems.DISCO)
    found = {name: lab.decode(Decoding(system, decoding), "valid") for name, decoding in DECODERS.items()}
    one = replace(systems.EASY_FIRST, iterations=1)
    found[FIRST_PASS] = lab.decode(Decoding(system, one), "valid")
    place = _place(lab, options, found)
    source = lab.sources("valid")[place]
    views = [_view(lab, Decoding(system, decoding), source) for decoding in DECODERS.values()]
    return Report(
        title=f"Example: {lab.suite.name}",
        source=paper.FIGURE_EXAMPLE,
        command=command,
        tables=(*(_passes(view) for view in views), _repetitions(lab, found)),
        verdicts=_verdicts(lab, found),
        figures=(Picture("example", f"Dev sentence {place + 1}, pass by pass", render_svg(source, views)),),
        notes=(
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
    repeats = _rates(lab, found[FIRST_PASS])
    easy = found["easy-first"]
    fitting = [n for n in range(number_of) if repeats[n] and easy.steps[n] < T and easy.tokens[n]]
    return fitting[0] if fitting else max(range(number_of), key=lambda n: easy.steps[n])


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
    """A row a pass of the winning candidate; words that changed are bold."""
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
    rows = tuple(
        (name, number(each.mean_steps), f"{repetition_rate(each.texts, lab.language):.2f} %")
        for name, each in found.items()
    )
    return Table(
        f"Words equal to the word before them, all of dev (T={T})", ("", "steps", "repeated words"), rows
    )


def _verdicts(lab: Lab, found: dict[str, Hypotheses]) -> tuple[Verdict, ...]:
    first = _rates(lab, found[FIRST_PASS])
    verdicts = []
    for name in DECODERS:
        fewer = mean_difference(_rates(lab, found[name]), first, lab.samples)
        evidence = f"{fewer} percentage points of repeated words, mean over sentences"
        claim = f"Refinement resolves repetition, {name} against one pass (Section 5.2)"
        verdicts.append(Verdict(claim, fewer.below(), evidence))
    return tuple(verdicts)


def _rates(lab: Lab, found: Hypotheses) -> Sequence[float]:
    return [repetition_rate([text], lab.language) for text in found.texts]


EXPERIMENT = Experiment(
    "Example", lambda suite: systems.systems_for(suite, [systems.DISCO]), run, ("wmt14.de-en",)
)
