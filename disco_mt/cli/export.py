"""disco export: a model directory -> the format of another engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from disco_mt.cli.common import call
from disco_mt.engine.ctranslate2 import export_ctranslate2
from disco_mt.errors import UserError
from disco_mt.files import refuse_existing
from disco_mt.translator import Translator


def export(
    model: str,
    out: Path,
    format_: Annotated[Literal["ctranslate2"], tyro.conf.arg(name="format")],
) -> int:
    """Write a model for another engine.

    disco export --model teacher --format ctranslate2 --out teacher.ct2

    Args:
        model: A model directory, a shipped model, or the id of a model on the hub.
        out: Directory to write; it must not exist yet.
        format_: ctranslate2 (autoregressive models).
    """
    refuse_existing(out)
    translator = Translator.from_pretrained(model)
    source, target = (
        side.tokens(range(side.vocabulary_size)) for side in (translator.text.source, translator.text.target)
    )
    try:
        export_ctranslate2(translator.model, source, target, out)
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror or error}") from error
    print(f"{out}: {translator.model.count_parameters():,} parameters for {format_}")
    return 0


def main(arguments: list[str]) -> int:
    """The verb."""
    return call(export, "export", arguments)
