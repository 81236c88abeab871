"""The models of a suite as `disco bench` takes them."""

from __future__ import annotations

from disco_mt.bench.inputs import suite_inputs
from disco_mt.bench.measure import Plan
from disco_mt.suites.workspace import Workspace


def test_a_suite_gives_its_models_its_test_set_and_its_references(workspace: Workspace) -> None:
    found = suite_inputs(workspace)
    assert {entry.kind for entry in found.entries} == {"autoregressive", "disco", "cmlm"}
    assert all(entry.weights.path for entry in found.entries)
    assert len(found.sentences) == len(found.references) > 0
    plan = found.plan(Plan(), timed=2, batched=3)
    assert (len(plan.timed), len(plan.batched)) == (2, 3)
    assert plan.scored == tuple(range(len(found.sentences)))
    assert set(plan.timed) <= set(plan.scored)
