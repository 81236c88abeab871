"""Import of the authors' checkpoint format (a fork of fairseq 0.7.2).

The file is read with torch's `weights_only` loader, which runs no code. argparse.Namespace is allowed,
because the format stores its arguments in it; fairseq's meters, the training statistics next to the weights,
become empty objects of ours.
"""

from __future__ import annotations

import argparse
import pickle
import re
from pathlib import Path
from typing import Any, TypeGuard

import torch
from torch import Tensor

from disco_mt.core.errors import UserError
from disco_mt.core.files import atomic_directory
from disco_mt.core.special_tokens import NUM_SPECIAL, PAD, SPECIAL_TOKENS
from disco_mt.nn.config import ModelConfig, Stack
from disco_mt.nn.directory import load_tensors, save_model
from disco_mt.systems.build import build_model
from disco_mt.text.lines import read_lines
from disco_mt.text.pair import TextPair
from disco_mt.text.tokenizer import Tokenizer

_FIRST_POSITION = PAD + 1  # rows of the position tables before the first real position
_SIZED_BY = (  # the tensors that determine the sizes
    *(f"{side}.embed_tokens.weight" for side in ("encoder", "decoder")),
    *(f"{side}.embed_positions.weight" for side in ("encoder", "decoder")),
    *(f"{side}.layers.0.fc1.bias" for side in ("encoder", "decoder")),
    "encoder.embed_lengths.weight",
)


class _Meter:
    """A placeholder for the meters that fairseq pickles; they are never used."""


_METERS: list[tuple[type[_Meter], str]] = [
    (_Meter, f"fairseq.meters.{name}") for name in ("AverageMeter", "TimeMeter", "StopwatchMeter")
]


def import_fairseq(checkpoint: Path, source_dict: Path, target_dict: Path, out: Path) -> ModelConfig:
    """Write a model directory from a checkpoint and its two dictionaries. Returns the model's config."""
    args, tensors = _read(checkpoint)
    source, target = _vocabulary(source_dict), _vocabulary(target_dict)
    config = _config(checkpoint, args, tensors)
    _check_sizes(config, source_dict, source, target_dict, target)
    model = build_model(config)
    load_tensors(model, _rename(tensors, config), checkpoint)
    text = _text(args, source, target, joint=config.tying == "all")
    with atomic_directory(out) as directory:
        description = text.save(directory)
        save_model(directory, model, description, _card(checkpoint, args), {"imported_from": checkpoint.name})
    return config


