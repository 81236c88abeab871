"""Beam search: time per step by length of the prefix, and sentences per second of both engines.

    python benchmarks/beam_search.py [--threads 2] [--beam 5]

Random weights, made to end each translation after 25 words. With several threads CTranslate2 has them
once for one batch at a time, and once for one worker each.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F

from disco_mt.core.special_tokens import EOS, NUM_SPECIAL, PAD, SPECIAL_TOKENS
from disco_mt.engine.ctranslate2 import CTranslate2Engine, export_ctranslate2
from disco_mt.nn.config import ModelConfig, Stack
from disco_mt.systems.autoregressive.decoding import beam_search
from disco_mt.systems.autoregressive.model import Autoregressive
from disco_mt.systems.build import build_model

SIZES = {
    "small": ModelConfig(
        kind="autoregressive",
        width=256,
        encoder=Stack(3, 4, 1024),
        decoder=Stack(3, 4, 1024),
        source_vocabulary=8000,
        target_vocabulary=8000,
    ),
    "base": ModelConfig(kind="autoregressive"),
}


WORDS = 25


def build(config: ModelConfig) -> Autoregressive:
    """The same random weights every time, sharpened; late positions point to where EOS is."""
    model = build_model(config)
    assert isinstance(model, Autoregressive)
    there = torch.randn(config.width, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        model.output.weight *= 10
        model.positions.weight[WORDS:] += 10 * there
        model.output.weight[EOS] = 0.2 * there
    return model.eval()


@torch.inference_mode()
def step_times(model: Autoregressive, sentences: int, beam: int, prefixes: tuple[int, ...]) -> list[float]:
    """Seconds of one step, beams changing places, at each length of the prefix; the quickest of nine."""
    source = torch.randint(NUM_SPECIAL, model.config.source_vocabulary, (sentences, 25))
    encoded, past = model.encode(source), model.start()
    itself = torch.eye(beam, dtype=torch.bool).expand(sentences, -1, -1)
    last, visible, taken = torch.full((sentences, beam), NUM_SPECIAL), itself, {}
    for length in range(max(prefixes) + 5):
        start = time.perf_counter()
        hidden = model.step(last, length, visible, past, encoded)
        model.next_words(hidden.flatten(0, 1), 2 * beam)
        visible = torch.cat([visible.flip(1), itself], dim=2)
        taken[length] = time.perf_counter() - start
    return [min(taken[length + shift] for shift in range(-4, 5)) for length in prefixes]


@torch.inference_mode()
def attention_times(config: ModelConfig, sentences: int, beam: int, prefixes: tuple[int, ...]) -> list[float]:
    """Seconds that self-attention alone takes in such a step, in all layers; the quickest of nine."""
    size = config.width // config.decoder.heads
    times = []
    for length in prefixes:
        shape = (sentences, config.decoder.heads, beam * (length + 1), size)
        query, visible = torch.randn(*shape[:2], beam, size), torch.ones(sentences, 1, beam, shape[2]) > 0
        layers = [(torch.randn(shape), torch.randn(shape)) for _ in range(config.decoder.layers)]
        best = float("inf")
        for _ in range(9):
            start = time.perf_counter()
            for key, value in layers:
                F.scaled_dot_product_attention(query, key, value, attn_mask=visible)
            best = min(best, time.perf_counter() - start)
        times.append(best)
    return times


def sources(number: int, vocabulary: int) -> list[list[int]]:
    """Sentences of 5 to 45 words."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(5, 46, (number,), generator=generator).tolist()
    return [torch.randint(NUM_SPECIAL, vocabulary, (n,), generator=generator).tolist() for n in lengths]


def ours(model: Autoregressive, sentences: list[list[int]], beam: int) -> float:
    """Sentences per second of our own search, 32 at a time, sorted by length."""
    ordered = sorted(sentences, key=len)
    start = time.perf_counter()
    for first in range(0, len(ordered), 32):
        batch = ordered[first : first + 32]
        width = len(batch[-1]) + 1
        source = torch.tensor([[*ids, EOS, *[PAD] * (width - len(ids) - 1)] for ids in batch])
        beam_search(model, source, beam, 1.0)
    return len(sentences) / (time.perf_counter() - start)


def theirs(engine: CTranslate2Engine, sentences: list[list[int]], beam: int) -> float:
    """Sentences per second of CTranslate2."""
    start = time.perf_counter()
    engine.translate(sentences, beam, 1.0, with_probabilities=False)
    return len(sentences) / (time.perf_counter() - start)


def main() -> None:
    """Print one block per size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--sentences", type=int, default=64)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name, config in SIZES.items():
        model, prefixes = build(config), (10, 50, 100)
        times = step_times(model, 32, options.beam, prefixes)
        attention = attention_times(config, 32, options.beam, prefixes)
        columns = ", ".join(
            f"{1000 * t:.1f} ms at {n} ({1000 * a:.1f} of them self-attention)"
            for n, t, a in zip(prefixes, times, attention, strict=True)
        )
        print(f"{name}: a step of 32 sentences x beam {options.beam} by prefix: {columns}")
        sentences = sources(options.sentences, config.source_vocabulary)
        rate = ours(model, sentences, options.beam)
        print(f"{name}: torch float32 {rate:.1f} sentences/s")
        with tempfile.TemporaryDirectory() as folder:
            words = range(NUM_SPECIAL, config.source_vocabulary)
            tokens = [*SPECIAL_TOKENS, *map(str, words)]
            export_ctranslate2(model, tokens, tokens, Path(folder) / "model")
            for precision in ("float32", "int8"):
                for threads, workers in dict.fromkeys([(options.threads, 1), (1, options.threads)]):
                    engine = CTranslate2Engine(Path(folder) / "model", threads, precision, workers=workers)
                    rate = theirs(engine, sentences, options.beam)
                    cores = f"{workers} x {threads} threads"
                    print(f"{name}: ctranslate2 {precision}, {cores} {rate:.1f} sentences/s")


if __name__ == "__main__":
    main()
