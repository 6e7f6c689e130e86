"""Choosing colours: the whole screen shows each theme while the writer looks through them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.tui import options, themes
from srbwriter.tui.screens.picker import Choice, Picker

if TYPE_CHECKING:
    from srbwriter.tui.app import App


def choose_theme(app: App) -> None:
    """Show the list; escape puts the old theme back."""
    before = app.theme
    app.load_themes()
    known = set(app.available_themes)
    choices = [Choice(name, themes.title(file)) for name, file in themes.files().items() if name in known]

    def looked(name: str) -> None:
        app.theme = name

    def chosen(name: str | None) -> None:
        app.theme = name or before
        if name is not None:
            app.preferences.put(options.THEME, name)

    foot = f"enter keeps it · esc goes back · your own belong in {themes.own_folder()}"
    app.push_screen(Picker("Themes", choices, at=before, looked=looked, foot=foot, aside=True), chosen)
