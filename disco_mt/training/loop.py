"""Training: a new run or one that goes on, with one call.

A run that is stopped anywhere and resumed gives the same weights, bit for bit (on a CPU with the same number
of threads): the data and every random draw follow from (seed, step), the rest is in the checkpoint.
"""

from __future__ import annotations

from pathlib import Path

from disco_mt.training import rundir
from disco_mt.training.begin import Beginning, resume_run, share, start_run
from disco_mt.training.compiled import compile_layers
from disco_mt.training.encoder_states import EncoderStates, check_frozen_encoder, keep_encoder_states
from disco_mt.training.gradients import GradientAccumulator
from disco_mt.training.interrupt import interruption
from disco_mt.training.job import TrainingJob
from disco_mt.training.memory import keep_freed_memory
from disco_mt.training.optimizer import build_optimizer
from disco_mt.training.precision import check_precision
from disco_mt.training.processes import ALONE, Processes, restarted
from disco_mt.training.progress import progress
from disco_mt.training.session import Session, TrainingResult
from disco_mt.training.updates import Plan, sizes


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

    def begin(lock: rundir.Lock) -> Beginning:
        if resume or (restarted() and rundir.is_run(run)):
            return resume_run(run, lock, job, optimizer)
        return start_run(run, lock, job, optimizer, processes.world)

    with rundir.Lock() as lock:
        beginning = processes.on_rank_zero(lambda: begin(lock))
        share(processes, model, optimizer)
        state = beginning.state
        plan = Plan.for_process(job.split, options, processes)
        gradients = GradientAccumulator(model, job.objective, options.precision, processes, options.compile)
        if options.encoder_states:  # only now do all processes have the weights of the first
            processes.on_rank_zero(lambda: len(_states(job, quiet).starts))
            gradients.states = _states(job, quiet)
        amount = sizes(plan, state.position.epoch)
        total = min(options.max_steps, options.max_epochs * amount.updates or options.max_steps)
        with (
            progress(total, state.step, quiet, processes.first) as shown,
            interruption(shown.warn) as interrupted,
        ):
            session = Session(run, job, gradients, optimizer, plan, state, shown)
            session.announce(amount, beginning.world)
            return session.run_to_the_end(interrupted)


def _states(job: TrainingJob, quiet: bool) -> EncoderStates:
    folder, precision = Path(job.options.encoder_states), job.options.precision
    return keep_encoder_states(job.model, job.split, job.dataset.fingerprint, folder, precision, quiet)
