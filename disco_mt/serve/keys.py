"""API keys: who may translate, where not everybody may."""

from __future__ import annotations

import hashlib
import hmac
import os
from dataclasses import dataclass
from pathlib import Path

from disco_mt.core.errors import UserError

VARIABLE = "DISCO_API_KEYS"


@dataclass(frozen=True)
class Keys:
    """Digests of the keys, so that keys of any length take the same time; none: everybody may."""

    digests: tuple[bytes, ...] = ()

    @staticmethod
    def of(keys: list[str]) -> Keys:
        """From keys as users have them."""
        return Keys(tuple(_digest(key) for key in keys))

    @property
    def needed(self) -> bool:
        """Must a request bring a key?"""
        return bool(self.digests)

    def allow(self, given: str) -> bool:
        """Is it one of the keys? Every key is compared, and each in constant time."""
        found = 0
        for digest in self.digests:
            found |= hmac.compare_digest(digest, _digest(given))
        return bool(found) or not self.needed


def read_keys(path: Path | None) -> Keys:
    """One key a line of a file (empty lines and # are skipped), and those of DISCO_API_KEYS, by commas."""
    keys = [key.strip() for key in os.environ.get(VARIABLE, "").split(",")]
    if path is not None:
        try:
            lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"cannot read the API keys in {path}: {error}") from None
        found = [line for line in lines if line and not line.startswith("#")]
        if not found:
            raise UserError(f"there is no API key in {path}; write one a line, or leave out --api-keys")
        keys += found
    short = [key for key in keys if key and len(key) < 16]
    if short:
        raise UserError("an API key must have at least 16 characters; make one with: openssl rand -hex 16")
    return Keys.of([key for key in keys if key])


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