def _read(checkpoint: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    if not checkpoint.is_file():
        raise UserError(
            f"{checkpoint} does not exist; --checkpoint takes a checkpoint file (checkpoint_best.pt)"
        )
    try:
        with torch.serialization.safe_globals([argparse.Namespace, *_METERS]):
            content = torch.load(checkpoint, map_location="cpu", weights_only=True)
    except Exception as error:  # a broken or hostile file may raise anything
        raise UserError(f"{checkpoint} cannot be read as a checkpoint: {_reason(error)}") from None
    content = content if isinstance(content, dict) else {}
    args, tensors = content.get("args"), content.get("model")
    if not isinstance(args, argparse.Namespace) or not _is_state(tensors):
        raise UserError(
            f"{checkpoint} is not a checkpoint of the authors' format: expected 'args', a Namespace, and "
            "'model', tensors by name"
        )
    return dict(vars(args)), {name: tensor.float() for name, tensor in tensors.items()}


def _reason(error: Exception) -> str:
    """Replaces torch's advice to load the file without `weights_only`, which would execute it."""
    foreign = re.search(r"GLOBAL (\S+)", str(error))
    if foreign:
        return f"it refers to {foreign[1]}; only tensors and arguments are read, because more could run code"
    if isinstance(error, pickle.UnpicklingError):
        return "it is damaged, or no checkpoint at all"
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _is_state(value: object) -> TypeGuard[dict[str, Tensor]]:
    return isinstance(value, dict) and all(isinstance(tensor, Tensor) for tensor in value.values())


def _vocabulary(path: Path) -> list[str]:
    """A dictionary file: one symbol and its count per line; the five special symbols are not in it."""
    symbols = []
    for number, line in enumerate(read_lines(path), start=1):
        symbol, _, count = line.rpartition(" ")
        if not symbol or not count.isdigit():
            raise UserError(f"{path}, line {number}: expected a symbol and its count, found {line[:50]!r}")
        symbols.append(symbol)
    return [*SPECIAL_TOKENS, *symbols]


def _config(checkpoint: Path, args: dict[str, Any], tensors: dict[str, Tensor]) -> ModelConfig:
    for name in _SIZED_BY:
        if name not in tensors:
            raise UserError(f"{checkpoint} has no {name}: not a DisCo model")
    if args.get("encoder_normalize_before") or args.get("decoder_normalize_before"):
        raise UserError(f"{checkpoint}: pre-norm checkpoints are not known in this format")
    source_vocabulary, width = tensors["encoder.embed_tokens.weight"].shape
    target_vocabulary, target_width = tensors["decoder.embed_tokens.weight"].shape
    if width != target_width:
        raise UserError(f"{checkpoint}: encoder width {width} and decoder width {target_width} must be equal")
    return ModelConfig(
        width=width,
        encoder=_stack(checkpoint, "encoder", args, tensors),
        decoder=_stack(checkpoint, "decoder", args, tensors),
        dropout=float(args.get("dropout", 0.0)),
        tying=_tying(args, tensors),
        max_source=len(tensors["encoder.embed_positions.weight"]) - _FIRST_POSITION,
        max_target=len(tensors["decoder.embed_positions.weight"]) - _FIRST_POSITION,
        length_classes=len(tensors["encoder.embed_lengths.weight"]),
        source_vocabulary=source_vocabulary,
        target_vocabulary=target_vocabulary,
    )


def _stack(checkpoint: Path, side: str, args: dict[str, Any], tensors: dict[str, Tensor]) -> Stack:
    heads = args.get(f"{side}_attention_heads")
    if not isinstance(heads, int):
        raise UserError(f"{checkpoint}: its arguments lack {side}_attention_heads")
    layers = {name.split(".")[2] for name in tensors if name.startswith(f"{side}.layers.")}
    hidden = len(tensors[f"{side}.layers.0.fc1.bias"])
    return Stack(layers=len(layers), heads=heads, hidden=hidden)


def _tying(args: dict[str, Any], tensors: dict[str, Tensor]) -> Any:
    if "decoder.embed_out" in tensors:
        return "none"
    return "all" if args.get("share_all_embeddings") else "decoder"


def _check_sizes(
    config: ModelConfig, source_dict: Path, source: list[str], target_dict: Path, target: list[str]
) -> None:
    sides = (
        (source_dict, source, config.source_vocabulary),
        (target_dict, target, config.target_vocabulary),
    )
    for path, symbols, rows in sides:
        if len(symbols) != rows:
            raise UserError(
                f"{path} has {len(symbols) - NUM_SPECIAL} symbols, with {NUM_SPECIAL} special ones "
                f"{len(symbols)}, but the checkpoint's table has {rows} rows; "
                "give the dictionary that it was trained with"
            )
    if config.tying == "all" and source != target:
        raise UserError(
            f"the checkpoint has one joint vocabulary, but {source_dict} and {target_dict} differ"
        )


def _rename(tensors: dict[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    """Their names and packed projections -> ours. Tied tensors appear once (nn/directory.py)."""
    ours = {
        "encoder.words.weight": tensors["encoder.embed_tokens.weight"],
        "encoder.positions.weight": tensors["encoder.embed_positions.weight"][_FIRST_POSITION:],
        "encoder.length.weight": tensors["encoder.embed_lengths.weight"],
        "positions.weight": tensors["decoder.embed_positions.weight"][_FIRST_POSITION:],
    }
    if config.tying != "all":
        ours["words.weight"] = tensors["decoder.embed_tokens.weight"]
    if config.tying == "none":
        ours["output.weight"] = tensors["decoder.embed_out"]
    for i in range(config.encoder.layers):
        ours |= _layer(tensors, f"encoder.layers.{i}", f"encoder.layers.{i}", _ENCODER_PARTS)
    for i in range(config.decoder.layers):
        ours |= _layer(tensors, f"decoder.layers.{i}", f"layers.{i}", _DECODER_PARTS)
    return ours


_FEED_FORWARD = {"fc1": "feed_forward.up", "fc2": "feed_forward.down"}
_ENCODER_PARTS = {
    "self_attn": "attention",
    "layer_norms.0": "attention_frame.norm",
    "layer_norms.1": "feed_forward_frame.norm",
} | _FEED_FORWARD
_DECODER_PARTS = {
    "self_attn": "self_attention",
    "self_attn_layer_norm": "self_frame.norm",
    "encoder_attn": "cross_attention",
    "encoder_attn_layer_norm": "cross_frame.norm",
    "final_layer_norm": "feed_forward_frame.norm",
} | _FEED_FORWARD
_NORM = {"gamma": "weight", "beta": "bias"}


def _layer(tensors: dict[str, Tensor], theirs: str, ours: str, parts: dict[str, str]) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if not name.startswith(theirs + "."):
            continue
        part, _, leaf = name.removeprefix(theirs + ".").rpartition(".")
        prefix = f"{ours}.{parts.get(part.removesuffix('.out_proj'), part)}"
        if leaf.startswith("in_proj_"):  # Q, K, V packed in that order: (3 width, width)
            query, key_value = tensor.tensor_split([len(tensor) // 3])
            kind = leaf.removeprefix("in_proj_")
            found |= {f"{prefix}.query.{kind}": query, f"{prefix}.key_value.{kind}": key_value}
        elif part.endswith(".out_proj"):
            found[f"{prefix}.out.{leaf}"] = tensor
        else:
            found[f"{prefix}.{_NORM.get(leaf, leaf)}"] = tensor
    return found


def _text(args: dict[str, Any], source: list[str], target: list[str], joint: bool) -> TextPair:
    languages = (str(args.get("source_lang") or "source"), str(args.get("target_lang") or "target"))
    source_tokenizer = Tokenizer.from_vocabulary(source, languages[0])
    if joint:
        target_tokenizer = Tokenizer(source_tokenizer.backend, languages[1], source_tokenizer.processing)
    else:
        target_tokenizer = Tokenizer.from_vocabulary(target, languages[1])
    return TextPair(source_tokenizer, target_tokenizer, joint)


def _card(checkpoint: Path, args: dict[str, Any]) -> str:
    pair = f"{args.get('source_lang')}-{args.get('target_lang')}"
    return (
        f"# DisCo {pair}, imported\n\nImported by `disco import-fairseq` from `{checkpoint.name}`. "
        "The dictionary is kept, the subword segmentation is not part of a checkpoint: "
        "text for this model is tokens separated by spaces. The weights keep their own licence.\n"
    )
