"""Do threads that sleep while they wait (our default, after a short spin) cost anything?

    python -m benchmarks.waiting [--repeats 5] [--threads 2] [--busy 0]

Our default against active waiting, in turns, each in its own process: 50 sentences with the shipped model,
one at a time, and updates of a desk-size training. On an idle machine the default should lose nothing; with
--busy 1, beside one other process that never rests, spinning threads lose much.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.serving import sentences
from benchmarks.training import SIZES, Trainer
from disco_mt.reporting.load import LoadGuard
from disco_mt.reporting.timing import WARM_UP, clock, latency, ratio, rounds

POLICIES = ("active", "default")
TASKS = ("translate", "train")
SENTENCES = 50
UPDATES = 8  # rounds over the different batches


def translate(threads: int) -> list[float]:
    """Seconds of each sentence."""
    from disco_mt import EngineOptions, Translator

    translator = Translator.from_pretrained("en-de", EngineOptions(threads=threads))
    texts = sentences(2000)[:SENTENCES]
    for text in texts[:WARM_UP]:
        translator.translate(text)
    return [clock(translator.translate, text).wall for text in texts]


def train(threads: int) -> list[float]:
    """Seconds of each update."""
    import torch

    torch.set_num_threads(threads)
    trainer = Trainer(SIZES["desk-2k"], "disco", "fp32", "adamw")
    for update in trainer.updates:
        trainer.run(update)
    return [clock(trainer.run, update).wall for update in trainer.updates * UPDATES]


def run(task: str, policy: str, threads: int) -> list[float]:
    """Times of one task in a process with a waiting policy."""
    command = [sys.executable, "-m", "benchmarks.waiting", "--task", task, "--threads", str(threads)]
    ours = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_NUM_THREADS")
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    if policy != "default":
        environment["OMP_WAIT_POLICY"] = policy
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    seconds: list[float] = json.loads(done.stdout)
    return seconds


@contextmanager
def others(number: int) -> Iterator[None]:
    """So many processes that never rest."""
    processes = [multiprocessing.Process(target=_spin, daemon=True) for _ in range(number)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()


def _spin() -> None:
    while True:
        pass


def main() -> None:
    """Print one line per task."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--busy", type=int, default=0, help="processes beside it that never rest")
    parser.add_argument("--task", choices=TASKS, help="only this, in this process; prints its times as JSON")
    options = parser.parse_args()
    if options.task:
        work = translate if options.task == "translate" else train
        print(json.dumps(work(options.threads)))
        return
    guard = LoadGuard()
    if guard.hint():
        print(f"warning: {guard.hint()}", file=sys.stderr)
    guard.begin([])
    with others(options.busy):
        for task in TASKS:
            times: dict[str, list[list[float]]] = {policy: [] for policy in POLICIES}
            for order in rounds(POLICIES, options.repeats, guard):
                for policy in order:
                    times[policy].append(run(task, policy, options.threads))
            each = ", ".join(f"{policy} {latency(times[policy]).mean:.1f} ms" for policy in POLICIES)
            cost = ratio(times["default"], times["active"])
            print(
                f"{task}, {options.threads} thread(s), {options.busy} busy process(es): {each}; "
                f"the default takes {cost.estimate:.3f} times as long [{cost.low:.3f}, {cost.high:.3f}]",
                flush=True,
            )


if __name__ == "__main__":
    main()
