"""Settings of the server, and its keys.

Plain values; the command line fills them in.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Literal

from srbwriter.engine.types import DEFAULT_MAX_BRANCHES, Sampling, Stop


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Settings of one server. Times in seconds, sizes in bytes.

    ``host`` are addresses, several with commas between them, or socket files whose names end in ``.sock``.
    ``n`` is how many branches an SRB request gets when it names none; ``max_n`` is the most that any
    request may ask for. ``cors_origins`` are origins allowed beside the loopback ones; ``"*"`` is any.
    """

    host: tuple[str, ...] = ("127.0.0.1",)
    port: int = 9090
    ws_port: int | None = None  # one more, for clients that expect WebSockets on a port of their own
    unix_socket: Path | None = None
    tcp: tuple[str, ...] = ()  # where lines are taken: each [HOST:]PORT
    preload: Path | None = None  # what conversations in lines begin with, evaluated before one can
    line_n: int = 1
    line_stop: Stop = field(default_factory=lambda: Stop(max_tokens=128))  # when their turns end
    n: int = 8
    max_n: int = DEFAULT_MAX_BRANCHES
    n_predict: int = -1
    sampling: Sampling = field(default_factory=Sampling)
    alias: str | None = None
    tags: str | None = None
    api_keys: tuple[str, ...] = ()  # each KEY [NAME] [admin]
    admin_keys: tuple[str, ...] = ()  # of those who see the requests of all
    insecure: bool = False
    share_cache: bool = False  # among all keys
    cors_origins: tuple[str, ...] = ()
    metrics: bool = False
    slots: bool = True
    slot_save_path: Path | None = None
    system_prompt_file: Path | None = None
    chat_template: str | None = None
    context_shift: bool = False
    static_path: Path | None = None
    page: bool = True
    ssl_key_file: Path | None = None
    ssl_cert_file: Path | None = None
    log_format: Literal["text", "json"] = "text"
    access_log: bool = True
    timeout: float = 600.0  # of one read or write on a connection, and of keep-alive
    head_seconds: float = 20.0  # in which a request's head has to come
    body_seconds: float = 120.0  # in which its body has to
    ping_seconds: float = 10.0  # a comment goes out on a stream that is silent for so long
    max_body: int = 16 * 2**20
    max_connections: int = 0  # 0: as many as the process may open files for
    max_requests: int = 256  # being answered at once; more get 503
    max_sockets: int = 256  # WebSockets that are open at once
    max_own_sockets: int = 32  # those of one client
    keep_requests: int = 256  # finished requests that stay addressable
    keep_seconds: float = 900.0
    shutdown_seconds: float = 5.0

    def __post_init__(self) -> None:
        """Split addresses at commas, as llama-server does. Raises ServerError where none is left."""
        hosts = tuple(host.strip() for given in self.host for host in given.split(",") if host.strip())
        if not hosts:
            raise ServerError("--host needs at least one address")
        object.__setattr__(self, "host", hosts)


LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


class ServerError(Exception):
    """Settings with which the server cannot be started. ``problems`` has a line for each, with the cure."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


class AddressError(ServerError):
    """An address cannot be listened on, for example because it is in use."""


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


def is_loopback(host: str) -> bool:
    """Whether an address, a name or a socket file can only be reached from this machine."""
    name = host.strip("[]").lower()
    if name in LOOPBACK_NAMES or is_socket_file(host):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def is_socket_file(host: str) -> bool:
    """Whether an address is the path of a socket file: it ends in ``.sock``, as with llama-server."""
    return host.endswith(".sock")


def read_text(file: Path, what: str) -> str:
    """A file that a setting names; ``what`` names its content. Raises ServerError."""
    try:
        return file.read_text("utf-8-sig")
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
    if keys or settings.insecure:
        return
    hosts = () if settings.unix_socket else settings.host
    for host in (*hosts, *(host for host, _ in line_places(settings))):
        if not is_loopback(host):
            raise ServerError(
                f"{host} can be reached from other machines: give --api-key KEY, "
                "or --insecure to serve everybody"
            )


def line_places(settings: ServerSettings) -> list[tuple[str, int]]:
    """Return hosts and ports of ``tcp``. Raises ServerError."""
    places: list[tuple[str, int]] = []
    for address in settings.tcp:
        host, _, port = address.rpartition(":")
        if address.startswith("unix:") or not (port.isascii() and port.isdecimal() and int(port) < 65536):
            raise ServerError(f"--tcp {address}: expected PORT or HOST:PORT")
        host = host or "127.0.0.1"
        if settings.ssl_cert_file is not None and not is_loopback(host):
            raise ServerError(
                f"--tcp {address}: lines are not encrypted, and HTTP here is: "
                "give PORT alone, with a TLS proxy before it"
            )
        places.append((host, int(port)))
    return places


def server_keys(settings: ServerSettings) -> tuple[ApiKey, ...]:
    """All keys; a single one is an admin's. Raises ServerError for one that cannot be read."""
    keys = [ApiKey.read(text) for text in settings.api_keys]
    keys += [replace(ApiKey.read(text), admin=True) for text in settings.admin_keys]
    return tuple(replace(key, admin=True) for key in keys) if len(keys) == 1 else tuple(keys)
