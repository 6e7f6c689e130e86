"""Every dialog has help beside it."""

from __future__ import annotations

import pytest
from textual.widgets import HelpPanel

from tests.tui.conftest import OpenBench


@pytest.mark.parametrize("command", ["tree", "lore", "settings", "find"])
async def test_help_is_shown_beside_every_dialog_and_goes_again(command: str, open_bench: OpenBench) -> None:
    async with open_bench(fake=True) as bench:
        bench.screen.run(command)
        await bench.settle()
        here = bench.app.screen
        await bench.press("f1")
        assert here.query(HelpPanel)
        await bench.press("f1")
        assert not here.query(HelpPanel) and bench.app.screen is here


async def test_where_text_is_typed_a_question_mark_is_a_character(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.choose("rename_story")
        await bench.press(*"Why?", "enter")
        assert bench.session.title == "Why?"
