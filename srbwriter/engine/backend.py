"""What a place that runs models offers, whether in this process or behind a network.

Speaks only in the words of :mod:`.types` and :mod:`.generation`; must never know how or where the
model runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from .generation import Generation
from .types import EngineStats, ModelInfo, Request


class Backend(Protocol):
    """A loaded model that takes requests. Every member may be used from any thread.

    Methods raise the errors of :mod:`.types`: EngineClosed after :meth:`close`, InvalidRequest for
    arguments that cannot mean anything.
    """

    @property
    def info(self) -> ModelInfo:
        """The model, and the context it runs in."""
        ...

    @property
    def n_ctx(self) -> int:
        """Tokens that the prompt and text of one branch may have together."""
        ...

    @property
    def max_branches(self) -> int:
        """Branches that may be live at once, those of all requests together."""
        ...

    @property
    def bos(self) -> int | None:
        """The token that begins a text, if the vocabulary has one."""
        ...

    @property
    def add_bos(self) -> bool:
        """Whether the model wants :attr:`bos` before every prompt."""
        ...

    @property
    def eos(self) -> int | None:
        """The token that ends a text, if the vocabulary has one."""
        ...

    @property
    def eog(self) -> frozenset[int]:
        """All tokens at which a text ends."""
        ...

    @property
    def fim(self) -> tuple[int, int, int] | None:
        """The tokens before prefix, suffix and middle of a text to fill in, if there are any."""
        ...

    def submit(self, request: Request, /) -> Generation:
        """Start a request; returns at once.

        Raises InvalidRequest, LimitExceeded and ContextOverflow before anything has run.
        """
        ...

    def tokenize(self, text: str, /, add_bos: bool = False, parse_special: bool = False) -> list[int]:
        """Ids of ``text``; with ``parse_special``, special tokens written out become one id."""
        ...

    def tokenize_continuation(self, text: str, /) -> list[int]:
        """Ids of ``text`` that follows other text: nothing is put before it."""
        ...

    def detokenize(self, ids: Sequence[int], /, special: bool = False) -> str:
        """Text of ``ids``; control tokens are left out unless ``special``."""
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
        self,
        messages: Sequence[Mapping[str, Any]],
        /,
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> str:
        """One prompt from chat messages, by the model's own template; see :func:`.chat.render`."""
        ...

    def lacks(self, name: str, /) -> str:
        """Why ``name`` cannot be had here, in words; nothing if it can.

        ``name`` is a verb of :class:`.generation.Branch`, or a field of a request, its sampling or its stop.
        """
        ...

    def stand_back(self) -> None:
        """Let what is written ahead on this machine rest for a moment."""
        ...

    def stats(self) -> EngineStats:
        """The counters now."""
        ...

    def close(self) -> None:
        """End every request and let go of the model. A second call does nothing."""
        ...
