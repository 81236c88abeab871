"""Text <-> token ids: byte-level BPE (HF `tokenizers`).

`decode(encode(text))` returns any Unicode text unchanged, except that runs of spaces (U+0020) become one
space, and spaces at both ends are removed. A lone surrogate, which is not a character, becomes U+FFFD. Text
that spells a special token ("</s>") is encoded like any other text: special ids never come from text.

Imported vocabularies are also supported: whole words ("pretokenized", from fairseq), and unigram pieces
("sentencepiece", from Marian: sentencepiece.py). Both have an <unk>.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from disco_mt.core.errors import UserError
from disco_mt.core.files import write_text
from disco_mt.core.special_tokens import NUM_SPECIAL, SPECIAL_TOKENS, UNK
from disco_mt.text.lines import well_formed
from disco_mt.text.moses import Processing, from_words, to_words
from disco_mt.text.sentencepiece import exact_backend, surface

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend
    from tokenizers.models import BPE

MINIMUM_BPE_SIZE = 256 + NUM_SPECIAL  # every byte is a token, so nothing is unknown

# Letters with their marks, single digits, and punctuation; each with the space before it.
_PIECES = r" ?[\p{L}\p{M}]+| ?\p{N}| ?[^\s\p{L}\p{M}\p{N}]+|\s+"


@dataclass(frozen=True)
class Tokenizer:
    """A vocabulary, and how text of one language is encoded with it."""

    backend: Backend  # shared by the two sides of a joint vocabulary
    language: str
    processing: Processing

    @staticmethod
    def train(
        lines: Iterable[str], vocabulary_size: int, language: str, processing: Processing = "raw"
    ) -> Tokenizer:
        """Learn a vocabulary of at most `vocabulary_size` tokens (special ones included) from `lines`."""
        words = (to_words(line, language, processing) for line in lines)
        return Tokenizer(learn(words, vocabulary_size, processing), language, processing)

    @staticmethod
    def load(path: Path, language: str, processing: Processing) -> Tokenizer:
        """Load a tokenizer.json that `save` wrote."""
        from tokenizers import Tokenizer as Backend

        try:
            text = path.read_text(encoding="utf-8")
            exact = processing == "sentencepiece"
            backend = exact_backend(text) if exact else Backend.from_str(text)
        except OSError as error:
            raise UserError(f"cannot read the tokenizer {path}: {error.strerror}") from error
        except Exception as error:  # the library raises a bare Exception for a file that it cannot parse
            raise UserError(f"{path} is not a tokenizer file: {error}") from error
        special = tuple(backend.id_to_token(index) for index in range(NUM_SPECIAL))
        if special != SPECIAL_TOKENS:
            raise UserError(
                f"{path}: ids 0 to 4 must be {SPECIAL_TOKENS}, found {special}; not a tokenizer of Disco"
            )
        return Tokenizer(backend, language, processing)

    @staticmethod
    def from_vocabulary(tokens: Sequence[str], language: str) -> Tokenizer:
        """A "pretokenized" tokenizer: text is tokens separated by white space, and tokens[i] has id i."""
        return Tokenizer(_word_level(tokens), language, "pretokenized")

    def save(self, path: Path) -> None:
        """Write a tokenizer.json, which HF `tokenizers` can load."""
        write_text(path, self.backend.to_str(pretty=True) + "\n")

    @property
    def vocabulary_size(self) -> int:
        """With special tokens."""
        return int(self.backend.get_vocab_size())

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, without EOS."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of many texts, on all cores."""
        words = [to_words(well_formed(text), self.language, self.processing) for text in texts]
        batch = [encoding.ids for encoding in self.backend.encode_batch_fast(words, add_special_tokens=False)]
        if self.processing != "pretokenized":
            return batch
        # A whole word that spells a special token is an unknown word.
        return [[index if index >= NUM_SPECIAL else UNK for index in ids] for ids in batch]

    def unknown_spans(self, text: str) -> list[tuple[int, int]]:
        """(start, end) of the parts of `text` that are <unk> in a "sentencepiece" vocabulary.

        Byte-level BPE has none. Unknown words of pretokenized text are not reported.
        """
        if self.processing != "sentencepiece":
            return []
        encoding = self.backend.encode(well_formed(text), add_special_tokens=False)
        spans = zip(encoding.ids, encoding.offsets, strict=True)
        return [(start, end) for index, (start, end) in spans if index == UNK]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`. Special ids are skipped; bytes that are not UTF-8 become U+FFFD."""
        words = self.backend.decode([index for index in ids if index >= NUM_SPECIAL])
        return from_words(words, self.language, self.processing)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The token of each id, special or not; ids outside the vocabulary are <unk>."""
        return [self.backend.id_to_token(index) or SPECIAL_TOKENS[UNK] for index in ids]

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """The reverse of `tokens`; tokens outside the vocabulary are UNK."""
        ids = (self.backend.token_to_id(token) for token in tokens)
        return [UNK if index is None else index for index in ids]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Each token as text, with the space before it: [" Stra", "ße"], not ["ĠStra", "ÃŁe"].

        Tokens with only a part of a character become U+FFFD; special and pretokenized tokens are unchanged.
        """
        ids = list(ids)
        names = self.tokens(ids)
        match self.processing:
            case "pretokenized":
                return names
            case "sentencepiece":
                return [surface(name) for name in names]
        from tokenizers.decoders import ByteLevel

        byte_level = ByteLevel()
        return [
            name if index < NUM_SPECIAL else byte_level.decode([name])
            for index, name in zip(ids, names, strict=True)
        ]


def learn(words: Iterable[str], vocabulary_size: int, processing: Processing) -> Backend:
    """Learn a vocabulary from the output of `to_words`; it is smaller if there are not enough words."""
    if processing == "pretokenized":
        return _learn_words(words, vocabulary_size)
    if vocabulary_size < MINIMUM_BPE_SIZE:
        raise UserError(
            f"vocabulary_size must be at least {MINIMUM_BPE_SIZE} (256 bytes, {NUM_SPECIAL} special tokens), "
            f"got {vocabulary_size}"
        )
    return _learn_bpe(words, vocabulary_size)


def _learn_bpe(words: Iterable[str], vocabulary_size: int) -> Backend:
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel
    from tokenizers.trainers import BpeTrainer

    trainer = BpeTrainer(
        vocab_size=vocabulary_size,
        min_frequency=2,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    backend = _byte_level(BPE())
    backend.train_from_iterator((well_formed(line) for line in words), trainer)
    return _without_added_tokens(backend)


def _byte_level(model: BPE) -> Backend:
    """A byte-level BPE tokenizer.

    A space is added before the text, so that a word has the same token at the start as anywhere else.
    """
    from tokenizers import Regex
    from tokenizers import Tokenizer as Backend
    from tokenizers.decoders import ByteLevel as Characters
    from tokenizers.decoders import Sequence as Decoders
    from tokenizers.decoders import Strip
    from tokenizers.normalizers import Prepend, Replace
    from tokenizers.normalizers import Sequence as Normalizers
    from tokenizers.pre_tokenizers import ByteLevel, Split
    from tokenizers.pre_tokenizers import Sequence as PreTokenizers

    backend = Backend(model)
    backend.normalizer = Normalizers(
        [Replace(Regex("  +"), " "), Replace(Regex(r"\A | \z"), ""), Prepend(" ")]
    )
    backend.pre_tokenizer = PreTokenizers(
        [Split(Regex(_PIECES), "isolated"), ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    backend.decoder = Decoders([Characters(), Strip(" ", 1, 0)])
    return backend


def _without_added_tokens(backend: Backend) -> Backend:
    """The same vocabulary, but special tokens are no longer matched in text.

    `_PIECES` splits their spellings, so that BPE cannot produce them either.
    """
    import json

    from tokenizers import Tokenizer as Backend

    content = json.loads(backend.to_str())
    content["added_tokens"] = []
    return Backend.from_str(json.dumps(content))


def _learn_words(lines: Iterable[str], vocabulary_size: int) -> Backend:
    """The most frequent words; ties: the one that occurs first."""
    from collections import Counter

    if vocabulary_size <= NUM_SPECIAL:
        raise UserError(
            f"vocabulary_size must be more than {NUM_SPECIAL} (special tokens), got {vocabulary_size}"
        )
    counts = Counter(word for line in lines for word in line.split() if word not in SPECIAL_TOKENS)
    return _word_level(
        [*SPECIAL_TOKENS, *(word for word, _ in counts.most_common(vocabulary_size - NUM_SPECIAL))]
    )


def _word_level(tokens: Sequence[str]) -> Backend:
    from tokenizers import Tokenizer as Backend
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit

    if tuple(tokens[:NUM_SPECIAL]) != SPECIAL_TOKENS:
        raise UserError(f"a vocabulary must start with {SPECIAL_TOKENS}, found {tuple(tokens[:NUM_SPECIAL])}")
    vocabulary = {token: index for index, token in enumerate(tokens)}
    if len(vocabulary) < len(tokens):
        twice = next(token for index, token in enumerate(tokens) if vocabulary[token] != index)
        raise UserError(f"a vocabulary must not have a token twice, found {twice!r} again")
    backend = Backend(WordLevel(vocabulary, unk_token=SPECIAL_TOKENS[UNK]))
    backend.pre_tokenizer = WhitespaceSplit()
    return backend
