"""Themes on terminals with few colours. ``UPDATE_SNAPSHOTS=1`` writes the table of forms anew."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import ColorType
from textual.color import Color
from textual.theme import Theme

from srbwriter.tui import colours, themes
from tests.tui.conftest import OpenBench
from tests.tui.test_snapshots import FOLDER, TEXT, UPDATE, frozen

SHIPPED = sorted(themes.paths.asset_dir("themes").glob("*.toml"))
INKS = ("foreground", "text-muted", "primary", "secondary", "accent", "success", "warning", "error")
GROUNDS = ("background", "surface", "panel")
TABLE = FOLDER / "colours.txt"


def rgb(theme: Theme, name: str) -> colours.Rgb:
    return Color.parse(theme.variables.get(name) or getattr(theme, name)).rgb


def line(file: Path, depth: int) -> str:
    """A theme's form: the number of each ground, then of each ink on the page and on a bar."""
    theme = themes.read(file)
    form = colours.Form(theme, depth)
    grounds = " ".join(f"{ground}={form.ground(rgb(theme, ground))}" for ground in GROUNDS)
    inks = (
        f"{ink}=" + "/".join(str(form.pair(rgb(theme, ink), rgb(theme, on))[0]) for on in GROUNDS[::2])
        for ink in INKS
    )
    return f"{theme.name} {depth}: {grounds} {' '.join(inks)}"


def test_every_theme_has_the_forms_that_were_looked_at() -> None:
    table = "\n".join(line(file, depth) for file in SHIPPED for depth in (256, 16)) + "\n"
    if UPDATE:
        TABLE.write_text(table, "utf-8")
    assert table == TABLE.read_text("utf-8")


@pytest.mark.parametrize("depth", [256, 16])
@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_words_can_be_read_and_bars_are_no_part_of_the_page(file: Path, depth: int) -> None:
    theme = themes.read(file)
    form = colours.Form(theme, depth)
    page, bar = form.ground(rgb(theme, "background")), form.ground(rgb(theme, "panel"))
    assert colours.contrast(form.palette[page], form.palette[bar]) >= 1.1
    for ink in INKS:
        for ground in GROUNDS:
            above, below = form.pair(rgb(theme, ink), rgb(theme, ground))
            least = min(4.5, colours.contrast(rgb(theme, ink), rgb(theme, ground)))
            assert colours.contrast(form.palette[above], form.palette[below]) >= least
    text = form.pair(rgb(theme, "foreground"), rgb(theme, "background"))
    assert colours.contrast(form.palette[text[0]], form.palette[text[1]]) >= 7


COLOUR = st.tuples(*[st.integers(0, 255)] * 3)


@given(ink=COLOUR, ground=COLOUR, depth=st.sampled_from([256, 16]))
def test_no_pair_of_colours_that_could_be_read_becomes_one_that_cannot(
    ink: colours.Rgb, ground: colours.Rgb, depth: int
) -> None:
    form = colours.Form(themes.read(SHIPPED[0]), depth)
    above, below = form.pair(ink, ground)
    if colours.contrast(ink, ground) >= colours.READABLE:
        assert colours.contrast(form.palette[above], form.palette[below]) >= colours.READABLE


def test_what_the_terminal_says_holds_unless_the_writer_says_more() -> None:
    assert colours.depth("auto", "truecolor") is None and colours.depth("auto", None) is None
    assert colours.depth("auto", "256") == 256 and colours.depth("auto", "standard") == 16
    assert colours.depth("16", "truecolor") == 16


@pytest.mark.parametrize("theme", ["lamplight", "paper"])
@pytest.mark.parametrize(("depth", "types"), [("256", ColorType.EIGHT_BIT), ("16", ColorType.STANDARD)])
@pytest.mark.full
async def test_the_whole_screen_has_the_colours_of_the_terminal(
    theme: str, depth: str, types: ColorType, open_bench: OpenBench
) -> None:
    settings = {"interface.theme": theme, "interface.colours": depth}
    async with open_bench(TEXT, 4, (100, 30), settings=settings, fake=True) as bench:
        await frozen(bench)
        for other in ("linen", theme):  # also after a change
            bench.app.theme = other
            await bench.pilot.pause()
        strips = bench.app.screen._compositor.render_strips()
        styles = {segment.style for strip in strips for segment in strip if segment.style is not None}
        drawn = {colour for style in styles for colour in (style.color, style.bgcolor) if colour is not None}
        assert {colour.type for colour in drawn} == {types}
        form = colours.Form(themes.read(themes.files()[theme]), int(depth))
        grounds = {style.bgcolor.number for style in styles if style.bgcolor is not None}
        assert {form.ground(rgb(bench.app.current_theme, g)) for g in ("background", "panel")} <= grounds
