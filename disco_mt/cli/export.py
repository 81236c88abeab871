"""disco export: a model directory -> the format of another engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from disco_mt.core.errors import UserError
from disco_mt.core.files import refuse_existing
from disco_mt.engine.ctranslate2 import export_ctranslate2
from disco_mt.engine.select import EngineOptions, check_onnx
from disco_mt.translator import Translator


def export(
    model: str,
    out: Path,
    format_: Annotated[Literal["ctranslate2", "onnx"], tyro.conf.arg(name="format")],
) -> int:
    """Write a model for another engine.

    disco export --model teacher --format ctranslate2 --out teacher.ct2

    disco export --model my-model --format onnx --out my-model.onnx

    Args:
        model: A model directory, a shipped model, or the id of a model on the hub.
        out: Directory to write; it must not exist yet.
        format_: ctranslate2 (autoregressive models), or onnx (disco models: the encoder and one pass of the
            decoder, checked against the model).
    """
    refuse_existing(out)
    translator = Translator.from_pretrained(model, EngineOptions(engine="reference"))
    try:
        if format_ == "onnx":
            check_onnx("--format onnx", "ctranslate2 (autoregressive models)")
            from disco_mt.engine.onnx_export import export_onnx

            export_onnx(translator.model, translator.text, out)
        else:
            export_ctranslate2(translator.model, *translator.text.vocabularies(), out)
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror or error}") from error
    print(f"{out}: {translator.model.count_parameters():,} parameters for {format_}")
    return 0
