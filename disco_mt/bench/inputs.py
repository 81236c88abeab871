"""What a run compares: a size with random weights, trained model directories, or the models of a suite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from disco_mt.bench.measure import Plan
from disco_mt.bench.sentences import Sentence, random_sentences
from disco_mt.bench.system import Size, System, Weights, random_systems, shape, sized, systems_of
from disco_mt.errors import UserError
from disco_mt.evaluation.quality import References, read_references
from disco_mt.experiments import systems as roles
from disco_mt.experiments.decode import Lab, require_models
from disco_mt.experiments.timing import spread
from disco_mt.models.directory import read_config
from disco_mt.recipes.workspace import Workspace
from disco_mt.text.lines import read_lines
from disco_mt.translator import find_model

FIXED = (1.0, 0.96, 0.5, 0.3, 0.2)  # shares of the rows that five passes of easy-first compute
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

    def plan(self, plan: Plan, timed: int, batched: int) -> Plan:
        """Which of the sentences are used for what."""
        everything = range(len(self.sentences))
        if not self.references:
            first = [n for n in everything if self.sentences[n].words == self.sentences[0].words]
            repeated = [first[n % len(first)] for n in range(batched)]  # random ids: one is like another
            return replace(plan, timed=tuple(everything), batched=tuple(repeated), scored=tuple(everything))
        chosen = tuple(spread(everything, timed))
        return replace(
            plan, timed=chosen, batched=tuple(spread(everything, batched)), scored=tuple(everything)
        )


def random_inputs(size: Size, lengths: Sequence[int], each: int) -> Inputs:
    """A size that nobody has trained here: lengths are forced, passes are driven."""
    vocabulary = sized(size, "disco").source_vocabulary
    shares = ", ".join(f"{100 * share:.0f}" for share in FIXED)
    clock = (
        "Weights are random: easy-first is driven by a fixed pass structure, "
        f"{shares} % of the rows of all candidates in {len(FIXED)} passes (plain: all rows in each), AT is "
        f"forced to the same length ({', '.join(map(str, lengths))} tokens; no step for EOS), candidates "
        "have the K nearest lengths, and the source is as long as the target. Clock: from source ids to "
        "target ids, no tokenisation."
    )
    sentences = random_sentences(lengths, each, vocabulary)
    return Inputs(
        f"Speed at {size} size, random weights", clock, tuple(random_systems(size)), tuple(sentences)
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
