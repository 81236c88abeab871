"""Work that is left out at a price: off unless asked for, since the results are no longer the algorithm's."""

from __future__ import annotations

from dataclasses import dataclass, replace

from disco_mt.core.settings import at_least
from disco_mt.engine.state import Draft


@dataclass(frozen=True)
class Pruning:
    """What may be left out. By default nothing: the engine is exact."""

    drop_behind: float = 0.0
    """Drop length candidates whose score (mean log probability, where the length penalty is 1) is this much
    behind the best; 0: never."""
    drop_after: int = 2
    """The first pass after which candidates are dropped."""
    shortlist: str = ""
    """File that `disco shortlist` made: a sentence chooses among words that go with its own. Sentences are
    then decoded one at a time."""

    def __post_init__(self) -> None:
        at_least("drop_behind", self.drop_behind, 0.0)
        at_least("drop_after", self.drop_after, 1)

    @property
    def exact(self) -> bool:
        """Is nothing left out?"""
        return not (self.drop_behind or self.shortlist)

    def dropped(self, draft: Draft) -> Draft:
        """Without the candidates that have fallen behind."""
        if not self.drop_behind:
            return draft
        scores = draft.scores()
        behind = scores < scores.amax(dim=1, keepdim=True) - self.drop_behind
        alive = draft.alive & ~(behind & (draft.steps >= self.drop_after)[:, None])
        return replace(draft, alive=alive, changed=draft.changed & alive[..., None])


EXACT = Pruning()
"""Nothing is left out."""
