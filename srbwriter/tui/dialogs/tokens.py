"""The token view: steps through a branch or the story by token, shows alternatives, forks and bans.

The box appears beside the text. It never blocks: the cursor moves at once, and alternatives appear when they
are computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Region
from textual.widgets import Static

from srbwriter.engine.types import EngineError
from srbwriter.session.tokens import Alternative, Tokens, TokenText
from srbwriter.tui.commands import action
from srbwriter.tui.dialogs.base import Dialog

if TYPE_CHECKING:
    from srbwriter.engine.generation import Branch
    from srbwriter.tui.write.screen import WriteScreen

_LOOKS = 1 / 40  # seconds between polls for results
_BEST = 10
_COLUMN = 26  # cells of an alternative
_PAGE, _ALL = 10, 1 << 30  # tokens
_KEYS = "←→ token · ↑↓ other · ⏎ continues with it · b bans it here · esc back"


def percent(logprob: float) -> str:
    """Return the probability of a token in percent, in four to six characters."""
    share = 100 * math.exp(logprob)
    return f"{share:.0f} %" if share >= 10 else f"{share:.1f} %" if share >= 0.1 else "<0.1 %"


class TokenView(Dialog[None]):
    """Shows the tokens of branch ``index``; if that is None, of the story, starting at character ``char``."""

    KEYS = "Token by token"
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
        self._text: TokenText | None = None
        self._coming: Future[TokenText] | None = None
        self._written = 0  # length of the branch in tokens when it was read
        self._at: int | None = None  # index of the current token; None until the text is tokenised
        self._early: list[int] = []  # steps of keys that came before that
        self._aim = 0  # the index to return to: a branch being rewritten may still be shorter
        self._chosen: int | None = None  # index of the alternative; None: the best one not in the text
        self._why = ""
        self._cursor_before = screen.editor.cursor

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield Static("…", id="tokens-here", markup=False)
            yield Static("", id="tokens-others", markup=False)
            yield Static(_KEYS, classes="foot", markup=False)

    def on_mount(self) -> None:
        self._place_box()
        self._read()
        self._look()
        self.set_interval(_LOOKS, self._look)

    def on_unmount(self) -> None:
        for pane in self._below.grid.panes:
            pane.show_token(None)
        self._below.editor.move_to(self._below.editor.cursor)

    def on_resize(self) -> None:
        self._place_box()

    def _place_box(self) -> None:
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

    # ---- the text that is shown

    @property
    def _branch(self) -> Branch | None:
        current = self._below.session.round
        if self._index is None or current is None or self._index >= len(current.branches):
            return None
        return current.branches[self._index]

    def _read(self) -> None:
        """Request the tokens of the current text."""
        tokens = Tokens.of(self._below.session)
        try:
            self._coming = tokens.story_tokens() if self._index is None else tokens.branch_tokens(self._index)
            self._why = ""
        except EngineError as error:
            self._why = str(error)
        branch = self._branch
        self._written = len(branch.buffer.ids) if branch is not None else 0

    def _take_result(self) -> None:
        """Show the tokenised text if it is ready; keep the current token, or start at the writer's place."""
        if self._coming is None or not self._coming.done():
            return
        coming, self._coming = self._coming, None
        try:
            fresh = coming.result()
        except Exception as error:  # from the engine, or because the story exceeds the context
            self._below.notify(str(error), severity="error")
            self.close()
            return
        before, self._text = self._text, fresh
        if before is not None and before.take == fresh.take and before.prompt == fresh.prompt:
            fresh.known, fresh.asked = before.known, before.asked
        if self._at is None:
            self._aim = fresh.place_of(self._char)
        self._at = max(0, min(self._aim, len(fresh.tokens) - 1))
        early, self._early = self._early, []
        for step in early:
            self.action_go(step)

    def _look(self) -> None:
        """Poll for results and show them."""
        waits = self._text is None and self._coming is None and bool(self._why)
        if waits and self._below.session.engine is not None:
            self._read()  # retry: the model was still loading
        self._take_result()
        branch = self._branch
        text, idle = self._text, self._coming is None and not self._why
        if branch is not None and idle and text is not None:
            now = branch.buffer.revision, len(branch.buffer.ids)
            if now != (text.take[1], self._written):
                self._read()
        self._show()

    def _others(self) -> tuple[Alternative, ...] | None:
        """Return the alternatives to the current token, less banned ones; None while not computed."""
        if self._text is None or self._at is None or not self._text.tokens:
            return None
        session = self._below.session
        if why := session.capabilities.reason_for("next_logprobs"):
            self._why = why
            return ()
        found = Tokens.of(session).look(self._text, self._at)
        self._why = self._text.problem
        if found is None:
            return None
        banned = Tokens.of(session).without(self._text, self._at)
        return tuple(one for one in found if one.id not in banned)[:_BEST]

    # ---- showing

    def _show(self) -> None:
        text, place = self._text, self._at
        if text is None or place is None:
            self._put(self._why or "…", [])
            return
        if not text.tokens:
            self._put("There is no token here yet." if self._index is not None else "The story is empty.", [])
            return
        token, others = text.tokens[place], self._others()
        self._mark(token.start, token.end)
        here = f"{place + 1} of {len(text.tokens)}"
        own = next((one for one in text.known.get(place, ()) if one.id == token.id), None)
        if own is not None:
            here += f"  “{own.shown}”  {percent(own.logprob)}  {-own.logprob / math.log(2):.1f} bits"
        elif self._why:
            here += f"  {self._why}"
        if not text.of_story and (banned := Tokens.of(self._below.session).without(text, place)):
            here += f"  ({len(banned)} banned)"
        self._put(here, self._lines(others or (), token.id))

    def _put(self, here: str, lines: list[Content]) -> None:
        here, others = set_cell_size(here, self._width).rstrip(), Content("\n").join(lines)
        if self._shown != (here, others):  # every update triggers a layout
            self._shown = here, others
            self.query_one("#tokens-here", Static).update(here)
            self.query_one("#tokens-others", Static).update(others)

    def _lines(self, others: tuple[Alternative, ...], own: int) -> list[Content]:
        """List the alternatives; a dot marks the token in the text, an arrow the chosen one."""
        chosen = self._chosen_of(others, own)
        first = max(0, chosen + 1 - self._rows)
        lines: list[Content] = []
        for at, one in list(enumerate(others))[first : first + self._rows]:
            sign, share = "▸" if at == chosen else "·" if one.id == own else " ", percent(one.logprob)
            cell = f"{sign} {set_cell_size(one.shown, _COLUMN - 4 - cell_len(share))} {share} "
            lines.append(Content.styled(cell, "bold $text-accent" if at == chosen else ""))
        return lines

    def _chosen_of(self, others: tuple[Alternative, ...], own: int) -> int:
        if self._chosen is not None:
            return max(0, min(self._chosen, len(others) - 1))
        return next((at for at, one in enumerate(others) if one.id != own), 0)

    def _mark(self, start: int, end: int) -> None:
        """Highlight the current token in the text."""
        if self._index is None:
            editor = self._below.editor
            end = min(max(end, start + 1), len(editor.text))
            if (start, end) != self._marked:
                self._marked = start, end
                editor.select_match(start, end)
        else:
            self._below.grid.panes[self._index].show_token((start, max(end, start + 1)))

    _marked = (-1, -1)
    _shown: tuple[str, Content] | None = None

    # ---- keys

    @action("left", "token", -1)
    @action("right", "token", 1)
    @action("pageup", "ten back", -_PAGE, foot=False)
    @action("pagedown", "ten on", _PAGE, foot=False)
    @action("home", "first", -_ALL, foot=False)
    @action("end", "last", _ALL, foot=False)
    def action_go(self, step: int) -> None:
        """Go some tokens on or back; a key that comes early waits for the text."""
        if self._text is None or self._at is None:
            self._early.append(step)
        elif self._text.tokens:
            self._aim = self._at = max(0, min(self._at + step, len(self._text.tokens) - 1))
            self._chosen = None
            self._show()

    @action("up", "other", -1)
    @action("down", "other", 1)
    def action_choose(self, step: int) -> None:
        """Choose a more or a less likely token."""
        others = self._others()
        if others and self._text is not None and self._at is not None:
            own = self._text.tokens[self._at].id
            self._chosen = max(0, min(self._chosen_of(others, own) + step, len(others) - 1))
            self._show()

    @action("enter", "continues with it")
    def action_fork(self) -> None:
        """Start a new branch with the chosen token; in the story, a new round."""
        others, text, place = self._others(), self._text, self._at
        if text is None or place is None or not text.tokens:
            return
        if others is None:
            self.app.notify("The alternatives are still being computed; try again in a moment.")
            return
        own = text.tokens[place].id
        token = others[self._chosen_of(others, own)].id if others else own
        self._leave(lambda: self._show_fork(Tokens.of(self._below.session).fork(text, place, token)))

    @action("b", "bans it here")
    def action_ban(self) -> None:
        """Ban this token here and write the branch again from before it; in the story, a new round."""
        text, place = self._text, self._at
        if text is None or place is None or not text.tokens:
            return
        if text.of_story:
            self._leave(lambda: (Tokens.of(self._below.session).ban(text, place), self._show_fork(-1)))
        elif self._below.guarded(lambda: Tokens.of(self._below.session).ban(text, place)):
            self._chosen = None

    def _show_fork(self, index: int) -> None:
        """Focus the fork, which is branch ``index`` or, if that is -1, a new round of the story."""
        if index < 0:
            self._below.show_story()
            self._below.notify("The text after this place is another branch now; undo puts it back.")
        else:
            self._below.grid.await_branch(index)

    def _leave(self, act: Callable[[], object]) -> None:
        """Run ``act``, which shows another place, and close this view."""
        if self._below.guarded(act):
            self._cursor_before = -1
            self.close()

    def action_close(self) -> None:
        if self._index is None and self._cursor_before >= 0:
            self._below.editor.move_to(self._cursor_before)
        self.close()
