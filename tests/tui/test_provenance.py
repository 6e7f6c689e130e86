"""Who wrote what: true while somebody types, and as the story has it."""

from __future__ import annotations

from srbwriter.tui.dialogs.picker import Picker
from tests.tui.conftest import Bench, OpenBench
from tests.tui.steps import opened


async def test_the_models_words_are_italic_and_the_writers_are_plain(open_bench: OpenBench) -> None:
    async with open_bench("It rained.", started=12) as bench:
        await bench.press("enter")  # a pick
        editor = bench.screen.editor
        taken = editor.text[len("It rained.") :]

        def italic() -> list[str]:
            painted = [segment for row in range(4) for segment in editor.render_line(row)]
            return "".join(part.text for part in painted if part.style and part.style.italic).split()

        await choose(bench, "who")
        assert italic() == taken.split()
        await choose(bench, "no")
        assert not italic()


async def test_words_typed_and_deleted_amid_the_models_keep_the_tint_true(open_bench: OpenBench) -> None:
    async with open_bench(
        "It rained.", settings={"instruments.colour_tokens": "author"}, started=12
    ) as bench:
        await bench.press("enter")
        editor = bench.screen.editor
        bench.screen.editor.focus()
        editor.move_to(len("It rained.") + 3)
        await bench.press(*"dry", "backspace", "delete")
        editor.move_to(4)
        await bench.press("enter", "backspace", *"ever ")
        assert editor.authors is not None
        spans = editor.authors.between(0, len(editor.text))
        shown = [author for start, end, author in spans for _ in range(start, end)]
        assert len(shown) == len(editor.text)
        typed = len("It rever ained.") + 3
        assert shown[:typed] == ["writer"] * (typed - 3) + ["model"] * 3
        assert shown[typed : typed + 2] == ["writer"] * 2 and set(shown[typed + 2 :]) <= {"model", "writer"}


async def choose(bench: Bench, words: str) -> None:
    """Choose the colours whose entry has ``words``."""
    bench.screen.run("colour_tokens")
    await opened(bench, Picker)
    await bench.press(*words, "enter")
