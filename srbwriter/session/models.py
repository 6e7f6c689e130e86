"""The model of a session: loading it, choosing another, and facts about the one in use.

The model may be in this process or remote; a session uses a :class:`~srbwriter.engine.backend.Backend` either
way. :class:`~srbwriter.session.asking.Rounds` handles the branches when a model is replaced.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from srbwriter import launch
from srbwriter.engine.capabilities import Capabilities
from srbwriter.engine.loader import EngineLoader
from srbwriter.engine.types import Cancelled, EngineOptions, ModelInfo, NoModel
from srbwriter.story import Story, StoryError

from .framing import is_tuned
from .instrument import Instrument
from .open import token_sizes
from .prompting import Prompter
from .scoring import Paths

if TYPE_CHECKING:
    from srbwriter.engine.backend import Backend

log = logging.getLogger(__name__)


class Models:
    """The model that ``loader`` loads, and its replacements."""

    def __init__(self, story: Story, loader: EngineLoader, options: EngineOptions | None) -> None:
        self.story = story
        self._lock = threading.RLock()
        self._loader, self._options = loader, options
        self._prompter: Prompter | None = None
        self._failure: Exception | None = None
        self._cancelled: Cancelled | None = None
        self._closed = False
        self.instruments: dict[type[Instrument], Instrument] = {}
        self.scored = Paths()
        """Log-probabilities of tokens that are known for this model, for all instruments."""

    @property
    def state_lock(self) -> threading.RLock:
        """Held while a round, the model or the story is changed."""
        return self._lock

    @property
    def loader(self) -> EngineLoader:
        """The load of the model in use; a server beside the terminal serves its engine."""
        return self._loader

    @property
    def engine(self) -> Backend | None:
        return self._loader.engine

    @property
    def engine_state(self) -> str:
        """INIT, LOADING, READY or FAILED."""
        return "FAILED" if self._cancelled is not None else self._loader.state

    @property
    def load_progress(self) -> float:
        return self._loader.progress

    @property
    def engine_error(self) -> Exception | None:
        return self._cancelled or self._loader.error or self._failure

    @property
    def model(self) -> ModelInfo | None:
        engine = self.engine
        return engine.info if engine is not None else None

    @property
    def capabilities(self) -> Capabilities:
        """The engine's capabilities; all of them before it is loaded."""
        engine = self.engine
        return engine.capabilities if engine is not None else Capabilities()

    @property
    def instruct(self) -> bool:
        """Whether it is an instruction model; judged by its name until it is loaded."""
        prompter = self._prompter
        return prompter.frame.instruct if prompter is not None else is_tuned((self._loader.name,))

    @property
    def prompter(self) -> Prompter:
        """The prompter for the model in use. Raises NoModel without one."""
        if self._prompter is None:
            raise NoModel(self._why_no_model())
        return self._prompter

    def _why_no_model(self) -> str:
        if self.engine_state == "FAILED":
            return "there is no model; the command `model` (ctrl+g m) chooses one"
        return "the model is still loading"

    # ---- loading

    def load_model(self, path: Path) -> None:
        """Load another model. Running branches stop."""
        self._load(EngineLoader(path, self._options, fit=launch.fit_options))

    def load_again(self) -> None:
        """Load the last model again, also one that failed."""
        self._load(self._loader.again())

    def cancel_load(self) -> bool:
        """Cancel a running load, and a round that waits for it; return False if there is none.

        Returns at once with the state FAILED; the native library lets go of the file when it next can.
        """
        with self._lock:
            if self.engine_state not in ("INIT", "LOADING"):
                return False
            self._loader.cancel()
            if self._loader.state == "READY":  # it finished first
                return False
            self._cancelled = Cancelled(f"loading {self._loader.place} was stopped")
            self._forget_waiting()
            return True

    def _load(self, new: EngineLoader) -> None:
        with self._lock:
            self._leave_model()
            old, self._loader = self._loader, new
            self._prompter = None
            self._failure = self._cancelled = None
            self.scored.clear()
            for instrument in self.instruments.values():
                instrument.model_changed()
        threading.Thread(target=self._swap, args=(old, new), name="srbwriter-swap", daemon=True).start()

    def _swap(self, old: EngineLoader, new: EngineLoader) -> None:
        old.close()  # first: two models may not fit the memory
        try:
            self.keep()
        except StoryError as error:
            log.warning("not written down yet: %s", error)
        self._await(new)

    def _await(self, loader: EngineLoader) -> None:
        loader.start()
        threading.Thread(target=self._when_ready, args=(loader,), name="srbwriter-ready", daemon=True).start()

    def _when_ready(self, loader: EngineLoader) -> None:
        try:
            engine = loader.wait()
        except Exception as error:
            log.warning("no model: %s", error)
            return
        with self._lock:
            if loader is not self._loader or self._closed:
                return
            self._prompter = Prompter(self.story, engine)
            self.story.use_token_sizes(token_sizes(engine))
            self._meet_model()

    # ---- hooks for the branches: see Rounds

    def keep(self) -> None:
        """Save everything typed and generated so far."""
        raise NotImplementedError

    def _leave_model(self) -> None:
        """Handle the beginning of a load."""
        raise NotImplementedError

    def _meet_model(self) -> None:
        """Handle a loaded model."""
        raise NotImplementedError

    def _forget_waiting(self) -> None:
        """Cancel a round that waits for a model."""
        raise NotImplementedError
