"""Colours the story by probability, as far as it is known; and the legend."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from typing import TYPE_CHECKING

from textual.content import Content
from textual.widget import Widget

from srbwriter.engine.types import EngineError
from srbwriter.session.tokens import Tokens, TokenText
from srbwriter.story import StoryError
from srbwriter.tui.prose import STYLES
from srbwriter.tui.widgets.tints import LEGENDS, UNKNOWN, step
from srbwriter.tui.write.story_editor import Provenance, StoryEditor

if TYPE_CHECKING:
    from srbwriter.session import Session

log = logging.getLogger(__name__)

_ROOM = 30
"""The legend is shown in windows of at least this many rows."""


class StoryColours:
    """Colours the editor's text; new text is uncoloured until it is saved and scored."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._of: object = None  # (node, text, engine) that was tokenised
        self._coming: Future[TokenText] | None = None
        self._text: TokenText | None = None
        self._shown: object = None  # (version of the probabilities, mode) with which it was coloured

    def show(self, editor: StoryEditor, mode: str, anew: bool = False) -> None:
        """Colour the known part; request the rest, which a later call will colour."""
        if anew:
            self._shown = None
        engine = self._session.engine
        if engine is None:  # still loading: the text is requested when the model is there
            return
        now = self._session.node, editor.text, engine
        if now != self._of and self._coming is None:
            self._of, self._text = now, None
            try:
                self._coming = Tokens.of(self._session).story_tokens()
            except (EngineError, StoryError) as error:
                self._of = None
                log.debug("no colours yet: %s", error)
        if self._coming is not None and self._coming.done():
            coming, self._coming = self._coming, None
            self._text = None if coming.exception() is not None else coming.result()
            self._shown = None
        if self._text is None or now != self._of:
            return
        text = self._text
        Tokens.of(self._session).collect()
        state = Tokens.of(self._session).version, mode
        if self._shown == state:
            return
        self._shown = state
        known = Tokens.of(self._session).scores(text.ids, text.tokens[0].at if text.tokens else 0)
        parts: list[tuple[int, str]] = []
        place = 0
        ends = [*(token.start for token in text.tokens[1:]), len(editor.text)]
        for token, end in zip(text.tokens, ends, strict=False):  # without tokens there is still one end
            parts += [
                (max(0, token.start - place), UNKNOWN),
                (end - token.start, step(known.get(token.at))),
            ]
            place = end
        editor.provenance = Provenance(parts)


class Legend(Widget):
    """The meaning of the colours, in one line; hidden in low windows."""

    DEFAULT_CSS = """
    Legend { height: 1; width: 1fr; background: $background; color: $text-muted; display: none; }
    """

    _mode = ""

    def show(self, mode: str, rows: int) -> None:
        """Show the legend of ``mode`` if the window has enough rows."""
        self._mode = mode
        self.display = mode in LEGENDS and rows >= _ROOM
        self.refresh()

    def render(self) -> Content:
        heading, entries = LEGENDS.get(self._mode, ("", ()))
        parts: list[tuple[str, str]] = [(f" {heading}: ", "")]
        for words, tint in entries:
            parts += [(words, STYLES.get(tint, "$foreground")), ("   ", "")]
        return Content.assemble(*parts)
