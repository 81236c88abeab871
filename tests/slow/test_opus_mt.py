"""A real OPUS-MT model, imported, beside transformers and CTranslate2 on 500 sentences of newstest2013.

It needs DISCO_MODELS (with opus-mt-en-fr), DISCO_DATA (with general-en-fr), and transformers, sentencepiece
and ctranslate2: in this environment, or in another one, whose interpreter DISCO_TRANSFORMERS_PYTHON names.
DISCO_OPUS_REFERENCE may name a file that keeps what they say. Figures are shown with -s.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
import torch

from disco_mt.core.special_tokens import EOS, PAD
from disco_mt.engine.ctranslate2 import CTranslate2Engine, export_ctranslate2
from disco_mt.engine.select import EngineOptions
from disco_mt.interop.marian import MarianOptions, import_marian
from disco_mt.systems.autoregressive import decoding as search
from disco_mt.systems.autoregressive.decoding import beam_search
from disco_mt.systems.autoregressive.model import Autoregressive
from disco_mt.text.sentencepiece import UNREACHABLE
from disco_mt.translator import Translator

SENTENCES = int(os.environ.get("DISCO_OPUS_SENTENCES", "500"))
BATCH = 16
TIE = 1e-3  # a difference of log probabilities that rounding explains

for variable in ("DISCO_MODELS", "DISCO_DATA"):
    if variable not in os.environ:
        pytest.skip(f"{variable} names no folder", allow_module_level=True)
if "DISCO_TRANSFORMERS_PYTHON" in os.environ:
    PYTHON = os.environ["DISCO_TRANSFORMERS_PYTHON"]
elif importlib.util.find_spec("transformers"):
    PYTHON = sys.executable
else:
    pytest.skip(
        "transformers is not installed, and DISCO_TRANSFORMERS_PYTHON is not set", allow_module_level=True
    )

ORIGINAL = Path(os.environ["DISCO_MODELS"], "opus-mt-en-fr")
NEWS = Path(os.environ["DISCO_DATA"], "general-en-fr")


@dataclass(frozen=True)
class Setting:
    """The imported model, what the others make of the sentences, and the sentences as our ids."""

    translator: Translator
    expected: dict[str, Any]
    sources: list[list[int]]
    references: list[str]

    @property
    def model(self) -> Autoregressive:
        assert isinstance(self.translator.model, Autoregressive)
        return self.translator.model

    def tokens(self, ids: tuple[int, ...]) -> list[str]:
        return [token.removeprefix(UNREACHABLE) for token in self.translator.text.target.tokens(ids)]

    def ids(self, tokens: list[str]) -> list[int]:
        target, known = self.translator.text.target, set(self.translator.text.vocabularies()[1])
        return target.ids([token if token in known else UNREACHABLE + token for token in tokens])

    def bleu(self, texts: list[str]) -> float:
        return float(sacrebleu.corpus_bleu(texts, [self.references]).score)


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    folder = tmp_path_factory.mktemp("opus")
    recorded = Path(os.environ.get("DISCO_OPUS_REFERENCE", folder / "reference.json"))
    if not recorded.exists():
        script = Path(__file__).with_name("opus_mt_reference.py")
        source = NEWS / "newstest2013.en.gz"
        command = [PYTHON, str(script), str(ORIGINAL), str(source), str(SENTENCES), str(recorded)]
        subprocess.run(command, check=True)
    expected = json.loads(recorded.read_text(encoding="utf-8"))
    import_marian(ORIGINAL, "opus-mt-en-fr", folder / "model", MarianOptions(exact_tokenizer=True))
    translator = Translator.from_pretrained(folder / "model", EngineOptions(engine="reference"))
    sources = translator.text.source.encode_batch(expected["texts"])
    with gzip.open(NEWS / "newstest2013.fr.gz", "rt", encoding="utf-8", newline="\n") as lines:
        references = [line.rstrip("\n") for line in lines][: len(sources)]
    return Setting(translator, expected, sources, references)


def searched(setting: Setting, beam: int) -> list[tuple[int, ...]]:
    """Our own search, in batches of similar length."""
    found: dict[int, tuple[int, ...]] = {}
    places = sorted(range(len(setting.sources)), key=lambda place: len(setting.sources[place]))
    for start in range(0, len(places), BATCH):
        batch = places[start : start + BATCH]
        width = max(len(setting.sources[place]) for place in batch) + 1
        rows = [[*setting.sources[p], EOS] + [PAD] * (width - 1 - len(setting.sources[p])) for p in batch]
        results = beam_search(setting.model, torch.tensor(rows), beam, 1.0)
        found |= {place: result.tokens for place, result in zip(batch, results, strict=True)}
    return [found[place] for place in range(len(places))]


@torch.inference_mode()
def log_probabilities(setting: Setting, source: list[int], target: list[int]) -> torch.Tensor:
    """Of each token and of EOS."""
    model, ids = setting.model, torch.tensor([*target, EOS])
    hidden = model.decode(ids[None], model.encode(torch.tensor([[*source, EOS]])))
    return model.word_log_probs(hidden[0], ids)


def texts(setting: Setting, found: list[tuple[int, ...]]) -> list[str]:
    return [setting.translator.text.target.decode(ids) for ids in found]


def gap(setting: Setting, place: int, ours: list[str], theirs: list[str]) -> float:
    """How much likelier our first token that differs is than theirs, in our own log probabilities."""
    first = next(
        n for n, pair in enumerate(zip([*ours, ""], [*theirs, ""], strict=False)) if pair[0] != pair[1]
    )
    each = [
        log_probabilities(setting, setting.sources[place], setting.ids(tokens))[first].item()
        for tokens in (ours, theirs)
    ]
    return each[0] - each[1]


def test_text_is_segmented_as_by_sentencepiece(setting: Setting) -> None:
    for ids, expected in zip(setting.sources, setting.expected["pieces"], strict=True):
        assert setting.translator.text.source.tokens(ids) == expected


def test_greedy_search_is_that_of_transformers(setting: Setting) -> None:
    compare_greedy(setting, searched(setting, beam=1), "greedy", "transformers")


def test_greedy_search_in_ctranslate2_is_that_of_its_own_conversion(setting: Setting, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    export_ctranslate2(setting.model, *setting.translator.text.vocabularies(), tmp_path / "exported")
    engine = CTranslate2Engine(tmp_path / "exported")
    found = engine.translate(setting.sources, 1, 1.0, with_probabilities=False)
    compare_greedy(setting, [each.tokens for each in found], "ctranslate2", "CTranslate2's conversion")


def compare_greedy(setting: Setting, found: list[tuple[int, ...]], name: str, whose: str) -> None:
    expected = setting.expected[name]
    different = [place for place, ids in enumerate(found) if setting.tokens(ids) != expected[place]]
    gaps = [gap(setting, place, setting.tokens(found[place]), expected[place]) for place in different]
    print(f"\ngreedy beside {whose}: {len(found) - len(different)} of {len(found)} identical; gaps {gaps}")
    ours, theirs = setting.bleu(texts(setting, found)), setting.bleu(setting.expected[f"{name}_texts"])
    print(f"BLEU {ours:.2f} and {theirs:.2f}")
    assert all(abs(each) < TIE for each in gaps)
    assert len(different) <= len(found) / 100


def test_beam_search_is_nearly_that_of_transformers(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """We stop when `beam` hypotheses have ended, transformers goes on while a better one may come.

    A difference is the stopping rule's if we, too, find theirs or better by going on.
    """
    found, expected = searched(setting, beam=4), setting.expected["beam"]
    different = [place for place, ids in enumerate(found) if setting.tokens(ids) != expected[place]]
    monkeypatch.setattr(search, "_done", _nothing_can_win)
    going_on = searched(replace(setting, sources=[setting.sources[place] for place in different]), beam=4)
    kinds = {"identical": len(found) - len(different), "tie": 0, "stopping rule": 0, "other": 0}
    for place, later in zip(different, going_on, strict=True):
        ours, patient, theirs = (
            log_probabilities(setting, setting.sources[place], list(ids)).mean().item()
            for ids in (found[place], later, setting.ids(expected[place]))
        )
        if abs(ours - theirs) < TIE:
            kinds["tie"] += 1
        else:
            kinds["stopping rule" if patient > theirs - TIE else "other"] += 1
    ours_bleu = setting.bleu(texts(setting, found))
    theirs_bleu = setting.bleu(setting.expected["beam_texts"])
    print(f"\nbeam 4 beside transformers: {kinds}; BLEU {ours_bleu:.2f} and {theirs_bleu:.2f}")
    assert kinds["identical"] >= 0.95 * len(found)
    assert abs(ours_bleu - theirs_bleu) < 0.1


def _nothing_can_win(beams: Any, ranked: Any, beam: int, length_penalty: float) -> torch.Tensor:
    """The part of our rule that bounds what goes on; and the longest length, at which all must end."""
    going_on = ranked.totals.masked_fill(ranked.words == EOS, -torch.inf).amax(dim=1)
    return (beams.best >= going_on / (beams.limits + 1) ** length_penalty) | (beams.full & (beams.ended > 0))
