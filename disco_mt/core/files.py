"""Atomic files: a crash or a full disk never leaves a partial file."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from disco_mt.core.errors import UserError

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}  # some network file systems


def refuse_existing(path: Path) -> None:
    """Raise an error if an output path exists, before any work is done."""
    if path.exists():
        raise UserError(f"{path} already exists; choose another output path or remove it first")


@contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """A temporary sibling of `path` to fill; it is renamed when the block ends without an error."""
    refuse_existing(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield temporary
        for file in temporary.rglob("*"):
            _share(file)
        _share(temporary)
        os.replace(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A temporary sibling of `path` to write; it replaces `path` when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        _share(temporary)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _share(path: Path) -> None:
    """Set the permissions to the umask's default; those of temporary files are private."""
    mask = os.umask(0o077)  # it cannot be read without setting it
    os.umask(mask)
    path.chmod((0o777 if path.is_dir() else 0o666) & ~mask)


def check_readable(path: Path) -> None:
    """Raise an error if this user has no permission to read a file."""
    if not os.access(path, os.R_OK):
        raise UserError(
            f"{path} may not be read by this user (permission denied); its owner can change that with: "
            f"chmod a+r {path}"
        )


def try_lock(handle: int) -> bool:
    """Lock an open file or directory; False if another process has the lock.

    The kernel releases it when the process ends. On file systems without locks this always succeeds.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


def write_text(path: Path, text: str) -> None:
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
