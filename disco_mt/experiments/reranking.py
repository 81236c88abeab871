"""Beyond the paper: one DisCo that decodes in parallel and reranks its own candidates.

Trained with the mixture objective, it decodes with easy-first and then scores its length candidates from left
to right, all in one more pass; or it generates from left to right by itself.
"""

from __future__ import annotations

from dataclasses import asdict, replace

from disco_mt.decoding.options import DecodingOptions
from disco_mt.experiments.decode import Decoding, Hypotheses, Lab
from disco_mt.experiments.experiment import Experiment, Options
from disco_mt.reporting.reports import Report
from disco_mt.reporting.tables import Table, number, signed
from disco_mt.reporting.timing import Timing
from disco_mt.reporting.verdicts import MARGIN, Verdict
from disco_mt.suites import roles
from disco_mt.suites.suite import Suite

PLAIN = "mixture: easy-first, no reranking"
PENALISED = "mixture: easy-first, no reranking, length penalty"
NORMAL = "mixture: easy-first, self-reranked (effort normal)"
HIGH = "mixture: effort high"
BY_TEACHER = "mixture: easy-first, reranked by the AT teacher"
LEFT_TO_RIGHT = "mixture: autoregressive"
MASK_PREDICT = "mixture: mask-predict, T=4"
DISCO = "DisCo: easy-first"
TEACHER, TEACHER_GREEDY = "AT teacher, beam 5", "AT teacher, greedy"
NEAR = 1.5  # BLEU below a teacher that are few for a student several times as fast


def run(lab: Lab, options: Options) -> Report:
    """Length weights are tuned on dev; then the test set, and the clock."""
    decodings = _decodings(lab)
    found = lab.decode_all(decodings, "test")
    timing = lab.timed(decodings, options.sentences, options.repeats)
    return Report(
        (_table(lab, found, timing),),
        _verdicts(lab, found),
        notes=timing.notes(lab.runtime),
        data={"load": asdict(timing.load), "seconds": timing.seconds},
    )


def _decodings(lab: Lab) -> dict[str, Decoding]:
    mixture, teacher = lab.system(roles.MIXTURE), roles.teacher_of(lab.suite)
    sister = _sister(lab.suite)
    high = replace(roles.EASY_FIRST, effort="high")
    return {
        PLAIN: Decoding(mixture, roles.EASY_FIRST),
        PENALISED: lab.tuned(Decoding(mixture, roles.EASY_FIRST), "length_penalty"),
        NORMAL: lab.tuned(Decoding(mixture, roles.EASY_FIRST, "self"), "length_weight"),
        HIGH: lab.tuned(Decoding(mixture, high, "self"), "length_weight"),
        BY_TEACHER: Decoding(mixture, roles.EASY_FIRST, teacher),
        LEFT_TO_RIGHT: lab.tuned(Decoding(mixture, DecodingOptions("autoregressive")), "length_weight"),
        MASK_PREDICT: Decoding(mixture, roles.mask_predict(4)),
        **({DISCO: Decoding(sister, roles.EASY_FIRST)} if sister else {}),
        TEACHER_GREEDY: Decoding(teacher, roles.GREEDY),
        TEACHER: lab.beam(teacher),
    }


def _sister(suite: Suite) -> str | None:
    """The DisCo without the mixture: the one that it began as, else the usual one, if the suite has one."""
    start = suite.system(roles.system_for(suite, roles.MIXTURE)).start
    if start and suite.system(start).recipe.model.kind == "disco":
        return start
    return roles.system_for(suite, roles.DISCO) if roles.has(suite, roles.DISCO) else None


def _table(lab: Lab, found: dict[str, Hypotheses], timing: Timing) -> Table:
    judge, rows = lab.judge("test"), []
    for label, each in found.items():
        quality, taken = lab.quality(each), timing.latency(label)
        gain = None if label == PLAIN else judge.difference(each.texts, found[PLAIN].texts)
        rows.append(
            (
                label,
                number(each.mean_steps),
                number(quality.bleu),
                number(quality.chrf),
                signed(None) if gain is None else str(gain),
                f"{taken.mean:.1f} [{taken.low:.1f}, {taken.high:.1f}]",
            )
        )
    header = ("system", "steps", "BLEU", "chrF", "gain over no reranking (95 %)", "ms per sentence")
    signature = lab.quality(found[PLAIN]).bleu_signature
    note = (
        f"Test set of {lab.suite.name}, sacreBLEU `{signature}`; length beam 5. Reranking is one step; "
        "effort high decodes in three orders until all candidates converge and reranks in both directions."
    )
    return Table(f"Ours ({lab.suite.name}); the paper has no such table", header, tuple(rows), note)


def _verdicts(lab: Lab, found: dict[str, Hypotheses]) -> tuple[Verdict, ...]:
    judge = lab.judge("test")
    texts = {label: each.texts for label, each in found.items()}
    claims = {
        "Self-reranking improves easy-first": (NORMAL, PLAIN),
        "Effort high is better than effort normal": (HIGH, NORMAL),
        "Autoregressive decoding is better than easy-first": (LEFT_TO_RIGHT, PLAIN),
        "Easy-first is better than mask-predict, T=4": (PLAIN, MASK_PREDICT),
        "The AT teacher (beam 5) is ahead of the self-reranked model": (TEACHER, NORMAL),
    }
    sister = f"The mixture costs easy-first at most {MARGIN:g} BLEU against the plain DisCo"
    return (
        *(judge.better(claim, texts[one], texts[other]) for claim, (one, other) in claims.items()),
        *([judge.comparable(sister, texts[PLAIN], texts[DISCO])] if DISCO in texts else []),
        *(
            judge.comparable(
                f"{label} is at most {NEAR:g} BLEU below the AT teacher (beam 5)",
                texts[label],
                texts[TEACHER],
                NEAR,
            )
            for label in (PLAIN, PENALISED, NORMAL, BY_TEACHER, HIGH)
        ),
    )


def needs(suite: Suite) -> list[str]:
    """The mixture, its sister if there is one, and the teacher."""
    sister = _sister(suite)
    return [*roles.with_teacher(suite, (roles.MIXTURE,)), *([sister] if sister else [])]


EXPERIMENT = Experiment(
    "Reranking",
    "not there; Section 6 suggests training one DisCo with both kinds of contexts",
    needs,
    run,
)
