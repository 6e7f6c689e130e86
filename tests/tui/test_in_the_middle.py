"""What a writer does in the middle of the story, or behind a branch that they picked."""

from __future__ import annotations

from textual import events

from srbwriter.tui.dialogs.rewriting import RewriteView
from srbwriter.tui.driver import Burst
from tests.tui.conftest import OpenBench
from tests.tui.steps import opened

TEXT = "The fox saw the river. He was very tired. Then he swam to the other side."


async def test_new_branches_in_the_middle_are_text_for_that_place(open_bench: OpenBench) -> None:
    async with open_bench(TEXT) as bench:
        bench.screen.editor.focus()
        bench.screen.editor.move_to(TEXT.index(" He"))
        await bench.press("ctrl+n")
        page = await opened(bench, RewriteView)
        rewriting = bench.session.rewriting
        while rewriting.variants is None:
            await bench.pilot.pause(0.01)
        bench.engine_until(lambda: rewriting.variants.generation.done)
        page.look()
        shown = rewriting.shown(1)
        await bench.press("2")
        head, tail = TEXT[: TEXT.index(" He")], TEXT[TEXT.index(" He") :]
        assert bench.session.text() == bench.screen.editor.text == head + shown + tail
        assert "Undo takes it back" in bench.said
        await bench.press("ctrl+z")
        assert bench.session.text() == TEXT


async def test_at_the_end_they_are_branches(open_bench: OpenBench) -> None:
    async with open_bench(TEXT) as bench:
        bench.screen.editor.focus()
        bench.screen.editor.move_to(len(TEXT))
        await bench.press("ctrl+n")
        assert bench.app.screen is bench.screen and bench.session.round.parent == bench.session.node


async def test_typing_behind_a_sentence_by_the_model(open_bench: OpenBench) -> None:
    async with open_bench(TEXT) as bench:
        story = bench.session.story
        branch = story.begin_branch(story.current)
        story.stream(branch, " It was cold.")
        story.finish(branch, "length")
        story.pick(branch)
        bench.screen.show_story()
        editor = bench.screen.editor
        editor.focus()
        editor.move_to(len(editor.text))
        before = story.today().words
        bench.app.post_message(Burst([events.Key(letter, letter) for letter in "Then"]))
        await bench.settle()
        assert bench.session.text() == editor.text == f"{TEXT} It was cold. Then"
        assert (before := before + 1) == story.today().words, "what comes in one read is typed"
        editor.post_message(events.Paste(" came all the others, whom nobody knew."))
        await bench.settle()
        assert editor.text.endswith("nobody knew.") and story.today().words == before
