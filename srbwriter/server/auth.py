"""Who may speak to the server: keys, the Host header, and origins.

Decides only; the gate around the application asks it for every request.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from .settings import ServerSettings

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


class ServerError(Exception):
    """The server cannot be started as asked. The message names the cure."""


def is_loopback(host: str) -> bool:
    """Whether an address or name can only be reached from this machine."""
    name = host.strip("[]").lower()
    if name in LOOPBACK_NAMES:
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def read_text(file: Path, what: str) -> str:
    """A file that a setting names; ``what`` names its content. Raises ServerError."""
    try:
        return file.read_text("utf-8")
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise ServerError(f"{file}: {what} cannot be read: {reason}") from error


def read_keys(file: Path) -> tuple[str, ...]:
    """Keys from a file, one a line. Raises ServerError."""
    lines = read_text(file, "the list of keys").splitlines()
    return tuple(line.strip() for line in lines if line.strip())


def check_exposure(settings: ServerSettings) -> None:
    """Refuse to listen beyond this machine without a key. Raises ServerError."""
    if not all(key.strip() for key in settings.api_keys):
        raise ServerError("a key is empty, so that anybody would have it; see --api-key and its variable")
    if settings.unix_socket or settings.api_keys or settings.insecure or is_loopback(settings.host):
        return
    raise ServerError(
        f"{settings.host} can be reached from other machines: give --api-key KEY, "
        "or --insecure to serve everybody"
    )


class Guard:
    """The rules of one server."""

    def __init__(self, settings: ServerSettings) -> None:
        self._keys = tuple(key.encode() for key in settings.api_keys)
        origins = (origin.strip() for text in settings.cors_origins for origin in text.split(","))
        self._origins = frozenset(origin.rstrip("/").lower() for origin in origins if origin)
        self._local = settings.unix_socket is None and is_loopback(settings.host)
        self._hosts = LOOPBACK_NAMES | {settings.host.strip("[]").lower()}

    @property
    def keyed(self) -> bool:
        return bool(self._keys)

    def host_allowed(self, host: str | None) -> bool:
        """On loopback a browser must have meant this machine by name, or a rebound name reads our answers."""
        if not self._local or host is None:
            return True
        name = _host_name(host)
        return name is not None and (name in self._hosts or is_loopback(name))

    def key_allowed(self, authorization: str | None, api_key: str | None) -> bool:
        """Whether either header holds a key; every key is compared, in constant time."""
        if not self._keys:
            return True
        given = (authorization or api_key or "").strip()
        if given[:7].lower() == "bearer ":
            given = given[7:].strip()
        sent = given.encode("utf-8", "surrogateescape")
        return any([hmac.compare_digest(sent, key) for key in self._keys])

    def origin_allowed(self, origin: str) -> bool:
        """Whether a page from ``origin`` may read answers."""
        if self._origins:
            return (
                "*" in self._origins
                or origin.lower() in self._origins
                or ("localhost" in self._origins and _loopback_origin(origin))
            )
        return bool(self._keys) or _loopback_origin(origin)


def _host_name(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _loopback_origin(origin: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.hostname is not None and is_loopback(parts.hostname)


def header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str | None:
    """The first value of a raw ASGI header."""
    for key, value in headers:
        if key == name:
            return value.decode("latin-1")
    return None
