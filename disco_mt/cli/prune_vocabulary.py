"""disco prune-vocabulary: a model directory with smaller vocabularies."""

from __future__ import annotations

from pathlib import Path

from disco_mt.cli.common import writing
from disco_mt.core.files import refuse_existing
from disco_mt.interop import prune_vocabulary as pruning
from disco_mt.interop.prune_vocabulary import SideReport
from disco_mt.nn.find import find_model


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
