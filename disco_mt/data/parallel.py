"""A parallel map over many items, with results in order and bounded memory."""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, TypeVar

from disco_mt.core.errors import UserError

Item = TypeVar("Item")
Result = TypeVar("Result")

WAITING = 3  # items per process that may be sent ahead


def ordered_map(
    function: Callable[[Item], Result], items: Iterable[Item], jobs: int
) -> Generator[Result, None, None]:
    """`function` of each item, in order; results do not depend on `jobs`.

    More than one job run in new processes. The function is sent once per process, so it may contain something
    large such as a tokenizer; items are read only when a process is free.
    """
    if jobs == 1:
        yield from map(function, items)
        return
    # Not forked: the threads of torch and of the tokenizers do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, _install, (function,)) as pool:
        try:
            yield from _in_order(pool, iter(items), WAITING * jobs)
        except BrokenProcessPool as error:
            raise UserError(
                "a process that was preparing data has ended (no memory left?); use fewer --jobs. A script "
                "that calls this must do so under `if __name__ == '__main__':`"
            ) from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _in_order(pool: ProcessPoolExecutor, items: Iterator[Any], ahead: int) -> Iterator[Any]:
    waiting: deque[Future[Any]] = deque(pool.submit(_call, item) for item in islice(items, ahead))
    while waiting:
        result = waiting.popleft().result()
        waiting.extend(pool.submit(_call, item) for item in islice(items, 1))
        yield result


_function: Callable[[Any], Any]  # of a process of the pool


def _install(function: Callable[[Any], Any]) -> None:
    global _function  # noqa: PLW0603 (one task per process)
    # Threads within the processes would only compete for the cores.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    _function = function


def _call(item: Any) -> Any:
    return _function(item)
