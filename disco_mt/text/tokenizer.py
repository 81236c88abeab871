"""Text <-> token ids: byte-level BPE (HF `tokenizers`), learnt, saved, undone.

`decode(encode(text))` gives back any Unicode text, with one exception: runs of spaces (U+0020) become one
space, and spaces at both ends go. A lone surrogate, which is no character, is read as U+FFFD. Text that
spells a special token ("</s>") is encoded like any other text: special ids never come from text.

Vocabularies of other systems are taken over as well: whole words ("pretokenized", from fairseq), and unigram
pieces ("sentencepiece", from Marian: sentencepiece.py). Both have an <unk> for what they do not know.
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

MINIMUM_BPE_SIZE = 256 + NUM_SPECIAL  # every byte is a token, so nothing is ever unknown

# Letters keep their marks, every digit stands alone, punctuation is apart; each with the space before it.
_PIECES = r" ?[\p{L}\p{M}]+| ?\p{N}| ?[^\s\p{L}\p{M}\p{N}]+|\s+"


@dataclass(frozen=True)
class Tokenizer:
    """One vocabulary, and how text of one language is brought into it."""

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
        """Read a tokenizer.json that `save` wrote."""
        from tokenizers import Tokenizer as Backend

        try:
            text = path.read_text(encoding="utf-8")
            exact = processing == "sentencepiece"
            backend = exact_backend(text) if exact else Backend.from_str(text)
        except OSError as error:
            raise UserError(f"cannot read the tokenizer {path}: {error.strerror}") from error
        except Exception as error:  # the library raises a bare Exception for a file that it cannot parse
            raise UserError(f"{path} is not a tokenizer file: {error}") from error
        found = tuple(backend.id_to_token(index) for index in range(NUM_SPECIAL))
        if found != SPECIAL_TOKENS:
            raise UserError(
                f"{path}: ids 0 to 4 must be {SPECIAL_TOKENS}, found {found}; not a tokenizer of Disco"
            )
        return Tokenizer(backend, language, processing)

    @staticmethod
    def from_vocabulary(tokens: Sequence[str], language: str) -> Tokenizer:
        """A "pretokenized" tokenizer: text is tokens separated by white space, and tokens[i] has id i."""
        return Tokenizer(_word_level(tokens), language, "pretokenized")

    def save(self, path: Path) -> None:
        """Write the vocabulary as a tokenizer.json that any HF `tokenizers` reads."""
        write_text(path, self.backend.to_str(pretty=True) + "\n")

    @property
    def vocabulary_size(self) -> int:
        """How many ids there are, special tokens included."""
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
        # A whole word may spell a special token here; it is then a word that the vocabulary does not have.
        return [[index if index >= NUM_SPECIAL else UNK for index in ids] for ids in batch]

    def unknown_spans(self, text: str) -> list[tuple[int, int]]:
        """(start, end) of the parts of `text` that are <unk> in a "sentencepiece" vocabulary.

        Byte-level BPE has none. Words of pretokenized text are not looked at.
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
        """The vocabulary's own name of each id, special ones included; an id it does not have is <unk>."""
        return [self.backend.id_to_token(index) or SPECIAL_TOKENS[UNK] for index in ids]

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """The reverse of `tokens`: a token that is not in the vocabulary is UNK."""
        found = (self.backend.token_to_id(token) for token in tokens)
        return [UNK if index is None else index for index in found]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Each token as a reader knows it, with the space before it: [" Stra", "ße"], not ["ĠStra", "ÃŁe"].

        A token that is only part of a character shows as U+FFFD; special and pretokenized tokens as they are.
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
    """A vocabulary learnt from lines that `to_words` has been over; smaller if they do not yield as many."""
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
    """A BPE model between what makes text into bytes and what makes bytes into text again.

    A space is put before the text, so that a word is the same token at the start as anywhere else.
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
    """The same vocabulary, but special tokens are no longer looked for in text.

    `_PIECES` cuts their spellings apart, so that BPE cannot put them together either.
    """
    import json

    from tokenizers import Tokenizer as Backend

    content = json.loads(backend.to_str())
    content["added_tokens"] = []
    return Backend.from_str(json.dumps(content))


def _learn_words(lines: Iterable[str], vocabulary_size: int) -> Backend:
    """The most frequent words; of equally frequent ones, the one that came first."""
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
