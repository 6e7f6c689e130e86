"""Who may speak to the server, and as whom: keys, the Host header, and origins.

Decides only; the gate around the application asks it for every request.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from .settings import ServerSettings

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


class ServerError(Exception):
    """The server cannot be started as asked. The message names the cure."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key, the name of whoever has it, and whether they see the requests of all."""

    secret: str
    name: str
    admin: bool = False

    @classmethod
    def read(cls, text: str) -> ApiKey:
        """``KEY [NAME] [admin]``: one line of a key file. Without a name it goes by a part of its hash."""
        secret, *words = text.split() or [""]
        names = [word for word in words if word != "admin"]
        if len(names) > 1 or len(words) - len(names) > 1:
            raise ServerError("a key is written as KEY [NAME] [admin], with one space between them")
        name = names[0] if names else f"key-{hashlib.sha256(secret.encode()).hexdigest()[:8]}"
        return cls(secret, name, len(names) < len(words))


@dataclass(frozen=True, slots=True)
class Client:
    """Who asks: a key's name, or the address that a request without one came from.

    ``admin`` sees, steers and cancels the requests of all. Where there are no keys, everybody is that.
    """

    name: str
    admin: bool


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
    keys = server_keys(settings)
    if not all(key.secret for key in keys):
        raise ServerError("a key is empty, so that anybody would have it; see --api-key and its variable")
    if settings.unix_socket or keys or settings.insecure:
        return
    for host in settings.host:
        if not is_loopback(host):
            raise ServerError(
                f"{host} can be reached from other machines: give --api-key KEY, "
                "or --insecure to serve everybody"
            )


def server_keys(settings: ServerSettings) -> tuple[ApiKey, ...]:
    """All keys; a single one is an admin's. Raises ServerError for one that cannot be read."""
    keys = [ApiKey.read(text) for text in settings.api_keys]
    keys += [replace(ApiKey.read(text), admin=True) for text in settings.admin_keys]
    return tuple(replace(key, admin=True) for key in keys) if len(keys) == 1 else tuple(keys)


class Guard:
    """The rules of one server."""

    def __init__(self, settings: ServerSettings) -> None:
        self._keys = server_keys(settings)
        origins = (origin.strip() for text in settings.cors_origins for origin in text.split(","))
        self._origins = frozenset(origin.rstrip("/").lower() for origin in origins if origin)
        self._local = settings.unix_socket is None and all(map(is_loopback, settings.host))
        self._hosts = LOOPBACK_NAMES | {host.strip("[]").lower() for host in settings.host}

    def host_allowed(self, host: str | None) -> bool:
        """On loopback a browser must have meant this machine by name, or a rebound name reads our answers."""
        if not self._local or host is None:
            return True
        name = _host_name(host)
        return name is not None and (name in self._hosts or is_loopback(name))

    def client(self, authorization: str | None, api_key: str | None, peer: str) -> Client | None:
        """Whose key either header holds, or whoever comes from ``peer`` where none is needed.

        None where a key is needed and none is given. Every key is compared, in constant time.
        """
        if not self._keys:
            return Client(peer, admin=True)
        given = (authorization or api_key or "").strip()
        if given[:7].lower() == "bearer ":
            given = given[7:].strip()
        sent = given.encode("utf-8", "surrogateescape")
        found = [key for key in self._keys if hmac.compare_digest(sent, key.secret.encode())]
        return Client(found[0].name, found[0].admin) if found else None

    def origin_allowed(self, origin: str) -> bool:
        """Whether a page from ``origin`` may read answers."""
        if _loopback_origin(origin) or "*" in self._origins or origin.lower() in self._origins:
            return True
        return bool(self._keys) and not self._origins


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
