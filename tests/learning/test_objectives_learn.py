"""Every objective must teach a tiny model a task: write the words of another language, in reverse.

Sources are random, so what is scored was never trained on. A sentence counts only if every word is right.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from disco_mt import context
from disco_mt.core.batch import Batch
from disco_mt.core.counter_rng import mix
from disco_mt.core.special_tokens import NUM_SPECIAL
from disco_mt.decoding.options import DecodingOptions
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.config import Stack
from disco_mt.nn.objective import ObjectiveOptions
from disco_mt.systems import decode
from disco_mt.systems.build import build_model
from disco_mt.systems.objective import build_objective
from tiny import padded, tiny_config

WORDS = 12
STEPS, BATCH = 450, 64


def translate(source: list[int]) -> list[int]:
    """The reverse of the words, each as its own translation."""
    return [NUM_SPECIAL + WORDS + word - NUM_SPECIAL for word in reversed(source)]


def sentences(number: int, seed: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, 5, (number,), generator=generator).tolist()
    return [
        torch.randint(NUM_SPECIAL, NUM_SPECIAL + WORDS, (n,), generator=generator).tolist() for n in lengths
    ]


def trained(kind: str, objective: str, **changes: object) -> TranslationModel:
    config = tiny_config(
        kind=kind,
        width=48,
        encoder=Stack(2, 4, 96),
        decoder=Stack(2, 4, 96),
        attention_init="xavier",
        max_source=10,
        max_target=10,
        length_classes=10,
        **changes,
    )
    model = build_model(config).train()
    learn = build_objective(kind, ObjectiveOptions(objective, label_smoothing=0.0))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = 4e-3 * min(1, (step + 1) / 50) * (1 - step / STEPS)
        sources = sentences(BATCH, seed=step)
        batch = Batch(torch.arange(BATCH), padded(sources), padded([translate(each) for each in sources]))
        losses = learn(model, batch, mix(1, step))
        optimizer.zero_grad()
        (losses.total / losses.words).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


def right(model: TranslationModel, options: DecodingOptions) -> float:
    """Share of 200 unseen sentences that are right in every word."""
    sources = sentences(200, seed=10_000)
    found = decode(model, padded(sources), options)
    hits = [list(each.tokens) == translate(source) for each, source in zip(found, sources, strict=True)]
    return sum(hits) / len(hits)


CASES: list[tuple[str, str, str, dict[str, object]]] = [
    ("disco", "disco", "easy-first", {}),
    ("disco", "disco", "mask-predict", {}),
    ("disco", "left-to-right", "autoregressive", {}),
    ("disco", "permutation", "easy-first", {}),
    ("disco", "easy-first", "easy-first", {}),
    ("disco", "mixture", "easy-first", {}),
    ("disco", "mixture", "autoregressive", {}),
    ("cmlm", "cmlm", "mask-predict", {}),
    ("autoregressive", "autoregressive", "greedy", {}),
    ("autoregressive", "autoregressive", "beam", {}),
    ("autoregressive", "autoregressive", "greedy", {"contextless": True}),
]


@pytest.fixture(scope="module")
def model_of() -> Callable[..., TranslationModel]:
    """Each model is trained once, however many strategies it is decoded with."""
    made: dict[str, TranslationModel] = {}

    def get(kind: str, objective: str, changes: dict[str, object]) -> TranslationModel:
        key = f"{kind} {objective} {changes}"
        if key not in made:
            made[key] = trained(kind, objective, **changes)
        return made[key]

    return get


@pytest.mark.parametrize(("kind", "objective", "strategy", "changes"), CASES)
def test_it_learns(
    kind: str,
    objective: str,
    strategy: str,
    changes: dict[str, object],
    model_of: Callable[..., TranslationModel],
) -> None:
    model = model_of(kind, objective, changes)
    assert right(model, DecodingOptions(strategy, iterations=4, length_beam=2)) >= 0.9


def test_cloze_learns_each_word_from_all_the_others() -> None:
    """A cloze model is never asked for a word without context, so it is scored as it was trained."""
    model = trained("disco", "cloze")
    sources = sentences(200, seed=10_000)
    target = padded([translate(each) for each in sources])
    words, eos = context.words_and_eos(target)
    with torch.no_grad():
        hidden = model.decode(target, context.all_but_itself(words, eos), model.encode(padded(sources)))
    assert (model.best_words(hidden[words]).ids == target[words]).double().mean() >= 0.98
