"""CTranslate2, a fast C++ runtime for autoregressive models: export of our weights, and beam search.

Its search is that of systems/autoregressive/decoding.py. But it excludes special tokens before the softmax
and we after it, so its scores are slightly higher. They are computed again unless only speed matters.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from disco_mt.core.errors import UserError
from disco_mt.core.files import atomic_directory
from disco_mt.core.settings import at_least, one_of
from disco_mt.core.special_tokens import BOS, EOS, MASK, PAD, SPECIAL_TOKENS
from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.decoding.results import Hypothesis
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.encoder import Encoder
from disco_mt.nn.layers import Attention, DecoderLayer, EncoderLayer, FeedForward, LayerNorm, Residual
from disco_mt.systems import strategy_for
from disco_mt.systems.autoregressive.decoding import check_beam, word_limit
from disco_mt.systems.autoregressive.model import Autoregressive

_BATCH_TOKENS = 4096  # source tokens per batch, with padding
_ACTIVATIONS = {"gelu": "GELU", "relu": "RELU", "silu": "SWISH"}
_LIMITS = "disco_mt"  # our own entry in its config.json, which it ignores


def export_ctranslate2(
    model: TranslationModel, vocabulary_source: list[str], vocabulary_target: list[str], out: Path
) -> None:
    """Write a CTranslate2 model directory. The vocabularies list the tokens by id, special tokens first."""
    _check_exportable(model)
    _check_vocabulary("source", vocabulary_source, model.config.source_vocabulary)
    _check_vocabulary("target", vocabulary_target, model.config.target_vocabulary)
    with atomic_directory(out) as directory:
        spec = _specification(model)
        spec.register_source_vocabulary(vocabulary_source)
        spec.register_target_vocabulary(vocabulary_target)
        spec.validate()
        spec.optimize()  # tied tables are stored once
        spec.save(str(directory))


class CTranslate2Engine:
    """Beam search in CTranslate2 with the same results as ours: same words, same scores."""

    name = "ctranslate2"

    def __init__(
        self,
        path: Path,
        threads: int = 1,
        precision: str = "float32",
        shortlist: bool = False,
        workers: int = 1,
    ) -> None:
        """path: a directory that export_ctranslate2 wrote.

        threads: per worker; workers: batches translated at the same time, which does not change results.
        precision: float32, int8 or another type that the processor supports.
        shortlist: choose among the words in vmap.txt in the model directory (shortlist.py).
        """
        package = _package()
        at_least("threads", threads, 1)
        at_least("workers", workers, 1)
        one_of("precision", precision, tuple(sorted(package.get_supported_compute_types("cpu"))))
        self.precision = "fp32" if precision == "float32" else precision
        self.longest_target = _read_limit(path)
        self.shortlist = shortlist
        self.source_tokens = _read_vocabulary(path, "source")
        self.target_tokens = _read_vocabulary(path, "target")
        self.target_ids = {token: index for index, token in enumerate(self.target_tokens)}
        try:
            self.translator = package.Translator(
                str(path), device="cpu", compute_type=precision, inter_threads=workers, intra_threads=threads
            )
        except RuntimeError as error:
            raise UserError(f"{path} cannot be loaded: {error}; export the model again") from None

    @staticmethod
    def for_model(
        model: TranslationModel, vocabularies: tuple[list[str], list[str]], precision: str, threads: int
    ) -> CTranslate2Engine:
        """An engine with the weights of a model. precision: fp32 or int8."""
        with TemporaryDirectory(prefix="disco-") as folder:  # CTranslate2 reads it once
            path = Path(folder) / "model"
            export_ctranslate2(model, *vocabularies, path)
            return CTranslate2Engine(path, threads, "float32" if precision == "fp32" else precision)

    def supports(self, options: DecodingOptions, request: DecodeRequest) -> bool:
        return not request.watched

    def decode(
        self, sentences: Sequence[Sequence[int]], options: DecodingOptions, request: DecodeRequest
    ) -> Iterator[tuple[int, Hypothesis[int]]]:
        greedy = strategy_for("autoregressive", options.strategy) == "greedy"
        longest = max((len(ids) + 1 for ids in sentences), default=1)
        step = max(1, request.batch_tokens // longest)
        for start in range(0, len(sentences), step):
            batch = [list(ids) for ids in sentences[start : start + step]]
            yield from enumerate(self.translate(batch, 1 if greedy else options.beam, options.alpha), start)

    def translate(
        self,
        sources: list[list[int]],
        beam: int,
        length_penalty: float,
        longest: int | None = None,
        with_probabilities: bool = True,
    ) -> list[Hypothesis[int]]:
        """The best hypothesis of each sentence. sources: ids without EOS.

        Without probabilities, scores are CTranslate2's own and a second, parallel pass is saved. Steps are
        the passes that the winner needed; CTranslate2 does not say how much longer it searched.
        """
        check_beam(beam, length_penalty)
        results: dict[int, Hypothesis[int]] = {}
        by_limit: dict[int, list[int]] = defaultdict(list)  # CTranslate2 takes one limit per call
        for index, source in enumerate(sources):
            by_limit[word_limit(len(source), self.longest_target, longest)].append(index)
        for limit, indices in by_limit.items():
            batch = [[self.source_tokens[i] for i in (*sources[index], EOS)] for index in indices]
            hypotheses = self._search(batch, beam, length_penalty, limit)
            if with_probabilities:
                hypotheses = self._score(batch, hypotheses, length_penalty)
            results.update(zip(indices, hypotheses, strict=True))
        return [results[index] for index in range(len(sources))]

    def _search(
        self, sources: list[list[str]], beam: int, length_penalty: float, limit: int
    ) -> list[Hypothesis[int]]:
        """CTranslate2's winners; one stopped by the limit is compared with the other beams, EOS included."""
        best = []
        winners = self._run(sources, beam, length_penalty, limit, 1)
        for source, (winner,) in zip(sources, winners, strict=True):
            if winner.steps > limit + 1 and beam > 1:
                others = self._run([source], beam, 0.0, limit, beam)[0]  # by sum: finished ones come first
                cut = [_cut(hypothesis, limit) for hypothesis in (winner, *others)]
                scored = self._score([source] * len(cut), cut, length_penalty)
                best.append(max(scored, key=lambda hypothesis: hypothesis.score))
            else:
                best.append(_cut(winner, limit))
        return best

    def _run(
        self, sources: list[list[str]], beam: int, length_penalty: float, limit: int, number: int
    ) -> list[list[Hypothesis[int]]]:
        """The `number` best of each sentence; limit + 1 words where the limit came before EOS."""
        results = self.translator.translate_batch(
            sources,
            beam_size=beam,
            length_penalty=length_penalty,
            num_hypotheses=number,
            max_decoding_length=limit + 1,  # EOS
            min_decoding_length=0,
            max_input_length=0,  # no silent truncation
            disable_unk=True,
            suppress_sequences=[[SPECIAL_TOKENS[token]] for token in (BOS, PAD, MASK)],
            return_end_token=True,  # else the length penalty would not count EOS
            return_scores=True,
            max_batch_size=_BATCH_TOKENS,
            batch_type="tokens",
            use_vmap=self.shortlist,
        )
        return [
            [self._hypothesis(*pair) for pair in zip(result.hypotheses, result.scores, strict=True)]
            for result in results
        ]

    def _hypothesis(self, tokens: list[str], score: float) -> Hypothesis[int]:
        words = tuple(self.target_ids[token] for token in tokens if token != SPECIAL_TOKENS[EOS])
        return Hypothesis(words, (), score, len(words) + 1)

    def _score(
        self, sources: list[list[str]], hypotheses: list[Hypothesis[int]], length_penalty: float
    ) -> list[Hypothesis[int]]:
        """Probabilities and score by teacher forcing: softmax over the whole vocabulary, EOS included."""
        targets = [[self.target_tokens[word] for word in hypothesis.tokens] for hypothesis in hypotheses]
        results = self.translator.score_batch(
            sources, targets, max_input_length=0, max_batch_size=_BATCH_TOKENS, batch_type="tokens"
        )
        scored = []
        for hypothesis, result in zip(hypotheses, results, strict=True):
            score = sum(result.log_probs) / len(result.log_probs) ** length_penalty
            probabilities = tuple(map(math.exp, result.log_probs[:-1]))
            scored.append(replace(hypothesis, probabilities=probabilities, score=score))
        return scored


