"""Maps themes to terminals with 256 colours.

Mapping each colour to its nearest one separately would lose contrasts: bars would merge with the page, muted
words with bars. So colours are mapped in pairs, backgrounds first: backgrounds of a theme stay distinct, and
words keep a readable contrast.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from math import dist, hypot

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme

Rgb = tuple[int, int, int]

READABLE = 4.5
"""Contrast (WCAG 2) that words keep if they had it."""

_APART = 1.15  # least contrast of two distinct backgrounds
_GREY = 0.03  # chroma below which a colour looks grey
_LOSS_OF_COLOUR = 0.05  # extra distance between a colour and a grey
_MOST_STYLES = 4096

_STEPS = (0, 95, 135, 175, 215, 255)
_CUBE = [(red, green, blue) for red in _STEPS for green in _STEPS for blue in _STEPS]
_GREYS = [(level, level, level) for level in range(8, 239, 10)]
PALETTE: dict[int, Rgb] = dict(enumerate([*_CUBE, *_GREYS], 16))
"""Colours by number: those of 256 that all terminals show alike."""


@cache
def contrast(one: Rgb, other: Rgb) -> float:
    """Return the contrast ratio as WCAG 2 defines it, 1 to 21."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _linear(colour: Rgb) -> list[float]:
    parts = (part / 255 for part in colour)
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def _luminance(colour: Rgb) -> float:
    red, green, blue = _linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@cache
def _oklab(colour: Rgb) -> tuple[float, float, float]:
    """Return lightness and the two hue axes in Oklab (https://bottosson.github.io/posts/oklab/)."""
    red, green, blue = _linear(colour)
    long = (0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue) ** (1 / 3)
    medium = (0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue) ** (1 / 3)
    short = (0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue) ** (1 / 3)
    return (
        0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short,
    )


@cache
def _unlike_ground(one: Rgb, other: Rgb) -> float:
    return dist(_oklab(one), _oklab(other))


@cache
def _unlike_ink(one: Rgb, other: Rgb) -> float:
    """Return the distance of two text colours: hue counts most, lightness least, as contrast is checked
    apart."""
    (light, *hue), (other_light, *other_hue) = _oklab(one), _oklab(other)
    chroma, other_chroma = hypot(*hue), hypot(*other_hue)
    turned = max(0.0, dist(hue, other_hue) ** 2 - (chroma - other_chroma) ** 2) ** 0.5
    lost = _LOSS_OF_COLOUR if chroma > 2 * _GREY > 2 * other_chroma else 0.0
    return hypot((light - other_light) / 2, (chroma - other_chroma) / 2, 2 * turned) + lost


class Form(LineFilter):
    """A line filter that shows a theme in 256 colours, given by number."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.made_for = theme
        self._styles: dict[tuple[Style, Rgb], Style] = {}
        every = theme.to_color_system().generate()  # fills in colours that a theme of Textual leaves out
        page, surface, panel = (
            Color.parse(getattr(theme, name) or every[name]).rgb
            for name in ("background", "surface", "panel")
        )
        self._page = page
        self._grounds = {page: _nearest(page, PALETTE)}
        under = PALETTE[self._grounds[page]]
        self._bar = _nearest(panel, [n for n, rgb in PALETTE.items() if contrast(rgb, under) >= _APART])
        self._grounds[panel] = self._bar
        if surface not in self._grounds:
            self._grounds[surface] = _nearest(surface, PALETTE)

    def ground(self, colour: Rgb) -> int:
        """Return the number of a background colour."""
        if colour not in self._grounds:
            found = _nearest(colour, PALETTE)
            if found == self._grounds[self._page] and contrast(colour, self._page) > _APART:
                found = self._bar  # the selected line of a list must look different from the others
            self._grounds[colour] = found
        return self._grounds[colour]

    def pair(self, colour: Rgb, ground: Rgb) -> tuple[int, int]:
        """Return the numbers of a text colour and its background."""
        below = self.ground(ground)
        if colour == ground:  # invisible text
            return below, below
        under = PALETTE[below]
        least = min(contrast(colour, ground), READABLE)
        clear = [number for number, rgb in PALETTE.items() if contrast(rgb, under) >= least]
        if not clear:
            return max(PALETTE, key=lambda number: contrast(PALETTE[number], under)), below
        return min(clear, key=lambda number: _unlike_ink(colour, PALETTE[number])), below

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            Segment(text, None if style is None else self._few(style, background.rgb), control)
            for text, style, control in segments
        ]

    def _few(self, style: Style, background: Rgb) -> Style:
        found = self._styles.get((style, background))
        if found is None:
            ground = background if style.bgcolor is None else Color.from_rich_color(style.bgcolor).rgb
            if style.color is None:
                numbers = None, self.ground(ground)
            else:
                numbers = self.pair(Color.from_rich_color(style.color).rgb, ground)
            colours = (None if number is None else RichColor.from_ansi(number) for number in numbers)
            found = style + Style.from_color(*colours)
            if len(self._styles) >= _MOST_STYLES:
                self._styles.clear()
            self._styles[style, background] = found
        return found


def _nearest(colour: Rgb, among: Iterable[int]) -> int:
    return min(among, key=lambda number: _unlike_ground(colour, PALETTE[number]))
