"""Messages about the model and the disk, each shown once."""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import TYPE_CHECKING

from srbwriter import paths
from srbwriter.story import SecondFile, StoryError, library
from srbwriter.tui.dialogs.model import trouble_words
from srbwriter.tui.write.status import round_identity

if TYPE_CHECKING:
    from srbwriter.tui.write.screen import WriteScreen


class Notices:
    """Watches the session of the write screen for what a writer has to know."""

    def __init__(self, screen: WriteScreen) -> None:
        self._screen, self._session = screen, screen.session
        self.shown_error: Exception | None = None
        """The error of the model that was shown last."""
        self._shown_notes: tuple[str, ...] = ()  # about what was reduced for lack of memory
        self._shown_trouble: StoryError | None = None  # of saving
        self._shown_file: SecondFile | None = None
        self._round: object = None
        self._name: Future[str] | None = None  # one that may be offered

    def watch(self) -> None:
        """Show what is new since the last call."""
        self._watch_model()
        self._watch_disk()
        self._watch_file()
        self._watch_names()

    def _watch_model(self) -> None:
        """Show why a model does not load, and what was reduced to make it fit."""
        app, session = self._screen.app, self._session
        notes = session.loader.notes
        for note in notes if notes != self._shown_notes else ():
            app.notify(note)
        self._shown_notes = notes
        error = session.engine_error
        if error is not None and error is not self.shown_error:
            words = str(error)
            if session.engine_state == "FAILED":
                way = self._screen.app.way_to("model")
                words = f"{trouble_words(error)}. {words.rstrip('.')}. {way} chooses another or tries again."
            # Not a dialog, which would catch the writer's typing.
            app.notify(words, severity="error")
        self.shown_error = error

    def _watch_disk(self) -> None:
        """Show why text cannot be saved; the status line keeps showing it."""
        story = self._session.story
        state = story.save_state
        if state.trouble is not None and type(state.trouble) is not type(self._shown_trouble):
            self._screen.notify(
                f"Could not save: {state.why}. Your words are kept; retrying.",
                severity="error",
            )
        self._shown_trouble = state.trouble

    def _watch_file(self) -> None:
        """Show that another program has replaced the story's file, and where both versions are."""
        story = self._session.story
        second = story.second_file
        if second is not None and second is not self._shown_file:
            self._screen.notify(str(second), severity="error")
            if story.file == second.ours:
                library.RecentStories(paths.recent_file()).add(story.file, story.title, time.time())
        self._shown_file = second

    def _watch_names(self) -> None:
        """Offer a lorebook entry for a name of the last pages, once a chapter."""
        session, current = self._session, round_identity(self._session)
        if current is not self._round:
            self._round = current
            if session.engine is not None and session.story.read_only is None:
                self._name = session.book.later(session.book.offer_name)
        elif (asked := self._name) is not None and asked.done():
            self._name = None
            if asked.exception() is None and (name := asked.result()):
                way = self._screen.app.way_to("add_to_lore")
                self._screen.notify(f"{name} is not in the lorebook. {way} writes an entry from the story.")
