"""What is translated: texts for trained models, random ids of a given length where weights are random.

Random weights would make translations of random lengths in random numbers of passes. So each random sentence
has a structure (engine/schedule.py): the lengths of its candidates, and which rows its passes predict.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from disco_mt.engine.schedule import Structure
from disco_mt.errors import UserError
from disco_mt.files import write_text
from disco_mt.special import NUM_SPECIAL

FIXED = (1.0, 0.96, 0.5, 0.3, 0.2)  # shares of the rows that five passes of easy-first compute
_NEAR = (0, -1, 1, -2, 2)  # lengths of the candidates: the five nearest, as a length predictor has them


@dataclass(frozen=True)
class Sentence:
    """One input: a text, or source ids (without EOS) and the structure of its decoding."""

    text: str = ""
    source: tuple[int, ...] = ()
    structure: Structure | None = None

    @property
    def words(self) -> int:
        """Forced length of the translation; 0: as the model likes."""
        return self.structure.lengths[0] if self.structure else 0


@dataclass(frozen=True)
class Outcome:
    """What a system made of a sentence, and the work it counts."""

    words: int  # of the translation, EOS apart
    steps: int  # passes, the paper's Step
    rows: int  # decoder rows (a position of a candidate in a pass) that were computed to the vocabulary
    keys: int  # words whose self-attention keys and values were projected, all layers being one
    plain_rows: int  # rows that the plain algorithm computes for the same result
    source: int  # tokens, EOS included
    text: str = ""


def fixed_structures(
    lengths: Sequence[int], each: int, shares: tuple[float, ...] = FIXED, beam: int = 5
) -> list[Structure]:
    """`each` sentences of every length; their candidates have the nearest lengths."""
    near = [*_NEAR, *(step for far in range(3, beam) for step in (-far, far))][:beam]
    found = [Structure.fixed(tuple(max(1, words + step) for step in near), shares) for words in lengths]
    return [structure for structure in found for _ in range(each)]


def narrowed(structure: Structure, beam: int) -> Structure:
    """With the first candidates only."""
    rows, changed = (tuple(each[:beam] for each in part) for part in (structure.rows, structure.changed))
    return Structure(structure.lengths[:beam], rows, changed)


def random_sentences(structures: Sequence[Structure], vocabulary: int) -> list[Sentence]:
    """Random source ids, as many as the likeliest candidate has words; the same ones every time."""
    generator = torch.Generator().manual_seed(1)
    return [
        Sentence("", tuple(torch.randint(NUM_SPECIAL, vocabulary, (words,), generator=generator).tolist()), s)
        for s in structures
        for words in (s.lengths[0],)
    ]


def write_structures(structures: Sequence[Structure], model: str, path: Path) -> None:
    """Keep what was recorded."""
    content = {"model": model, "structures": [asdict(each) for each in structures]}
    write_text(path, json.dumps(content) + "\n")


def read_structures(path: Path) -> list[Structure]:
    """What `disco bench --record` wrote."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["structures"]
        return [
            Structure(tuple(each["lengths"]), _nested(each["rows"]), _nested(each["changed"]))
            for each in found
        ]
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file; record one with: disco bench --record") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is not what `disco bench --record` writes: {error!r}") from None


def _nested(passes: list[list[list[int]]]) -> tuple[tuple[tuple[int, ...], ...], ...]:
    return tuple(tuple(tuple(places) for places in candidates) for candidates in passes)
