"""The translations in docs/results give the scores that stand beside them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from disco_mt.core.errors import UserError
from disco_mt.data.sources import find_files, text_files
from disco_mt.evaluation.quality import read_references
from disco_mt.experiments.results import read_results, recompute
from disco_mt.suites.suite import load_suite

RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.mark.parametrize("name", sorted(path.name for path in RESULTS.iterdir() if path.is_dir()))
def test_scores_of_committed_translations(name: str, tmp_path: Path) -> None:
    results, data = read_results(RESULTS / name), load_suite(name).data
    if "DISCO_DATA" not in os.environ:
        pytest.skip("DISCO_DATA is not set: the folder of the corpora, which have the references")
    try:
        files = find_files(data.source, Path(os.environ["DISCO_DATA"]), data.languages, data.parts)
    except UserError as error:
        pytest.skip(f"no references for {name}: {error}")
    splits = text_files(files, tmp_path / "text")
    sizes = {each.split: len(each.texts) for each in results}
    references = {
        split: read_references(
            () if splits[split].references else (splits[split].target,), splits[split].references, size
        )
        for split, size in sizes.items()
    }
    again = recompute(results, references)
    assert len(again) == len(results)
    for each in again:
        assert each.agrees, each.recorded.path
