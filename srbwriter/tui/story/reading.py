"""Read-only pages: the story, the context, and the log."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from srbwriter.session.prompting import REQUEST, Context
from srbwriter.story import ROOT
from srbwriter.story.context import ContextError
from srbwriter.story.model import counted
from srbwriter.story.outline import outline
from srbwriter.story.words import count
from srbwriter.tui.commands import action, key_name
from srbwriter.tui.dialogs.ask import Sheet
from srbwriter.tui.dialogs.base import QUIT, Dialog, Page
from srbwriter.tui.prose import Prose
from srbwriter.tui.widgets.lines import bar
from srbwriter.tui.write.welcome import refuse

if TYPE_CHECKING:
    from srbwriter.session import Session
    from srbwriter.session.prompting import Part


def typeset(text: str) -> str:
    """Return ``text`` with exactly one empty line between paragraphs."""
    paragraphs = [part.strip() for part in text.replace("\r\n", "\n").split("\n")]
    return "\n\n".join(part for part in paragraphs if part)


class ReadOnlyProse(Prose, inherit_bindings=False):
    """A text that is only read: keys scroll."""

    CURSOR = False

    def __init__(self, text: str) -> None:
        super().__init__(text, read_only=True)

    @action("up,k", "up", -1, priority=False)
    @action("down,j", "down", 1, priority=False)
    def action_scroll(self, rows: int) -> None:
        """Scroll by a line."""
        self.scroll_rows(rows)

    @action("pageup", "back", -1, priority=False)
    @action("pagedown,space", "reads on", 1, priority=False)
    def action_page(self, pages: int) -> None:
        """Scroll by a page."""
        self.scroll_rows(pages * max(1, self._height - 1))

    @action("home", "beginning", "start", priority=False)
    @action("end", "end", "end", priority=False)
    def action_go(self, where: str) -> None:
        """Go to the beginning or the end."""
        self.move_to(0 if where == "start" else len(self.text))


class Reading(Page[None]):
    """Shows ``text`` as a page; ``width`` is the longest line, in cells."""

    OPENED_BY = "read"
    BINDINGS = [QUIT]

    DEFAULT_CSS = """
    Reading { align: center top; background: $background; }
    Reading Prose { height: 1fr; padding: 1 2; }
    Reading #reading-keys { width: 100%; padding: 0 1; text-align: center; color: $text-muted; }
    """

    def __init__(self, text: str, width: int) -> None:
        super().__init__()
        self._text, self._width = text, width

    def compose(self) -> ComposeResult:
        page = ReadOnlyProse(self._page() or "Nothing is written yet.")
        page.styles.width, page.styles.max_width = self._width + 4, "100%"
        yield page
        opened_by = " or ".join(map(key_name, self._opened_by()))
        yield Static(f"esc or {opened_by} goes back · space reads on", id="reading-keys", markup=False)

    def _page(self) -> str:
        """Return the text with its titles, all parts with one empty line between them."""
        parts: list[str] = []
        at = 0
        for chapter in outline(self._text):
            title = self._text[chapter.begin : chapter.end].strip()
            parts += [typeset(self._text[at : chapter.begin]), title]
            at = chapter.end
        return "\n\n".join(filter(None, [*parts, typeset(self._text[at:])]))

    def on_mount(self) -> None:
        self.query_one(Prose).go_end().focus()


_NAMES = {
    "bos": "start of text", "template": "chat template", "lore": "lorebook", "note": "author's note",
    "so far": "the story so far",
}  # fmt: skip


class ContextView(Dialog[None]):
    """Shows the parts of the context with their sizes and text. The request to the model is edited here."""

    OPENED_BY = "context"
    HEADING = "What the model sees"
    FOOT = "{keys} · grey between ⟨ ⟩: no room"
    BINDINGS = [QUIT]

    DEFAULT_CSS = """
    ContextView > .box { width: 96; height: 90%; }
    ContextView VerticalScroll Static { height: auto; }
    """

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session

    def content(self) -> ComposeResult:
        context = self._account()
        yield Static(budget(context), id="budget")
        with VerticalScroll():
            yield Static(_text(context), id="parts")

    def _account(self) -> Context:
        """Return the parts of the prompt; if the prompt is too long, only the error, so that the request can
        be cut."""
        try:
            return self._session.context()
        except ContextError as error:
            return Context([], 0, 0, frame=str(error), framed=True)

    def _show_again(self) -> None:
        context = self._account()
        self.query_one("#budget", Static).update(budget(context))
        self.query_one("#parts", Static).update(_text(context))

    def _put(self, **changes: object) -> bool:
        """Change settings of the whole story; return False if the story refuses."""
        session, story = self._session, self._session.story
        settings = replace(story.own_settings(ROOT), **changes)  # type: ignore[arg-type]
        kept = self.app.write_screen.guarded(
            lambda: session.together(lambda: story.put_settings(ROOT, settings))
        )
        self._show_again()
        return kept

    @action("e", "edits the request")
    def action_edit_request(self) -> None:
        """Edit the instruction for an instruction model; an empty text restores the default."""
        story = self._session.story
        refuse(story)
        now = story.settings(ROOT).request or REQUEST
        draft = self._session.draft("request")
        self.app.push_screen(Sheet("Request", now, _ABOUT_REQUEST, self._take_request, draft))

    def _take_request(self, text: str) -> bool:
        own = text.strip()
        return self._put(request=own if own not in ("", REQUEST) else None)

    @action("f", "frame on or off")
    def action_switch_frame(self) -> None:
        """Put the request and the story into the model's chat template, or send the story as plain text."""
        refuse(self._session.story)
        on = not self._account().framed
        self._put(framed=None if on == self._session.instruct else on)