def _cut(hypothesis: Hypothesis[int], limit: int) -> Hypothesis[int]:
    """At most `limit` words."""
    words = hypothesis.tokens[:limit]
    return replace(hypothesis, tokens=words, steps=len(words) + 1)


def check_installed() -> None:
    """Raise an error before any work if the package is missing."""
    _package()


def _package() -> Any:
    try:
        import ctranslate2
    except ImportError:
        raise UserError("CTranslate2 is not installed; get it with: pip install 'disco-mt[bench]'") from None
    return ctranslate2


def _check_exportable(model: TranslationModel) -> None:
    if not isinstance(model, Autoregressive):
        raise UserError(f"only autoregressive models can be exported to CTranslate2, not {model.config.kind}")
    if model.config.contextless:
        raise UserError("CTranslate2 has no contextless keys: a contextless model cannot be exported to it")


def _check_vocabulary(side: str, tokens: list[str], size: int) -> None:
    if len(tokens) != size:
        raise UserError(f"the {side} vocabulary has {len(tokens)} tokens, but the model has {size}")
    if tuple(tokens[: len(SPECIAL_TOKENS)]) != SPECIAL_TOKENS:
        expected = ", ".join(SPECIAL_TOKENS)
        raise UserError(f"the {side} vocabulary must begin with {expected}, found {tokens[:5]}")
    if len(set(tokens)) != size:
        raise UserError(f"the {side} vocabulary names {size - len(set(tokens))} tokens twice")


