"""What a run of `disco` left behind, for the tests that read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Done:
    """Exit code and output."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """Lines of output, by the rule that a line ends at LF only."""
        return self.out.removesuffix("\n").split("\n") if self.out else []

    @property
    def said(self) -> str:
        """All of stderr on one line, without the frames that messages may be set in."""
        return " ".join(self.err.replace("│", " ").split())


Disco = Callable[..., Done]


def listing(folder: Path) -> dict[str, bytes | None]:
    """Every path below a folder, hidden ones too, with what is in it."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }
