"""The same function over many things, on many cores, with the results in order and little in memory."""

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

WAITING = 3  # items per process, at most, that are sent but not yet asked for


def ordered_map(
    function: Callable[[Item], Result], items: Iterable[Item], jobs: int
) -> Generator[Result, None, None]:
    """`function` of each item, in their order: what comes out does not depend on `jobs`.

    With more than one job it runs in new processes. It goes there once, so it may hold something big, such as
    a tokenizer; and items are read only as far as there is somebody to work on them.
    """
    if jobs == 1:
        yield from map(function, items)
        return
    # New processes rather than copies of this one: it has threads (torch's, the tokenizers'), which do not
    # survive a copy.
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
    global _function  # noqa: PLW0603 (a process of the pool has one task)
    # The processes are the parallelism: threads within them would only fight over the cores.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    _function = function


def _call(item: Any) -> Any:
    return _function(item)
