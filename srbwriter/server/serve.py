"""Run the application: in the foreground for ``--serve``, on its own thread beside the terminal.

Owns the sockets, the loop and the signals; knows no endpoint. Where the process may open few files, the
connection that has waited longest without a complete head is closed for the next one.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import stat
import threading
from collections.abc import Callable, Generator
from pathlib import Path

import uvicorn

from srbwriter.paths import expanded
from srbwriter.server.app import build_app, check_folders
from srbwriter.server.chat import template_of
from srbwriter.server.connection import Listener, Table, most_connections, protocol
from srbwriter.server.services import Loader
from srbwriter.server.settings import (
    AddressError,
    ServerError,
    ServerSettings,
    check_exposure,
    is_socket_file,
    line_places,
)
from srbwriter.server.system_prompt import read_system_prompt


class ServerHandle:
    """A server that runs on its own thread."""

    def __init__(self, server: _Server, thread: threading.Thread) -> None:
        self._server, self._thread = server, thread
        self.url, self.lines = server.url, server.line_addresses
        ports = [one.getsockname()[1] for one in server.listeners if _file_of(one) is None]
        self.port = ports[0] if ports else 0

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def stop(self, timeout: float | None = None) -> None:
        """Answer no new request, let running ones end within the deadline, and wait for the thread."""
        self._server.should_exit = True
        self._thread.join(timeout)


def run(
    loader: Loader,
    settings: ServerSettings,
    ready: Callable[[str], None] | None = None,
    *,
    needs_model: bool = False,
) -> int:
    """Serve until a signal; return the exit code. ``ready`` gets the URL once the socket listens.

    With ``needs_model`` the server ends when the load fails, and raises the load's error. Raises ServerError
    for a setting that cannot be used, AddressError for an address that cannot be listened on.
    """
    server = _Server(loader, settings)
    server.listen()
    if needs_model:
        server.watched = loader
    if ready is not None:
        ready(", and for lines on ".join((server.url, *server.line_addresses)))
    server.serve_and_close()
    if needs_model and loader.error is not None:
        raise loader.error
    return 0


def start_in_thread(loader: Loader, settings: ServerSettings) -> ServerHandle:
    """Serve on a daemon thread with its own loop and no signal handlers.

    Raises ServerError when the address cannot be used.
    """
    server = _Server(loader, settings)
    server.listen()
    thread = threading.Thread(target=server.serve_and_close, name="srbwriter-http", daemon=True)
    handle = ServerHandle(server, thread)
    thread.start()
    return handle


def check_settings(settings: ServerSettings) -> None:
    """Raise ServerError for all settings that no server can be started with. Listens nowhere."""
    problems: list[str] = []
    for check in (check_exposure, template_of, read_system_prompt, check_folders, _check_pair):
        try:
            check(settings)
        except ServerError as error:
            problems += error.problems
    if problems:
        raise ServerError(*problems)
    _Server(_Unloaded(), settings)


class _Unloaded:
    """A loader that loads nothing."""

    state, engine, error = "INIT", None, None


class _Server(uvicorn.Server):
    """uvicorn's server with its sockets; it ends quietly on a signal instead of raising it again."""

    watched: Loader | None = None  # without whose model the server is of no use

    def __init__(self, loader: Loader, settings: ServerSettings) -> None:
        """Raise ServerError for a setting that cannot be used."""
        check_exposure(settings)
        most = settings.max_connections or most_connections()
        most_lines = max(most // 4, 1) if line_places(settings) else 0
        self.settings, self.table = settings, Table(most - most_lines)
        self.listeners: list[Listener] = []
        self.lines: list[socket.socket] = []  # those of the line protocol; the application has the list
        config = uvicorn.Config(
            build_app(loader, settings, self.lines, most_lines),
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="on",
            ws="websockets-sansio",
            ws_max_size=settings.max_body,
            ws_per_message_deflate=False,  # a small message could grow without bound
            http=protocol(settings.head_seconds, self.table),
            loop="asyncio",  # another would not ask the listener before it accepts
            timeout_keep_alive=int(min(settings.timeout, 75)),
            timeout_graceful_shutdown=int(settings.shutdown_seconds),
            ssl_keyfile=settings.ssl_key_file,
            ssl_certfile=settings.ssl_cert_file,
        )
        _load(config, settings)
        super().__init__(config)

    def listen(self) -> None:
        """Open the sockets. Raises AddressError for an address that cannot be listened on."""
        with contextlib.ExitStack() as closing:
            for host, port in line_places(self.settings):
                self.lines.append(_listen_tcp(host, port))
                closing.callback(self.lines[-1].close)
            self.listeners = _listen(self.settings)
            closing.pop_all()
        for listener in self.listeners:
            listener.table = self.table

    @property
    def url(self) -> str:
        """Where it listens; several addresses with "and" between them."""
        scheme = "https://" if self.settings.ssl_cert_file else "http://"
        return " and ".join(f"{'' if _file_of(one) else scheme}{_address(one)}" for one in self.listeners)

    @property
    def line_addresses(self) -> tuple[str, ...]:
        """Where the line protocol is spoken: HOST:PORT."""
        return tuple(map(_address, self.lines))

    def serve_and_close(self) -> None:
        """Serve until the end, then close the sockets and remove socket files."""
        with contextlib.ExitStack() as closing:
            for listener in (*self.listeners, *self.lines):
                closing.callback(_close, listener, _file_of(listener))
            self.run(sockets=[*self.listeners])

    async def on_tick(self, counter: int) -> bool:
        failed = self.watched is not None and self.watched.error is not None
        return await super().on_tick(counter) or failed

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _close(listener: socket.socket, file: Path | None) -> None:
    """Close a listening socket and remove its socket file."""
    listener.close()
    _remove_socket_file(file)


def _file_of(listener: socket.socket) -> Path | None:
    if listener.family in (socket.AF_INET, socket.AF_INET6):
        return None
    return Path(listener.getsockname())


def _check_pair(settings: ServerSettings) -> None:
    if bool(settings.ssl_key_file) != bool(settings.ssl_cert_file):
        raise ServerError("HTTPS needs both: give --ssl-key-file and --ssl-cert-file")


def _load(config: uvicorn.Config, settings: ServerSettings) -> None:
    """Load key and certificate before listening. Raises ServerError where they cannot be used."""
    _check_pair(settings)
    try:
        config.load()
    except OSError as error:  # of which ssl.SSLError is one
        raise ServerError(
            f"{settings.ssl_cert_file} and {settings.ssl_key_file} cannot be used for HTTPS: "
            f"{error.strerror or error}"
        ) from error


def _listen(settings: ServerSettings) -> list[Listener]:
    """Listening sockets, opened here so that a taken port is an error in words and not an exit."""
    if settings.unix_socket is not None:
        return [_listen_unix(settings.unix_socket)]
    listeners: list[Listener] = []
    places = [(settings.host, settings.port)]
    if settings.ws_port is not None:
        places.append((tuple(host for host in settings.host if not is_socket_file(host)), settings.ws_port))
    try:
        for hosts, port in places:
            for host in hosts:
                if is_socket_file(host):
                    listeners.append(_listen_unix(expanded(host)))
                else:
                    listeners.append(_listen_tcp(host, port))
                    port = port or listeners[-1].getsockname()[1]
    except ServerError:
        for listener in listeners:
            listener.close()
        raise
    return listeners


def _listen_tcp(address: str, port: int) -> Listener:
    host = address.strip("[]")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise AddressError(
            f"cannot listen on {address}:{port}: {error.strerror or error}; "
            "choose another with --host, --port, --ws-port and --tcp"
        ) from error
    # asyncio switches Nagle's algorithm off where a socket says that it is TCP; this one says nothing
    return Listener(listener.family, listener.type, socket.IPPROTO_TCP, listener.detach())


def _listen_unix(path: Path) -> Listener:
    if _answers(path):
        raise AddressError(f"cannot listen on {path}: another server does; choose another with --unix-socket")
    listener = Listener(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_socket_file(path)
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise AddressError(f"cannot listen on {path}: {error.strerror or error}") from error
    return listener


def _answers(path: Path) -> bool:
    """Whether a server listens on a socket file; a stale file may be replaced."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def _remove_socket_file(path: Path | None) -> None:
    if path is not None and path.exists() and stat.S_ISSOCK(path.stat().st_mode):
        path.unlink()


def _address(listener: socket.socket) -> str:
    if (file := _file_of(listener)) is not None:
        return f"unix:{file}"
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
