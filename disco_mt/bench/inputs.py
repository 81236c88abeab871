"""What a run compares: a size with random weights, trained model directories, or the models of a suite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from disco_mt.bench.measure import Plan
from disco_mt.bench.sentences import Sentence, random_sentences
from disco_mt.bench.structures import FIXED, fixed_structures, read_structures
from disco_mt.bench.system import (
    Size,
    System,
    Weights,
    random_systems,
    shape,
    sized,
    systems_of,
    with_shortlist,
)
from disco_mt.core.errors import UserError
from disco_mt.engine.skipping import Structure
from disco_mt.evaluation.quality import References, read_references
from disco_mt.experiments import systems as roles
from disco_mt.experiments.decode import Lab, require_models
from disco_mt.nn.config import ModelConfig
from disco_mt.nn.directory import read_config
from disco_mt.nn.find import find_model
from disco_mt.reporting.timing import spread
from disco_mt.suites.workspace import Workspace
from disco_mt.text.lines import read_lines

NAMES = {"autoregressive": "AT", "disco": "DisCo", "cmlm": "CMLM"}


@dataclass(frozen=True)
class Inputs:
    """Systems, sentences, and how to speak of them."""

    title: str
    clock: str
    systems: tuple[System, ...]
    sentences: tuple[Sentence, ...]
    references: References = ()
    language: str = ""

    def shortlisted(self, shortlist: str) -> Inputs:
        """With every system that can use a vocabulary shortlist once more, with it."""
        if shortlist and not self.references:
            raise UserError("a shortlist belongs to a trained model: give --models or --recipe")
        return replace(self, systems=tuple(with_shortlist(self.systems, shortlist)))

    def plan(self, plan: Plan, timed: int, batched: int) -> Plan:
        """Which of the sentences are used for what."""
        everything = range(len(self.sentences))
        if not self.references:
            ranked = sorted(everything, key=lambda place: self.sentences[place].words)
            middle = ranked[
                len(ranked) // 2
            ]  # random ids: one is like another, and a batch has one structure
            every = tuple(everything)
            return replace(plan, timed=every, batched=(middle,) * batched, scored=every)
        chosen = tuple(spread(everything, timed))
        return replace(
            plan,
            timed=chosen,
            batched=tuple(spread(everything, batched)),
            scored=tuple(everything),
            score_size=max(plan.sizes, default=1),
        )


def random_inputs(size: Size, lengths: Sequence[int], each: int, recorded: str = "") -> Inputs:
    """A size that nobody has trained here: lengths are forced, passes are driven."""
    if not recorded:
        structures, shares = fixed_structures(lengths, each), ", ".join(f"{100 * s:.0f}" for s in FIXED)
        how = f"a fixed pass structure, {shares} % of the rows of all candidates in {len(FIXED)} passes"
    else:
        structures = spread(read_structures(recorded), each)
        how = f"the pass structures of {len(structures)} sentences, recorded from a trained model"
    _check_lengths(structures, sized(size, "disco"))
    tokens = ", ".join(str(words) for words in sorted({each.lengths[0] for each in structures}))
    clock = (
        f"Weights are random: easy-first is driven by {how} (plain: all rows in each pass), AT is forced to "
        f"the length of the likeliest candidate ({tokens} tokens; no step for EOS), and the source is as "
        "long. Clock: from source ids to target ids, no tokenisation."
    )
    sentences = random_sentences(structures, sized(size, "disco").source_vocabulary)
    title = f"Speed at {size} size, random weights"
    return Inputs(title, clock, tuple(random_systems(size)), tuple(sentences))


def _check_lengths(structures: Sequence[Structure], config: ModelConfig) -> None:
    """Refuse sentences beyond the position table."""
    most, longest = max(max(each.lengths) for each in structures), config.longest_target
    if most > longest:
        raise UserError(
            f"a candidate has {most} tokens, but a model of this size writes at most {longest}; the "
            "candidates of a sentence are up to 2 tokens longer than --lengths says"
        )


def model_inputs(models: Sequence[str], source: Path | None, references: Sequence[Path]) -> Inputs:
    """Trained models on a test file."""
    if source is None or not references:
        raise UserError("trained models are measured on a test set: give --source FILE and --reference FILE")
    lines = list(read_lines(source))
    if not lines:
        raise UserError(f"{source} has no lines")
    found = read_references(references, None, len(lines))
    weights = [_trained(find_model(name)) for name in models]
    languages = {read_config(Path(each.path)).text["target"]["language"] for each in weights}
    if len(languages) > 1:
        raise UserError(f"the models translate into different languages: {', '.join(sorted(languages))}")
    return _trained_inputs(source.name, weights, lines, found, languages.pop())


def suite_inputs(workspace: Workspace) -> Inputs:
    """The models of a suite on its test set: AT, DisCo and CMLM, on distilled data where it has them."""
    wanted = [
        next((role for role in pair if roles.has(workspace.suite, role)), None)
        for pair in (
            (roles.AT, roles.AT_RAW),
            (roles.DISCO, roles.DISCO_RAW),
            (roles.CMLM, roles.CMLM_RAW),
        )
    ]
    names = roles.systems_for(workspace.suite, [role for role in wanted if role is not None])
    require_models(workspace, names)
    lab = Lab(workspace)
    weights = [_trained(lab.model(name), name) for name in names]
    return _trained_inputs(
        workspace.suite.name, weights, lab.sources("test"), lab.references("test"), lab.language
    )


def _trained(path: Path, name: str = "") -> Weights:
    config = read_config(path).model
    known = f" ({name})" if name else f" ({path.name})"
    return Weights(f"{NAMES[config.kind]} {shape(config)}{known}", config, str(path))


def _trained_inputs(
    name: str, weights: Sequence[Weights], lines: Sequence[str], references: References, language: str
) -> Inputs:
    names = [each.name for each in weights]
    if len(set(names)) < len(names):
        raise UserError(f"two models have the same name: {', '.join(names)}; rename a directory")
    clock = "Trained models. Clock: from text to text, tokenisation included, model loaded before."
    systems = tuple(system for each in weights for system in systems_of(each))
    sentences = tuple(Sentence(line) for line in lines)
    return Inputs(f"Speed on {name}", clock, systems, sentences, references, language)
