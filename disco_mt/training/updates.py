"""An epoch's batches in groups: one group per update, shared out among the processes.

A group is as many batches as the effective batch size asks for. Where a run stands is counted in batches,
not in updates, so that it can go on with another number of processes and repeat or skip nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from disco_mt.data.batches import Indices, plan_epoch
from disco_mt.data.dataset import Split
from disco_mt.training.options import TrainingOptions
from disco_mt.training.processes import Processes


@dataclass(frozen=True)
class Position:
    """How far the data has been used: `batches` of the plan of `epoch`, counted over all processes.

    The end of an epoch is the beginning of the next.
    """

    epoch: int = 1
    batches: int = 0

    @property
    def epoch_of_last(self) -> int:
        """The epoch of the batch that was used last; 0 if there was none."""
        return self.epoch if self.batches else self.epoch - 1


@dataclass(frozen=True)
class Update:
    """The batches of one update that belong to this process."""

    epoch: int
    batches: list[tuple[int, Indices]]  # (place in the update's whole group, indices of pairs)
    after: Position  # where the data stands when the update is done

    @property
    def ends_epoch(self) -> bool:
        """Is it the last of its epoch?"""
        return self.after.epoch != self.epoch


@dataclass(frozen=True)
class Plan:
    """How the training pairs become updates. The same on every process but for `rank`."""

    split: Split
    batch_tokens: int
    max_tokens: int
    seed: int
    world: int = 1
    rank: int = 0
    _last: dict[int, list[Indices]] = field(default_factory=dict, repr=False, compare=False)

    @staticmethod
    def for_process(split: Split, options: TrainingOptions, processes: Processes) -> Plan:
        """The plan of one of the processes."""
        tokens, at_once, seed = options.batch_tokens, options.max_tokens, options.seed
        return Plan(split, tokens, at_once, seed, processes.world, processes.rank)

    @property
    def accumulation(self) -> int:
        """Batches that each process adds up before an update."""
        return max(1, round(self.batch_tokens / (self.max_tokens * self.world)))

    @property
    def group(self) -> int:
        """Batches of an update, over all processes."""
        return self.accumulation * self.world

    def epoch(self, epoch: int) -> list[Indices]:
        """The batches of one epoch, in order. The last plan is kept: in a big corpus it takes seconds."""
        if epoch not in self._last:
            self._last.clear()
            lengths = self.split.source_lengths, self.split.target_lengths
            self._last[epoch] = plan_epoch(*lengths, self.max_tokens, self.seed, epoch)
        return self._last[epoch]

    def updates_in(self, epoch: int) -> int:
        """How many updates an epoch has; epochs differ by a batch or two."""
        return -(-len(self.epoch(epoch)) // self.group)

    def words_per_update(self, epoch: int) -> float:
        """Target words on average, neither padding nor EOS."""
        return float(self.split.target_lengths.sum(dtype="int64")) / max(1, self.updates_in(epoch))

    def updates(self, start: Position) -> Iterator[Update]:
        """Updates from `start` on, epoch after epoch without end.

        The last group of an epoch is used as it is, smaller than the others: gradients are divided by the
        words that they come from, so it counts for what it is.
        """
        epoch, done = start.epoch, start.batches
        while True:
            batches = self.epoch(epoch)
            for first in range(done, len(batches), self.group):
                yield self._update(epoch, batches, first)
            epoch, done = epoch + 1, 0

    def _update(self, epoch: int, batches: list[Indices], first: int) -> Update:
        group = list(enumerate(batches[first : first + self.group]))
        done = first + len(group)
        after = Position(epoch, done) if done < len(batches) else Position(epoch + 1, 0)
        return Update(epoch, group[self.rank :: self.world], after)
