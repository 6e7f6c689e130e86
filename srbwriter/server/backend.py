"""What the server needs of a place where a model runs, and of the loader that brings it up.

The in-process engine satisfies both protocols. Nothing here knows HTTP.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from srbwriter.engine.generation import Generation
from srbwriter.engine.types import EngineStats, ModelInfo, Request


class Backend(Protocol):
    """A loaded model that serves requests."""

    @property
    def info(self) -> ModelInfo: ...
    @property
    def max_branches(self) -> int: ...
    @property
    def n_ctx(self) -> int: ...
    @property
    def bos(self) -> int | None: ...
    @property
    def eos(self) -> int | None: ...
    @property
    def fim(self) -> tuple[int, int, int] | None: ...

    def submit(self, request: Request, /) -> Generation: ...
    def stats(self) -> EngineStats: ...
    def tokenize(self, text: str, /, add_bos: bool = False, parse_special: bool = False) -> list[int]: ...
    def detokenize(self, ids: Sequence[int], /, special: bool = False) -> str: ...
    def token_bytes(self, token: int, /) -> bytes: ...
    def apply_template(
        self,
        messages: Sequence[dict[str, Any]],
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        tools: Sequence[dict[str, Any]] | None = None,
        template: str | None = None,
        **kwargs: Any,
    ) -> str: ...


class Loader(Protocol):
    """Brings a backend up in the background. ``state`` is INIT, LOADING, READY or FAILED."""

    @property
    def state(self) -> str: ...
    @property
    def engine(self) -> Backend | None: ...
    @property
    def error(self) -> Exception | None: ...


class Loaded:
    """A loader for a backend that is up already."""

    def __init__(self, engine: Backend) -> None:
        self.engine: Backend | None = engine
        self.state = "READY"
        self.error: Exception | None = None
