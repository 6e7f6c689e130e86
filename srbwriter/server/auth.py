"""Who asks, and from where: keys, and the Host and Origin of browsers."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from .settings import LOOPBACK_NAMES, ServerError, ServerSettings, is_loopback, is_socket_file, line_places


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key, its owner's name, and whether it is an admin's."""

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
    """A client: the name of its key, or the address of one without a key.

    ``admin`` sees, steers and cancels the requests of all. Without keys every client is an admin.
    """

    name: str
    admin: bool
    peer: str = ""  # the address that it asks from


def server_keys(settings: ServerSettings) -> tuple[ApiKey, ...]:
    """Return all keys; a single one is an admin's. Raises ServerError for one that cannot be read."""
    keys = [ApiKey.read(text) for text in settings.api_keys]
    keys += [replace(ApiKey.read(text), admin=True) for text in settings.admin_keys]
    return tuple(replace(key, admin=True) for key in keys) if len(keys) == 1 else tuple(keys)


def check_exposure(settings: ServerSettings) -> None:
    """Refuse to listen beyond this machine without a key. Raises ServerError."""
    keys = server_keys(settings)
    if not all(key.secret for key in keys):
        raise ServerError("a key is empty, so that anybody would have it; see --api-key and its variable")
    if keys or settings.insecure:
        return
    for host in (*settings.host, *(host for host, _ in line_places(settings))):
        if not is_socket_file(host) and not is_loopback(host):
            raise ServerError(
                f"{host} can be reached from other machines: give --api-key KEY, "
                "or --insecure to serve everybody"
            )


class Guard:
    """The rules of one server."""

    def __init__(self, settings: ServerSettings) -> None:
        self._keys = server_keys(settings)
        origins = (origin.strip() for text in settings.cors_origins for origin in text.split(","))
        self._origins = frozenset(origin.rstrip("/").lower() for origin in origins if origin)
        hosts = [host for host in settings.host if not is_socket_file(host)]
        self._local = bool(hosts) and all(map(is_loopback, hosts))
        self._hosts = LOOPBACK_NAMES | {host.strip("[]").lower() for host in settings.host}

    def host_allowed(self, host: str | None) -> bool:
        """On loopback a browser must have meant this machine by name, or a rebound name reads our answers."""
        if not self._local or host is None:
            return True
        name = _host_of(f"//{host}")
        return name is not None and (name in self._hosts or is_loopback(name))

    def client(self, authorization: str | None, api_key: str | None, peer: str) -> Client | None:
        """Return the client whose key either header holds, or the one at ``peer`` where no key is needed.

        None where a key is needed and missing or wrong. Every key is compared, in constant time.
        """
        if not self._keys:
            return Client(peer, True, peer)
        given = (authorization or api_key or "").strip()
        if given[:7].lower() == "bearer ":
            given = given[7:].strip()
        sent = given.encode("utf-8", "surrogateescape")
        found = [
            key
            for key in self._keys
            for spelled in (key.secret, key.secret.encode().decode("latin-1"))  # as headers come
            if hmac.compare_digest(sent, spelled.encode())
        ]
        return Client(found[0].name, found[0].admin, peer) if found else None

    def origin_allowed(self, origin: str) -> bool:
        """Whether a page from ``origin`` may read answers."""
        local = origin.lower().startswith(("http://", "https://")) and is_loopback(_host_of(origin) or "")
        if local or "*" in self._origins or origin.lower() in self._origins:
            return True
        return bool(self._keys) and not self._origins


def _host_of(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
