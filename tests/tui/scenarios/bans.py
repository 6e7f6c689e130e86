"""The scenario of phrases that branches must not contain."""

from __future__ import annotations

import pytest
from textual.widgets import TextArea

from srbwriter.tui.dialogs.sheet import Sheet
from tests.tui.conftest import Bench
from tests.tui.scenarios.common import head, opened, scenario, started


@scenario
async def bans(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.choose("bans")
    sheet = await opened(bench, Sheet)
    area = sheet.query_one(TextArea)
    assert "happily ever after" in area.text and not bench.session.sampling.banned_phrases
    area.text = "# a remark\nthe\n\nand  then\nthe"
    await bench.press("ctrl+s")
    assert bench.session.sampling.banned_phrases == ("the", "and then")
    await bench.settle()
    assert all(b.sampling.banned_phrases == ("the", "and then") for b in bench.session.round.branches)
    await started(bench, 40)
    texts = [f" {branch.text.lower()}" for branch in bench.session.round.branches]
    assert not [text for text in texts if " the" in text]
    bench.screen.flush_slowly()
    gone_back = [branch for branch in bench.session.round.branches if branch.bans]
    assert gone_back and all(f"⌫{branch.bans}" in head(bench, branch.index) for branch in gone_back)
