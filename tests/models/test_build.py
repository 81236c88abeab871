"""Models as their config says: sizes counted by hand, tying, initialisation, saving and loading."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from disco_mt.errors import UserError
from disco_mt.models.build import build_model
from disco_mt.models.config import ModelConfig, Stack
from disco_mt.models.directory import load_weights, read_config, save_model, weights
from disco_mt.models.layers import sinusoids
from disco_mt.settings import from_dict
from tiny import padded, random_sources, tiny_config


def by_hand(c: ModelConfig) -> int:
    """Parameters, counted from the paper's description."""
    d = c.width
    attention = 4 * (d * d + d)
    norm = 2 * d

    def feed_forward(stack: Stack) -> int:
        return 2 * d * stack.hidden + stack.hidden + d

    encoder = c.encoder.layers * (attention + feed_forward(c.encoder) + 2 * norm)
    decoder = c.decoder.layers * (2 * attention + feed_forward(c.decoder) + 3 * norm)
    tables = {"all": 1, "decoder": 2, "none": 3}[c.tying] * c.target_vocabulary * d
    positions = (c.max_source + c.max_target) * d if c.positions == "learned" else 0
    lengths = c.length_classes * d if c.kind != "autoregressive" else 0
    final = 2 * norm if c.norm == "pre" else 0
    return encoder + decoder + tables + positions + lengths + final


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"kind": "cmlm", "tying": "decoder"},
        {"kind": "autoregressive", "encoder": Stack(12, 2, 32), "decoder": Stack(1, 2, 64)},
        {"kind": "autoregressive", "contextless": True, "tying": "none"},
        {"norm": "pre", "positions": "sinusoidal"},
    ],
)
def test_parameters_counted_by_hand(changes: dict[str, object]) -> None:
    config = tiny_config(**changes)
    assert build_model(config).count_parameters() == by_hand(config)


def test_the_papers_base_model() -> None:
    """6+6 layers, 8 heads, 512, 2048: the defaults."""
    config = ModelConfig()
    assert (config.encoder, config.decoder, config.width) == (Stack(6, 8, 2048), Stack(6, 8, 2048), 512)
    with torch.device("meta"):
        from disco_mt.models.disco import DisCo

        assert DisCo(config).count_parameters() == by_hand(config)


def test_initialisation() -> None:
    model = build_model(tiny_config(width=64, source_vocabulary=500, target_vocabulary=500), seed=3)
    assert model.words.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert model.layers[0].self_attention.query.weight.std().item() == pytest.approx(0.02, rel=0.1)
    assert model.layers[0].self_attention.query.bias.abs().max() == 0
    assert (model.layers[0].self_frame.norm.weight == 1).all()
    xavier = build_model(tiny_config(width=64, attention_init="xavier"), seed=3)
    assert xavier.layers[0].self_attention.key_value.weight.abs().max() <= (6 / 256) ** 0.5
    same, other = build_model(model.config, seed=3), build_model(model.config, seed=4)
    assert torch.equal(same.words.weight, model.words.weight)
    assert not torch.equal(other.words.weight, model.words.weight)


@pytest.mark.parametrize("changes", [{}, {"tying": "none"}, {"positions": "sinusoidal", "norm": "pre"}])
def test_saved_and_loaded_is_the_same_model(changes: dict[str, object], tmp_path: Path) -> None:
    model = build_model(tiny_config(**changes), seed=5).eval()
    save_model(tmp_path, model, {"joint": True}, "card", {"a": 1})
    directory = read_config(tmp_path)
    loaded = load_weights(directory)
    assert (directory.model, directory.text, directory.extra) == (model.config, {"joint": True}, {"a": 1})
    source, target = padded(random_sources([4])), padded(random_sources([3], 1))
    visible = torch.ones(1, 4, 4, dtype=torch.bool)
    for before, after in zip(model.encode(source).cross, loaded.encode(source).cross, strict=True):
        assert torch.equal(before.key, after.key)
    outs = [each.decode(target, visible, each.encode(source)) for each in (model, loaded)]
    assert torch.equal(*outs)
    assert len(weights(model)) == len(weights(loaded))


def test_sinusoidal_tables_are_computed() -> None:
    model = build_model(tiny_config(positions="sinusoidal"))
    assert torch.equal(model.positions.weight, sinusoids(32, 16))
    assert model.positions(3, start=2).shape == (3, 16)


def test_half_precision_weights_are_read(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    model = build_model(tiny_config())
    save_model(tmp_path, model, {}, "card", {})
    halves = {name: tensor.half() for name, tensor in weights(model).items()}
    save_file(halves, tmp_path / "model.safetensors")
    loaded = load_weights(read_config(tmp_path))
    assert loaded.words.weight.dtype == torch.float32
    torch.testing.assert_close(loaded.words.weight, model.words.weight, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "levenshtein"}, "one of disco, cmlm, autoregressive; got 'levenshtein'"),
        ({"norm": "middle"}, "norm must be one of post, pre"),
        ({"width": 10, "encoder": {"heads": 3}}, "width must be a multiple of the heads"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, got 1.0"),
        ({"encoder": {"layers": 0}}, "layers must be at least 1, got 0"),
        ({"source_vocabulary": 7}, "needs a joint vocabulary"),
        ({"contextless": True}, "contextless is for autoregressive models"),
        ({"widht": 8}, "unknown key 'widht'; known keys: activation"),
        ({"width": "8"}, "width must be a whole number, got '8'"),
        ({"encoder": 3}, "encoder must be a table, got 3"),
    ],
)
def test_mistakes_are_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        from_dict(ModelConfig, changes, "recipe.toml")
