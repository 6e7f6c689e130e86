"""The variants for a place or a passage while they are written, and which fits the text after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import events
from textual.app import ComposeResult
from textual.containers import Grid, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from srbwriter.session.rewriting import MOST, WISHES, Passage, Rewriting, Variants
from srbwriter.session.wishes import earlier_wishes, remember_wish
from srbwriter.tui.commands import action
from srbwriter.tui.dialogs.base import Page
from srbwriter.tui.dialogs.wish import EXAMPLES, AskWish
from srbwriter.tui.widgets.lines import Foot
from srbwriter.tui.write.branch_words import state_sign

if TYPE_CHECKING:
    from srbwriter.tui.write.screen import WriteScreen

_LOOKS = 1 / 12  # seconds between two looks at what was written
_TWO_COLUMNS = 100  # cells of a window that has room for them
_AROUND = 120  # characters of the story shown before the passage, and after it


class RewriteView(Page[None]):
    """Shows variants for ``passage``, or a place, as they are written. A digit puts one there."""

    KEYS = "In the middle of the story"

    DEFAULT_CSS = """
    RewriteView { background: $background; }
    RewriteView VerticalScroll { height: 1fr; padding: 0 1; }
    RewriteView Static { height: auto; }
    RewriteView #rewrite-passage { padding: 0 1; margin-bottom: 1; }
    RewriteView #rewrite-state { padding: 0 1; margin-bottom: 1; color: $text-muted; }
    RewriteView Grid { height: auto; grid-rows: auto; grid-gutter: 1 2; }
    RewriteView .variant { padding: 0 1; }
    RewriteView Foot { padding: 0 2; color: $text-muted; }
    """

    def __init__(self, screen: WriteScreen, passage: Passage) -> None:
        super().__init__()
        self._below, self._passage = screen, passage
        self._title = "Another sentence here" if passage.text else "Write here"
        self._wish = ""  # that the variants follow
        self._count = max(1, min(screen.session.n, MOST))
        self._texts: dict[int, str] = {}  # what each variant showed last
        self._painted: dict[str, Content] = {}  # by the id of the widget

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(id="rewrite-passage", markup=False)
            yield Static(id="rewrite-state", markup=False)
            with Grid():
                for index in range(self._count):
                    yield Static(id=f"variant-{index}", classes="variant", markup=False)
        yield Foot(f"1–9 puts it in the story · {self.keys_line()}")

    def on_mount(self) -> None:
        self._arrange()
        self.query_one(VerticalScroll).focus()
        self._write()
        self.look()
        self.set_interval(_LOOKS, self.look)

    def on_unmount(self) -> None:
        self._rewriting.leave()

    def on_resize(self) -> None:
        self._arrange()

    def _arrange(self) -> None:
        self.query_one(Grid).styles.grid_size_columns = 2 if self.app.size.width >= _TWO_COLUMNS else 1

    @property
    def _rewriting(self) -> Rewriting:
        return Rewriting.of(self._below.session)

    def _write(self) -> None:
        self._texts.clear()
        for index in range(self._count):
            self._paint(f"variant-{index}", Content(f"{index + 1} …"))
        self._show_passage()
        self._rewriting.write(self._passage, self._wish)

    # ---- what is shown

    def look(self) -> None:
        """Show what was written since the last look."""
        variants, problem = self._rewriting.variants, self._rewriting.problem
        with self.app.batch_update():
            state = _state_words(variants)
            if problem is not None:
                state = f"{'Not ranked' if variants else 'No variants'}: {str(problem).rstrip('.')}."
            self._paint("rewrite-state", Content(state))
            for branch in variants.generation.branches if variants is not None else ():
                self._texts[branch.index] = branch.text
                shown = self._rewriting.shown(branch.index).strip()
                best = variants is not None and variants.done and variants.best == branch.index
                head = f"{branch.index + 1} {state_sign(branch)}{', the best' if best else ''}\n"
                look = "bold $primary" if best else "$text-muted"
                self._paint(f"variant-{branch.index}", Content.assemble((head, look), shown))

    def _paint(self, name: str, content: Content) -> None:
        """Update a widget if its content is another one: every update causes a layout."""
        if self._painted.get(name) != content:
            self._painted[name] = content
            self.query_one(f"#{name}", Static).update(content)

    def _show_passage(self) -> None:
        passage = self._passage
        content = Content.assemble(
            (self._title, "bold $primary"), f" · {self._wish}" if self._wish else "", "\n",
            (f"… {_in_line(passage.before[-_AROUND:])}", "$text-muted"),
            (_in_line(passage.text) or " ▏", "bold"),
            (f"{_in_line(passage.after[:_AROUND])} …", "$text-muted"),
        )  # fmt: skip
        self._paint("rewrite-passage", content)

    # ---- keys

    def on_key(self, event: events.Key) -> None:
        binding = self.app.known_keys.on_branch.get(event.key)  # the keys that pick a branch by its number
        command, _, number = ((binding.id if binding is not None else "") or "").partition(".")
        if command == "pick_number":
            event.stop()
            self._pick(int(number) - 1)
        else:
            super().on_key(event)

    def _pick(self, index: int) -> None:
        """Put a variant, as far as it is shown, in the place of the passage."""

        def put() -> None:
            self._rewriting.apply(index, len(self._texts.get(index, "")))
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

    @action("w", "another wish", asks=True)
    def action_wish(self) -> None:
        """Write all variants again, with a wish in one line."""
        session = self._below.session

        def take(wish: str) -> bool:
            def begin() -> None:
                self._wish = remember_wish(session.story, wish)
                self._write()

            return self._below.guarded(begin)

        question = f"Change in this text, {EXAMPLES}"
        earlier = earlier_wishes(session.story)
        self.app.push_screen(AskWish(question, take, session.draft("wish"), earlier))


def _state_words(variants: Variants | None) -> str:
    if variants is None:
        return "…"
    branches = variants.generation.branches
    if variants.generation.error is not None:
        return f"No variants: {str(variants.generation.error).rstrip('.')}."
    if live := sum(branch.live for branch in branches):
        return f"Writing {live} of {len(branches)} variants."
    if variants.unranked:
        return f"Not ranked: {variants.unranked}."
    if not variants.done:
        return "Ranking the variants …"
    return "The best is the one after which the text that follows fits best."


def _in_line(text: str) -> str:
    """Return ``text`` with line breaks as signs."""
    return text.replace("\n", "⏎")
