"""``srbwriter --serve`` and the server beside the app: their keys, and how they start."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from threading import Thread
from typing import TYPE_CHECKING, Any, cast

from srbwriter.cli.exits import say
from srbwriter.config import Key, Settings, keys
from srbwriter.config.kinds import INTEGER, NUMBER, PATH, SWITCH, TEXT, TEXTS, Kind, one_of

if TYPE_CHECKING:
    from srbwriter.engine.loader import EngineLoader
    from srbwriter.server.settings import ServerSettings
    from srbwriter.session import Session
    from srbwriter.tui.app import Beside

_SECONDS_TO_END = 5.0


def _row(name: str, kind: Kind[Any], default: Any, words: str, *flags: str, **bounds: Any) -> Key[Any]:
    """Return a key of the section; its flag has its name unless ``flags`` begin with another long one."""
    own = () if flags and flags[0].startswith("--") else (f"--{name.replace('_', '-')}",)
    return Key(f"server.{name}", kind, default, words, (*own, *flags), **bounds)


OPTIONS: tuple[Key[Any], ...] = (
    _row(
        "host", TEXTS, ("127.0.0.1",),
        "address to listen on, or a socket file NAME.sock; several with commas, or given several times",
    ),
    _row("port", INTEGER, 9090, "port to listen on; 0 takes any", minimum=0, maximum=65535),
    _row("ws_port", INTEGER, None, "one more port, for WebSockets on 5005", minimum=0, maximum=65535),
    _row("tcp", TEXTS, (), "take lines of text there: [HOST:]PORT; may be given several times"),
    _row("preload", PATH, None, "file with a text that conversations in lines begin with"),
    _row("alias", TEXT, None, "name the model goes by; more of them after commas", "-a"),
    _row("tags", TEXT, None, "words for the model's card, with commas between them"),
    _row("api_keys", TEXTS, (), "KEY [NAME] that clients send; may be given several times", "--api-key"),
    _row("admin_keys", TEXTS, (), "such a key that sees and ends the requests of all", "--admin-key"),
    _row("api_key_file", PATH, None, "file of such keys, one a line: KEY [NAME] [admin]"),
    _row("share_cache", SWITCH, False, "let all keys share what is cached; else each finds its own"),
    _row("insecure", SWITCH, False, "serve other machines without a key"),
    _row("cors_origins", TEXTS, (), "web origin that may read answers; * is any; may be given several times"),
    _row("metrics", SWITCH, False, "answer GET /metrics"),
    _row("slots", SWITCH, True, "answer GET /slots"),
    _row("system_prompt_file", PATH, None, "file with a text that precedes every prompt", "-spf"),
    _row("chat_template", TEXT, None, "chat template (Jinja, or chatml) instead of the model's own"),
    _row("chat_template_file", PATH, None, "file with such a template"),
    _row("static_path", PATH, None, "folder of files to serve instead of the page", "--path"),
    _row("page", SWITCH, True, "serve a page to write in"),
    _row("ssl_key_file", PATH, None, "private key for HTTPS"),
    _row("ssl_cert_file", PATH, None, "certificate for HTTPS"),
    _row("log_format", one_of("text", "json"), "text", "how lines about requests are written in the log"),
    _row("access_log", SWITCH, True, "log requests"),
    _row("timeout", NUMBER, 600.0, "seconds a connection may be silent", "-to", minimum=1, maximum=86400),
)  # fmt: skip
"""Settings of the server. Names are those of the fields of ServerSettings."""


def run(settings: Settings) -> int:
    """Serve until a signal arrives; return the exit code.

    Settings are checked before anything is loaded or listened on.
    """
    from srbwriter import launch, server
    from srbwriter.engine.types import Cancelled

    elsewhere = launch.elsewhere(settings)
    options = server_settings(settings)
    server.check_settings(options)
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

    with contextlib.closing(loader):
        return server.run(loader, options, listening, needs_model=not elsewhere)


def server_settings(settings: Settings) -> ServerSettings:
    """Return the settings of the server. Raises ServerError for a file that cannot be read."""
    from dataclasses import replace

    from srbwriter import launch
    from srbwriter.server.settings import ServerSettings, read_keys, read_text

    settings = launch.suit_model(settings)
    fields = {row.name.partition(".")[2]: settings[row] for row in OPTIONS}
    if (keys_file := fields.pop("api_key_file")) is not None:
        fields["api_keys"] = (*fields["api_keys"], *read_keys(keys_file))
    if (template := fields.pop("chat_template_file")) is not None:
        fields["chat_template"] = read_text(template, "the chat template")
    n, sampling = launch.branches(settings), launch.sampling(settings)
    if settings.source(keys.N) != "default":
        fields["line_n"] = n
    if settings.source(keys.MAX_TOKENS) != "default":
        fields["n_predict"] = settings[keys.MAX_TOKENS]
    if (seed := settings[keys.SEED]) is not None:
        sampling = replace(sampling, seed=seed)
    line_stop = launch.stop(settings)
    return ServerSettings(**fields, n=n, max_n=settings[keys.MAX_N], sampling=sampling, line_stop=line_stop)


# ---- beside the terminal app, on one engine with it


def server_beside(settings: Settings) -> Beside:
    """Return a context manager that runs a server on a session's engine and yields its address.

    Raises ServerError for settings that are invalid; entering it, if the address cannot be listened on.
    """
    from srbwriter import server

    options = server_settings(settings)
    server.check_settings(options)

    @contextlib.contextmanager
    def beside(session: Session) -> Generator[str]:
        handle = server.start_in_thread(cast("EngineLoader", SessionLoader(session)), options)
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
