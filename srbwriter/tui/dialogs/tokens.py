"""The token view: steps through a branch or the story by token, shows alternatives, and forks.

The box appears beside the text. It never blocks: the cursor moves at once, and alternatives appear when they
are computed.
"""

from __future__ import annotations

import math
from concurrent.futures import Future
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Region
from textual.widgets import Footer, Static

from srbwriter.engine.types import EngineError
from srbwriter.session.tokens import Alternative, Tokens, TokenText
from srbwriter.tui.commands import action
from srbwriter.tui.dialogs.base import Dialog

if TYPE_CHECKING:
    from srbwriter.tui.write.screen import WriteScreen

_LOOKS = 1 / 40  # seconds between polls for results
_BEST = 10
_COLUMN = 26  # cells of an alternative
_PAGE, _ALL = 10, 1 << 30  # tokens


def percent(logprob: float) -> str:
    """Return the probability of a token in percent, in four to six characters."""
    share = 100 * math.exp(logprob)
    return f"{share:.0f} %" if share >= 10 else f"{share:.1f} %" if share >= 0.1 else "<0.1 %"


class TokenView(Dialog[None]):
    """Shows the tokens of branch ``index``; if that is None, of the story, starting at character ``char``."""

    BADGE = "TOKENS"
    OPENED_BY = "tokens"

    DEFAULT_CSS = """
    TokenView { align: left top; background: $background 0%; }
    TokenView > .box {
        border: none; padding: 0 1; background: $panel; color: $foreground;
        max-width: 100%; max-height: 100%;
    }
    TokenView #tokens-here { text-style: bold; }
    TokenView #tokens-others { height: auto; }
    """

    def __init__(self, screen: WriteScreen, index: int | None, char: int) -> None:
        super().__init__()
        self._below, self._index, self._char = screen, index, char
        self._tokens = Tokens.of(screen.session)
        self._text: TokenText | None = None
        self._coming: Future[TokenText] | None = None
        self._version: object = None  # of the text that was asked for last
        self._at = 0  # index of the current token
        self._early: list[int] = []  # steps of keys that came before the text
        self._aim = 0  # the index to return to: a branch being rewritten may still be shorter
        self._chosen: int | None = None  # index of the alternative; None: the best one not in the text
        self._why = ""
        self._cursor_before = screen.editor.cursor
        self._shown: object = None
        self._marked: object = None

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield Static("…", id="tokens-here", markup=False)
            yield Static("", id="tokens-others", markup=False)
            yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self.on_resize()
        self._look()
        self.set_interval(_LOOKS, self._look)

    def on_unmount(self) -> None:
        for pane in self._below.grid.panes:
            pane.show_token(None)
        self._below.editor.move_to(self._below.editor.cursor)

    def on_resize(self) -> None:
        """Put the box over the other text: over the story for a branch, over the branches for the story."""
        other = self._below.grid if self._index is None else self._below.editor
        region, size, box = other.region, self.app.size, self.query_one(".box")
        if not region.height or not other.display:  # the other text is hidden: use the bottom of the window
            height = min(8, size.height // 2)
            region = Region(0, size.height - height, size.width, height)
        height = min(region.height, _BEST + 4)
        box.styles.width, box.styles.offset = region.width, (region.x, region.y)
        box.styles.max_height = height
        self._rows, self._width = max(1, height - 2 - (region.width < 70)), region.width - 2

    # ---- what is shown

    def _look(self) -> None:
        """Read the text if it is another one, and show what is known of it by now."""
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
            self._aim = text.place_of(self._char)
        elif (before.take, before.prompt) == (text.take, text.prompt):
            text.known, text.asked = before.known, before.asked
        self._at = max(0, min(self._aim, len(text.tokens) - 1))
        early, self._early = self._early, []
        for step in early:
            self.action_go(step)

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

    def _show(self) -> None:
        """Show the current token, mark it in the text, and list the alternatives to it: a dot is before the
        token in the text, an arrow before the chosen one."""
        text, lines = self._text, list[Content]()
        if text is None:
            here = self._why or "…"
        elif not text.tokens:
            here = "There is no token here yet." if self._index is not None else "The story is empty."
        else:
            token, others = text.tokens[self._at], self._others() or ()
            self._mark(token.start, token.end)
            here = f"{self._at + 1} of {len(text.tokens)}"
            own = next((one for one in text.known.get(self._at, ()) if one.id == token.id), None)
            if own is not None:
                here += f"  “{own.shown}”  {percent(own.logprob)}  {-own.logprob / math.log(2):.1f} bits"
            elif self._why:
                here += f"  {self._why}"
            chosen = self._chosen_of(others, token.id)
            first = max(0, chosen + 1 - self._rows)
            for at, one in list(enumerate(others))[first : first + self._rows]:
                sign = "▸" if at == chosen else "·" if one.id == token.id else " "
                share = percent(one.logprob)
                cell = f"{sign} {set_cell_size(one.shown, _COLUMN - 4 - cell_len(share))} {share} "
                lines.append(Content.styled(cell, "bold $text-accent" if at == chosen else ""))
        shown = set_cell_size(here, self._width).rstrip(), Content("\n").join(lines)
        if self._shown != shown:  # every update triggers a layout
            self._shown = shown
            self.query_one("#tokens-here", Static).update(shown[0])
            self.query_one("#tokens-others", Static).update(shown[1])

    def _chosen_of(self, others: tuple[Alternative, ...], own: int) -> int:
        if self._chosen is not None:
            return max(0, min(self._chosen, len(others) - 1))
        return next((at for at, one in enumerate(others) if one.id != own), 0)

    def _mark(self, start: int, end: int) -> None:
        """Highlight the current token in the text."""
        end = max(end, start + 1)
        if self._index is not None:
            self._below.grid.panes[self._index].show_token((start, end))
        elif (start, end) != self._marked:
            self._marked = start, end
            self._below.editor.select_match(start, min(end, len(self._below.editor.text)))

    # ---- keys

    @action("left", "token", -1)
    @action("right", "token", 1)
    @action("pageup", "ten back", -_PAGE, foot=False)
    @action("pagedown", "ten on", _PAGE, foot=False)
    @action("home", "first", -_ALL, foot=False)
    @action("end", "last", _ALL, foot=False)
    def action_go(self, step: int) -> None:
        """Go some tokens on or back; a key that comes early waits for the text."""
        if self._text is None:
            self._early.append(step)
        else:
            self._aim = self._at = max(0, min(self._at + step, len(self._text.tokens) - 1))
            self._chosen = None
            self._show()

    @action("up", "other", -1)
    @action("down", "other", 1)
    def action_choose(self, step: int) -> None:
        """Choose a more or a less likely token."""
        others, text = self._others(), self._text
        if others and text is not None:
            own = text.tokens[self._at].id
            self._chosen = max(0, min(self._chosen_of(others, own) + step, len(others) - 1))
            self._show()

    @action("enter", "continues with it")
    def action_fork(self) -> None:
        """Start a new branch with the chosen token; in the story, a new round."""
        others, text, place = self._others(), self._text, self._at
        if text is None or not text.tokens:
            return
        if others is None:
            self.app.notify("The alternatives are still being computed; try again in a moment.")
            return
        own = text.tokens[place].id
        token = others[self._chosen_of(others, own)].id if others else own

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
