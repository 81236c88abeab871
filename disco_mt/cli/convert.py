"""disco import-fairseq, import-marian, prune-vocabulary, export: models from and for other systems."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from disco_mt.cli.common import writing
from disco_mt.core.errors import UserError
from disco_mt.core.files import refuse_existing
from disco_mt.engine.ctranslate2 import export_ctranslate2
from disco_mt.engine.select import EngineOptions, check_onnx
from disco_mt.interop import fairseq, marian
from disco_mt.interop import prune_vocabulary as pruning
from disco_mt.interop.marian import FILES, MarianOptions
from disco_mt.interop.prune_vocabulary import SideReport
from disco_mt.nn.find import find_model
from disco_mt.translator import Translator


def import_fairseq(checkpoint: Path, source_dict: Path, target_dict: Path, out: Path) -> int:
    """Import a DisCo checkpoint of the authors' format. Nothing in the file is executed.

    Example:
      disco import-fairseq --checkpoint checkpoint_best.pt --source-dict dict.en.txt \\
        --target-dict dict.de.txt --out my-model

    Args:
        checkpoint: The .pt file.
        source_dict: Dictionary of the source language: a symbol and its count a line.
        target_dict: Dictionary of the target language; the same file for a joint vocabulary.
        out: Model directory to write; it must not exist yet.
    """
    refuse_existing(out)
    with writing(out):
        config = fairseq.import_fairseq(checkpoint, source_dict, target_dict, out)
    print(
        f"{out}: {config.encoder.layers}+{config.decoder.layers} layers, {config.width} wide, "
        f"vocabularies of {config.source_vocabulary} and {config.target_vocabulary}"
    )
    return 0


def import_marian(model: str, out: Path, options: MarianOptions = MarianOptions()) -> int:  # noqa: B008
    """Import a MarianMT model in the Hugging Face format, for example one of OPUS-MT.

    The result is an autoregressive model. It translates as the original does, and can be the teacher or the
    start of a Disco model. Nothing in the files is executed.

    Example:
      disco import-marian --model Helsinki-NLP/opus-mt-en-fr --out opus-en-fr

    Args:
        model: Directory with config.json, the weights, source.spm, target.spm and vocab.json; or the id of a
            model on the hub.
        out: Model directory to write; it must not exist yet.
    """
    refuse_existing(out)
    directory = find_model(model, FILES)
    origin = directory.resolve().name if directory == Path(model) else model
    with writing(out):
        config = marian.import_marian(directory, origin, out, options)
    print(
        f"{out}: {config.encoder.layers}+{config.decoder.layers} layers, {config.width} wide, "
        f"vocabularies of {config.source_vocabulary} and {config.target_vocabulary}"
    )
    return 0


def prune_vocabulary(
    model: str,
    out: Path,
    source: tuple[Path, ...],
    target: tuple[Path, ...],
    source_size: int = 0,
    target_size: int = 0,
) -> int:
    """Keep the pieces of an imported model that your text uses; everything else is spelt with smaller ones.

    All single characters stay, so nothing becomes unknown. Embeddings and output layer shrink with the
    vocabularies: the model is smaller and faster.

    Example:
      disco prune-vocabulary --model opus-en-fr --source news.en.gz --target news.fr.gz \\
        --source-size 16000 --target-size 16000 --out opus-en-fr-small

    Args:
        model: A model directory made by `disco import-marian`.
        out: Model directory to write; it must not exist yet.
        source: Text in the source language, one sentence per line, plain or .gz; several files are allowed.
        target: The same in the target language. The two need not be translations of each other.
        source_size: Entries of the source vocabulary, special tokens and single characters included; 0: all
            pieces that the text uses.
        target_size: The same of the target vocabulary.
    """
    refuse_existing(out)
    with writing(out):
        report = pruning.prune_vocabulary(find_model(model), source, target, out, source_size, target_size)
    print(out)
    print("\n".join(_described("source", report.source) + _described("target", report.target)))
    return 0


def _described(side: str, found: SideReport) -> list[str]:
    return [
        f"{side}: {found.size} of {found.size_before} entries ({found.single_characters} single characters)",
        f"  the text has {found.tokens} tokens of {found.pieces_used} pieces; {found.pieces_for_99} pieces "
        f"cover 99 % of them, {found.pieces_for_99_5} 99.5 %, {found.pieces_for_99_9} 99.9 %",
        f"  {100 * found.tokens_kept:.3f} % of the tokens are unchanged; {found.pieces_per_word:.3f} pieces "
        f"per word instead of {found.pieces_per_word_before:.3f}",
    ]


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
