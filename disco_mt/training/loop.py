"""The training loop: update, log, score, save, until there is a reason to stop.

A run that is stopped anywhere and resumed gives the same weights, bit for bit (on a CPU with the same number
of threads): the data and every random draw follow from (seed, step), the rest is in the checkpoint. Of
several processes all update; the first alone logs, scores and saves, and all know what it found.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from disco_mt.core.errors import UserError
from disco_mt.nn.base import TranslationModel
from disco_mt.training import checkpoints, rundir
from disco_mt.training.encoder_states import EncoderStates, check_frozen_encoder, keep_encoder_states
from disco_mt.training.gradients import GradientAccumulator, Sums, normalise
from disco_mt.training.job import Scored, State, TrainingJob, Window, best, without_improvement
from disco_mt.training.optimizer import build_optimizer, learning_rate
from disco_mt.training.processes import ALONE, Processes, restarted
from disco_mt.training.progress import Figures, Quiet, progress
from disco_mt.training.rundir import is_run, remove_others, resume_run, save_best, share, start_run
from disco_mt.training.speed import check_precision, compile_layers, keep_freed_memory
from disco_mt.training.updates import Plan, Update

TOO_MANY_SKIPPED = 20


@dataclass(frozen=True)
class TrainingResult:
    """How a run ended, or was interrupted."""

    step: int
    reason: str  # "steps", "epochs" or "patience"; "interrupted" by a signal
    best: list[Scored]
    signal: int | None = None


@dataclass
class Session:
    """One process at work on a run."""

    run: Path
    job: TrainingJob
    gradients: GradientAccumulator
    optimizer: torch.optim.Optimizer
    plan: Plan
    state: State
    shown: Quiet
    started: float = field(default_factory=time.perf_counter)
    saved: int = -1  # step of the last checkpoint

    def __post_init__(self) -> None:
        self.started -= self.state.seconds  # the clock goes on where the last session left it
        self.saved = self.state.step
        if self.state.scaler:
            self.gradients.scaler.load_state_dict(self.state.scaler)
        self.job.model.train()

    @property
    def processes(self) -> Processes:
        """Those that train together."""
        return self.gradients.processes

    def announce(self, world_before: int) -> None:
        """Say and log what is about to happen, with the real size of an update."""
        pairs, model, plan = len(self.plan.split), self.job.model, self.plan
        words = plan.words_per_update(self.state.position.epoch)
        times = f"{plan.world} x {plan.accumulation}" if plan.world > 1 else f"{plan.accumulation}"
        self.shown.say(
            f"{model.config.kind}, {model.count_parameters():,} parameters; {pairs:,} pairs; an update is "
            f"{times} x {plan.max_tokens:,} tokens at most, {words:,.0f} target "
            f"words on average; {plan.updates_in(self.state.position.epoch):,} updates per epoch"
        )
        if self.state.step:
            self.shown.say(f"going on after step {self.state.step:,}")
        if world_before != plan.world:
            self.shown.say(
                f"until now the number of processes was {world_before}; from here on it is {plan.world}"
            )
        sizes = {"accumulation": plan.accumulation, "words_per_update": words}
        self._log("start", {"processes": plan.world, **sizes})

    def run_to_the_end(self, interrupted: Interruption) -> TrainingResult:
        """Update until there is a reason to stop."""
        updates = self.plan.updates(self.state.position)
        while not (reason := self._interrupted(interrupted) or self._finished()):
            self._advance(next(updates))
        history = self.state.history
        if reason != "interrupted" and not (history and history[-1].step == self.state.step):
            self._score()
        self._save()
        self._log("end", {"reason": reason})
        number = interrupted.signal if reason == "interrupted" else None
        return TrainingResult(self.state.step, reason, best(history, self.job.options.keep_best), number)

    def _interrupted(self, interrupted: Interruption) -> str:
        """A signal may reach one process an update earlier than another: all stop as soon as one has it."""
        number = self.processes.all_reduce_max(interrupted.signal or 0)
        interrupted.signal = interrupted.signal or number or None
        return "interrupted" if number else ""

    def _finished(self) -> str:
        """Why the run is at its end; empty if it is not."""
        state, options = self.state, self.job.options
        if state.step >= options.max_steps:
            return "steps"
        if options.max_epochs and state.position.epoch > options.max_epochs:
            return "epochs"
        if options.patience and without_improvement(state.history) >= options.patience:
            return "patience"
        return ""

    def _advance(self, update: Update) -> None:
        """One update, and what is due after it: log, then dev score, then checkpoint."""
        options = self.job.options
        begun = time.perf_counter()
        self._update(update)
        self.state.position = update.after
        self.state.window.seconds += time.perf_counter() - begun
        figures = self._figures()
        self.shown.show(figures)
        if self.state.step % options.log_every == 0:
            self._log_window()
            self.shown.line(figures)
        if self.state.step % options.dev_every == 0 if options.dev_every else update.ends_epoch:
            self._score()
        if self.state.step % options.save_every == 0 and not self._finished():
            self._save()

    def _update(self, update: Update) -> None:
        options, state = self.job.options, self.state
        state.step += 1
        sums = self.gradients.accumulate(self.plan.split, update, options.seed, state.step)
        self.gradients.scaler.unscale_(self.optimizer)
        norm = normalise(self.job.model.parameters(), sums.words, options.clip_norm)
        if math.isfinite(norm):
            for group in self.optimizer.param_groups:
                group["lr"] = learning_rate(state.step, options)
            self.optimizer.step()
            state.skipped_in_a_row = 0
            state.window.add(sums.losses, sums.words, norm)
        else:
            self._skip(sums, norm)
        self.gradients.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)

    def _skip(self, sums: Sums, norm: float) -> None:
        state = self.state
        state.skipped += 1
        state.skipped_in_a_row += 1
        loss = sums.losses.get("loss", 0.0) / max(1, sums.words)
        self.shown.warn(f"step {state.step}: gradient norm {norm}, loss {loss:.3f}; this update is skipped")
        if state.skipped_in_a_row >= TOO_MANY_SKIPPED:
            raise UserError(
                f"the gradient was not finite in {TOO_MANY_SKIPPED} updates in a row, up to step "
                f"{state.step}; start again with a lower learning_rate or a longer warm-up"
            )

    def _score(self) -> None:
        """Dev BLEU; a model among the best is written, then the checkpoint that knows it, then others go."""
        state = self.state
        with evaluating(self.job.model):
            score = self.processes.on_rank_zero(lambda: self.job.score(self.job.model))
        scored = Scored(state.step, state.position.epoch_of_last, score)
        state.history.append(scored)
        figures = {"bleu": score.bleu, "steps": score.steps, "score_seconds": round(score.seconds, 3)}
        self._log("dev", {"epoch": scored.epoch, **figures})
        self.shown.say(f"step {state.step:,}  epoch {scored.epoch}  dev {score.bleu:.2f} BLEU")
        keep = best(state.history, self.job.options.keep_best)
        if scored in keep:
            self.processes.on_rank_zero(lambda: save_best(self.run, self.job, scored))
        self._save(again=True)
        self.processes.on_rank_zero(lambda: remove_others(self.run, keep))

    def _save(self, again: bool = False) -> None:
        state = self.state
        state.seconds = time.perf_counter() - self.started
        state.scaler = self.gradients.scaler.state_dict()
        if again or self.saved != state.step:
            self.processes.on_rank_zero(self._save_checkpoint)
            self.saved = state.step

    def _save_checkpoint(self) -> None:
        settings, world = self.job.settings(), self.plan.world
        checkpoints.save(self.run, self.job.model, self.optimizer, self.state, settings, world)

    def _figures(self) -> Figures:
        window, history = self.state.window, self.state.history
        return Figures(
            self.state.step,
            window.losses["loss"] / window.words if window.words else None,
            window.words / window.seconds if window.words else None,
            history[-1].score.bleu if history else None,
        )

    def _log_window(self) -> None:
        window = self.state.window
        per_word = {name: value / window.words for name, value in window.losses.items()}
        figures = {
            "lr": learning_rate(self.state.step, self.job.options),
            "grad_norm": window.norms / window.updates if window.updates else None,
            "skipped": self.state.skipped,
            "tokens_per_second": round(window.words / window.seconds, 1),
        }
        self._log("train", {"epoch": self.state.position.epoch_of_last, **per_word, **figures})
        self.state.window = Window()

    def _log(self, kind: str, entry: dict[str, Any]) -> None:
        seconds = round(time.perf_counter() - self.started, 3)
        line = {"kind": kind, "step": self.state.step, **entry, "seconds": seconds}
        self.processes.on_rank_zero(lambda: rundir.log(self.run, line))


@contextmanager
def evaluating(model: TranslationModel) -> Iterator[None]:
    """Dropout off and no gradients inside the block; then training goes on, whatever happened.

    Layers that are compiled for training are left so: decoding has too many shapes to be worth compiling.
    """
    model.eval()
    try:
        with torch.no_grad(), torch.compiler.set_stance("force_eager"):
            yield
    finally:
        model.train()


class Interruption:
    """The signal that was received, if any."""

    signal: int | None = None


@contextmanager
def interruption(warn: Callable[[str], None]) -> Iterator[Interruption]:
    """Catch the two signals inside the block; the handlers of before come back after it.

    Only the main thread may set handlers; elsewhere the signals keep their meaning.
    """
    came = Interruption()

    def note(number: int, frame: FrameType | None) -> None:
        if came.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        came.signal = came.signal or number
        with suppress(RuntimeError):  # the signal came in the middle of another print
            warn("finishing this update and saving; Ctrl-C once more stops at once")

    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def train(
    run: Path,
    job: TrainingJob,
    *,
    resume: bool = False,
    quiet: bool = False,
    processes: Processes = ALONE,
) -> TrainingResult:
    """Train into the directory `run`, from the start or from its last checkpoint.

    A resumed run must have the same objective, model, data and (except for when to stop and what to keep)
    options. processes: those that train together, each with its own copy of the job; see processes.py.
    """
    model, options = job.model, job.options
    keep_freed_memory()
    job.check_lengths()
    model.freeze(options.freeze)
    if options.encoder_states:
        check_frozen_encoder(model)
    check_precision(options.precision, job.device)
    if options.compile:
        compile_layers(model, job.device)
    optimizer = build_optimizer(model, options)

    def begin(held: ExitStack) -> tuple[State, int]:
        if resume or (restarted() and is_run(run)):
            return resume_run(run, held, job, optimizer)
        return start_run(run, held, job, optimizer, processes.world), processes.world

    with ExitStack() as held:
        state, world_before = processes.on_rank_zero(lambda: begin(held))
        share(processes, model, optimizer)
        plan = Plan.for_process(job.split, options, processes)
        gradients = GradientAccumulator(model, job.objective, options.precision, processes, options.compile)
        if options.encoder_states:  # only now do all processes have the weights of the first
            processes.on_rank_zero(lambda: len(_states(job, quiet).starts))
            gradients.states = _states(job, quiet)
        last = options.max_epochs * plan.updates_in(state.position.epoch)
        total = min(options.max_steps, last or options.max_steps)
        with (
            progress(total, state.step, quiet, processes.first) as shown,
            interruption(shown.warn) as interrupted,
        ):
            session = Session(run, job, gradients, optimizer, plan, state, shown)
            session.announce(world_before)
            return session.run_to_the_end(interrupted)


def _states(job: TrainingJob, quiet: bool) -> EncoderStates:
    folder, precision = Path(job.options.encoder_states), job.options.precision
    return keep_encoder_states(job.model, job.split, job.dataset.fingerprint, folder, precision, quiet)
