"""Who wrote what: true while somebody types, and as the story has it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from srbwriter.story import Author
from srbwriter.tui.dialogs.picker import Picker
from srbwriter.tui.write.story_editor import Provenance
from tests.tui.conftest import Bench, OpenBench
from tests.tui.steps import coloured, opened

AUTHORS: list[Author] = ["writer", "model", "edited", "imported"]
PARTS = st.lists(st.tuples(st.integers(0, 6), st.sampled_from(AUTHORS)), max_size=8)


def letters(found: Provenance) -> list[str]:
    """The author of each character."""
    return [author for start, end, author in found.between(0, found.length) for _ in range(start, end)]


@given(PARTS, st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 5)), max_size=6))
def test_what_is_typed_is_the_writers_and_all_else_stays_whose_it_was(
    parts: list[tuple[int, Author]], edits: list[tuple[int, int, int]]
) -> None:
    found = Provenance(parts)
    naive = [author for length, author in parts for _ in range(length)]
    for one, other, length in edits:
        start, end = sorted((min(one, len(naive)), min(other, len(naive))))
        found.typed(start, end, length)
        naive[start:end] = ["writer"] * length
        assert letters(found) == naive and found.length == len(naive)


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
        assert editor.provenance is not None
        shown = letters(editor.provenance)
        assert len(shown) == len(editor.text)
        typed = len("It rever ained.") + 3
        assert shown[:typed] == ["writer"] * (typed - 3) + ["model"] * 3
        assert shown[typed : typed + 2] == ["writer"] * 2 and set(shown[typed + 2 :]) <= {"model", "writer"}


async def choose(bench: Bench, words: str) -> None:
    """Choose the colours whose entry has ``words``."""
    bench.screen.run("colour_tokens")
    await opened(bench, Picker)
    await bench.press(*words, "enter")


async def test_the_story_is_coloured_as_far_as_the_model_reads_it(open_bench: OpenBench) -> None:
    text = "It rained all day and the cat sat by the window."
    async with open_bench(text, settings={"instruments.colour_tokens": "surprisal"}) as bench:
        await coloured(bench, len(text))
        editor = bench.screen.editor
        editor.focus()
        editor.move_to(3)
        await bench.press("x")
        assert editor.text == text[:3] + "x" + text[3:], "it is typed into as before"
        assert editor.provenance is not None and editor.provenance.length == len(text) + 1
