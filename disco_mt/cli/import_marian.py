"""disco import-marian: a MarianMT model (OPUS-MT) -> a model directory."""

from __future__ import annotations

from pathlib import Path

from disco_mt.cli.common import writing
from disco_mt.core.files import refuse_existing
from disco_mt.interop import marian
from disco_mt.interop.marian import FILES, MarianOptions
from disco_mt.nn.find import find_model


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
