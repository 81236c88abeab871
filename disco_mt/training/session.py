"""One process at work on a run: update, log, score, save, until there is a reason to stop.

Of several processes all update; the first alone logs, scores and saves, and all know what it found.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from disco_mt.core.errors import UserError
from disco_mt.nn.base import TranslationModel
from disco_mt.training import checkpoints, rundir
from disco_mt.training.best import remove_others, save_best
from disco_mt.training.dev import Scored, best, without_improvement
from disco_mt.training.gradients import GradientAccumulator, Sums, normalise
from disco_mt.training.interrupt import Interruption
from disco_mt.training.job import TrainingJob
from disco_mt.training.processes import Processes
from disco_mt.training.progress import Figures, Quiet
from disco_mt.training.schedule import learning_rate
from disco_mt.training.state import State, Window
from disco_mt.training.updates import Plan, Sizes, Update

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

    def announce(self, amount: Sizes, world_before: int) -> None:
        """Say and log what is about to happen, with the real size of an update."""
        pairs, model, plan = len(self.plan.split), self.job.model, self.plan
        times = f"{plan.world} x {plan.accumulation}" if plan.world > 1 else f"{plan.accumulation}"
        self.shown.say(
            f"{model.config.kind}, {model.count_parameters():,} parameters; {pairs:,} pairs; an update is "
            f"{times} x {plan.max_tokens:,} tokens at most, {amount.words:,.0f} target "
            f"words on average; {amount.updates:,} updates per epoch"
        )
        if self.state.step:
            self.shown.say(f"going on after step {self.state.step:,}")
        if world_before != plan.world:
            self.shown.say(
                f"until now the number of processes was {world_before}; from here on it is {plan.world}"
            )
        sizes = {"accumulation": plan.accumulation, "words_per_update": amount.words}
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
        begun = time.perf_counter()
        self._update(update)
        self.state.position = update.after
        self.state.window.seconds += time.perf_counter() - begun
        figures = self._figures()
        self.shown.show(figures)
        if self.state.step % self.job.options.log_every == 0:
            self._log_window()
            self.shown.line(figures)
        if (
            self.state.step % self.job.options.dev_every == 0
            if self.job.options.dev_every
            else update.ends_epoch
        ):
            self._score()
        if self.state.step % self.job.options.save_every == 0 and not self._finished():
            self._save()

    def _update(self, update: Update) -> None:
        options, state = self.job.options, self.state
        state.step += 1
        sums = self.gradients.accumulate(self.plan.split, update, options.seed, state.step)
        self.gradients.scaler.unscale_(self.optimizer)
        norm = normalise(self.job.model.parameters(), sums.words, options.clip_norm)
        if math.isfinite(norm):
            for group in self.optimizer.param_groups:
                group["lr"] = self._rate()
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

    def _rate(self) -> float:
        options = self.job.options
        return learning_rate(self.state.step, options)

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
        """The means since the last line, and a new window."""
        window = self.state.window
        per_word = {name: value / window.words for name, value in window.losses.items()}
        figures = {
            "lr": self._rate(),
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