_ABOUT_REQUEST = "An instruction model reads this in the user's turn, before the story that it answers with."


def budget(context: Context) -> Content:
    """Return the size of each part, below a sentence about the chat template."""
    share = context.used / context.total if context.total else 0.0
    parts: list[tuple[str, str]] = [
        (f"{bar(share, 40)} {context.used} of {context.total} tokens\n", ""),
    ]
    if context.frame:
        parts.append((f"{context.frame}\n", "$text-muted"))
    parts += [(f"{problem[0].upper()}{problem[1:]}\n", "$text-warning") for problem in context.problems]
    for part in _rows(context.parts):
        if part.fits:
            parts.append((f"  {part.source:<22}{part.tokens:>7} tokens\n", ""))
        else:  # left out, so it was never tokenised
            words = counted(count(part.text).words, "word")
            parts.append((f"  {part.source:<22}{words:>14} without room\n", "$text-muted"))
    return Content.assemble(*parts)


def _text(context: Context) -> Content:
    parts: list[tuple[str, str]] = []
    for part in _rows(context.parts):
        parts.append((f"\n── {part.source} ──\n", "bold $text-accent"))
        parts.append((part.text, "") if part.fits else (f"⟨{part.text}⟩", "$text-muted"))
    return Content.assemble(*parts)


def _rows(parts: list[Part]) -> list[Part]:
    """Merge neighbouring parts of one source; number sources that still occur more than once."""
    joined = [
        replace(
            same[0],
            source=_NAMES.get(same[0].source, same[0].source),
            text="".join(part.text for part in same),
            tokens=sum(part.tokens for part in same),
        )
        for same in (list(group) for _, group in groupby(parts, lambda part: (part.source, part.fits)))
    ]
    counts = Counter(part.source for part in joined if part.fits)
    seen = Counter[str]()
    rows: list[Part] = []
    for part in joined:
        if part.fits and counts[part.source] > 1:
            seen[part.source] += 1
            part = replace(part, source=f"{part.source} {seen[part.source]} of {counts[part.source]}")
        rows.append(part)
    return rows
