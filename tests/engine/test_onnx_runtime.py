"""ONNX Runtime: float32 results equal torch's, and the blocks of the vocabulary are right."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")
pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")

from disco_mt.core.machine import exact_int8_levels
from disco_mt.core.special_tokens import NUM_SPECIAL
from disco_mt.engine.best_words import Blocks
from disco_mt.engine.onnx_runtime import OnnxRuntime
from disco_mt.engine.quantization import MAX_WEIGHT
from disco_mt.engine.torch_runtime import TorchRuntime
from small_disco import decoded, model_of
from tiny import random_sources

SHAPES = [
    {},
    {"norm": "pre", "activation": "relu"},
    {"tying": "none", "positions": "sinusoidal", "target_vocabulary": 2077},
]


@pytest.mark.parametrize("changes", SHAPES, ids=str)
def test_float32_is_that_of_torch(changes: dict[str, object]) -> None:
    model, sources = model_of(3, changes), random_sources([1, 4, 9, 6, 11, 2], seed=3)
    runtime = OnnxRuntime(model, "fp32")
    for batch_tokens in (1, 40):
        ours, theirs = decoded(runtime, sources, batch_tokens), decoded(TorchRuntime(model), sources, 1)
        assert [each.tokens for each in ours] == [each.tokens for each in theirs]
        assert [each.steps for each in ours] == [each.steps for each in theirs]
        assert [each.score for each in ours] == pytest.approx([each.score for each in theirs], abs=1e-4)


@pytest.mark.parametrize("vocabulary", [NUM_SPECIAL + 1, 16, 40, 1024, 1045, 3000])
def test_the_parts_of_a_vocabulary_cover_it_once(vocabulary: int) -> None:
    blocks = Blocks(torch.zeros(vocabulary, 1))
    every = [blocks.special, *blocks.words]
    assert [start for start, _, _ in every[1:]] == [end for _, end, _ in every[:-1]]
    assert (every[0][0], every[-1][1]) == (0, vocabulary)
    assert all((end - start) % part == 0 for start, end, part in every)
    entries = [
        start + part + stride * step
        for (start, end, size), stride in zip(blocks.words, blocks.strides.tolist(), strict=True)
        for part in range(stride)
        for step in range(size)
    ]
    assert sorted(entries) == list(range(NUM_SPECIAL, vocabulary))
    assert len(blocks.starts) == len(every) - 1


def test_a_gain_of_zero_cannot_be_undone() -> None:
    """Rows are quantized before the gain of the last LayerNorm, unless that cannot be undone."""
    model = model_of(6, {})
    norm = model.decoder_layers[-1].feed_forward_frame.norm
    for gain in (1.0, 0.0):
        with torch.no_grad():
            norm.weight[3] = gain
            hidden = norm(torch.randn(50, model.config.width, generator=torch.Generator().manual_seed(6)))
        ours, theirs = (
            runtime.best_words(hidden, None) for runtime in (OnnxRuntime(model, "int8"), TorchRuntime(model))
        )
        near = (
            0.05 * MAX_WEIGHT / exact_int8_levels()
        )  # a processor with half the levels rounds twice as much
        assert ours.log_probs.numpy() == pytest.approx(theirs.log_probs.numpy(), abs=near)
        assert (ours.ids == theirs.ids).float().mean() > 0.9


@pytest.mark.parametrize("number", [1, 2, 3, 50])
def test_threads_share_a_vocabulary_out(number: int) -> None:
    blocks = Blocks(torch.zeros(5000, 1))
    shares = blocks.shares(number)
    assert len(shares) == min(number, 6)
    assert [cut for share in shares for cut in share] == [blocks.special, *blocks.words]
    assert max(map(len, shares)) - min(map(len, shares)) <= 2  # the special tokens are one
