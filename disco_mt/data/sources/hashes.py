"""SHA-256 of the contents of files, cached for large ones, which take minutes to read."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from pathlib import Path

from disco_mt.core.errors import UserError
from disco_mt.core.files import write_text

LARGE = 2**28  # bytes: a second to read, or ten from a slow disk

Memory = dict[str, list[int | str]]  # path -> size, time of the last change, hash


def remembered_hashes(paths: dict[str, Path], memory: Path | None) -> dict[str, str]:
    """The hash of the content of each file. memory: the file of cached hashes."""
    known = _read(memory)
    before = dict(known)
    hashes = {name: _remembered(path, known) for name, path in paths.items()}
    if memory is not None and known != before and memory.parent.is_dir():
        write_text(memory, json.dumps(known, indent=2) + "\n")
    return hashes


def _read(memory: Path | None) -> Memory:
    """The cache; a broken file is ignored."""
    try:
        content = json.loads(memory.read_text(encoding="utf-8")) if memory else {}
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _remembered(path: Path, known: Memory) -> str:
    try:
        now = path.stat()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    if now.st_size < LARGE:
        return _content_hash(path)
    key, mark = str(path.resolve()), [now.st_size, now.st_mtime_ns]
    if known.get(key, [])[:2] != mark:
        known[key] = [*mark, _content_hash(path)]
    return str(known[key][2])


def _content_hash(path: Path) -> str:
    """The same for a file and its .gz."""
    try:
        with gzip.GzipFile(path) if path.suffix == ".gz" else path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot read {path}: {error}") from error
