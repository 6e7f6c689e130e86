"""What the server is told when it starts. Plain values; the command line fills them in."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from srbwriter.engine.types import DEFAULT_MAX_BRANCHES, Sampling


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Settings of one server. Times in seconds, sizes in bytes.

    ``n`` is how many branches an SRB request gets when it names none; ``max_n`` is the most that any
    request may ask for. ``cors_origins`` are origins allowed beside the loopback ones; ``"*"`` is any.
    """

    host: tuple[str, ...] = ("127.0.0.1",)
    port: int = 9090
    unix_socket: Path | None = None
    n: int = 8
    max_n: int = DEFAULT_MAX_BRANCHES
    n_predict: int = -1
    sampling: Sampling = field(default_factory=Sampling)
    alias: str | None = None
    tags: str | None = None
    api_keys: tuple[str, ...] = ()  # each KEY [NAME] [admin]
    admin_keys: tuple[str, ...] = ()  # of those who see the requests of all
    insecure: bool = False
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
    max_requests: int = 256  # being answered at once; more are told to come back
    keep_requests: int = 256  # finished requests that stay addressable
    keep_seconds: float = 900.0
    shutdown_seconds: float = 5.0
