"""Colour themes from TOML files: the ones that ship with the program, and the writer's own.

A file that cannot be read is a complaint in words and never a reason not to start. Knows files and colours;
knows no screen.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from difflib import get_close_matches
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
"""The colours of a theme file. All are needed: a theme that names half of them looks half right."""

_WORDS = ("title", "about")


class ThemeError(ValueError):
    """A theme file cannot be used. Names the file and the line's name."""


def own_folder() -> Path:
    """Where the writer's own themes lie."""
    return paths.config_dir() / "themes"


def read(file: Path) -> Theme:
    """Read one theme; its name is the file's. Raises ThemeError."""
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
    """The theme's title and what it says about itself, for lists."""
    document = tomllib.loads(file.read_text("utf-8"))
    return f"{document.get('title', file.stem)} — {document.get('about', '')}".rstrip(" —")


def files() -> dict[str, Path]:
    """Theme files by name; one of the writer's own replaces a shipped one of the same name."""
    found: dict[str, Path] = {}
    for folder in (paths.asset_dir("themes"), own_folder()):
        found.update({file.stem: file for file in sorted(folder.glob("*.toml"))})
    return found


def load_all(some: Iterable[Path] | None = None) -> tuple[list[Theme], list[str]]:
    """Every theme that can be read, and a complaint for each that cannot.

    The shipped theme of the same name takes the place of one of the writer's own that cannot be read.
    """
    themes: list[Theme] = []
    complaints: list[str] = []
    for file in files().values() if some is None else some:
        try:
            themes.append(read(file))
        except ThemeError as error:
            complaints.append(str(error))
            shipped = paths.asset_dir("themes") / file.name
            if shipped != file and shipped.exists():
                themes.append(read(shipped))
    return themes, complaints


def explain_missing(wanted: str, complaints: Iterable[str]) -> str:
    """Say in a line why the theme ``wanted`` is not shown, and what to do about it.

    Args:
        wanted: a name that no theme has which could be read.
        complaints: of :func:`load_all`.
    """
    known = files()
    why = next((said for said in complaints if wanted in known and said.startswith(f"{known[wanted]}: ")), "")
    if why:
        return f"Showing {DEFAULT} until the theme {wanted} can be read: {why}"
    nearest = get_close_matches(wanted, known, n=1)
    meant = f"did you mean {nearest[0]}?" if nearest else f"there are {', '.join(sorted(known))}."
    return f"There is no theme {wanted!r}; showing {DEFAULT}. Choose Theme in the command palette: {meant}"


class Watcher:
    """Notices when one of the writer's own themes changes, so that it can be read again."""

    def __init__(self) -> None:
        self._seen = self._stamps()

    def changed(self) -> list[Path]:
        """Files that are new or changed since the last call."""
        now = self._stamps()
        fresh = [file for file, stamp in now.items() if self._seen.get(file) != stamp]
        self._seen = now
        return fresh

    @staticmethod
    def _stamps() -> dict[Path, tuple[int, int]]:
        stamps: dict[Path, tuple[int, int]] = {}
        for file in own_folder().glob("*.toml"):
            try:
                status = file.stat()
            except OSError:
                continue
            stamps[file] = (status.st_mtime_ns, status.st_size)
        return stamps
