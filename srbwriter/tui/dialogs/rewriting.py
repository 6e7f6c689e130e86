"""The variants for a place or a passage while they are written, and which fits the text after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from srbwriter.session.rewriting import WISHES, Passage, Rewriting
from srbwriter.session.wishes import read_wish
from srbwriter.tui.commands import DIGITS, action, split
from srbwriter.tui.dialogs.ask import Ask
from srbwriter.tui.dialogs.base import KeyLine, Page
from srbwriter.tui.write.branch_words import state_sign

if TYPE_CHECKING:
    from srbwriter.session import Session
    from srbwriter.tui.write.screen import WriteScreen

_LOOKS = 1 / 12  # seconds between two looks at what was written
_AROUND = 120  # characters of the story shown before the passage, and after it


def wish_form(session: Session, question: str, take: Callable[[str], bool]) -> Ask:
    """Return the form for a wish in one line."""
    question = f"{question}, for example: shorter, from her view, more rain"
    return Ask(question, "", take, session.draft("wish"))


class RewriteView(Page[None]):
    """Shows variants for ``passage``, or a place, as they are written. A digit puts one there."""

    BINDINGS = [
        Binding(key, f"pick({at})", "puts it in the story", not at, "1–9", id=f"pick_number.{at + 1}")
        for at, key in enumerate(split(DIGITS))
    ]

    DEFAULT_CSS = """
    RewriteView { background: $background; }
    RewriteView VerticalScroll { height: 1fr; padding: 0 2; }
    RewriteView Static { height: auto; }
    """

    def __init__(self, screen: WriteScreen, passage: Passage) -> None:
        super().__init__()
        self._below, self._passage = screen, passage
        self._rewriting = Rewriting.of(screen.session)
        self._wish = ""  # that the variants follow
        self._lengths: dict[int, int] = {}  # characters of each variant that are shown
        self._shown = Content()

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(id="variants", markup=False)
        yield KeyLine(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()
        self._write()
        self.set_interval(_LOOKS, self.look)

    def on_unmount(self) -> None:
        self._rewriting.leave()

    def _write(self) -> None:
        self._lengths.clear()
        self._rewriting.write(self._passage, self._wish)
        self.look()

    def look(self) -> None:
        """Show the passage, and what was written."""
        passage, variants = self._passage, self._rewriting.variants
        parts: list[tuple[str, str]] = [
            ("Another sentence here" if passage.text else "Write here", "bold $primary"),
            (f" · {self._wish}" if self._wish else "", ""),
            (f"\n… {_in_line(passage.before[-_AROUND:])}", "$text-muted"),
            (_in_line(passage.text) or " ▏", "bold"),
            (f"{_in_line(passage.after[:_AROUND])} …\n\n", "$text-muted"),
            (f"{self._state_words()}\n", "$text-muted"),
        ]
        branches = variants.generation.branches if variants is not None else []
        for branch in branches:
            self._lengths[branch.index] = len(branch.text)
            best = variants is not None and variants.done and variants.best == branch.index
            head = f"\n{branch.index + 1} {state_sign(branch)}".rstrip() + (", the best\n" if best else "\n")
            parts.append((head, "bold $primary" if best else "$text-muted"))
            parts.append((f"{self._rewriting.shown(branch.index).strip()}\n", ""))
        content = Content.assemble(*parts)
        if content != self._shown:  # every update causes a layout
            self._shown = content
            self.query_one("#variants", Static).update(content)

    def _state_words(self) -> str:
        variants, problem = self._rewriting.variants, self._rewriting.problem
        if variants is None:
            return "…" if problem is None else f"No variants: {str(problem).rstrip('.')}."
        if (error := variants.generation.error) is not None:
            return f"No variants: {str(error).rstrip('.')}."
        if live := sum(branch.live for branch in variants.generation.branches):
            return f"Writing {live} of {len(variants.generation.branches)} variants."
        if unranked := problem or variants.unranked:
            return f"Not ranked: {str(unranked).rstrip('.')}."
        if not variants.done:
            return "Ranking the variants …"
        return "The best is the one after which the text that follows fits best."

    # ---- keys

    def action_pick(self, index: int) -> None:
        """Put a variant, as far as it is shown, in the place of the passage."""

        def put() -> None:
            self._rewriting.apply(index, self._lengths.get(index, 0))
            self._below.show_story(where_changed=True)

        if self._below.guarded(put):
            self.close()
            done = "The passage is replaced" if self._passage.text else "The text is in the story"
            self._below.notify(f"{done}. Undo takes it back.")

    @action("r", "writes all again")
    def action_again(self) -> None:
        """Write all variants again."""
        self._write()

    @action("s", "shorter", 0)
    @action("c", "more concrete", 1)
    @action("t", "another tense", 2)
    @action("v", "from her view", 3)
    def action_ready_wish(self, number: int) -> None:
        """Write all variants again with this change."""
        self._wish = WISHES[number]
        self._write()

    @action("w", "another wish")
    def action_wish(self) -> None:
        """Write all variants again, with a wish in one line."""
        session = self._below.session

        def begin(wish: str) -> None:
            self._wish = read_wish(wish)
            self._write()

        take: Callable[[str], bool] = lambda wish: self._below.guarded(lambda: begin(wish))  # noqa: E731
        self.app.push_screen(wish_form(session, "Change in this text", take))


def _in_line(text: str) -> str:
    """Return ``text`` with line breaks as signs."""
    return text.replace("\n", "⏎")
