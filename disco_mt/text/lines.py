"""What a line is: text up to LF or CRLF, and nothing else.

Python's own line splitting also breaks at U+2028, U+0085, form feeds and more. One such character inside
a corpus would shift every later line against its translation, so the rule is kept here, in one place.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from disco_mt.core.errors import UserError

BYTE_ORDER_MARK = "\ufeff"
_SURROGATES = re.compile("[\ud800-\udfff]")


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file, plain or (by its suffix) .gz, without their ends and without a BOM."""
    try:
        with _open(path) as stream:
            for number, line in enumerate(stream, start=1):
                text = _decode(line, path, number)
                yield text.removeprefix(BYTE_ORDER_MARK) if number == 1 else text
    except (OSError, EOFError, zlib.error) as error:  # a truncated or broken .gz raises the latter two
        raise UserError(f"cannot read {path}: {_reason(error)}") from error


def split_lines(text: str) -> list[str]:
    """The lines of a string by the same rule: "" has none, and a final line needs no line end."""
    if not text:
        return []
    lines = text.removeprefix(BYTE_ORDER_MARK).removesuffix("\n").split("\n")
    if text.endswith("\n"):
        return [line.removesuffix("\r") for line in lines]
    return [*(line.removesuffix("\r") for line in lines[:-1]), lines[-1]]


def one_line(text: str) -> str:
    """`text` fit to be written as one line: line breaks that a model may have produced become spaces."""
    return text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")


def letters(text: str) -> str:
    """What makes two sentences the same for a split: their letters, small."""
    return "".join(filter(str.isalpha, text.casefold()))


def well_formed(text: str) -> str:
    """`text` with U+FFFD for lone surrogates: no characters, but JSON and file names can bring them in."""
    return _SURROGATES.sub("\ufffd", text)


def _open(path: Path) -> BinaryIO | gzip.GzipFile:
    """The bytes of a file; iterating over them breaks at LF only."""
    return gzip.GzipFile(path) if path.suffix == ".gz" else path.open("rb")


def _decode(line: bytes, path: Path, number: int) -> str:
    if line.endswith(b"\n"):
        line = line[:-1].removesuffix(b"\r")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}, line {number}: not valid UTF-8 (byte {line[error.start]:#04x} at position "
            f"{error.start + 1} of the line); convert the file to UTF-8, for example with iconv"
        ) from error


def _reason(error: Exception) -> str:
    """What the system says, without the errno and the path that the message already has."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or "the file is broken"
