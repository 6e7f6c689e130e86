"""``srbwriter --serve`` and the server beside the app: their keys, and how they start."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, cast

from srbwriter.cli.exits import Exit, Failure, say
from srbwriter.config import ConfigError, Key, Settings, keys
from srbwriter.config.kinds import INTEGER, NUMBER, PATH, SWITCH, TEXT, TEXTS, one_of

if TYPE_CHECKING:
    from srbwriter.engine.loader import EngineLoader
    from srbwriter.server.settings import ServerSettings
    from srbwriter.session import Session
    from srbwriter.tui.app import Beside

_SECONDS_TO_END = 5.0

# fmt: off
HOST = Key[tuple[str, ...]](
    "server.host", TEXTS, ("127.0.0.1",),
    "address to listen on, or a socket file NAME.sock; several with commas, or given several times",
    ("--host",),
)
PORT = Key(
    "server.port", INTEGER, 9090, "port to listen on; 0 takes any", ("--port",), minimum=0, maximum=65535,
)
WS_PORT = Key[int | None](
    "server.ws_port", INTEGER, None,
    "one more port, for clients that expect WebSockets on a port of their own, such as 5005", ("--ws-port",),
    minimum=0, maximum=65535,
)
UNIX_SOCKET = Key[Path | None](
    "server.unix_socket", PATH, None, "listen on this socket file instead of a port", ("--unix-socket",),
)
TCP = Key[tuple[str, ...]](
    "server.tcp", TEXTS, (),
    "take lines of text there, without HTTP: [HOST:]PORT; may be given several times",
    ("--tcp",),
)
PRELOAD = Key[Path | None](
    "server.preload", PATH, None,
    "file with a text that conversations in lines begin with; it is evaluated before any can begin",
    ("--preload",),
)
ALIAS = Key[str | None](
    "server.alias", TEXT, None, "name the model goes by; more of them after commas", ("--alias", "-a"),
)
TAGS = Key[str | None](
    "server.tags", TEXT, None, "words for the model's card, with commas between them", ("--tags",),
)
API_KEYS = Key[tuple[str, ...]](
    "server.api_keys", TEXTS, (),
    "key that clients must send, perhaps with a name after it; may be given several times", ("--api-key",),
)
ADMIN_KEYS = Key[tuple[str, ...]](
    "server.admin_keys", TEXTS, (), "such a key that sees and ends the requests of all", ("--admin-key",),
)
API_KEY_FILE = Key[Path | None](
    "server.api_key_file", PATH, None, "file of such keys, one a line: KEY [NAME] [admin]",
    ("--api-key-file",),
)
SHARE_CACHE = Key(
    "server.share_cache", SWITCH, False,
    "let all keys find in the cache what any of them had evaluated; else each finds its own",
    ("--share-cache",),
)
INSECURE = Key("server.insecure", SWITCH, False, "serve other machines without a key", ("--insecure",))
CORS_ORIGINS = Key[tuple[str, ...]](
    "server.cors_origins", TEXTS, (),
    "web origin that may read answers beside this machine's own; * is any; may be given several times",
    ("--cors-origins",),
)
METRICS = Key("server.metrics", SWITCH, False, "answer GET /metrics", ("--metrics",))
SLOTS = Key("server.slots", SWITCH, True, "answer GET /slots", ("--slots",))
SYSTEM_PROMPT_FILE = Key[Path | None](
    "server.system_prompt_file", PATH, None,
    "file with a text that precedes every prompt",
    ("--system-prompt-file", "-spf"),
)
CHAT_TEMPLATE = Key[str | None](
    "server.chat_template", TEXT, None,
    "chat template (Jinja, or chatml) instead of the model's own", ("--chat-template",),
)
CHAT_TEMPLATE_FILE = Key[Path | None](
    "server.chat_template_file", PATH, None, "file with such a template", ("--chat-template-file",),
)
STATIC_PATH = Key[Path | None](
    "server.static_path", PATH, None, "folder of files to serve instead of the page", ("--path",),
)
PAGE = Key("server.page", SWITCH, True, "serve a page to write in", ("--page",))
SSL_KEY_FILE = Key[Path | None](
    "server.ssl_key_file", PATH, None, "private key for HTTPS", ("--ssl-key-file",),
)
SSL_CERT_FILE = Key[Path | None](
    "server.ssl_cert_file", PATH, None, "certificate for HTTPS", ("--ssl-cert-file",),
)
LOG_FORMAT = Key(
    "server.log_format", one_of("text", "json"), "text",
    "lines about requests in the log as text or as JSON objects", ("--log-format",),
)
ACCESS_LOG = Key("server.access_log", SWITCH, True, "log requests", ("--access-log",))
TIMEOUT = Key(
    "server.timeout", NUMBER, 600.0, "seconds a connection may be silent", ("--timeout", "-to"), minimum=1,
    maximum=86400,
)
# fmt: on

OPTIONS: tuple[Key[Any], ...] = tuple(
    cast("Key[Any]", row) for row in list(globals().values()) if isinstance(row, Key)
)
"""Every row above, in order. Names are those of the fields of ServerSettings."""

_READ_HERE = (API_KEY_FILE, CHAT_TEMPLATE_FILE, UNIX_SOCKET)
"""Keys that are no fields of ServerSettings."""


def run(settings: Settings) -> int:
    """Serve until a signal arrives; return the exit code.

    Settings are checked first, then models, and both before anything is fetched, loaded or listened on.
    """
    from srbwriter import launch, server
    from srbwriter.cli.models import fetch_named_model
    from srbwriter.engine.types import Cancelled

    elsewhere = launch.elsewhere(settings)
    with _failures():
        options = server_settings(settings)
        server.check_settings(options)
    fetch_named_model(settings)
    launch.check_models(settings)
    loader = launch.loader(settings, notify=say)
    if (hint := launch.model_hint(settings)) is not None:
        say(hint)

    def announce() -> None:
        try:
            say(f"{launch.model_name(loader.wait().info)} is ready")
        except Cancelled:
            return
        except Exception as error:
            if elsewhere:  # the server goes on: an engine elsewhere may come back
                say(str(error))

    def listening(url: str) -> None:
        say(f"listening on {url}")
        Thread(target=announce, name="srbwriter-announce", daemon=True).start()

    try:
        with _failures():
            return server.run(loader, options, listening, needs_model=not elsewhere)
    except Exception as error:
        if error is loader.error:
            raise Failure(str(error), Exit.MODEL) from error
        raise
    finally:
        loader.close()


@contextlib.contextmanager
def _failures() -> Generator[None]:
    """Convert errors of a server that cannot start into Failure or ConfigError, which have exit codes."""
    from srbwriter.server.settings import AddressError, ServerError

    try:
        yield
    except AddressError as error:
        raise Failure(str(error)) from error
    except ServerError as error:
        raise ConfigError(*error.problems) from error


def server_settings(settings: Settings) -> ServerSettings:
    """Return the settings of the server. Raises ServerError for a file that cannot be read."""
    from dataclasses import replace

    from srbwriter import launch
    from srbwriter.server.settings import ServerSettings, read_keys, read_text

    settings = launch.suit_model(settings)
    fields = {row.name.partition(".")[2]: settings[row] for row in OPTIONS if row not in _READ_HERE}
    options = ServerSettings(
        **fields,
        n=launch.branches(settings),
        max_n=settings[keys.MAX_N],
        sampling=launch.sampling(settings),
        line_stop=launch.stop(settings),
    )
    if (file := settings[UNIX_SOCKET]) is not None:
        options = replace(options, host=(str(file),))
    if (seed := settings[keys.SEED]) is not None:
        options = replace(options, sampling=replace(options.sampling, seed=seed))
    if settings.source(keys.N) != "default":
        options = replace(options, line_n=options.n)
    if settings.source(keys.MAX_TOKENS) != "default":
        options = replace(options, n_predict=settings[keys.MAX_TOKENS])
    if (file := settings[API_KEY_FILE]) is not None:
        options = replace(options, api_keys=(*options.api_keys, *read_keys(file)))
    if (file := settings[CHAT_TEMPLATE_FILE]) is not None:
        options = replace(options, chat_template=read_text(file, "the chat template"))
    return options


# ---- beside the terminal app, on one engine with it


def server_beside(settings: Settings) -> Beside:
    """Return a context manager that runs a server on a session's engine and yields its address.

    Raises ConfigError for settings that are invalid, or unsupported by a remote engine. Entering it raises
    Failure if the address cannot be bound.
    """
    from srbwriter import server

    with _failures():
        options = server_settings(settings)
        server.check_settings(options)

    @contextlib.contextmanager
    def beside(session: Session) -> Generator[str]:
        with _failures():
            loader = cast("EngineLoader", SessionLoader(session))
            handle = server.start_in_thread(loader, options)
        try:
            yield handle.url
        finally:
            handle.stop(_SECONDS_TO_END)

    return beside


class SessionLoader:
    """The loader of the session's current model; the writer may change the model while it is served."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session.loader, name)
