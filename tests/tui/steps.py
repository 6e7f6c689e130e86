"""Steps that many tests of the desk begin with."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from textual.screen import Screen
from textual.widgets import Input
from textual.widgets._footer import FooterKey

from tests.tui.conftest import Bench

LONG = 60.0  # seconds; only a failing test waits that long


async def started(bench: Bench, tokens: int = 12) -> None:
    """Branches are being written and the first has the focus."""
    bench.session.generate()
    await bench.tokens(tokens)
    await bench.on_panes()


async def opened(bench: Bench, kind: type[Screen[Any]]) -> Any:
    await bench.pilot.pause()
    assert isinstance(bench.app.screen, kind), f"{kind.__name__} is not open"
    return bench.app.screen


async def answer(bench: Bench, text: str) -> None:
    """Answer the question that is open."""
    await bench.pilot.pause()
    fields = bench.app.screen.query(Input)
    assert bench.app.screen is not bench.screen and fields, "nothing was asked"
    fields.first().value = text
    await bench.press("enter")


def visible(bench: Bench) -> str:
    """All text on the screen, in lines."""
    strips = bench.app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


def footer(bench: Bench) -> str:
    """What the footer of the write screen says."""
    return " ".join(f"{key.key_display} {key.description}" for key in bench.screen.query(FooterKey))


def head(bench: Bench, index: int = 0) -> str:
    bench.screen.pump.flush()
    return bench.screen.grid.panes[index].head


async def ended(bench: Bench) -> None:
    """Wait until the export or import is over and said."""
    begun = time.monotonic()
    while bench.app.transfers.busy:
        assert time.monotonic() < begun + LONG, "it does not end"
        await asyncio.sleep(0.02)
        if bench.screen.is_mounted:
            bench.screen.pump.flush()
    await bench.pilot.pause()
