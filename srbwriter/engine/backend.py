"""What a place that runs models offers, whether in this process or behind a network.

Speaks only in the words of :mod:`.types` and :mod:`.generation`; must never know how or where the
model runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from .capabilities import Capabilities, Feature
from .generation import Generation
from .types import EngineStats, ModelInfo, NotSupported, Request

if TYPE_CHECKING:
    from .embedding import Embedder


class Backend(Protocol):
    """A loaded model that takes requests: an ``Engine`` or a ``RemoteEngine``, whose docstrings say more.

    Every member may be used from any thread. Methods raise the errors of :mod:`.types`: EngineClosed after
    ``close``, NotSupported for what ``capabilities`` names as missing.
    """

    n_ctx: int
    max_branches: int
    bos: int | None
    add_bos: bool
    eos: int | None
    eog: frozenset[int]
    fim: tuple[int, int, int] | None
    fim_files: tuple[int | None, int | None]

    @property
    def info(self) -> ModelInfo: ...
    @property
    def capabilities(self) -> Capabilities: ...
    @property
    def adapters(self) -> tuple[tuple[str, float], ...]: ...
    @property
    def embedder(self) -> Embedder: ...
    def submit(self, request: Request, /) -> Generation: ...
    def tokenize(self, text: str, add_bos: bool = False, parse_special: bool = False) -> list[int]: ...
    def tokenize_continuation(self, text: str) -> list[int]: ...
    def detokenize(self, ids: Sequence[int], special: bool = False) -> str: ...
    def pieces(self, ids: Sequence[int], /) -> list[bytes]: ...
    def token(self, text: str, /) -> int | None: ...
    def token_bytes(self, token: int, /) -> bytes: ...
    def apply_template(
        self, messages: Sequence[Mapping[str, Any]], /, *, template: str | None = None, **options: Any
    ) -> str: ...
    def stand_back(self) -> None: ...
    def pin(self, name: str, ids: Sequence[int], salt: str = "") -> None: ...
    def unpin(self, name: str) -> None: ...
    def save_session(
        self, path: str | os.PathLike[str], ids: Sequence[int], salt: str = ""
    ) -> tuple[int, int]: ...
    def load_session(self, path: str | os.PathLike[str], salt: str = "") -> list[int]: ...
    def stats(self) -> EngineStats: ...
    def close(self) -> None: ...


WITHOUT_CACHE: Mapping[Feature, str] = {
    "embeddings": "the engine behind this server computes no embeddings",
    "pins": "this engine does not keep the cache, so nothing can be pinned in it",
    "session_files": "this engine keeps no sessions in files",
}
"""What :class:`WithoutCache` cannot do, and why."""


def _lacking(feature: Feature) -> Callable[..., Any]:
    """Return a method that raises NotSupported."""

    def refuse(self: object, *args: object, **options: object) -> NoReturn:
        raise NotSupported(WITHOUT_CACHE[feature])

    return refuse


class WithoutCache:
    """Those members of a backend that need the model's own memory, for one that does not hold it."""

    adapters: tuple[tuple[str, float], ...] = ()
    fim_files: tuple[int | None, int | None] = (None, None)
    embedder: Any = property(_lacking("embeddings"))
    pin = unpin = _lacking("pins")
    save_session = load_session = _lacking("session_files")
