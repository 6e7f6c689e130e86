"""The status line and its texts: the state of session and engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from srbwriter.engine.types import BranchState
from srbwriter.session.ahead import LookAhead
from srbwriter.session.loops import repeats
from srbwriter.session.steering import Steering
from srbwriter.story.model import Refused, counted

if TYPE_CHECKING:
    from srbwriter.session import Session
    from srbwriter.story import NodeId

_NAME_CELLS, _WISH_CELLS = 24, 32
_BAR = 16
_GAP = "  ·  "


def bar(share: float, width: int = _BAR) -> str:
    """Return a progress bar made of characters that every terminal has."""
    full = round(max(0.0, min(1.0, share)) * width)
    return "█" * full + "░" * (width - full)


def progress(words: str, share: float) -> str:
    """Return how far long work is, and how to stop it."""
    return f"{words} {bar(share)} {share:4.0%}  ·  esc stops"


def shortened(name: str, most: int = _NAME_CELLS) -> str:
    """Shorten a name to ``most`` cells."""
    return name if cell_len(name) <= most else f"{set_cell_size(name, most - 1).rstrip()}…"


def left(session: Session, work: str = "") -> tuple[str, ...]:
    """Return the title; while long work is done, its progress or trouble."""
    if work:
        return (work,)
    if (work_now := session.long_work) is not None:
        return (f"{work_now.progress}  ·  esc stops",)
    if session.engine_state in ("INIT", "LOADING"):
        share = session.load_progress
        if share > 0.99:  # read, and still to be laid out in memory
            return ("preparing the model  ·  esc stops",)
        return (progress("loading the model", share),)
    if session.engine_state == "FAILED":
        return (f"no model: {session.engine_error}",)
    current = session.round
    branches, generation = ([], None) if current is None else (current.branches, current.generation)
    reads = any(branch.state is BranchState.PROMPT for branch in branches)
    if reads and generation is not None and generation.prompt_ids:
        return (progress("reading the story", generation.prompt_done / len(generation.prompt_ids)),)
    waits = next((branch.error for branch in branches if branch.live and branch.error is not None), None)
    if waits is not None:  # such as for a remote engine that does not answer
        return (str(waits),)
    failed = [branch for branch in branches if branch.state is BranchState.FAILED and branch.error]
    parts: list[str] = []
    if failed:  # one reason only, since the line is short
        which = f"branch {failed[0].index + 1}" if len(failed) == 1 else f"{len(failed)} branches"
        parts.append(f"{which} failed: {failed[0].error}")
    parts.append(shortened(" ".join(session.story.title.split())))
    if current is not None and current.wish:
        parts.append(f"asked for: {shortened(current.wish, _WISH_CELLS)}")
    return tuple(parts)


def right(session: Session, goal: int) -> tuple[str, ...]:
    """Return save state, word count, and today's words with a bar to the goal."""
    done_today = max(0, session.story.today().words)
    share = done_today / goal if goal else 0
    today = f"{done_today}/{goal} today {bar(share, 8)}" if goal else f"{done_today} today"
    return session.save_state, counted(session.story.words(session.node), "word"), today


def round_identity(session: Session) -> object | None:
    """Return what changes with every new round; None without a round."""
    return session.round.identity if session.round is not None else None


def node_of(session: Session, index: int) -> NodeId | None:
    """Return the node of a branch of the round; None before it has one."""
    try:
        return session.round.node_of(index) if session.round is not None else None
    except IndexError:
        return None


def branch_facts(session: Session, index: int, take: int | None = None) -> list[str]:
    """Return what the writer and the instruments did with a branch, in a few words each.

    ``take`` is the number of characters to pick; None means all.
    """
    current = session.round
    if current is None or index >= len(current.branches) or not (node := node_of(session, index)):
        return []
    try:
        bookmark = session.story.node(node).bookmark
    except Refused:  # the transaction that created it has just failed
        return []
    branch = current.branches[index]
    facts = [
        "★" if bookmark else "",
        f"⌫{branch.bans}" if branch.bans else "",
        "note" if Steering.of(session).note(index) else "",
        "repeats" if repeats(branch) else "",
        "ready" if LookAhead.of(session).share(index, take) == 1.0 else "",
        shortened(current.wishes.get(index, ""), _WISH_CELLS),
    ]
    return [fact for fact in facts if fact]


class StatusLine(Widget):
    """The status line. ``mode`` says where keys go.

    If the line is too short, ``left`` parts are dropped first, then ``right`` parts, from the last one on.
    The first part of each side stays; the first left one is cut if necessary. With the class ``-trouble`` the
    first part on the right is shown as an error.
    """

    DEFAULT_CSS = "StatusLine { height: 1; width: 1fr; background: $panel; color: $text-muted; }"

    mode: reactive[str] = reactive("")
    left: reactive[tuple[str, ...]] = reactive(())
    right: reactive[tuple[str, ...]] = reactive(())

    def render(self) -> Content:
        badge = f" {self.mode} " if self.mode else ""
        saved, trouble = (self.right or ("",))[0], self.has_class("-trouble")
        line = self.line(self.size.width - cell_len(badge))
        before, found, after = line.rpartition(saved) if saved else (line, "", "")
        return Content.assemble(
            (badge, "bold reverse $primary"), before,
            (found, "bold $error" if trouble else ""), after,
        )  # fmt: skip

    def line(self, width: int) -> str:
        """Return the parts of both sides in so many cells."""
        left, right = list(self.left), list(self.right)
        while True:
            one, other = _GAP.join(left), _GAP.join(right)
            room = width - cell_len(one) - cell_len(other) - 3
            if room >= 0:
                return f" {one}{' ' * (room + 1)}{other} "
            if len(left) <= 1 and len(right) <= 1:
                kept = max(0, cell_len(one) + room - 1)
                return f" {set_cell_size(one, kept)}… {other} "
            (left if len(left) > 1 else right).pop()
