"""Loading a model in the background, so that a face can show itself, and progress, at once.

Must never know which face waits, or why this model.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from srbwriter.gguf import Damaged, pairs

from .types import Cancelled, EngineClosed, EngineError, EngineOptions, describe_error

if TYPE_CHECKING:
    from .backend import Backend

log = logging.getLogger(__name__)

LoadState = Literal["INIT", "LOADING", "READY", "FAILED"]


OnProgress: TypeAlias = Callable[[float], bool]
"""Told the share loaded, from 0 to 1; cancels the load by answering False."""

Fit: TypeAlias = Callable[["str | os.PathLike[str]", EngineOptions], tuple[EngineOptions, tuple[str, ...]]]
"""Fits options to the memory of this machine; gives them with what to tell the writer about it."""


Load: TypeAlias = Callable[..., "Backend"]
"""Loads an engine, as ``Engine.load`` does; raises Cancelled when it is stopped."""


def _load_engine(*arguments: Any, **more: Any) -> Backend:
    from .engine import Engine  # loads the native library: a second or so, better spent on the thread

    return Engine.load(*arguments, **more)


class EngineLoader:
    """One load of one model on a daemon thread. Everything here may be used from any thread.

    Attributes, set by the loader: options: the options, before they are fitted to the memory of this machine.
    place: the path or address of the model, as the caller gave it. notes: options that were reduced for lack
    of memory, in sentences for the writer; known once it is loaded. state: INIT before :meth:`start`, then
    LOADING, then READY or FAILED. progress: share of the model that is loaded, from 0 to 1; never goes back.
    engine: the engine, while the state is READY. error: why there is no engine, once the state is FAILED.

    >>> loader = EngineLoader("model.gguf").start() >>> engine = loader.wait()
    """

    def __init__(
        self, path: str | os.PathLike[str], options: EngineOptions | None = None, load: Load = _load_engine,
        fit: Fit | None = None, notify: Callable[[str], None] | None = None, name: str = "",
    ) -> None:  # fmt: skip
        self._path, self.options, self._load, self._fit = path, options, load, fit
        self._notify = notify  # called with each of the notes
        self._name = name  # of what is loaded, where it is no file that says so
        self.place = os.fspath(path)
        self.notes: tuple[str, ...] = ()
        self.state: LoadState = "INIT"
        self.progress = 0.0
        self.engine: Backend | None = None
        self.error: Exception | None = None
        self._changed = threading.Condition()
        self._cancelled = False

    @property
    def path(self) -> Path:
        """The file of the model."""
        return Path(self._path)

    def again(self) -> EngineLoader:
        """A load of the same model, not begun."""
        return EngineLoader(self._path, self.options, self._load, self._fit, self._notify, self._name)

    @cached_property
    def name(self) -> str:
        """The model's own name, or that of its file: known before anything is loaded."""
        if self._name:
            return self._name
        with suppress(OSError, Damaged):  # the load says so
            for key, value in pairs(self.path):
                if key == "general.name" and isinstance(value, str) and value:
                    return value
                if key.startswith("tokenizer."):
                    break  # the vocabulary, which is long; a name stands before it
        return self.path.stem

    def start(self) -> Self:
        """Begin to load; returns at once. A second call does nothing."""
        with self._changed:
            if self.state == "INIT":
                self.state = "LOADING"
                threading.Thread(target=self._run, name="srbwriter-load", daemon=True).start()
        return self

    def wait(self, timeout: float | None = None) -> Backend:
        """Return the engine once it is loaded; start the load if it has not been started.

        Raises the error of the load (ModelError, Cancelled and the like), or TimeoutError when it takes more
        than ``timeout`` seconds.
        """
        self.start()
        with self._changed:
            if not self._changed.wait_for(lambda: self.state != "LOADING", timeout):
                raise TimeoutError(f"{self.place} is still being loaded")
            if self.engine is None:
                assert self.error is not None
                raise self.error
            return self.engine

    def cancel(self) -> None:
        """Give up a load that is under way; it fails with Cancelled. An engine that is up stays."""
        with self._changed:
            self._cancelled = True
            if self.state == "INIT":
                self._settle(None, Cancelled(f"loading {self.place} was cancelled"))

    def close(self, timeout: float | None = 10.0) -> None:
        """Cancel, wait up to ``timeout`` seconds for the load to end, and close its engine.

        A load that takes longer closes its engine itself. A second call does nothing.
        """
        self.cancel()
        with self._changed:
            self._changed.wait_for(lambda: self.state != "LOADING", timeout)
            engine = self.engine
            if engine is not None:
                self._settle(None, EngineClosed(f"{self.place} has been closed"))
        if engine is not None:
            engine.close()

    def _run(self) -> None:
        engine: Backend | None = None
        error: Exception | None = None
        try:
            options = self.options
            if self._fit is not None:
                options, self.notes = self._fit(self._path, options or EngineOptions())
            for note in self.notes:
                log.warning("%s: %s", self.place, note)
                if self._notify is not None:
                    self._notify(note)
            engine = self._load(self._path, options, on_progress=self._on_progress)
        except BaseException as failure:  # kept for whoever waits: a thread has nobody to raise to
            words = f"{self.place} was not loaded: {describe_error(failure)}"
            error = failure if isinstance(failure, Exception) else EngineError(words)
            if not isinstance(failure, Cancelled):
                log.error("%s was not loaded: %s", self.place, error)
        with self._changed:
            if not self._cancelled or engine is None:
                self.progress = 1.0 if engine is not None else self.progress
                self._settle(engine, error)
                return
        engine.close()
        with self._changed:
            self._settle(None, Cancelled(f"loading {self.place} was cancelled"))

    def _on_progress(self, fraction: float) -> bool:
        self.progress = max(self.progress, min(fraction, 1.0))
        return not self._cancelled

    def _settle(self, engine: Backend | None, error: Exception | None) -> None:
        self.engine, self.error = engine, error
        self.state = "FAILED" if engine is None else "READY"
        self._changed.notify_all()
