"""The token view: steps through a branch or the story by token, shows alternatives, and forks.

The bar leaves the text visible. It never blocks: the cursor moves at once, and alternatives appear when they
are computed.
"""

from __future__ import annotations

import math
from concurrent.futures import Future
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import OptionList, Static

from srbwriter.engine.types import EngineError
from srbwriter.session.tokens import Alternative, Tokens, TokenText
from srbwriter.tui.commands import action
from srbwriter.tui.dialogs.base import Bar

if TYPE_CHECKING:
    from srbwriter.tui.write.screen import WriteScreen

_LOOKS = 1 / 40  # seconds between polls for results
_BEST = 10
_PAGE, _ALL = 10, 1 << 30  # tokens


def percent(logprob: float) -> str:
    """Return the probability of a token in percent, in four to six characters."""
    share = 100 * math.exp(logprob)
    return f"{share:.0f} %" if share >= 10 else f"{share:.1f} %" if share >= 0.1 else "<0.1 %"


class TokenView(Bar[None]):
    """Shows the tokens of branch ``index``; if that is None, of the story, starting at character ``char``."""

    BADGE = "TOKENS"
    OPENED_BY = "tokens"

    DEFAULT_CSS = """
    TokenView.-branch { align: center top; }
    TokenView #here { text-style: bold; }
    TokenView OptionList { border: none; padding: 0; background: $panel; }
    TokenView Footer { display: block; }
    """

    def __init__(self, screen: WriteScreen, index: int | None, char: int) -> None:
        super().__init__(classes="" if index is None else "-branch")
        self._below, self._index, self._char = screen, index, char
        self._tokens = Tokens.of(screen.session)
        self._text: TokenText | None = None
        self._coming: Future[TokenText] | None = None
        self._version: object = None  # of the text that was asked for last
        self._at = self._early = 0  # index of the current token; steps of keys that came before the text
        self._listed: tuple[Alternative, ...] = ()
        self._why = ""
        self._cursor_before = screen.editor.cursor
        self._marked: object = None

    def content(self) -> ComposeResult:
        yield Static("…", id="here", markup=False)
        yield OptionList(compact=True, markup=False)

    def on_mount(self) -> None:
        if self._index is not None and self._below.layout_here() == "right":  # over the story
            self.styles.align_horizontal = "left"
            self.query_one(".box").styles.width = self._below.editor.outer_size.width
        self._look()
        self.set_interval(_LOOKS, self._look)

    def on_unmount(self) -> None:
        for pane in self._below.grid.panes:
            pane.show_token(None)
        self._below.editor.move_to(self._below.editor.cursor)

    # ---- what is shown

    def _look(self) -> None:
        """Read the text if it has changed, and show its known log-probabilities."""
        tokens, index, version = self._tokens, self._index, None
        branches = current.branches if (current := self._below.session.round) is not None else []
        if index is not None and index < len(branches):
            buffer = branches[index].buffer
            version = buffer.revision, len(buffer.ids)
        if self._coming is None and (self._text is None or version != self._version):
            try:
                self._coming = tokens.story_tokens() if index is None else tokens.branch_tokens(index)
                self._version, self._why = version, ""
            except EngineError as error:  # the model may still be loading
                self._why = str(error)
        if self._coming is not None and self._coming.done():
            coming, self._coming = self._coming, None
            try:
                self._take(coming.result())
            except Exception as error:  # from the engine, or because the story exceeds the context
                self._below.notify(str(error), severity="error")
                self.close()
                return
        self._show()

    def _take(self, text: TokenText) -> None:
        """Use the tokens of the text; keep the current one, or start at the writer's place."""
        before, self._text = self._text, text
        if before is None:
            self._at = text.place_of(self._char) + self._early
        elif (before.take, before.prompt) == (text.take, text.prompt):
            text.known, text.asked = before.known, before.asked
        self._at = max(0, min(self._at, len(text.tokens) - 1))

    def _others(self) -> tuple[Alternative, ...] | None:
        """Return the alternatives to the current token; None while not computed."""
        if self._text is None or not self._text.tokens:
            return None
        if why := self._below.session.capabilities.reason_for("next_logprobs"):
            self._why = why
            return ()
        found = self._tokens.look(self._text, self._at)
        self._why = self._text.problem
        return found and found[:_BEST]

    @on(OptionList.OptionHighlighted)
    def _show(self) -> None:
        """Show the current token, mark it in the text, and list the alternatives to it."""
        text = self._text
        if text is None:
            here = self._why or "…"
        elif not text.tokens:
            here = "There is no token here yet." if self._index is not None else "The story is empty."
        else:
            token, others = text.tokens[self._at], self._others() or ()
            self._mark(token.start, token.end)
            self._list(others, token.id)
            here = f"{self._at + 1} of {len(text.tokens)}"
            own = next((one for one in text.known.get(self._at, ()) if one.id == token.id), None)
            if own is not None:
                here += f"  “{own.shown}”  {percent(own.logprob)}  {-own.logprob / math.log(2):.1f} bits"
            elif self._why:
                here += f"  {self._why}"
            if (chosen := self._chosen) is not None:
                here += f"  ▸ {chosen.shown}  {percent(chosen.logprob)}"
        self.query_one("#here", Static).update(here)

    def _list(self, others: tuple[Alternative, ...], own: int) -> None:
        """List the alternatives, the best one that is not in the text chosen."""
        if others != self._listed:
            self._listed, listing = others, self.query_one(OptionList)
            listing.set_options(Content(f"{percent(one.logprob):>6}  {one.shown}") for one in others)
            listing.styles.height = min(len(others), self.size.height // 4)
            listing.highlighted = next((at for at, one in enumerate(others) if one.id != own), None)

    @property
    def _chosen(self) -> Alternative | None:
        at = self.query_one(OptionList).highlighted
        return self._listed[at] if at is not None and at < len(self._listed) else None

    def _mark(self, start: int, end: int) -> None:
        """Highlight the current token in the text."""
        end = max(end, start + 1)
        if self._index is not None:
            self._below.grid.panes[self._index].show_token((start, end))
        elif (start, end) != self._marked:
            self._marked, editor = (start, end), self._below.editor
            editor.select(start, min(end, len(editor.text)), covered=self.query_one(".box").size.height)

    # ---- keys

    @action("left", "token back", -1)
    @action("right", "token on", 1)
    @action("pageup", "ten back", -_PAGE, foot=False)
    @action("pagedown", "ten on", _PAGE, foot=False)
    @action("home", "first", -_ALL, foot=False)
    @action("end", "last", _ALL, foot=False)
    def action_go(self, step: int) -> None:
        """Go some tokens on or back; a key that comes early waits for the text."""
        if self._text is None:
            self._early += step
        else:
            self._at = max(0, min(self._at + step, len(self._text.tokens) - 1))
            self._show()

    @on(OptionList.OptionSelected)
    @action("enter", "continues with it")
    def action_fork(self) -> None:
        """Start a new branch with the chosen token; in the story, a new round."""
        text, place, chosen = self._text, self._at, self._chosen
        if text is None or not text.tokens:
            return
        if self._others() is None:
            self.app.notify("The alternatives are still being computed; try again in a moment.")
            return
        token = chosen.id if chosen is not None else text.tokens[place].id

        def fork() -> None:
            index = self._tokens.fork(text, place, token)
            if index >= 0:
                self._below.grid.await_branch(index)
            else:
                self._below.show_story()
                self._below.notify("The text after this place is another branch now; undo puts it back.")

        if self._below.guarded(fork):  # another place is shown
            self._cursor_before = -1
            self.close()

    def action_close(self) -> None:
        if self._index is None and self._cursor_before >= 0:
            self._below.editor.move_to(self._cursor_before)
        self.close()
