"""The thread that writes down what branches publish. Never makes the engine wait, nor the screen."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from srbwriter.story import StoryError

from .rounds import Round

log = logging.getLogger(__name__)

REST = 0.05  # seconds between two looks at the branches; the story itself writes to disk within a second


class Scribe:
    """Follows rounds until they are over. ``lock`` is the session's."""

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock
        self._rounds: list[Round] = []
        self._kept: list[Callable[[], None]] = []
        self._news = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def follow(self, current: Round) -> None:
        """Write down this round from now on; also one that was over and may be taken up again."""
        assert current.generation is not None
        with self._lock:
            if current in self._rounds:
                return
            self._rounds.append(current)
        current.generation.add_listener(self._news.set)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="srbwriter-scribe", daemon=True)
            self._thread.start()
        self._news.set()

    def when_kept(self, then: Callable[[], None]) -> None:
        """Call ``then`` once what was typed until now has become part of the story."""
        self._kept.append(then)

    def keep_all(self) -> None:
        """Write down everything published so far."""
        with self._lock:
            for current in list(self._rounds):
                try:
                    current.keep()
                except StoryError as error:  # the story keeps the words and tries again
                    log.warning("not written down yet: %s", error)
                if current.over and not self._typing_under_way(current):
                    self._let_go()
            if len(self._rounds) > 1:
                self._rounds = [r for r in self._rounds if not r.over or r is self._rounds[-1]]

    def _typing_under_way(self, current: Round) -> bool:
        return any(slot.typed < len(slot.buffer.typed) for slot in current.slots)

    def _let_go(self) -> None:
        waiting, self._kept = self._kept, []
        for then in waiting:
            then()

    def _run(self) -> None:
        while not self._closing.is_set():
            self._news.wait()
            self._news.clear()
            self.keep_all()
            self._closing.wait(REST)

    def close(self) -> None:
        """Write down the last words and end."""
        self._closing.set()
        self._news.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5)
        self.keep_all()
