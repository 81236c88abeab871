"""Debian packages as sources of text: downloaded and unpacked, not installed, without root permissions."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from disco_mt.core.errors import UserError
from disco_mt.core.files import atomic_directory


def package(folder: Path, name: str) -> Path:
    """The file of a package in a folder."""
    files = sorted(folder.glob(f"{name}_*.deb"))
    if len(files) != 1:
        what = "several files" if files else "no file"
        raise UserError(
            f"{folder} has {what} {name}_*.deb, expected one; get it there with: apt-get download {name}"
        )
    return files[0]


def download(names: list[str], folder: Path) -> None:
    """Download packages to a new folder with apt-get; all of them or nothing."""
    apt = _program("apt-get", f"put the packages {' and '.join(names)} into {folder}")
    try:
        with atomic_directory(folder) as temporary:
            _download(apt, names, temporary)
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error.strerror or error}") from error


def unpack(file: Path, folder: Path) -> Path:
    """The files of a package, in a new folder."""
    dpkg = _program("dpkg-deb", "use a machine that has Debian's dpkg")
    done = subprocess.run([dpkg, "-x", file, folder], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"cannot unpack {file}: {_last_line(done.stderr)}")
    return folder


def _program(name: str, instead: str) -> str:
    program = shutil.which(name)
    if program is None:
        raise UserError(f"there is no {name} on this machine, which Debian and Ubuntu have; {instead}")
    return program


def _download(apt: str, names: list[str], folder: Path) -> None:
    """apt-get download; if the package lists are missing or outdated, after apt-get update."""
    get = [apt, "download", *names]
    done = subprocess.run(get, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        update = subprocess.run([apt, "update"], capture_output=True, text=True, check=False)
        done = subprocess.run(get, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UserError(
                f"apt-get download {' '.join(names)} failed: {_last_line(done.stderr)}"
                + (f"; apt-get update also failed: {_last_line(update.stderr)}" if update.returncode else "")
            )


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.startswith("E:")] or text.splitlines()
    return lines[-1].removeprefix("E: ") if lines else "it gave no reason"
