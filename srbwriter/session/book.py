"""What a long story needs: summaries of what its window no longer holds, an outline, and notes on names.

The model writes summaries while the writer reads, and proposals on request. What the writer has
edited it never writes over.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, cast

import msgspec

from srbwriter.engine.types import EngineError, NoModel, Request
from srbwriter.story import ROOT, StoryError
from srbwriter.story.model import StorySettings, as_list

from . import naming, outlining
from .describing import whole_sentences
from .instrument import Instrument
from .so_far import CHANGED, Part, Summary, fit, paragraphs_of, parts_of, summary_of, summary_request

if TYPE_CHECKING:
    from srbwriter.engine.backend import Backend
    from srbwriter.engine.generation import Generation

    from .round import Round
    from .session import Session

log = logging.getLogger(__name__)

SUMMARIES, OFFERED = "so_far", "offered_names"
"""The names of story values: the summaries, and chapters with the names that were offered there."""


class Book(Instrument):
    """Summaries, outline and names of a story."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.share = 0.0
        """Share of the window for summaries; with 0 none is written."""
        self.least = 1_000_000_000
        """Parameters of a base model that writes summaries by itself; instruction models always do.

        What one of 8.5 million writes has nothing of the chapter."""
        self.offered = ""
        """The name that was offered last."""
        self._writing: tuple[str, Generation] | None = None
        self._halt = threading.Event()

    # ---- the story so far

    @property
    def summaries(self) -> list[Summary]:
        """All summaries of the story, also of chapters that are on other branches."""
        kept = as_list(cast(Any, self._session.story.value(SUMMARIES)))
        return [msgspec.convert(one, Summary) for one in kept]

    def parts(self) -> list[tuple[Part, Summary | None]]:
        """Return the parts of the text up to the current node, each with its summary."""
        text, kept = self._session.text(), self.summaries
        return [(p, summary_of(p, text, kept)) for p in parts_of(text, self._session.story.outline())]

    def put(self, part: Part, words: str, *, by_model: bool = False) -> None:
        """Keep ``words`` as the summary of ``part``, a part of the present text."""
        session = self._session
        paragraphs = paragraphs_of(session.text()[part.begin : part.end])
        new = Summary(part.title, " ".join(words.split()), by_model, paragraphs)
        kept = [s for s in self.summaries if s.title != part.title or s.changed(paragraphs) > 0.5]
        value = [asdict(one) | {"paragraphs": [list(p) for p in one.paragraphs]} for one in (*kept, new)]
        session.together(lambda: session.story.put_value(SUMMARIES, value))
        if not by_model and session.prompter.told:
            session.prompter.retell()

    def tell(self, lost: int) -> str:
        """Return the summaries for a text whose first ``lost`` characters are not in the window."""
        engine = self._session.engine
        if engine is None or not self.share or not lost:
            return ""
        told = [summary for part, summary in self.parts() if part.begin < lost and summary is not None]
        return fit(told, engine, int(self.share * engine.n_ctx))

    def round_begins(self, current: Round) -> None:
        if (writing := self._writing) is not None:  # branches go first; it is written again behind them
            writing[1].cancel()
        self._halt.clear()
        if self.share and self._session.prompter.lost and self._able():
            self.later(self._write_due)

    def _able(self) -> bool:
        """Whether the model writes summaries that are worth their room."""
        model = self._session.model
        return model is not None and (self._session.instruct or model.n_params >= self.least)

    def model_changed(self) -> None:
        self.stop()

    def close(self) -> None:
        self.stop()

    @property
    def progress(self) -> str:
        return f"the model writes about {self._writing[0]}" if self._writing is not None else ""

    def stop(self) -> None:
        """Stop the summary that is being written. Missing summaries are written after the next round."""
        self._halt.set()
        if (writing := self._writing) is not None:
            writing[1].cancel()

    def _write_due(self) -> None:
        """Write the summaries that are missing, one after the other, while nothing else is written.

        Not in the background of the engine, which would need room for them beside a full window.
        """
        session = self._session
        while self._rest() and (engine := session.engine) is not None:
            current, lost, text = session.round, session.prompter.lost, session.text()
            due = (p for p, summary in self.parts() if p.begin < lost and _is_due(p, summary, text))
            part = next(due, None)
            if part is None:
                if lost and not session.prompter.told:  # none so far: they are worth reading the window again
                    session.prompter.retell()
                return
            passage = text[part.begin : part.end]
            request = summary_request(engine, passage, instruct=session.prompter.frame.instruct)
            try:
                words = whole_sentences(self._write(engine, part.title, request))
                if session.round is current and not self._halt.is_set():
                    self.put(part, words, by_model=True)
            except (EngineError, StoryError) as error:
                log.info("no summary of %s: %s", part.title, error)
                return

    def _rest(self) -> bool:
        """Wait until no branch is being written, nor ahead of a pick; return False if this was stopped."""
        session = self._session
        while not self._halt.is_set():
            current = session.round
            waits = current is not None and current.generation is None
            live = current is not None and any(branch.live for branch in current.branches)
            if not waits and not live and not session.look_ahead.working:
                return True
            self._halt.wait(0.1)
        return False

    def _write(self, engine: Backend, about: str, request: Request) -> str:
        generation = engine.submit(request)
        self._writing = about, generation
        try:
            generation.wait()
        finally:
            self._writing = None
        if generation.error is not None:
            raise generation.error
        return generation.branches[0].text

    # ---- the outline

    @property
    def outline(self) -> str:
        return self._session.story.node(ROOT).settings.outline or ""

    def put_outline(self, outline: str) -> None:
        """Keep ``outline``, a line for each chapter: see :mod:`srbwriter.session.outlining`."""
        self._put_settings(lambda own: replace(own, outline=outline.strip() or None))

    def _put_settings(self, change: Callable[[StorySettings], StorySettings]) -> None:
        story = self._session.story
        self._session.together(lambda: story.put_settings(ROOT, change(story.node(ROOT).settings)))

    def propose_line(self, part: Part) -> Future[str]:
        """Let the model write a line of the outline for ``part``; return it when it is done."""
        text = self._session.text()[part.begin : part.end]

        def ask(engine: Backend, instruct: bool) -> str:
            request = outlining.line_request(engine, text, instruct=instruct)
            return f"{part.title}: {whole_sentences(self._write(engine, part.title, request))}"

        return self._propose(ask)

    def _propose(self, ask: Callable[[Backend, bool], str]) -> Future[str]:
        """Run ``ask`` with the engine, and with whether it answers requests; summaries wait meanwhile."""
        self.stop()

        def act() -> str:
            engine = self._session.engine
            if engine is None:
                raise NoModel("there is no model that could write it")
            return ask(engine, self._session.prompter.frame.instruct)

        return self.later(act)

    # ---- names

    def propose_entry(self, name: str) -> Future[str]:
        """Let the model write two sentences about ``name`` for the lorebook, from its passages."""
        text = self._session.text()

        def ask(engine: Backend, instruct: bool) -> str:
            request = naming.entry_request(engine, name, text, instruct=instruct)
            return whole_sentences(self._write(engine, name, request), 2)

        return self._propose(ask)

    def add_entry(self, name: str, text: str) -> None:
        """Add an entry to the story's lorebook."""
        entry = naming.new_entry(name, text)
        self._put_settings(lambda own: replace(own, lore=[*own.lore, entry]))

    def offer_name(self) -> str:
        """Return a name of the last pages that has no entry; "" if there is none, or one was offered in this
        chapter already."""
        session = self._session
        text, story = session.text(), session.story
        titled = [chapter.title for chapter in story.outline() if chapter.title]
        chapter = titled[-1] if titled else ""
        known = cast(list[list[str]], as_list(cast(Any, story.value(OFFERED))))
        if any(pair[0] == chapter for pair in known):
            return ""
        names = naming.unknown_names(text, story.settings(story.current).lore)
        name = next((n for n in names if all(pair[1] != n for pair in known)), "")
        if name:
            self.offered = name
            story.put_value(OFFERED, cast(Any, [*known, [chapter, name]]))
        return name


def _is_due(part: Part, summary: Summary | None, text: str) -> bool:
    if summary is None:
        return True
    return summary.by_model and summary.changed(paragraphs_of(text[part.begin : part.end])) >= CHANGED
