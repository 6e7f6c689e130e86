"""The grid of branch panes, laid out for readability in the available space.

Panes are created once and reused for every round, so nothing is mounted while branches are written. The grid
scrolls where not all of them fit. It knows panes and branches; it runs no command.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import events
from textual.containers import Container
from textual.geometry import Size
from textual.reactive import reactive

from srbwriter.engine.generation import Branch
from srbwriter.session.prefix import Prefix
from srbwriter.tui.write.branch_pane import BranchPane
from srbwriter.tui.write.colours import Tints

if TYPE_CHECKING:
    from srbwriter.session import Round
    from srbwriter.session.tokens import Tokens

MIN_WIDTH, MIN_HEIGHT = 30, 5
_AIRY_HEIGHT = 7  # of a pane that has room for a blank line under its text
_EASY_WIDTH, _BEST_WIDTH = 40, 64  # cells; shorter lines are harder to read, longer ones no easier
_NARROW_WORTH = 0.92  # weight of a cell in a line that is too short


def best_columns(n: int, width: int, height: int) -> int:
    """Return in how many columns ``n`` panes are easiest to read in ``width`` × ``height`` cells."""

    def worth(columns: int) -> tuple[bool, float]:
        rows, cells = -(-n // columns), width / columns
        ease = 1.0 if cells >= _EASY_WIDTH else _NARROW_WORTH
        return rows * MIN_HEIGHT <= height, ease * min(cells, _BEST_WIDTH) * (height / rows - 1)

    return max(range(1, max(1, min(n, width // MIN_WIDTH)) + 1), key=worth)


class BranchGrid(Container):
    """All panes; with ``single``, only the current one is visible."""

    DEFAULT_CSS = """
    BranchGrid {
        layout: grid; grid-gutter: 0; width: 1fr; height: 1fr; overflow-y: auto; scrollbar-size-vertical: 1;
    }
    """
    single: reactive[bool] = reactive(False)

    def __init__(self, count: int, follows: bool, hint: str, id: str | None = None) -> None:
        self.panes: list[BranchPane] = []
        self._follows, self._hint = follows, hint  # see BranchPane
        super().__init__(*self._more_panes(count), id=id)  # mounted and styled with the screen, at one go
        self.current = 0  # index of the branch that commands act on
        self._next = 0  # index of the pane that is painted next, where not all are at once
        self._awaited = -1  # index of the branch to focus as soon as it exists
        self.room = Size(0, 0)  # the size that the panes are arranged for; before the first layout, a guess
        self._count = self._columns = 0

    @property
    def shown(self) -> list[BranchPane]:
        """The panes in order, or only the current one."""
        return [pane for pane in self.panes[: self._count] if pane.display]

    @property
    def pane(self) -> BranchPane | None:
        """The pane that commands act on."""
        return self.panes[self.current] if self.current < self._count else None

    def _more_panes(self, count: int) -> list[BranchPane]:
        indices = range(len(self.panes), count)
        fresh = [BranchPane(index, self._follows, "" if index else self._hint) for index in indices]
        self.panes += fresh
        return fresh

    def show(
        self, branches: Sequence[Branch | None], again: bool = False, prefix: Prefix | None = None
    ) -> None:
        """Show the branches of a round, one pane each; they continue the text that ``prefix`` is of.

        With ``again`` they are those that are shown, taken up by an engine: places stay.
        """
        first_differs = not branches or not self.panes or self.panes[0].branch is not branches[0]
        if fresh := self._more_panes(len(branches)):
            self.mount_all(fresh)
        self._count = len(branches)
        for pane, branch in zip(self.panes, branches, strict=False):
            pane.prefix = prefix
            if pane.branch is not branch or branch is None:
                pane.show_branch(branch, again)
        self.current = min(self.current, max(0, self._count - 1))
        self._arrange()
        if first_differs and not again:
            self.scroll_home(animate=False)
        if self._awaited < self._count:
            self.go(self._awaited)
            self._awaited = -1

    def shows(self, current: Round | None) -> bool:
        """Whether the panes show the branches of ``current`` that write now; one may have been replaced."""
        branches = current.branches if current is not None else []
        return all(pane.branch is branch for pane, branch in zip(self.panes, branches, strict=False))

    def await_branch(self, index: int) -> None:
        """Focus branch ``index`` as soon as it exists."""
        self._awaited = index
        self.go(index)

    def colour(self, tokens: Tokens | None) -> None:
        """Colour the words of all panes that ``tokens`` finds unlikely; None is no colours."""
        for pane in self.panes:
            before, pane.tints = pane.tints, None
            if tokens is not None:
                pane.tints = before or Tints(tokens.branch_logprobs, lambda: tokens.version)
            if pane.tints is not before:
                pane.update()

    def pull(self, most: int | None = None) -> None:
        """Paint new text of the visible branches, or of ``most`` of them in turn."""
        shown = self.shown
        if most is None or len(shown) <= most:
            self._next, most = 0, len(shown)
        for pane in (shown + shown)[self._next : self._next + most]:
            pane.pull()
        self._next = (self._next + most) % max(1, len(shown))

    def go(self, index: int) -> None:
        """Make ``index`` the current branch, scroll to it and focus it."""
        if not 0 <= index < self._count:
            return
        self.current = index
        if self.single:
            self._arrange()
        self.panes[index].focus(scroll_visible=False)
        # A pane that is new has no place yet.
        self.call_after_refresh(self.scroll_to_widget, self.panes[index], animate=False)

    def step(self, columns: int, rows: int) -> None:
        """Go to a neighbour in the grid; at the edge, to the next row."""
        self.go(self.current + columns + rows * max(1, self._columns))

    def _arrange(self) -> None:
        self.room = self.size or self.room
        width, height = self.room
        if not self._count or not width or not height:
            return
        for pane in self.panes:
            pane.display = pane.index == self.current if self.single else pane.index < self._count
        self._columns = 1 if self.single else best_columns(self._count, width, height)
        rows = 1 if self.single else -(-self._count // self._columns)
        # A blank line under each text, where that leaves room for one.
        blank = 1 if height // rows >= _AIRY_HEIGHT else 0
        for pane in self.panes:
            pane.styles.padding = 0, 1, blank, 1
        self.styles.grid_size_columns = self._columns
        self.styles.grid_rows = "1fr" if rows * MIN_HEIGHT <= height else str(MIN_HEIGHT)

    def fit(self) -> None:
        """Arrange the panes and wrap their text for the current size."""
        if self.size != self.room:
            self._arrange()
        for pane in self.shown:
            pane.fit()

    def on_resize(self, event: events.Resize) -> None:
        self.fit()

    def watch_single(self) -> None:
        self._arrange()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        if isinstance(event.widget, BranchPane):
            self.current = event.widget.index
