"""Running the application: in the foreground for ``--serve``, on a thread of its own beside the terminal.

Owns the socket, the loop and the signals; knows no endpoint.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import stat
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from types import FrameType

import uvicorn

from .app import build_app
from .auth import ServerError, check_exposure
from .connection import Listener, Table, most_connections, protocol
from .services import Loader
from .settings import ServerSettings


class ServerHandle:
    """A server that runs on its own thread."""

    def __init__(self, server: _Server, thread: threading.Thread, url: str, port: int) -> None:
        self._server, self._thread = server, thread
        self.url, self.port = url, port

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def stop(self, timeout: float | None = None) -> None:
        """Answer no new request, let running ones end within the deadline, and wait for the thread."""
        self._server.should_exit = True
        self._thread.join(timeout)


def run(loader: Loader, settings: ServerSettings, ready: Callable[[str], None] | None = None) -> int:
    """Serve until a signal says stop; the exit code. ``ready`` is told the URL once the socket listens.

    Raises ServerError when the address cannot be used.
    """
    server, listeners, url = _prepare(loader, settings)
    if ready is not None:
        ready(url)
    _work(server, listeners)
    _remove_socket_file(settings.unix_socket)
    return 0


def start_in_thread(loader: Loader, settings: ServerSettings) -> ServerHandle:
    """Serve on a daemon thread with its own loop and no signal handlers.

    Raises ServerError when the address cannot be used.
    """
    server, listeners, url = _prepare(loader, settings)
    port = 0 if settings.unix_socket else listeners[0].getsockname()[1]

    def work() -> None:
        _work(server, listeners)
        _remove_socket_file(settings.unix_socket)

    thread = threading.Thread(target=work, name="srbwriter-http", daemon=True)
    thread.start()
    return ServerHandle(server, thread, url, port)


def _work(server: _Server, listeners: list[socket.socket]) -> None:
    with contextlib.ExitStack() as closing:
        for listener in listeners:
            closing.enter_context(contextlib.closing(listener))
        server.run(sockets=listeners)


class _Server(uvicorn.Server):
    """uvicorn's server, which ends quietly on a signal instead of raising it again."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def leave(number: int, frame: FrameType | None) -> None:
            self.handle_exit(number, frame)

        before = {number: signal.signal(number, leave) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _prepare(loader: Loader, settings: ServerSettings) -> tuple[_Server, list[socket.socket], str]:
    check_exposure(settings)
    app = build_app(loader, settings)
    table = Table(settings.max_connections or most_connections())
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        ws="none",
        http=protocol(settings.head_seconds, table),
        loop="asyncio",  # another would not ask the listener before it accepts
        timeout_keep_alive=int(min(settings.timeout, 75)),
        timeout_graceful_shutdown=int(settings.shutdown_seconds),
        ssl_keyfile=settings.ssl_key_file,
        ssl_certfile=settings.ssl_cert_file,
    )
    _load(config, settings)
    listeners = _listen(settings)
    for listener in listeners:
        listener.table = table
    scheme = "https" if settings.ssl_cert_file else "http"
    urls = [_url(scheme, listener, settings) for listener in listeners]
    return _Server(config), [*listeners], " and ".join(urls)


def _load(config: uvicorn.Config, settings: ServerSettings) -> None:
    """Read key and certificate now, so that what is wrong with them is an error in words."""
    if bool(settings.ssl_key_file) != bool(settings.ssl_cert_file):
        raise ServerError("HTTPS needs both: give --ssl-key-file and --ssl-cert-file")
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
    port = settings.port
    try:
        for host in settings.host:
            listeners.append(_listen_tcp(host, port))
            port = port or listeners[0].getsockname()[1]
    except ServerError:
        for listener in listeners:
            listener.close()
        raise
    return listeners


def _listen_tcp(told: str, port: int) -> Listener:
    host = told.strip("[]")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise ServerError(
            f"cannot listen on {told}:{port}: {error.strerror or error}; "
            "choose another with --host and --port"
        ) from error
    # asyncio switches Nagle's algorithm off where a socket says that it is TCP; this one says nothing
    return Listener(listener.family, listener.type, socket.IPPROTO_TCP, listener.detach())


def _listen_unix(path: Path) -> Listener:
    if _answers(path):
        raise ServerError(f"cannot listen on {path}: another server does; choose another with --unix-socket")
    listener = Listener(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_socket_file(path)
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise ServerError(f"cannot listen on {path}: {error.strerror or error}") from error
    return listener


def _answers(path: Path) -> bool:
    """Whether somebody listens on a socket file; one that was left behind may be replaced."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def _remove_socket_file(path: Path | None) -> None:
    if path is not None and path.exists() and stat.S_ISSOCK(path.stat().st_mode):
        path.unlink()


def _url(scheme: str, listener: socket.socket, settings: ServerSettings) -> str:
    if settings.unix_socket is not None:
        return f"unix:{settings.unix_socket}"
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
