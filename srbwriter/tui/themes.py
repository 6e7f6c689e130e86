"""Colour themes from TOML files: bundled ones and the writer's own.

A file that cannot be read causes a complaint and never prevents the start.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from textual.color import Color, ColorParseError
from textual.theme import Theme

from srbwriter import paths

DEFAULT = "lamplight"

COLOURS = (
    "background",
    "surface",
    "panel",
    "foreground",
    "muted",
    "primary",
    "secondary",
    "accent",
    "success",
    "warning",
    "error",
)
"""The colours of a theme file. All are required."""

_WORDS = ("title", "about")


class ThemeError(ValueError):
    """A theme file is invalid. Names the file and the setting."""


def own_folder() -> Path:
    """Return the folder of the writer's own themes."""
    return paths.config_dir() / "themes"


def read(file: Path) -> Theme:
    """Read one theme, named after its file. Raises ThemeError."""
    try:
        document = tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ThemeError(f"{file}: {error}") from error
    colours = {name: _colour(file, document, name) for name in COLOURS}
    for name in document:
        if name not in (*COLOURS, *_WORDS, "dark"):
            raise ThemeError(f"{file}: unknown name {name}; a theme has {', '.join(COLOURS)} and dark")
    dark = document.get("dark", Color.parse(colours["background"]).brightness < 0.5)
    if not isinstance(dark, bool):
        raise ThemeError(f"{file}: dark: expected true or false")
    muted = colours["muted"]
    return Theme(
        name=file.stem,
        dark=dark,
        primary=colours["primary"],
        secondary=colours["secondary"],
        accent=colours["accent"],
        foreground=colours["foreground"],
        background=colours["background"],
        surface=colours["surface"],
        panel=colours["panel"],
        success=colours["success"],
        warning=colours["warning"],
        error=colours["error"],
        variables={
            "text-muted": muted,
            "foreground-muted": muted,
            "input-selection-background": f"{colours['primary']} 35%",
            "screen-selection-background": f"{colours['primary']} 45%",
            "block-cursor-background": colours["primary"],
            "block-cursor-foreground": colours["background"],
            "scrollbar": colours["panel"],
            "scrollbar-hover": muted,
            "scrollbar-active": colours["primary"],
            "scrollbar-background": colours["surface"],
            "scrollbar-background-hover": colours["surface"],
            "scrollbar-background-active": colours["surface"],
            "scrollbar-corner-color": colours["surface"],
            "border": colours["primary"],
            "border-blurred": colours["panel"],
        },
    )


def _colour(file: Path, document: dict[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str):
        raise ThemeError(f'{file}: {name}: expected a colour such as "#dca35f"')
    try:
        return Color.parse(value).hex
    except ColorParseError as error:
        raise ThemeError(f"{file}: {name}: {value!r} is no colour") from error


def title(file: Path) -> str:
    """Return the theme's title and description, for lists."""
    document = tomllib.loads(file.read_text("utf-8"))
    return f"{document.get('title', file.stem)} — {document.get('about', '')}".rstrip(" —")


def files() -> dict[str, Path]:
    """Return theme files by name; the writer's own replace bundled ones of the same name."""
    found: dict[str, Path] = {}
    for folder in (paths.asset_dir("themes"), own_folder()):
        found.update({file.stem: file for file in sorted(folder.glob("*.toml"))})
    return found


def load_all() -> tuple[list[Theme], list[str]]:
    """Return every valid theme, and a complaint for each invalid one.

    The bundled theme replaces an invalid one of the writer's own with the same name.
    """
    themes: list[Theme] = []
    complaints: list[str] = []
    for file in files().values():
        try:
            themes.append(read(file))
        except ThemeError as error:
            complaints.append(str(error))
            shipped = paths.asset_dir("themes") / file.name
            if shipped != file and shipped.exists():
                themes.append(read(shipped))
    return themes, complaints


def explain_missing(wanted: str, complaints: Iterable[str]) -> str:
    """Explain in one line why the theme ``wanted`` is not shown, and what to do.

    Args:
        wanted: a name that is not among the valid themes.
        complaints: of :func:`load_all`.
    """
    known = files()
    why = next((said for said in complaints if wanted in known and said.startswith(f"{known[wanted]}: ")), "")
    if why:
        return f"Showing {DEFAULT} until the theme {wanted} can be read: {why}"
    return f"There is no theme {wanted!r}; showing {DEFAULT}. Choose Theme in the menu: {', '.join(known)}."
