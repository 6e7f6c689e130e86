"""Colour themes from TOML files: bundled ones and the writer's own.

A file that cannot be read causes a complaint and never prevents the start.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from textual.color import Color, ColorParseError
from textual.theme import Theme

from srbwriter import paths

DEFAULT = "lamplight"

COLOURS = (
    "background", "surface", "panel", "foreground", "muted", "primary", "secondary", "accent", "success",
    "warning", "error",
)  # fmt: skip
"""The colours of a theme file. All are required."""


class ThemeError(ValueError):
    """A theme file is invalid. Names the file and the setting."""


def own_folder() -> Path:
    """Return the folder of the writer's own themes."""
    return paths.config_dir() / "themes"


def read(file: Path) -> Theme:
    """Read one theme, named after its file. Raises ThemeError."""
    try:
        values = tomllib.loads(file.read_text("utf-8"))
        colours = {name: Color.parse(values.pop(name)).hex for name in COLOURS}
        dark = values.pop("dark", Color.parse(colours["background"]).brightness < 0.5)
        if unknown := ", ".join(values.keys() - {"title", "about"}):
            raise ValueError(f"unknown name {unknown}; a theme has {', '.join(COLOURS)} and dark")
        if not isinstance(dark, bool):
            raise ValueError("dark: expected true or false")
    except KeyError as error:
        raise ThemeError(f'{file}: {error.args[0]}: expected a colour such as "#dca35f"') from error
    except (OSError, ValueError, TypeError, AttributeError, ColorParseError) as error:
        raise ThemeError(f"{file}: {error}") from error
    muted, surface = colours.pop("muted"), colours["surface"]
    variables = {
        "text-muted": muted,
        "foreground-muted": muted,
        "input-selection-background": f"{colours['primary']} 35%",
        "screen-selection-background": f"{colours['primary']} 45%",
        "block-cursor-background": colours["primary"],
        "block-cursor-foreground": colours["background"],
        "scrollbar": colours["panel"],
        "scrollbar-hover": muted,
        "scrollbar-active": colours["primary"],
        "border": colours["primary"],
        "border-blurred": colours["panel"],
        "scrollbar-corner-color": surface,
    } | {f"scrollbar-background{state}": surface for state in ("", "-hover", "-active")}
    return Theme(name=file.stem, dark=dark, variables=variables, **colours)  # pyright: ignore[reportArgumentType]


def load_all() -> tuple[list[Theme], list[str]]:
    """Return every valid theme, and a complaint for each invalid one.

    A valid one of the writer's own replaces the bundled one of the same name.
    """
    themes: dict[str, Theme] = {}
    complaints: list[str] = []
    for folder in (paths.asset_dir("themes"), own_folder()):
        for file in sorted(folder.glob("*.toml")):
            try:
                themes[file.stem] = read(file)
            except ThemeError as error:
                complaints.append(str(error))
    return [*themes.values()], complaints
