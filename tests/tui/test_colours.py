"""Themes on terminals with 256 colours. ``UPDATE_SNAPSHOTS=1`` writes the table of forms anew."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.color import Color
from textual.theme import Theme

from srbwriter.tui import colours, themes
from tests.tui.test_snapshots import FOLDER, UPDATE

SHIPPED = sorted(themes.paths.asset_dir("themes").glob("*.toml"))
INKS = ("foreground", "text-muted", "primary", "secondary", "accent", "success", "warning", "error")
GROUNDS = ("background", "surface", "panel")
TABLE = FOLDER / "colours.txt"


def rgb(theme: Theme, name: str) -> colours.Rgb:
    return Color.parse(theme.variables.get(name) or getattr(theme, name)).rgb


def line(file: Path) -> str:
    """A theme's form: the number of each ground, then of each ink on the page and on a bar."""
    theme = themes.read(file)
    form = colours.Form(theme)
    grounds = " ".join(f"{ground}={form.ground(rgb(theme, ground))}" for ground in GROUNDS)
    inks = (
        f"{ink}=" + "/".join(str(form.pair(rgb(theme, ink), rgb(theme, on))[0]) for on in GROUNDS[::2])
        for ink in INKS
    )
    return f"{theme.name}: {grounds} {' '.join(inks)}"


def test_every_theme_has_the_forms_that_were_looked_at() -> None:
    table = "\n".join(line(file) for file in SHIPPED) + "\n"
    if UPDATE:
        TABLE.write_text(table, "utf-8")
    assert table == TABLE.read_text("utf-8")


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_words_can_be_read_and_bars_are_no_part_of_the_page(file: Path) -> None:
    theme = themes.read(file)
    form = colours.Form(theme)
    page, bar = form.ground(rgb(theme, "background")), form.ground(rgb(theme, "panel"))
    assert colours.contrast(colours.PALETTE[page], colours.PALETTE[bar]) >= 1.1
    for ink in INKS:
        for ground in GROUNDS:
            above, below = form.pair(rgb(theme, ink), rgb(theme, ground))
            least = min(4.5, colours.contrast(rgb(theme, ink), rgb(theme, ground)))
            assert colours.contrast(colours.PALETTE[above], colours.PALETTE[below]) >= least
    text = form.pair(rgb(theme, "foreground"), rgb(theme, "background"))
    assert colours.contrast(colours.PALETTE[text[0]], colours.PALETTE[text[1]]) >= 7


COLOUR = st.tuples(*[st.integers(0, 255)] * 3)


@given(ink=COLOUR, ground=COLOUR)
def test_no_pair_of_colours_that_could_be_read_becomes_one_that_cannot(
    ink: colours.Rgb, ground: colours.Rgb
) -> None:
    form = colours.Form(themes.read(SHIPPED[0]))
    above, below = form.pair(ink, ground)
    if colours.contrast(ink, ground) >= colours.READABLE:
        assert colours.contrast(colours.PALETTE[above], colours.PALETTE[below]) >= colours.READABLE
