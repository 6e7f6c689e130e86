"""Themes: the shipped ones are complete and legible, the writer's own cannot break the program."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.color import Color

from srbwriter.tui import themes

SHIPPED = sorted(themes.paths.asset_dir("themes").glob("*.toml"))


def contrast(one: str, other: str) -> float:
    """Contrast ratio as WCAG 2 defines it, 1 to 21."""

    def luminance(colour: str) -> float:
        parts = [part / 255 for part in Color.parse(colour).rgb]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_every_text_can_be_read_on_every_ground(file: Path) -> None:
    theme = themes.read(file)
    assert theme.background and theme.surface and theme.panel and theme.foreground
    for ground in (theme.background, theme.surface, theme.panel):
        assert contrast(theme.foreground, ground) >= 7
        assert contrast(theme.variables["text-muted"], ground) >= 4.5
    for signal in (theme.primary, theme.accent, theme.success, theme.warning, theme.error):
        assert signal and contrast(signal, theme.background) >= 4.5


def own_theme(name: str, change: str = "") -> Path:
    folder = themes.own_folder()
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.toml"
    file.write_text(SHIPPED[0].read_text() + change)
    return file


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda text: text.replace("primary =", "primery ="), "primary"),
        (lambda text: text.replace('accent = "#', 'accent = "no colour #'), "no colour"),
        (lambda text: text + 'glow = "#ffffff"\n', "glow"),
        (lambda text: "= = =", "bad.toml"),
        (lambda text: text.replace("dark = true", "dark = 1"), "dark"),
    ],
)
def test_a_bad_theme_is_a_complaint_that_names_file_and_line(spoil: object, words: str) -> None:
    file = own_theme("bad")
    file.write_text(spoil(file.read_text()))  # type: ignore[operator]
    found, complaints = themes.load_all()
    assert len(complaints) == 1 and "bad" not in {theme.name for theme in found}
    assert words in complaints[0] and "bad.toml" in complaints[0]


def test_the_shipped_theme_takes_the_place_of_an_own_one_that_cannot_be_read() -> None:
    own_theme(themes.DEFAULT, "glow = 1\n")
    found, complaints = themes.load_all()
    assert themes.DEFAULT in {theme.name for theme in found} and len(complaints) == 1
