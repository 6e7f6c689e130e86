"""The address of a server and how to talk to it, and its loader. Costs nothing to import."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from srbwriter.addresses import normal_address

from ..loader import EngineLoader
from ..types import DEFAULT_MAX_BRANCHES, InvalidRequest

if TYPE_CHECKING:
    from .engine import RemoteEngine

DialectName: TypeAlias = Literal["auto", "vllm", "openai", "llamacpp", "srb"]


@dataclass(frozen=True, slots=True)
class RemoteOptions:
    """Times in seconds. ``key`` is sent as a bearer token, and never shown."""

    url: str
    key: str = field(default="", repr=False)
    dialect: DialectName = "auto"
    model: str = ""  # its name there; empty: the first they list
    n_ctx: int | None = None  # tokens of one branch; None: what they say
    max_branches: int = DEFAULT_MAX_BRANCHES
    max_requests: int = 256  # under way at once; the others wait here
    seed: int | None = None  # from which branch seeds derive when a request names none
    verify: bool = True  # certificates of https
    connect_seconds: float = 10.0
    silent_seconds: float = 300.0  # that a server may take for its next byte
    retries: int = 8  # attempts after which a branch gives up, without a token in between
    first_wait: float = 0.25  # before the second attempt; doubled from then on
    longest_wait: float = 8.0
    notify: Callable[[str], None] | None = field(default=None, compare=False, repr=False)
    """Called on the engine's thread with a sentence about each attempt that failed and the next one."""


def RemoteLoader(options: RemoteOptions) -> EngineLoader:  # noqa: N802 - a class until 0.5
    """Return a loader that connects on a daemon thread, as a local model is loaded."""

    def connect(_path: Any, _options: Any, /, *, on_progress: Callable[[float], bool]) -> RemoteEngine:
        from .engine import RemoteEngine  # brings httpx along

        return RemoteEngine.connect(options, on_progress)

    return EngineLoader(shown(options.url), None, connect, name=options.model or shown(options.url))


def address(url: str) -> str:
    """Return ``url`` as it is used, see :func:`.normal_address`. Raises InvalidRequest."""
    try:
        return normal_address(url)
    except ValueError:
        problem = f"{shown(url.strip())!r} is no address; give one like http://host:8000"
        raise InvalidRequest("connect", problem) from None


def shown(url: str) -> str:
    """Return ``url`` without a name and password."""
    before, at, rest = url.rpartition("@")
    return f"{before.partition('://')[0]}://{rest}" if at and "://" in before else rest
