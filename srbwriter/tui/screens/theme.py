"""Choosing colours: the whole screen shows each theme while the writer looks through them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.tui import options, themes
from srbwriter.tui.screens.picker import Choice, Picker

if TYPE_CHECKING:
    from srbwriter.tui.app import Workbench


def choose_theme(bench: Workbench) -> None:
    """Show the list; escape puts the old theme back."""
    before = bench.theme
    bench.load_themes()
    known = set(bench.available_themes)
    choices = [Choice(name, themes.title(file)) for name, file in themes.files().items() if name in known]

    def looked(name: str) -> None:
        bench.theme = name

    def chosen(name: str | None) -> None:
        bench.theme = name or before
        if name is not None:
            bench.preferences.put(options.THEME, name)

    foot = f"your own themes belong in {themes.own_folder()} · enter keeps it · esc goes back"
    bench.push_screen(Picker("Themes", choices, at=before, looked=looked, foot=foot), chosen)
