"""Beyond the paper: one DisCo that writes in parallel and reads left to right.

Trained with the mixture objective, it decodes with easy-first and then ranks its own length candidates by
reading them autoregressively, all in one pass more; or it writes left to right by itself.
"""

from __future__ import annotations

from dataclasses import asdict, replace

from disco_mt.decoding.options import DecodingOptions
from disco_mt.experiments import systems
from disco_mt.experiments.decode import Decoding, Hypotheses, Lab
from disco_mt.experiments.experiment import Experiment, Options
from disco_mt.reporting.reports import Report
from disco_mt.reporting.tables import Table, number, signed
from disco_mt.reporting.timing import Timing
from disco_mt.reporting.verdicts import MARGIN, Judge, Texts, Verdict
from disco_mt.suites.suite import Suite

PLAIN, RESCORED, READ = (
    "mixture: easy-first",
    "mixture: easy-first, self-rescored",
    "mixture: read left to right",
)
HIGH = "mixture: effort high, self-rescored"
PENALISED = "mixture: easy-first, length penalty"
MASK_PREDICT = "mixture: mask-predict, T=4"
DISCO, TEACHER, TEACHER_GREEDY = "DisCo: easy-first", "AT teacher, beam 5", "AT teacher, greedy"
BY_TEACHER = "mixture: easy-first, rescored by the AT teacher"
NEAR = 1.5  # BLEU below a teacher that are few for a student several times as fast


def run(lab: Lab, options: Options, command: str) -> Report:
    """Weights of the length are tuned on dev; then the test set, and the clock."""
    decodings = _decodings(lab)
    found = {label: lab.decode(decoding, "test") for label, decoding in decodings.items()}
    timing = lab.timed(decodings, options.sentences, options.repeats)
    return Report(
        title=f"One model, two readers: {lab.suite.name}",
        source="not there; Section 6 suggests training one DisCo with both kinds of contexts",
        command=command,
        tables=(_table(lab, found, timing),),
        verdicts=_verdicts(lab, found),
        notes=timing.notes(lab.runtime),
        data={"load": asdict(timing.load), "seconds": timing.seconds},
    )


def _decodings(lab: Lab) -> dict[str, Decoding]:
    mixture, teacher = lab.system(systems.MIXTURE), systems.teacher_of(lab.suite)
    sister = _sister(lab.suite)
    read = DecodingOptions(strategy="autoregressive")
    high = replace(systems.EASY_FIRST, effort="high")
    return {
        PLAIN: Decoding(mixture, systems.EASY_FIRST),
        RESCORED: lab.tuned(Decoding(mixture, systems.EASY_FIRST, rescore_with="self"), "length_weight"),
        HIGH: lab.tuned(Decoding(mixture, high, rescore_with="self"), "length_weight"),
        BY_TEACHER: Decoding(mixture, systems.EASY_FIRST, rescore_with=teacher),
        READ: lab.tuned(Decoding(mixture, read), "length_weight"),
        PENALISED: lab.tuned(Decoding(mixture, systems.EASY_FIRST), "length_penalty"),
        MASK_PREDICT: Decoding(mixture, systems.mask_predict(4)),
        **({DISCO: Decoding(sister, systems.EASY_FIRST)} if sister else {}),
        TEACHER_GREEDY: Decoding(teacher, systems.GREEDY),
        TEACHER: lab.beam(teacher),
    }


def _sister(suite: Suite) -> str | None:
    """The DisCo without the mixture: the one that it began as, else the usual one, if the suite has one."""
    start = suite.system(systems.system_for(suite, systems.MIXTURE)).start
    if start and suite.system(start).recipe.model.kind == "disco":
        return start
    return systems.system_for(suite, systems.DISCO) if systems.has(suite, systems.DISCO) else None


def _table(lab: Lab, found: dict[str, Hypotheses], timing: Timing) -> Table:
    judge, rows = lab.judge("test"), []
    for label, each in found.items():
        quality = lab.quality(each)
        gain = None if label == PLAIN else judge.difference(each.texts, found[PLAIN].texts)
        taken = timing.latency(label)
        rows.append(
            (
                label,
                number(each.mean_steps),
                number(quality.bleu),
                number(quality.chrf),
                "–" if gain is None else f"{signed(gain.estimate)} [{gain.low:+.2f}, {gain.high:+.2f}]",
                f"{taken.mean:.1f} [{taken.low:.1f}, {taken.high:.1f}]",
            )
        )
    header = ("system", "steps", "BLEU", "chrF", f"gain over {PLAIN} (95 %)", "ms a sentence")
    signature = lab.quality(found[PLAIN]).bleu_signature
    note = (
        f"Test set of {lab.suite.name}, sacreBLEU `{signature}`; length beam 5. A reading counts as one step."
    )
    return Table(f"Ours ({lab.suite.name}); the paper has no such table", header, tuple(rows), note)


def _verdicts(lab: Lab, found: dict[str, Hypotheses]) -> tuple[Verdict, ...]:
    judge = lab.judge("test")
    texts = {label: each.texts for label, each in found.items()}
    return (
        judge.better("Self-rescoring improves easy-first", texts[RESCORED], texts[PLAIN]),
        judge.better("Effort high is better than normal", texts[HIGH], texts[RESCORED]),
        judge.better("Reading left to right is better than easy-first", texts[READ], texts[PLAIN]),
        judge.better("Easy-first is better than mask-predict, T=4", texts[PLAIN], texts[MASK_PREDICT]),
        *_against_sister(judge, texts),
        *(
            judge.comparable(
                f"{label} is at most {NEAR:g} BLEU below the AT teacher (beam 5)",
                texts[label],
                texts[TEACHER],
                NEAR,
            )
            for label in (PLAIN, PENALISED, RESCORED, BY_TEACHER, HIGH)
        ),
        judge.better(
            "The AT teacher (beam 5) is ahead of the self-rescored model", texts[TEACHER], texts[RESCORED]
        ),
    )


def _against_sister(judge: Judge, texts: dict[str, Texts]) -> tuple[Verdict, ...]:
    if DISCO not in texts:
        return ()
    claim = f"The mixture costs easy-first at most {MARGIN:g} BLEU against the plain DisCo"
    return (judge.comparable(claim, texts[PLAIN], texts[DISCO]),)


def needs(suite: Suite) -> list[str]:
    """Both readers, their sister if there is one, and the teacher."""
    sister = _sister(suite)
    return [*systems.with_teacher(suite, (systems.MIXTURE,)), *([sister] if sister else [])]


EXPERIMENT = Experiment("One model, two readers", needs, run, ("wmt14.en-de",))
