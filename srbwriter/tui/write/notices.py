"""Messages about the model and the disk, each shown once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.engine.types import Cancelled
from srbwriter.story import library
from srbwriter.tui.write.status import round_identity

if TYPE_CHECKING:
    from srbwriter.tui.write.screen import WriteScreen


def trouble_words(error: Exception | None) -> str:
    """Say that loading was stopped, or that the model cannot be loaded."""
    stopped = isinstance(error, Cancelled)
    return "Loading the model was stopped" if stopped else "The model cannot be loaded"


class Notices:
    """Watches the session of the write screen for what a writer has to know."""

    def __init__(self, screen: WriteScreen) -> None:
        self._screen, self._session = screen, screen.session
        self._shown: dict[str, object] = {}  # what was shown last of each kind

    def _is_new(self, kind: str, now: object) -> bool:
        before, self._shown[kind] = self._shown.get(kind), now
        return now is not None and now != before

    def watch(self) -> None:
        """Show news since the last call."""
        screen, session, story = self._screen, self._session, self._session.story
        if self._is_new("notes", session.loader.notes or None):  # of what was reduced for lack of memory
            screen.notify("\n".join(session.loader.notes))
        error = session.engine_error
        if self._is_new("error", error) and error is not None:
            words = str(error)
            if session.engine_state == "FAILED":
                words += "" if words.endswith((".", "?")) else "."
                way = screen.app.way_to("model")
                words = f"{trouble_words(error)}. {words} {way} chooses another or tries again."
            screen.notify(words, severity="error")  # not a dialog, which would catch the writer's typing
        trouble = story.save_state.trouble
        if self._is_new("trouble", type(trouble) if trouble else None) and trouble is not None:
            words = f"Could not save: {trouble.problem}. Your words are kept; retrying."
            screen.notify(words, severity="error")
        if self._is_new("replaced", story.replaced or None):  # the story's file, by another program
            screen.notify(story.replaced, severity="error")
            library.remember(story.file)
        if self._is_new("round", round_identity(session)) and session.engine is not None:
            screen.attend(self._offer_name())

    async def _offer_name(self) -> None:
        """Offer a lorebook entry for a name of the last pages, once a chapter."""
        app, book = self._screen.app, self._session.book
        if self._session.story.read_only is None:
            asked = book.later(book.offer_name)
            await app.until(asked.done)
            if asked.exception() is None and (name := asked.result()):
                way = app.way_to("add_to_lore")
                app.notify(f"{name} is not in the lorebook. {way} writes an entry from the story.")
