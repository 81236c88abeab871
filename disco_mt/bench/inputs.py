"""What a run compares: a size with random weights, trained model directories, or the models of a suite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from disco_mt.bench.entries import (
    Entry,
    Size,
    Weights,
    baseline_first,
    entries_of,
    model_name,
    random_entries,
    sized,
    with_shortlist,
)
from disco_mt.bench.measure import Plan
from disco_mt.bench.sentences import FIXED, Sentence, fixed_structures, random_sentences, read_structures
from disco_mt.core.errors import UserError
from disco_mt.data.dataset import Dataset
from disco_mt.engine.incremental import KIND
from disco_mt.evaluation.quality import References, read_references
from disco_mt.nn.directory import read_config
from disco_mt.nn.find import find_model
from disco_mt.reporting.timing import spread
from disco_mt.suites.roles import Role, has, systems_for
from disco_mt.suites.workspace import Workspace
from disco_mt.systems.objective import objective_for
from disco_mt.text.lines import read_lines


@dataclass(frozen=True)
class Inputs:
    title: str
    clock: str
    entries: tuple[Entry, ...]
    sentences: tuple[Sentence, ...]
    references: References = ()
    language: str = ""

    def shortlisted(self, shortlist: str) -> Inputs:
        if shortlist and not self.references:
            raise UserError("a shortlist belongs to a trained model: give --models or --suite")
        return replace(self, entries=tuple(with_shortlist(self.entries, shortlist)))

    def plan(self, plan: Plan, timed: int, batched: int) -> Plan:
        everything = tuple(range(len(self.sentences)))
        if not self.references:  # random ids: one is like another, and a batch has one structure
            ranked = sorted(everything, key=lambda place: self.sentences[place].words)
            middle = ranked[len(ranked) // 2]
            return replace(plan, timed=everything, batched=(middle,) * batched, scored=everything)
        return replace(
            plan,
            timed=tuple(spread(everything, timed)),
            batched=tuple(spread(everything, batched)),
            scored=everything,
            score_size=max(plan.sizes, default=1),
        )


def random_inputs(size: Size, lengths: Sequence[int], number: int, recorded: str = "") -> Inputs:
    """A size that nobody has trained here: lengths are forced, passes are driven."""
    if not recorded:
        structures, shares = fixed_structures(lengths, number), ", ".join(f"{100 * s:.0f}" for s in FIXED)
        how = f"a fixed pass structure, {shares} % of the rows of all candidates in {len(FIXED)} passes"
    else:
        structures = spread(read_structures(recorded), number)
        how = f"the pass structures of {len(structures)} sentences, recorded from a trained model"
    config = sized(size, KIND)
    most, longest = max(max(structure.lengths) for structure in structures), config.longest_target
    if most > longest:
        raise UserError(
            f"a candidate has {most} tokens, but a model of this size writes at most {longest}; the "
            "candidates of a sentence are up to 2 tokens longer than --lengths says"
        )
    tokens = ", ".join(str(words) for words in sorted({structure.lengths[0] for structure in structures}))
    clock = (
        f"Weights are random: easy-first is driven by {how} (reference: all rows in each pass), AT is forced "
        f"to the length of the likeliest candidate ({tokens} tokens; no step for EOS), and the source is as "
        "long. Clock: from source ids to target ids, no tokenisation."
    )
    sentences = random_sentences(structures, config.source_vocabulary)
    title = f"Speed at {size} size, random weights"
    return Inputs(title, clock, tuple(random_entries(size)), tuple(sentences))


def model_inputs(models: Sequence[str], source: Path | None, references: Sequence[Path]) -> Inputs:
    if source is None or not references:
        raise UserError("trained models are measured on a test set: give --source FILE and --reference FILE")
    lines = list(read_lines(source))
    if not lines:
        raise UserError(f"{source} has no lines")
    texts = read_references(references, None, len(lines))
    paths = [find_model(name) for name in models]
    languages = {read_config(path).text["target"]["language"] for path in paths}
    if len(languages) > 1:
        raise UserError(f"the models translate into different languages: {', '.join(sorted(languages))}")
    weights = [_trained(path, path.name) for path in paths]
    inputs = _trained_inputs(source.name, weights, lines)
    return replace(inputs, references=texts, language=languages.pop())


def suite_inputs(workspace: Workspace) -> Inputs:
    """The models of a suite on its test set: one of each system, on distilled data where there is one."""
    suite = workspace.suite
    roles = []
    for kind in baseline_first():
        by_data = [Role(kind, (data,), objective_for(kind, "")) for data in ("distilled", "raw")]
        roles += [role for role in by_data if has(suite, role)][:1]
    names = systems_for(suite, roles)
    workspace.require_models(names)
    weights = [_trained(workspace.model(name), name) for name in names]
    dataset = Dataset.open(workspace.dataset("raw"))
    test = dataset.splits["test"]
    inputs = _trained_inputs(suite.name, weights, test.source_text())
    return replace(inputs, references=test.references(), language=dataset.text.target.language)


def _trained(path: Path, name: str) -> Weights:
    config = read_config(path).model
    return Weights(f"{model_name(config)} ({name})", config, str(path))


def _trained_inputs(name: str, weights: Sequence[Weights], lines: Sequence[str]) -> Inputs:
    names = [each.name for each in weights]
    if len(set(names)) < len(names):
        raise UserError(f"two models have the same name: {', '.join(names)}; rename a directory")
    clock = "Trained models. Clock: from text to text, tokenisation included, model loaded before."
    entries = tuple(entry for each in weights for entry in entries_of(each))
    return Inputs(f"Speed on {name}", clock, entries, tuple(Sentence(line) for line in lines))
