"""Read a SentencePiece unigram model (.spm, .model) and segment text as SentencePiece does.

The file is a protocol buffer (sentencepiece_model.proto). Only the few relevant fields are parsed, so neither
protobuf nor sentencepiece has to be installed. Text is segmented by the Unigram model of HF `tokenizers`.

There are three rare differences from SentencePiece: a combining mark after a compatibility character (a
full-width letter, a ligature) is dropped; marks are not composed with a letter if together they take six
bytes or more; and of two equally likely segmentations (of a row of hyphens) the other may be chosen.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from disco_mt.core.errors import UserError
from disco_mt.core.special_tokens import SPECIAL_TOKENS, UNK

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

SPACE = "▁"  # stands for a space in pieces
UNREACHABLE = "\0"  # prefix of tokens that exist in the output layer but never match text

# Wire types, and fields of sentencepiece_model.proto
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_PIECES, _TRAINER, _NORMALIZER, _DENORMALIZER = 1, 2, 3, 5
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)
_MODEL_TYPES = {1: "unigram", 2: "BPE", 3: "word", 4: "character"}

_SPELLINGS = "|".join(token[1:] for token in SPECIAL_TOKENS)


@dataclass(frozen=True)
class SentencePieceModel:
    """The content of a .spm file that determines segmentation."""

    pieces: tuple[tuple[str, float], ...]  # with log probabilities; no control symbols
    charsmap: bytes  # compiled normalisation rules; empty: none
    add_dummy_prefix: bool
    remove_extra_whitespaces: bool
    worst: float  # the lowest score of the file

    @staticmethod
    def read(path: Path) -> SentencePieceModel:
        """Parse a .spm file; features that are not supported are errors."""
        try:
            content = path.read_bytes()
        except OSError as error:
            raise UserError(f"cannot read the SentencePiece model {path}: {error.strerror}") from error
        try:
            return _parse(content, path)
        except (_MalformedError, UnicodeDecodeError, struct.error) as error:
            raise UserError(
                f"{path} is not a SentencePiece model: {error}; the file is damaged or of another format"
            ) from None

    def restricted(self, known: Container[str]) -> SentencePieceModel:
        """The same model with only the known pieces."""
        kept = tuple((text, score) for text, score in self.pieces if text in known)
        return replace(self, pieces=kept)

    def backend(self, unreachable: Sequence[str] = (), rewrites: Sequence[tuple[str, str]] = ()) -> Backend:
        """The HF tokenizer: special tokens, then the pieces in order, then unreachable tokens.

        unreachable: tokens that need ids although text is never segmented into them; see `UNREACHABLE`.
        rewrites: (character, replacement) before segmentation.
        """
        from tokenizers import Tokenizer as Backend
        from tokenizers.models import Unigram

        # SentencePiece scores an unknown character 10 below its worst piece. So does Unigram, if the
        # additional tokens are scored like the worst piece.
        vocabulary = [
            *((token, self.worst) for token in SPECIAL_TOKENS),
            *self.pieces,
            *((UNREACHABLE + token, self.worst) for token in unreachable),
        ]
        backend = Backend(Unigram(vocabulary, UNK, byte_fallback=False))
        backend.normalizer = self._normalizer(rewrites)
        backend.pre_tokenizer = self._pre_tokenizer()
        backend.decoder = _decoder()
        return backend

    def _normalizer(self, rewrites: Sequence[tuple[str, str]]) -> Any:
        from tokenizers import Regex
        from tokenizers.normalizers import Precompiled, Replace
        from tokenizers.normalizers import Sequence as Normalizers

        steps: list[Any] = [Precompiled(self.charsmap)] if self.charsmap else []
        steps += [Replace(character, replacement) for character, replacement in rewrites]
        if self.remove_extra_whitespaces:
            steps += [Replace(Regex("  +"), " "), Replace(Regex(r"\A | \z"), "")]
        return Normalizers([*steps, Replace(UNREACHABLE, "\ufffd")])

    def _pre_tokenizer(self) -> Any:
        """Words with the space before them; words that spell a special token are split.

        Splitting at spaces changes nothing if no piece continues across a space, and lets Unigram cache
        words.
        """
        from tokenizers import Regex
        from tokenizers.pre_tokenizers import Metaspace, Split
        from tokenizers.pre_tokenizers import Sequence as PreTokenizers

        scheme = "always" if self.add_dummy_prefix else "never"
        by_word = any(text == SPACE for text, _ in self.pieces)
        by_word = by_word and not any(SPACE in text[1:] for text, _ in self.pieces)
        special = Split(Regex(f"<(?=(?:{_SPELLINGS}))"), "merged_with_previous")
        return PreTokenizers([Metaspace(SPACE, prepend_scheme=scheme, split=by_word), special])


def restricted(backend: Backend, ids: Sequence[int]) -> Backend:
    """The same tokenizer with only these tokens, in this order, special tokens first. Scores are kept."""
    import json

    content = json.loads(backend.to_str())
    vocabulary = content["model"]["vocab"]
    content["model"]["vocab"] = [vocabulary[index] for index in ids]
    return exact_backend(json.dumps(content))


def exact_backend(text: str) -> Backend:
    """The tokenizer in a file, with exactly the scores in the file.

    The library parses some of them with a different last digit: ties would be decided differently, and the
    file would change a little whenever it is read and written.
    """
    import json

    from tokenizers import Tokenizer as Backend
    from tokenizers.models import Unigram

    backend, model = Backend.from_str(text), json.loads(text)["model"]
    pieces = [(piece, score) for piece, score in model["vocab"]]
    backend.model = Unigram(pieces, model["unk_id"], byte_fallback=False)
    return backend


def surface(token: str) -> str:
    """A token as text, with its space: "▁the" -> " the"."""
    return token.removeprefix(UNREACHABLE).replace(SPACE, " ")


def _decoder() -> Any:
    from tokenizers.decoders import Fuse, Replace
    from tokenizers.decoders import Sequence as Decoders

    return Decoders([Replace(UNREACHABLE, ""), Replace(SPACE, " "), Fuse()])


class _MalformedError(Exception):
    """The bytes are not a protocol buffer."""


def _parse(content: bytes, path: Path) -> SentencePieceModel:
    pieces: list[tuple[str, float]] = []
    kinds: set[int] = set()
    specs: dict[int, dict[int, Any]] = {_TRAINER: {}, _NORMALIZER: {}, _DENORMALIZER: {}}
    for field, value in _fields(content):
        if field == _PIECES:
            text, score, kind = _piece(value)
            kinds.add(kind)
            if kind == _NORMAL and text not in SPECIAL_TOKENS:
                pieces.append((text, score))
        elif field in specs:
            specs[field] = dict(_fields(value))
    if not pieces:
        raise _MalformedError("it has no pieces")
    _check_supported(path, kinds, specs)
    _check_pieces(pieces)
    normalizer = specs[_NORMALIZER]
    return SentencePieceModel(
        tuple(pieces),
        charsmap=_charsmap(normalizer.get(2, b"")),
        add_dummy_prefix=bool(normalizer.get(3, 1)),
        remove_extra_whitespaces=bool(normalizer.get(4, 1)),
        worst=min(score for _, score in pieces),
    )


def _piece(content: object) -> tuple[str, float, int]:
    fields = dict(_fields(content))
    text, score, kind = fields.get(1), fields.get(2, bytes(4)), fields.get(3, _NORMAL)
    if not isinstance(text, bytes) or not isinstance(score, bytes) or not isinstance(kind, int):
        raise _MalformedError("a piece lacks its text, score or type")
    return text.decode("utf-8"), struct.unpack("<f", score)[0], kind


def _check_pieces(pieces: list[tuple[str, float]]) -> None:
    seen: set[str] = set()
    for text, score in pieces:
        if text in seen:
            raise _MalformedError(f"it has the piece {text!r} twice")
        if not math.isfinite(score):
            raise _MalformedError(f"the score of {text!r} is {score}")
        seen.add(text)


def _charsmap(content: object) -> bytes:
    from tokenizers.normalizers import Precompiled

    if not isinstance(content, bytes):
        raise _MalformedError("its normalisation rules are a number")
    if not content:
        return content
    try:
        Precompiled(content)
    except Exception as error:  # the library raises a bare Exception
        raise _MalformedError(f"its normalisation rules cannot be read ({error})") from None
    return content


def _check_supported(path: Path, kinds: set[int], specs: dict[int, dict[int, Any]]) -> None:
    trainer, normalizer = specs[_TRAINER], specs[_NORMALIZER]
    model_type = trainer.get(3, 1)
    if model_type != 1:
        name = _MODEL_TYPES.get(model_type, f"number {model_type}")
        raise UserError(f"{path}: only unigram SentencePiece models can be read; this one is of type {name}")
    unsupported = {
        "byte fallback": bool(trainer.get(35)) or _BYTE in kinds,
        "user-defined symbols": _USER_DEFINED in kinds,
        "spaces as suffixes (treat_whitespace_as_suffix)": bool(trainer.get(24)),
        "spaces as they are (escape_whitespaces = false)": not normalizer.get(5, 1),
        "a denormaliser": bool(specs[_DENORMALIZER].get(2)),
    }
    used = [name for name, is_used in unsupported.items() if is_used]
    if used:
        raise UserError(f"{path}: SentencePiece models with {', '.join(used)} are not supported")


def _fields(content: object) -> Iterator[tuple[int, int | bytes]]:
    """(number, value) of each field of a message: an integer, or the bytes of anything else."""
    if not isinstance(content, bytes):
        raise _MalformedError("a field is a number instead of a message")
    at = 0
    while at < len(content):
        key, at = _varint(content, at)
        if key & 7 == _VARINT:
            number, at = _varint(content, at)
            yield key >> 3, number
            continue
        size, at = _size(content, at, key & 7)
        if at + size > len(content):
            raise _MalformedError("it ends in the middle of a field")
        yield key >> 3, content[at : at + size]
        at += size


def _size(content: bytes, at: int, wire_type: int) -> tuple[int, int]:
    """The number of bytes of a value, and where they begin."""
    match wire_type:
        case 1:
            return 8, at
        case 2:
            return _varint(content, at)
        case 5:
            return 4, at
    raise _MalformedError(f"there is no wire type {wire_type}")


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while at < len(content) and shift < 64:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
    raise _MalformedError("it ends in the middle of a number")
