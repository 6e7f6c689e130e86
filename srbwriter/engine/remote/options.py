"""Where an engine elsewhere is, and how it is spoken to. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from ..types import DEFAULT_MAX_BRANCHES, InvalidRequest

DialectName: TypeAlias = Literal["auto", "vllm", "openai", "llamacpp", "srb", "koboldcpp"]


@dataclass(frozen=True, slots=True)
class RemoteOptions:
    """Times in seconds. ``key`` is sent as a bearer token, and never shown."""

    urls: tuple[str, ...]
    key: str = field(default="", repr=False)
    dialect: DialectName = "auto"
    model: str = ""  # its name there; empty: the first they list
    n_ctx: int | None = None  # tokens of one branch; None: what they say
    max_branches: int = DEFAULT_MAX_BRANCHES
    max_requests: int = 64  # under way at once at one address; the others wait here
    seed: int | None = None  # from which branch seeds derive when a request names none
    verify: bool = True  # certificates of https
    connect_seconds: float = 10.0
    silent_seconds: float = 300.0  # that an answer may keep us waiting for its next byte
    quiet_seconds: float = 10.0  # after which they are asked meanwhile whether they are well
    retries: int = 8  # attempts after which a branch gives up, without a token in between
    first_wait: float = 0.25  # before the second attempt; doubled from then on
    longest_wait: float = 8.0


def address(url: str) -> str:
    """``url`` as it is used: with a scheme, without a slash or ``/v1`` at its end. Raises InvalidRequest."""
    told = url.strip()
    parts = urlsplit(told if "://" in told else f"http://{told}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidRequest("connect", f"{shown(told)} is no address; give one like http://host:8000")
    path = parts.path.rstrip("/").removesuffix("/v1")
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def shown(url: str) -> str:
    """``url`` without a name and password."""
    before, at, rest = url.rpartition("@")
    return f"{before.partition('://')[0]}://{rest}" if at and "://" in before else rest
