"""Run the application: in the foreground for ``--serve``, on its own thread beside the terminal.

Owns the sockets, the loop and the signals; knows no endpoint.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import stat
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, cast

import uvicorn

from srbwriter.paths import expanded

from .app import build_app
from .auth import check_exposure
from .connection import most_connections, protocol
from .prompts import read_system_prompt, read_template
from .run import Loaded, Loader, Services
from .settings import AddressError, ServerError, ServerSettings, check_files, is_socket_file, line_places

_LAST_WORDS = 3
"""Seconds in which answers that were ended with the server can say so."""


class ServerHandle:
    """A server that runs on its own thread."""

    def __init__(self, server: _Server, thread: threading.Thread) -> None:
        self._server, self._thread = server, thread
        self.url, self.lines = server.url, server.line_addresses
        self.port = next((one.getsockname()[1] for one in server.listeners if _file_of(one) is None), 0)

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
    server.needs_model = needs_model
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
    for check in (check_exposure, read_template, read_system_prompt, check_files):
        try:
            check(settings)
        except ServerError as error:
            problems += error.problems
    if problems:
        raise ServerError(*problems)
    _Server(Loaded(cast("Any", None)), settings)


class _Server(uvicorn.Server):
    """uvicorn's server with its sockets; it ends quietly on a signal instead of raising it again."""

    needs_model = False

    def __init__(self, loader: Loader, settings: ServerSettings) -> None:
        """Raise ServerError for a setting that cannot be used."""
        check_exposure(settings)
        check_files(settings)
        most = settings.max_connections or most_connections()
        most_lines = max(most // 4, 1) if line_places(settings) else 0
        self.settings, self.services = settings, Services(loader, settings)
        self.listeners: list[socket.socket] = []
        self.lines: list[socket.socket] = []  # those of the line protocol; the application has the list
        config = uvicorn.Config(
            build_app(self.services, self.lines, most_lines),
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="on",
            ws="websockets-sansio",
            ws_max_size=settings.max_body,
            ws_per_message_deflate=False,  # a small message could grow without bound
            http=protocol(settings.head_seconds, most - most_lines),
            loop="asyncio",
            timeout_keep_alive=int(min(settings.timeout, 75)),
            timeout_graceful_shutdown=int(settings.shutdown_seconds) + _LAST_WORDS,
            ssl_keyfile=settings.ssl_key_file,
            ssl_certfile=settings.ssl_cert_file,
        )
        try:
            config.load()  # key and certificate, before anything listens
        except OSError as error:  # of which ssl.SSLError is one
            files = f"{settings.ssl_cert_file} and {settings.ssl_key_file}"
            raise ServerError(f"{files} cannot be used for HTTPS: {error.strerror or error}") from error
        super().__init__(config)

    def listen(self) -> None:
        """Open the sockets. Raises AddressError for an address that cannot be listened on."""
        settings, port = self.settings, self.settings.port
        try:
            for where in line_places(settings):
                self.lines.append(_listen(*where))
            for host in settings.host:
                if is_socket_file(host):
                    self.listeners.append(_listen_file(expanded(host)))
                    continue
                self.listeners.append(_listen(host, port))
                port = port or self.listeners[-1].getsockname()[1]
            for host in settings.host if settings.ws_port is not None else ():
                if not is_socket_file(host):
                    self.listeners.append(_listen(host, settings.ws_port or 0))
        except AddressError:
            self.close()
            raise

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
        files = [_file_of(listener) for listener in self.listeners]
        try:
            self.run(sockets=[*self.listeners])
        finally:
            self.close()
            for file in filter(None, files):
                file.unlink(missing_ok=True)

    def close(self) -> None:
        for listener in (*self.listeners, *self.lines):
            listener.close()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no new connection, and end the answers that still run after the deadline."""
        ending = asyncio.get_running_loop().call_later(self.settings.shutdown_seconds, self.services.end)
        await super().shutdown(sockets)
        ending.cancel()
        self.services.end()

    async def on_tick(self, counter: int) -> bool:
        failed = self.needs_model and self.services.loader.error is not None
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


def _file_of(listener: socket.socket) -> Path | None:
    return Path(listener.getsockname()) if listener.family == socket.AF_UNIX else None


def _address(listener: socket.socket) -> str:
    if (file := _file_of(listener)) is not None:
        return f"unix:{file}"
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _listen(address: str, port: int) -> socket.socket:
    host = address.strip("[]")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        cure = "choose another with --host, --port, --ws-port and --tcp"
        raise AddressError(f"cannot listen on {address}:{port}: {error.strerror or error}; {cure}") from error
    # asyncio switches Nagle's algorithm off where a socket says that it is TCP; this one says nothing
    return socket.socket(listener.family, listener.type, socket.IPPROTO_TCP, listener.detach())


def _listen_file(path: Path) -> socket.socket:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, contextlib.suppress(OSError):
        probe.connect(str(path))  # a file that nobody answers on may be replaced
        raise AddressError(f"cannot listen on {path}: another server does; choose another with --host")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.exists() and stat.S_ISSOCK(path.stat().st_mode):
            path.unlink()
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise AddressError(f"cannot listen on {path}: {error.strerror or error}") from error
    return listener
