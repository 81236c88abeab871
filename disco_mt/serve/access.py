"""Who may ask the server: API keys, host names, and origins of web pages."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from disco_mt.core.errors import UserError
from disco_mt.serve.http_errors import HttpError

VARIABLE = "DISCO_API_KEYS"
SHORTEST_KEY = 16


@dataclass(frozen=True)
class Keys:
    """Digests of the API keys, so that keys of any length take the same time; none: no key is needed."""

    digests: tuple[bytes, ...] = ()

    @staticmethod
    def of(keys: list[str]) -> Keys:
        return Keys(tuple(_digest(key) for key in keys))

    @property
    def needed(self) -> bool:
        return bool(self.digests)

    def allow(self, key: str) -> bool:
        """Every stored key is compared, each in constant time."""
        matches = [hmac.compare_digest(digest, _digest(key)) for digest in self.digests]
        return any(matches) or not self.needed

    def check(self, headers: Mapping[str, str], in_body: str = "") -> None:
        """Refuse a request without a valid key: Authorization: Bearer, X-API-Key, or in the body."""
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        key = bearer.strip() if scheme.lower() == "bearer" else ""
        if not self.allow(key or headers.get("x-api-key", "") or in_body):
            raise HttpError(401, "an API key is needed", {"WWW-Authenticate": "Bearer"})


def read_keys(path: Path | None) -> Keys:
    """The keys of a file, one per line (empty lines and # are skipped), and those of DISCO_API_KEYS."""
    keys = [key.strip() for key in os.environ.get(VARIABLE, "").split(",")]
    if path is not None:
        try:
            lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"cannot read the API keys in {path}: {error}") from None
        in_file = [line for line in lines if line and not line.startswith("#")]
        if not in_file:
            raise UserError(f"there is no API key in {path}; write one per line, or leave out --api-keys")
        keys += in_file
    keys = [key for key in keys if key]
    if any(len(key) < SHORTEST_KEY for key in keys):
        raise UserError(
            f"an API key must have at least {SHORTEST_KEY} characters; make one with: openssl rand -hex 16"
        )
    return Keys.of(keys)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True)
class Access:
    """The host names the server answers to, and the origins of other pages that may ask it."""

    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()  # empty: any

    def check(self, headers: Mapping[str, str]) -> None:
        """Refuse pages of other origins, and names that are not ours (DNS rebinding)."""
        host, origin = headers.get("host", ""), headers.get("origin", "")
        name = _hostname(host)
        if self.hosts and name not in self.hosts and not _is_loopback(name):
            raise HttpError(400, "this server does not answer to that host name; see --allow-host")
        if origin and origin not in self.origins and "*" not in self.origins and not _same(origin, host):
            raise HttpError(403, "this server does not answer pages of other origins; see --allow-origin")


def access_for(host: str, origins: tuple[str, ...], hosts: tuple[str, ...]) -> Access:
    """A server that listens on loopback answers only to loopback's names and to `hosts`."""
    for origin in origins:
        parts = urlsplit(origin)
        if origin != "*" and (not parts.scheme or not parts.netloc or parts.path):
            raise UserError(f"an origin looks like https://example.org, got {origin!r}")
    names = tuple(name.lower() for name in hosts)
    return Access(origins, names or (("localhost",) if _is_loopback(host) else ()))


def _hostname(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def _same(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False
