"""The learning curve of a training: one line per measured model, in a file that grows.

    python -m benchmarks.curve RUN --data DATA --dev newstest2013 dev.en dev.fr --out curve.jsonl

Takes the newest model in RUN/best that the file does not have yet: words seen, loss by what a word may see
(`disco probe`, test split of DATA), and BLEU and decoder passes on each dev set. `--table` prints the file.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from disco_mt.data.dataset import Dataset, split_references
from disco_mt.decoding.options import DecodingOptions
from disco_mt.engine.select import EngineOptions
from disco_mt.evaluation.probe import probe
from disco_mt.evaluation.quality import measure
from disco_mt.systems.disco.model import DisCo
from disco_mt.text.lines import read_lines
from disco_mt.training.checkpoints import step_directories
from disco_mt.training.rundir import BEST, read_log
from disco_mt.translator import Translator


def measured(model: Path, run: Path, data: Path, dev: list[list[str]], sentences: int) -> dict[str, Any]:
    """One line of the curve."""
    translator = Translator.from_pretrained(model, EngineOptions(threads=torch.get_num_threads()))
    assert isinstance(translator.model, DisCo)
    step = int(model.name.split("-")[1])
    each = next(line["words_per_update"] for line in read_log(run) if line["kind"] == "start")
    losses = probe(translator.model, Dataset.open(data).splits["test"], 500).figures()
    line: dict[str, Any] = {"step": step, "words": round(step * each), "loss": losses, "dev": {}}
    for name, source, reference in dev:
        sources = list(read_lines(Path(source)))[:sentences]
        references = [split_references(line) for line in read_lines(Path(reference))][:sentences]
        found = translator.translate(sources, DecodingOptions("easy-first"))
        quality = measure([each.text for each in found], references, translator.text.target.language)
        steps = sum(each.steps for each in found) / len(found)
        line["dev"][name] = {"sentences": len(sources), "bleu": quality.bleu, "steps": steps}
    return line


def table(lines: list[dict[str, Any]]) -> str:
    """Markdown."""
    names = list(lines[-1]["dev"])
    losses = ("left to right", "random", "nothing", "length")
    head = ["updates", "million words", *losses, *(f"{name}: BLEU (passes)" for name in names)]
    rows = [head, ["---:"] * len(head)]
    for line in lines:
        scores = [f"{line['dev'][name]['bleu']:.1f} ({line['dev'][name]['steps']:.1f})" for name in names]
        loss = [f"{line['loss'][name]:.2f}" for name in losses]
        rows.append([f"{line['step']:,}", f"{line['words'] / 1e6:.1f}", *loss, *scores])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    """Measure the newest model, or print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument(
        "--dev", nargs=3, action="append", default=[], metavar=("NAME", "SOURCE", "REFERENCES")
    )
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    lines = [json.loads(line) for line in read_lines(arguments.out)] if arguments.out.exists() else []
    if not arguments.table:
        model = step_directories(arguments.run / BEST)[-1]
        line = measured(model, arguments.run, arguments.data, arguments.dev, arguments.sentences)
        lines = [*(each for each in lines if each["step"] != line["step"]), line]
        arguments.out.write_text("".join(json.dumps(each) + "\n" for each in lines), encoding="utf-8")
    print(table(lines))


if __name__ == "__main__":
    main()
