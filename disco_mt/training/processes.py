"""The processes of one training run, as torchrun starts them: who this one is, and what all agree on.

Gradients travel through DistributedDataParallel (gradients.py), over nccl between GPUs and gloo between CPUs.
All else (losses, words, signals, dev scores) is small and travels through a gloo group of its own that waits
as long as it takes: while the first process scores the dev set, the others have nothing to do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from disco_mt.core.errors import UserError

_PATIENCE = timedelta(days=1)  # torchrun notices a process that died; this need not
_FAREWELL = timedelta(seconds=5)  # how long processes that end wait for each other
_ENVIRONMENT = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # what a launcher such as torchrun sets

T = TypeVar("T")


@dataclass(frozen=True)
class Processes:
    """All processes of the run. `first` is the one that reads checkpoints, logs, scores and writes."""

    world: int = 1
    rank: int = 0
    control: dist.ProcessGroup | None = None  # None if there is but one

    @property
    def first(self) -> bool:
        """Is this the first one?"""
        return self.rank == 0

    def total(self, numbers: Sequence[float]) -> list[float]:
        """The sums over all processes, the same in each, added up in float64."""
        return self._reduced(numbers, dist.ReduceOp.SUM)

    def all_reduce_max(self, number: int) -> int:
        """The highest of the processes' numbers."""
        return int(self._reduced([number], dist.ReduceOp.MAX)[0])

    def broadcast(self, value: T) -> T:
        """What the first process has; the others wait for it."""
        if self.control is None:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0, group=self.control)
        return box[0]

    def tensor_from_first(self, tensor: Tensor) -> None:
        """Overwrite `tensor` (on the CPU) with that of the first process."""
        if self.control is not None:
            dist.broadcast(tensor, src=0, group=self.control)

    def on_rank_zero(self, work: Callable[[], T]) -> T:
        """Work that the first process alone may do; its result, or its refusal, is that of all.

        The first process says what is wrong; the others leave with the same exit code and no word.
        """
        if self.control is None:
            return work()
        if not self.first:
            result, refused = self.broadcast((None, True))
            if refused:
                raise SystemExit(2)
            return result  # type: ignore[return-value]
        try:
            result = work()
        except UserError:
            self.broadcast((None, True))
            raise
        self.broadcast((result, False))
        return result

    def _reduced(self, numbers: Sequence[float], operation: dist.ReduceOp.RedOpType) -> list[float]:
        if self.control is None:
            return list(numbers)
        values = torch.tensor(numbers, dtype=torch.float64)
        dist.all_reduce(values, operation, group=self.control)
        reduced: list[float] = values.tolist()
        return reduced


ALONE = Processes()


@contextmanager
def init_distributed(device: str) -> Iterator[Processes]:
    """Meet the other processes, if a launcher started this one among several."""
    world = _world()
    if world == 1:
        yield ALONE
        return
    kind = torch.device(device).type
    if kind == "mps":
        raise UserError("--device mps works with one process; use cuda or cpu with torchrun")
    # After a restart torchrun's store still has the addresses of those that died: a name for each attempt.
    store, *_ = next(rendezvous("env://"))
    attempt = PrefixStore(f"attempt-{_restarts()}", store)
    backend = "nccl" if kind == "cuda" else "gloo"
    dist.init_process_group(backend, store=attempt, rank=rank(), world_size=world)
    control = dist.new_group(backend="gloo", timeout=_PATIENCE)
    try:
        yield Processes(world, rank(), control)
    finally:
        with suppress(RuntimeError):  # where a peer has gone first, gloo may abort this process
            dist.monitored_barrier(control, timeout=_FAREWELL)
        dist.destroy_process_group()


def own_device(device: str) -> str:
    """The device of this process: of several GPUs the one with its number on this machine."""
    if torch.device(device).type != "cuda" or _world() == 1:
        return device
    number, there = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if number >= there:
        raise UserError(
            f"torchrun started process {number + 1} on this machine, but it has {there} GPUs; "
            f"use --nproc-per-node={there} or less"
        )
    torch.cuda.set_device(number)
    return f"cuda:{number}"


def rank() -> int:
    """The number of this process in its run, from 0."""
    return int(os.environ["RANK"]) if _world() > 1 else 0


def restarted() -> bool:
    """Has torchrun started this process again, after one of the run had died?"""
    return _restarts() > 0


def _restarts() -> int:
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def _world() -> int:
    return int(os.environ["WORLD_SIZE"]) if all(name in os.environ for name in _ENVIRONMENT) else 1
