"""What is typed on a sheet or into a question is on the disk before it is closed."""

from __future__ import annotations

import pytest
from textual import events

from srbwriter.session.drafts import DRAFTS, sheets_left
from srbwriter.story import ROOT, StoryError
from srbwriter.tui.dialogs.ask import Sheet
from srbwriter.tui.prose import Prose
from srbwriter.tui.story.context_view import ContextView
from srbwriter.tui.write.welcome import receive
from tests.tui.conftest import Bench, OpenBench
from tests.tui.steps import opened, visible


async def kept(bench: Bench) -> dict[str, str]:
    """The drafts on the disk, a moment after a key."""
    story = bench.session.story
    while not story.value(DRAFTS) or not bench.session.story.save_state.saved:
        await bench.pilot.pause(0.05)
    return dict(story.value(DRAFTS))


def left(bench: Bench) -> list[str]:
    """The sheets with words on them, when all that happened is on the disk."""
    bench.session.keep()
    return sheets_left(bench.session.story)


def interrupted(bench: Bench, sheet: str, words: str) -> None:
    """As if the program had ended with ``words`` on a sheet."""
    bench.session.story.put_value(DRAFTS, {**(bench.session.story.value(DRAFTS) or {}), sheet: words})


async def sheet(bench: Bench) -> Sheet:
    """Open the sheet for the request to the model."""
    bench.screen.run("context")
    await opened(bench, ContextView)
    await bench.press("e", "f7", "backspace")
    return await opened(bench, Sheet)


async def test_a_sheet_is_safe_while_it_is_open_and_its_words_come_again(
    open_bench: OpenBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_bench() as bench:
        story = bench.session.story
        await sheet(bench)
        await bench.press(*"A poem.")
        assert await kept(bench) == {"request": "A poem."}
        await bench.press("ctrl+s")
        assert isinstance(bench.app.screen, ContextView)
        assert story.settings(ROOT).request == "A poem."
        assert left(bench) == []

        await bench.press("e", *" Or")
        await kept(bench)
        await bench.press("escape", "d")
        assert left(bench) == [], "what is dropped on purpose does not come back"

        interrupted(bench, "request", "A poem, and")
        await bench.press("e")
        again = await opened(bench, Sheet)
        assert again.query_one(Prose).text == "A poem, and"
        assert "before the program ended" in visible(bench)
        await bench.press(*" more.", "escape", "s")
        assert story.settings(ROOT).request == "A poem, and more."
        assert left(bench) == []

        await bench.press("e")
        asked = await opened(bench, Sheet)
        for key in (*"Slow", "ctrl+s"):  # as they come over a network: all at once
            bench.app.post_message(events.Key(key, key if len(key) == 1 else None))
        while bench.app.screen is asked:
            await bench.pilot.pause()
        assert story.settings(ROOT).request == "A poem, and more.Slow"
        assert left(bench) == []
        await bench.press("escape")

        said: list[str] = []
        monkeypatch.setattr(bench.app, "notify", lambda words, **_: said.append(words))
        receive(bench.screen)
        assert said == []
        interrupted(bench, "author_note", "Slowly.")
        interrupted(bench, "lorebook:1", "Red.")
        receive(bench.screen)
        assert len(said) == 1 and "author note, lorebook" in said[0], "the writer is told where words wait"


async def test_a_sheet_whose_words_are_refused_stays_open(
    open_bench: OpenBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_bench() as bench:
        story = bench.session.story
        asked = await sheet(bench)
        await bench.press(*"Slowly.")
        await kept(bench)
        with monkeypatch.context() as full:
            full.setattr(story, "put_settings", refuse)
            await bench.press("ctrl+s")
            assert bench.app.screen is asked
            await bench.press(*" And")
            await bench.press("escape", "s")
            assert bench.app.screen is asked
        await bench.press("ctrl+s")
        assert story.settings(ROOT).request == "Slowly. And"
        assert left(bench) == []


def refuse(*given: object, **named: object) -> None:
    raise StoryError("the disk is full")
