"""What the model sees: the parts of the context with their sizes."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from srbwriter.session.prompting import REQUEST, PromptAccount
from srbwriter.story import ROOT
from srbwriter.story.context import ContextError
from srbwriter.story.model import counted
from srbwriter.story.words import count
from srbwriter.tui.commands import action
from srbwriter.tui.dialogs.ask import Sheet
from srbwriter.tui.dialogs.base import Dialog
from srbwriter.tui.write.status import bar
from srbwriter.tui.write.welcome import refuse

if TYPE_CHECKING:
    from srbwriter.session import Session
    from srbwriter.session.prompting import PromptPart


_NAMES = {
    "bos": "start of text", "template": "chat template", "lore": "lorebook", "note": "author's note",
    "so far": "the story so far",
}  # fmt: skip


class ContextView(Dialog[None]):
    """Shows the parts of the context with their sizes and text. The request to the model is edited here."""

    BADGE = "CONTEXT"
    OPENED_BY = "context"
    HEADING = "What the model sees; grey between ⟨ ⟩: no room"

    DEFAULT_CSS = """
    ContextView > .box { width: 96; height: 90%; }
    ContextView VerticalScroll Static { height: auto; }
    """

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session

    def content(self) -> ComposeResult:
        context = self._account()
        yield Static(budget(context))
        with VerticalScroll():
            yield Static(_text(context))

    def _account(self) -> PromptAccount:
        """Return the parts of the prompt; if the prompt is too long, only the error, so that the request can
        be cut."""
        try:
            return self._session.context()
        except ContextError as error:
            return PromptAccount([], 0, 0, frame=str(error), framed=True)

    def _put(self, **changes: object) -> bool:
        """Change settings of the whole story; return False if the story refuses."""
        session, story = self._session, self._session.story
        settings = replace(story.node(ROOT).settings, **changes)  # type: ignore[arg-type]
        kept = self.app.write_screen.guarded(
            lambda: session.together(lambda: story.put_settings(ROOT, settings))
        )
        self.refresh(recompose=True)
        return kept

    @action("e", "edits the request")
    def action_edit_request(self) -> None:
        """Edit the instruction for an instruction model; an empty text restores the default."""
        story = self._session.story
        refuse(story)
        now = story.settings(ROOT).request or REQUEST
        draft = self._session.draft("request")

        def take(text: str) -> bool:
            return self._put(request=text.strip() if text.strip() not in ("", REQUEST) else None)

        self.app.push_screen(Sheet("Request", now, _ABOUT_REQUEST, take, draft))

    @action("f", "frame on or off")
    def action_switch_frame(self) -> None:
        """Put the request and the story into the model's chat template, or send the story as plain text."""
        refuse(self._session.story)
        on = not self._account().framed
        self._put(framed=None if on == self._session.instruct else on)


_ABOUT_REQUEST = "An instruction model reads this in the user's turn, before the story that it answers with."


def budget(context: PromptAccount) -> Content:
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
            parts.append((f"  {part.source:<22}{counted(part.tokens, 'token'):>14}\n", ""))
        else:  # left out, so it was never tokenised
            words = counted(count(part.text).words, "word")
            parts.append((f"  {part.source:<22}{words:>14} without room\n", "$text-muted"))
    return Content.assemble(*parts)


def _text(context: PromptAccount) -> Content:
    parts: list[tuple[str, str]] = []
    for part in _rows(context.parts):
        parts.append((f"\n── {part.source} ──\n", "bold $text-accent"))
        parts.append((part.text, "") if part.fits else (f"⟨{part.text}⟩", "$text-muted"))
    return Content.assemble(*parts)


def _rows(parts: list[PromptPart]) -> list[PromptPart]:
    """Merge neighbouring parts of one source."""
    return [
        replace(
            same[0],
            source=_NAMES.get(same[0].source, same[0].source),
            text="".join(part.text for part in same),
            tokens=sum(part.tokens for part in same),
        )
        for same in (list(group) for _, group in groupby(parts, lambda part: (part.source, part.fits)))
    ]
