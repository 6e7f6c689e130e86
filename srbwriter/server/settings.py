"""The settings of a server, and their check before one starts. The command line fills them in."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Literal

from srbwriter.config import ConfigError
from srbwriter.engine.types import DEFAULT_MAX_BRANCHES, Sampling, Stop


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Settings of one server. Times in seconds, sizes in bytes.

    ``host`` are addresses, several with commas between them, or socket files: what has a slash or ends in
    ``.sock``.
    ``n`` is how many branches an SRB request gets when it names none; ``max_n`` is the most that any
    request may ask for. ``cors_origins`` are origins allowed beside the loopback ones; ``"*"`` is any.
    """

    host: tuple[str, ...] = ("127.0.0.1",)
    port: int = 9090
    ws_port: int | None = None  # one more, for clients that expect WebSockets on a port of their own
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
    system_prompt_file: Path | None = None
    chat_template: str | None = None
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
    shutdown_seconds: float = 5.0

    def __post_init__(self) -> None:
        """Split addresses at commas, as llama-server does. Raises ServerError where none is left."""
        hosts = tuple(host.strip() for given in self.host for host in given.split(",") if host.strip())
        if not hosts:
            raise ServerError("--host needs at least one address")
        object.__setattr__(self, "host", hosts)


class ServerError(ConfigError):
    """Settings with which the server cannot be started. ``problems`` has a line for each, with the cure."""


class AddressError(ServerError):
    """An address cannot be listened on, for example because it is in use."""


LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def is_loopback(host: str) -> bool:
    """Whether an address or a name can only be reached from this machine."""
    name = host.strip("[]").lower()
    if name in LOOPBACK_NAMES:
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def is_socket_file(host: str) -> bool:
    """Whether an address is the path of a socket file, as llama-server's that end in ``.sock``."""
    return host.endswith(".sock") or "/" in host


def read_text(file: Path, what: str) -> str:
    """Return the text of a file that a setting names; ``what`` names its content. Raises ServerError."""
    try:
        return file.read_text("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise ServerError(f"{file}: {what} cannot be read: {reason}") from error


def read_keys(file: Path) -> tuple[str, ...]:
    """Return the keys of a file, one a line. Raises ServerError."""
    lines = read_text(file, "the list of keys").splitlines()
    return tuple(line.strip() for line in lines if line.strip())


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


def check_files(settings: ServerSettings) -> None:
    """Raise ServerError for a folder that is not there, and for half a pair of TLS files."""
    path, problems = settings.static_path, list[str]()
    if path is not None and not path.is_dir():
        problems.append(f"{path}: there is no such folder to serve; correct --path")
    if bool(settings.ssl_key_file) != bool(settings.ssl_cert_file):
        problems.append("HTTPS needs both: give --ssl-key-file and --ssl-cert-file")
    if problems:
        raise ServerError(*problems)
