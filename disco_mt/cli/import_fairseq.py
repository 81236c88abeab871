"""disco import-fairseq: the authors' checkpoint format -> a model directory."""

from __future__ import annotations

from pathlib import Path

from disco_mt.cli.common import writing
from disco_mt.core.files import refuse_existing
from disco_mt.interop import fairseq


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
