"""What is translated: texts for trained models, random ids where weights are random.

Random weights would make translations of random lengths in random numbers of passes. So each random sentence
has a structure: the lengths of its candidates, and which rows its passes predict, either fixed or recorded
from a trained model.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from disco_mt.core.errors import UserError
from disco_mt.core.files import write_text
from disco_mt.core.special_tokens import NUM_SPECIAL
from disco_mt.engine.incremental import IncrementalEngine, Work
from disco_mt.engine.skipping import Recorded, Structure
from disco_mt.engine.torch_runtime import TorchRuntime
from disco_mt.systems.disco.model import DisCo
from disco_mt.translator import Translator

_SHIPPED = Path(__file__).parent / "recorded"
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
        """Forced length of the translation; 0: the model decides."""
        return self.structure.lengths[0] if self.structure else 0


def random_sentences(structures: Sequence[Structure], vocabulary: int) -> list[Sentence]:
    """Random source ids, as many as the likeliest candidate has words; the same ones every time."""
    generator = torch.Generator().manual_seed(1)
    sentences = []
    for structure in structures:
        ids = torch.randint(NUM_SPECIAL, vocabulary, (structure.lengths[0],), generator=generator)
        sentences.append(Sentence("", tuple(ids.tolist()), structure))
    return sentences


def fixed_structures(
    lengths: Sequence[int], number: int, shares: tuple[float, ...] = FIXED, beam: int = 5
) -> list[Structure]:
    """A number of sentences of every length; their candidates have the nearest lengths."""
    near = [*_NEAR, *(step for far in range(3, beam) for step in (-far, far))][:beam]
    fixed = [Structure.fixed(tuple(max(1, words + step) for step in near), shares) for words in lengths]
    return [structure for structure in fixed for _ in range(number)]


def narrowed(structure: Structure, beam: int) -> Structure:
    rows, changed = (tuple(each[:beam] for each in part) for part in (structure.rows, structure.changed))
    return Structure(structure.lengths[:beam], rows, changed)


def record_structures(translator: Translator, texts: Sequence[str]) -> tuple[list[Structure], Work]:
    """Decode texts, one at a time, and record what was predicted; with the work of all of them."""
    model = translator.model
    if not isinstance(model, DisCo):
        raise UserError(f"only a disco model has pass structures to record, not {model.config.kind}")
    recorded = Recorded()
    engine = IncrementalEngine(TorchRuntime(model), skipping=recorded)
    longest = model.config.longest_source
    for ids in translator.text.source.encode_batch(texts):
        if len(ids) > longest:
            raise UserError(f"a sentence has {len(ids)} tokens, but the model reads at most {longest}")
        if ids:
            list(engine.finished([ids]))
    return recorded.structures, engine.work


def write_structures(structures: Sequence[Structure], model: str, path: Path) -> None:
    content = {"model": model, "structures": [asdict(structure) for structure in structures]}
    write_text(path, json.dumps(content) + "\n")


def shipped_structures() -> list[str]:
    return sorted(path.stem for path in _SHIPPED.glob("*.json"))


def read_structures(name: str) -> list[Structure]:
    """What `disco bench --record` wrote: a file, or a recording that ships."""
    path = _SHIPPED / f"{name}.json" if name in shipped_structures() else Path(name)
    try:
        tables = json.loads(path.read_text(encoding="utf-8"))["structures"]
        return [
            Structure(tuple(table["lengths"]), _nested(table["rows"]), _nested(table["changed"]))
            for table in tables
        ]
    except FileNotFoundError:
        known = ", ".join(shipped_structures())
        raise UserError(
            f"--structure {name}: there is no such file, and no recording of that name ships (there are: "
            f"{known}); record one with: disco bench --record FILE --models DIR --source FILE"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is not what `disco bench --record` writes: {error!r}") from None


def _nested(passes: list[list[list[int]]]) -> tuple[tuple[tuple[int, ...], ...], ...]:
    return tuple(tuple(tuple(places) for places in candidates) for candidates in passes)
