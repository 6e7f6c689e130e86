"""The documentation says what the program does."""

from __future__ import annotations

import re
from pathlib import Path

from srbwriter import paths
from srbwriter.tui import themes
from tools.keys_page import page

DOCS = Path(__file__).parent.parent.parent / "docs"


def test_the_page_of_keys_is_the_table() -> None:
    assert (DOCS / "keys.md").read_text("utf-8") == page(), "python -m tools.keys_page > docs/keys.md"


def test_every_shipped_theme_is_named() -> None:
    text = (DOCS / "themes.md").read_text("utf-8")
    shipped = [file.stem for file in paths.asset_dir("themes").glob("*.toml")]
    assert not [name for name in shipped if name not in text]


def test_the_example_theme_names_what_a_theme_has() -> None:
    text = (DOCS / "themes.md").read_text("utf-8")
    assert not [name for name in themes.COLOURS if not re.search(rf"^{name} = ", text, re.M)]


def test_every_picture_exists() -> None:
    for name in ("terminal.md", "themes.md"):
        for picture in re.findall(r"\]\((images/[^)]+)\)", (DOCS / name).read_text("utf-8")):
            assert (DOCS / picture).exists(), picture
