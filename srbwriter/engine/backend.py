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
from .prompt import Tokenizer
from .types import EngineStats, ModelInfo, NotSupported, Request

if TYPE_CHECKING:
    from .embedding import Embedder


class Backend(Tokenizer, Protocol):
    """A loaded model that takes requests. Every member may be used from any thread.

    Methods raise the errors of :mod:`.types`: EngineClosed after :meth:`close`, InvalidRequest for
    arguments that cannot mean anything.
    """

    n_ctx: int
    """Tokens that the prompt and text of one branch may have together."""
    max_branches: int
    """Branches that may be live at once, those of all requests together."""
    eos: int | None
    """The token that ends a text, if the vocabulary has one."""
    eog: frozenset[int]
    """All tokens at which a text ends."""
    fim: tuple[int, int, int] | None
    """The tokens before prefix, suffix and middle of a text to fill in, if there are any."""
    fim_files: tuple[int | None, int | None]
    """The tokens before a collection of files, and before each of them, if there are any."""

    @property
    def info(self) -> ModelInfo:
        """The model, and the context it runs in."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What can be asked of the backend, and why the rest cannot; it stays as it is."""
        ...

    @property
    def adapters(self) -> tuple[tuple[str, float], ...]:
        """The files of the LoRA adapters that were loaded, and how much of each."""
        ...

    @property
    def embedder(self) -> Embedder:
        """What computes embeddings. Raises NotSupported."""
        ...

    def submit(self, request: Request, /) -> Generation:
        """Start a request; returns at once.

        Raises InvalidRequest, LimitExceeded and ContextOverflow before anything has run.
        """
        ...

    def pieces(self, ids: Sequence[int], /) -> list[bytes]:
        """What each token adds to a text: nothing if it is a control token."""
        ...

    def token(self, text: str, /) -> int | None:
        """The id whose text is exactly ``text``, special tokens included; None if there is none."""
        ...

    def token_bytes(self, token: int, /) -> bytes:
        """What one token writes; it need not be whole characters."""
        ...

    def apply_template(
        self, messages: Sequence[Mapping[str, Any]], /, *, template: str | None = None, **options: Any
    ) -> str:
        """One prompt from chat messages, by the model's template; ``options``: see :func:`.chat.render`."""
        ...

    def stand_back(self) -> None:
        """Pause prefetches on this machine for a moment."""
        ...

    def pin(self, name: str, ids: Sequence[int], salt: str = "") -> None:
        """Keep the prefix ``ids`` in the cache; a second pin of a name moves it. Raises NotSupported.

        ``salt`` is that of the requests that the prefix is for; see :class:`.types.Request`.
        """
        ...

    def unpin(self, name: str) -> None:
        """Let go of what was pinned under ``name``. Raises NotSupported."""
        ...

    def save_session(
        self, path: str | os.PathLike[str], ids: Sequence[int], salt: str = ""
    ) -> tuple[int, int]:
        """Write ``ids`` and their cached state to a file; return its tokens and bytes.

        Raises OSError, NotSupported, or InvalidRequest when the cache holds nothing of them.
        """
        ...

    def load_session(self, path: str | os.PathLike[str], salt: str = "") -> list[int]:
        """Put the state of a session file into the cache; return its token ids.

        Raises OSError, NotSupported, or InvalidRequest for a file that is damaged or another model's.
        """
        ...

    def stats(self) -> EngineStats:
        """The counters now."""
        ...

    def close(self) -> None:
        """End every request and let go of the model. A second call does nothing."""
        ...


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
