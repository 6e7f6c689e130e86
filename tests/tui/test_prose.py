"""The text widget: a key moves over or deletes one of what is seen, and the view stays where it is."""

from __future__ import annotations

import random

import pytest
from textual.app import App, ComposeResult

from srbwriter.tui.prose import Prose, rewrap, wrap

FAMILY, ACCENT, FLAG = "👩‍👩‍👧", "e\u0301", "🇫🇷"


class Page(App[None]):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.prose = Prose(text)

    def compose(self) -> ComposeResult:
        yield self.prose


def shown(app: Page) -> list[str]:
    return [strip.text.rstrip() for strip in app.screen._compositor.render_strips()]


def test_a_key_in_a_paragraph_wraps_it_as_if_it_were_new() -> None:
    dice = random.Random(7)
    text = ""
    for _ in range(400):
        width = dice.choice((12, 30))
        start = dice.randint(0, len(text))
        end = min(len(text), start + dice.choice((0, 0, 1, 9)))
        words = dice.choice(
            ("a", " ", "word ", "  ", "supercalifragilisticexpialidocious", "海风", FAMILY, "")
        )
        after = text[:start] + words + text[end:]
        before = [0, *wrap(text, width)]
        assert rewrap(before, after, width, start) == [0, *wrap(after, width)], (text, after)
        text = after


@pytest.mark.parametrize("seen", [FAMILY, ACCENT, FLAG, "海", "👍🏽"])
async def test_one_backspace_removes_one_of_what_is_seen(seen: str) -> None:
    app = Page(f"a{seen}{seen}b")
    async with app.run_test(size=(40, 6)) as pilot:
        app.prose.focus()
        app.prose.action_move("end")
        await pilot.press("left", "backspace")
        assert app.prose.text == f"a{seen}b"
        await pilot.press("left", "delete")
        assert app.prose.text == "ab"


async def test_emphasis_and_headings_are_shown_as_such_and_their_source_under_the_cursor() -> None:
    app = Page("# The *lamp*\n\nIt was **dark** and *cold*; 2 * 3 * 4.\n")
    async with app.run_test(size=(60, 8)) as pilot:
        app.prose.focus()
        app.prose.action_move("end")
        await pilot.pause()
        assert shown(app)[0] == "The lamp"
        assert shown(app)[2] == "It was dark and cold; 2 * 3 * 4."
        await pilot.press("up")
        assert shown(app)[2] == "It was **dark** and *cold*; 2 * 3 * 4."
        await pilot.press("ctrl+home")
        assert shown(app)[0] == "# The *lamp*" and "**" not in shown(app)[2]


async def test_the_view_stays_at_its_paragraph_while_the_window_changes() -> None:
    app = Page("\n".join(f"{n} " + "The tide came in. " * 9 for n in range(300)))
    async with app.run_test(size=(80, 20)) as pilot:
        app.prose.move_to(app.prose.text.index("\n150 ") + 1)
        app.prose.scroll_to_character(app.prose.cursor)
        await pilot.resize_terminal(50, 20)
        await pilot.pause()
        assert shown(app)[0].startswith("150 ")
        app.prose.put(0, 2, "")
        await pilot.pause()
        assert shown(app)[0].startswith("150 ")


async def test_words_are_selected_by_mouse_and_keys_and_go_by_the_clipboard() -> None:
    app = Page("It rained. It stopped.")
    async with app.run_test(size=(60, 8)) as pilot:
        app.prose.focus()
        await pilot.mouse_down(offset=(3, 0))
        await pilot.hover(offset=(9, 0))
        await pilot.mouse_up(offset=(9, 0))
        assert app.prose.selected == "rained"
        await pilot.press("ctrl+x", "ctrl+end", "ctrl+v", "ctrl+z", "ctrl+y")
        assert app.prose.text == "It . It stopped.rained"
        await pilot.press("ctrl+shift+left", "x")
        assert app.prose.text == "It . It stopped.x"


async def test_a_paragraph_can_be_split_at_the_first_visible_row() -> None:
    app = Page(" ".join(f"word{n}" for n in range(200)))
    async with app.run_test(size=(40, 8)) as pilot:
        app.prose.focus()
        await pilot.press("ctrl+end", *["up"] * 9, "home")
        first = shown(app)[0]
        await pilot.press("enter")
        assert first in shown(app)[:2] and "\n" in app.prose.text