def _read_limit(path: Path) -> int:
    file = path / "config.json"
    try:
        return int(json.loads(file.read_text(encoding="utf-8"))[_LIMITS]["longest_target"])
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"{path} is not a CTranslate2 model that `disco export` wrote: see {file}") from None


def _read_vocabulary(path: Path, side: str) -> list[str]:
    shared = path / "shared_vocabulary.json"
    file = shared if shared.exists() else path / f"{side}_vocabulary.json"
    try:
        tokens: list[str] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{file} cannot be read: {error}; export the model again") from None
    return tokens


def _specification(model: TranslationModel) -> Any:
    """The whole model in CTranslate2's terms."""
    specs = _package().specs
    config = model.config
    options = {
        "pre_norm": config.norm == "pre",
        "activation": specs.Activation[_ACTIVATIONS[config.activation]],
    }
    encoder = specs.TransformerEncoderSpec(config.encoder.layers, config.encoder.heads, **options)
    decoder = specs.TransformerDecoderSpec(config.decoder.layers, config.decoder.heads, **options)
    for spec, layer in zip(encoder.layer, model.encoder.layers, strict=True):
        _fill_encoder_layer(spec, layer)
    for spec, layer in zip(decoder.layer, model.decoder_layers, strict=True):
        _fill_decoder_layer(spec, layer)
    _fill_ends(encoder, encoder.embeddings[0], model.encoder)
    _fill_ends(decoder, decoder.embeddings, model)
    decoder.projection.weight = _array(model.output.weight)
    if model.output_bias is not None:
        decoder.projection.bias = _array(model.output_bias)
    spec = specs.TransformerSpec(encoder, decoder)
    spec.config.layer_norm_epsilon = config.norm_epsilon
    spec.config.add_attribute(_LIMITS, {"longest_target": config.longest_target})
    return spec


def _fill_ends(spec: Any, embeddings: Any, side: Encoder | TranslationModel) -> None:
    """Word and position vectors, and the final LayerNorm of pre-norm stacks."""
    spec.scale_embeddings = side.config.scale_embeddings
    embeddings.weight = _array(side.words.weight)
    spec.position_encodings.encodings = _array(side.positions.weight)
    if isinstance(side.norm, LayerNorm):
        _fill_norm(spec.layer_norm, side.norm)


def _fill_encoder_layer(spec: Any, layer: nn.Module) -> None:
    assert isinstance(layer, EncoderLayer)
    _fill_self_attention(spec.self_attention, layer.attention, layer.attention_frame)
    _fill_feed_forward(spec.ffn, layer.feed_forward, layer.feed_forward_frame)


def _fill_decoder_layer(spec: Any, layer: DecoderLayer) -> None:
    _fill_self_attention(spec.self_attention, layer.self_attention, layer.self_frame)
    _fill_cross_attention(spec.attention, layer.cross_attention, layer.cross_frame)
    _fill_feed_forward(spec.ffn, layer.feed_forward, layer.feed_forward_frame)


def _fill_self_attention(spec: Any, attention: Attention, frame: Residual) -> None:
    """Queries, keys and values are one matrix in CTranslate2."""
    parts = attention.query, attention.key_value
    spec.linear[0].weight = np.concatenate([_array(part.weight) for part in parts])
    spec.linear[0].bias = np.concatenate([_array(part.bias) for part in parts])
    _fill_linear(spec.linear[1], attention.out)
    _fill_norm(spec.layer_norm, frame.norm)


def _fill_cross_attention(spec: Any, attention: Attention, frame: Residual) -> None:
    parts = attention.query, attention.key_value, attention.out
    for linear, part in zip(spec.linear, parts, strict=True):
        _fill_linear(linear, part)
    _fill_norm(spec.layer_norm, frame.norm)


def _fill_feed_forward(spec: Any, block: FeedForward, frame: Residual) -> None:
    _fill_linear(spec.linear_0, block.up)
    _fill_linear(spec.linear_1, block.down)
    _fill_norm(spec.layer_norm, frame.norm)


def _fill_linear(spec: Any, linear: nn.Linear) -> None:
    spec.weight, spec.bias = _array(linear.weight), _array(linear.bias)


def _fill_norm(spec: Any, norm: LayerNorm) -> None:
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _array(tensor: Tensor) -> NDArray[np.float32]:
    return tensor.detach().float().cpu().numpy()
