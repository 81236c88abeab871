"""Which rows the passes of a decoding predict: fixed shares, or what a trained model did."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from disco_mt.core.errors import UserError
from disco_mt.core.files import write_text
from disco_mt.engine.incremental import IncrementalEngine, Work
from disco_mt.engine.skipping import Recorded, Structure
from disco_mt.engine.torch_runtime import TorchRuntime
from disco_mt.systems.disco.model import DisCo
from disco_mt.translator import Translator

_SHIPPED = Path(__file__).parent / "recorded"
FIXED = (1.0, 0.96, 0.5, 0.3, 0.2)  # shares of the rows that five passes of easy-first compute
_NEAR = (0, -1, 1, -2, 2)  # lengths of the candidates: the five nearest, as a length predictor has them


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


def record_structures(translator: Translator, texts: Sequence[str]) -> tuple[list[Structure], Work]:
    """Decode texts, one at a time, and note what was predicted; the work of all of them."""
    if not isinstance(translator.model, DisCo):
        raise UserError(
            f"only a disco model has pass structures to record, not {translator.model.config.kind}"
        )
    found = Recorded()
    engine = IncrementalEngine(TorchRuntime(translator.model), skipping=found)
    longest = translator.model.config.longest_source
    sources = [ids for ids in translator.text.source.encode_batch(texts) if ids]
    for ids in sources:
        if len(ids) > longest:
            raise UserError(f"a sentence has {len(ids)} tokens, the model reads {longest}")
        list(engine.finished([ids]))
    return found.structures, engine.work


def write_structures(structures: Sequence[Structure], model: str, path: Path) -> None:
    """Keep what was recorded."""
    content = {"model": model, "structures": [asdict(each) for each in structures]}
    write_text(path, json.dumps(content) + "\n")


def shipped_structures() -> list[str]:
    """Names of the recordings inside the package."""
    return sorted(path.stem for path in _SHIPPED.glob("*.json"))


def read_structures(name: str) -> list[Structure]:
    """What `disco bench --record` wrote: a file, or a recording that ships."""
    path = _SHIPPED / f"{name}.json" if name in shipped_structures() else Path(name)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["structures"]
        return [
            Structure(tuple(each["lengths"]), _nested(each["rows"]), _nested(each["changed"]))
            for each in found
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
