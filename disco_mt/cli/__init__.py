"""The command line: one function per verb, in a module that is imported only when the verb is called."""

from __future__ import annotations

import errno
import gc
import importlib
import os
import shlex
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType

from disco_mt.core.errors import UserError
from disco_mt.version import __version__

VERBS = {
    "demo": "the whole paper in minutes: corpus, teacher, distillation, students, a table",
    "corpus": "write a known corpus as text files",
    "prepare": "parallel text files -> a dataset directory",
    "train": "a recipe and a dataset -> a trained model",
    "start": "the model that a training would start from, as a model directory",
    "average": "the best checkpoints of a run -> one model",
    "distill": "a teacher's translations of a dataset -> a new dataset",
    "translate": "text in, translation out",
    "evaluate": "score a model: BLEU, chrF, steps",
    "probe": "the loss of a DisCo by what a word may see",
    "bench": "time models and engines side by side: CTranslate2, DisCo, CMLM",
    "experiment": "a table or figure of the paper: ours beside its own",
    "serve": "an HTTP API and a page in front of models",
    "trace": "a translation pass by pass: in the terminal, as a page, as a picture",
    "suite": "whole experiments, from the data to the tables: list, show, run, package",
    "export": "a model for another engine: ctranslate2, onnx",
    "shortlist": "a dataset -> which words go together: fewer to choose from, faster translation",
    "import-fairseq": "the authors' checkpoint -> a model directory",
    "import-marian": "a MarianMT model (OPUS-MT) -> a model directory",
    "prune-vocabulary": "an imported model -> one with the pieces that your text uses",
    "info": "versions, threads, device, models found",
}

MODULES = {
    "demo": "suite",
    "corpus": "data",
    "prepare": "data",
    "shortlist": "data",
    "start": "train",
    "average": "train",
    "probe": "evaluate",
    "export": "convert",
    "import-fairseq": "convert",
    "import-marian": "convert",
    "prune-vocabulary": "convert",
}
"""Where a verb's function is, if its module has another name."""

RENAMED = {"recipe": "suite"}
"""Verbs of earlier versions -> what they are called now."""


def main(arguments: list[str] | None = None) -> int:
    """Run one verb. Returns the exit code: 0, or 2 for a user's mistake."""
    if arguments is None:
        arguments = sys.argv[1:]
        signal.signal(signal.SIGTERM, _terminated)
        gc.disable()  # until all is imported: see _command
    try:
        return _flushed(_dispatch(arguments))
    except UserError as error:
        return _complain(str(error))
    except KeyboardInterrupt:
        print("disco: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone (`| head`): not our mistake
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # a full disk, a place that may not be written
        if error.filename is None and error.errno != errno.ENOSPC:
            raise
        return _complain(f"{error.filename or 'cannot write'}: {error.strerror}")


def _dispatch(arguments: list[str]) -> int:
    arguments = _with_plugins(arguments)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_overview())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print(f"disco {__version__}")
        return 0
    if arguments[0] in RENAMED:
        new = RENAMED[arguments[0]]
        raise UserError(f"disco {arguments[0]} is now disco {new}: disco {shlex.join([new, *arguments[1:]])}")
    if arguments[0] not in VERBS:
        raise UserError(f"unknown verb {arguments[0]!r}; there are: {', '.join(VERBS)}")
    return _command(arguments[0])(arguments[1:])


def _with_plugins(arguments: list[str]) -> list[str]:
    """Take --plugin FILE from the front, as often as it is there."""
    while arguments and arguments[0].partition("=")[0] == "--plugin":
        from disco_mt.core.plugins import add_plugin

        _, joined, value = arguments[0].partition("=")
        if not joined:
            value, arguments = (arguments[1] if len(arguments) > 1 else ""), arguments[1:]
        if not value:
            raise UserError("--plugin needs a Python file: disco --plugin my_system.py train ...")
        add_plugin(Path(value))
        arguments = arguments[1:]
    return arguments


def _terminated(number: int, _: FrameType | None) -> None:
    """End as an exception does, so that temporary files go. Training has its own way: it saves first."""
    raise SystemExit(128 + number)


def _flushed(code: int) -> int:
    """Write out what is printed while a reader that has gone can still be told from a mistake."""
    sys.stdout.flush()
    return code


def _command(verb: str) -> Callable[[list[str]], int]:
    from disco_mt.cli.common import call

    module = importlib.import_module(f"disco_mt.cli.{MODULES.get(verb, verb)}")
    if not gc.isenabled():
        # Imports make a million objects and no garbage: what looks for some, now or at the end, takes half a
        # second of a short command.
        gc.freeze()
        gc.enable()
    name = verb.replace("-", "_")
    if hasattr(module, f"{name}_main"):  # it has verbs of its own, or looks at its arguments first
        command: Callable[[list[str]], int] = getattr(module, f"{name}_main")
        return command
    return partial(call, getattr(module, name), verb)


def _complain(message: str) -> int:
    print(f"disco: error: {message}", file=sys.stderr)
    return 2


def _overview() -> str:
    width = max(map(len, VERBS)) + 2
    verbs = "\n".join(f"  disco {verb:<{width}}{help_}" for verb, help_ in VERBS.items())
    return (
        "Disco translates every word of a sentence at once "
        "(DisCo transformer, parallel easy-first).\n\n"
        f"{verbs}\n\n"
        "  disco VERB --help   options of a verb, with examples\n"
        "  disco --plugin FILE VERB ...   with a system, objective or decoder of your own\n"
        "  disco --version\n\n"
        "Try: disco demo"
    )
