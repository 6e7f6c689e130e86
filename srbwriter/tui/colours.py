"""Themes on terminals with 256 or 16 colours.

A theme names its colours as if there were all of them. Taken to the nearest of a few by itself, each would
lose what it is next to: bars would sink into the page, muted words into bars. So colours are chosen in pairs,
ground first: grounds of a theme stay apart, and words keep a contrast in which they can be read.
"""

from __future__ import annotations

from collections.abc import Iterable
from colorsys import rgb_to_hsv
from functools import cache
from math import dist, hypot

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme

Rgb = tuple[int, int, int]

_DEPTHS = {"256": 256, "standard": 16, "windows": 16, "16": 16}

READABLE = 4.5
"""Contrast (WCAG 2) that words keep if they had it."""

_APART = 1.15  # contrast of two grounds that are told apart
_GREY = 0.03  # chroma below which nobody sees a colour
_LOSS_OF_COLOUR = 0.05  # how far from a colour a grey is, more than it measures
_MOST_STYLES = 4096

_SIXTEEN: tuple[Rgb, ...] = (
    (0, 0, 0), (170, 0, 0), (0, 170, 0), (170, 85, 0), (0, 0, 170), (170, 0, 170), (0, 170, 170),
    (170, 170, 170), (85, 85, 85), (255, 85, 85), (85, 255, 85), (255, 255, 85), (85, 85, 255),
    (255, 85, 255), (85, 255, 255), (255, 255, 255),
)  # fmt: skip
"""As VGA had them; terminals vary them, so what is to be told apart must be more than a shade apart."""

_BLACK, _WHITE, _DARK_GREY, _BRIGHT = 0, 7, 8, 15


def depth(setting: str, terminal: str | None) -> int | None:
    """How many colours there are, None for all of them.

    Args:
        setting: auto, 256 or 16.
        terminal: what Rich takes the terminal for.
    """
    return _DEPTHS.get(setting if setting != "auto" else terminal or "")


@cache
def palette(depth: int) -> dict[int, Rgb]:
    """The colours to choose from, by number: all sixteen, or of 256 those that every terminal shows alike."""
    if depth == 16:
        return dict(enumerate(_SIXTEEN))
    steps = (0, 95, 135, 175, 215, 255)
    cube = [(red, green, blue) for red in steps for green in steps for blue in steps]
    greys = [(level, level, level) for level in range(8, 239, 10)]
    return dict(enumerate([*cube, *greys], 16))


@cache
def contrast(one: Rgb, other: Rgb) -> float:
    """Contrast ratio as WCAG 2 defines it, 1 to 21."""
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
    """Lightness and the two axes of hue (https://bottosson.github.io/posts/oklab/)."""
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
    """How unlike two colours of words are: hue counts most, lightness least, since contrast sees to it."""
    (light, *hue), (other_light, *other_hue) = _oklab(one), _oklab(other)
    chroma, other_chroma = hypot(*hue), hypot(*other_hue)
    turned = max(0.0, dist(hue, other_hue) ** 2 - (chroma - other_chroma) ** 2) ** 0.5
    lost = _LOSS_OF_COLOUR if chroma > 2 * _GREY > 2 * other_chroma else 0.0
    return hypot((light - other_light) / 2, (chroma - other_chroma) / 2, 2 * turned) + lost


@cache
def _hue(colour: Rgb) -> int | None:
    """Which of the six hues that sixteen colours have is nearest, 0 to 5 from red; None for a grey."""
    _, *axes = _oklab(colour)
    if hypot(*axes) < 2 * _GREY:
        return None
    hue, _, _ = rgb_to_hsv(*(part / 255 for part in colour))
    return round(6 * hue) % 6


class Form(LineFilter):
    """A theme in ``depth`` colours, which are given by their numbers."""

    def __init__(self, theme: Theme, depth: int) -> None:
        super().__init__()
        self.made_for = theme, depth
        self.palette = palette(depth)
        self._styles: dict[tuple[Style, Rgb], Style] = {}
        every = theme.to_color_system().generate()  # a theme of Textual's may leave some to that
        page, surface, panel, words = (
            Color.parse(getattr(theme, name) or every[name]).rgb
            for name in ("background", "surface", "panel", "foreground")
        )
        self._page = page
        if depth == 16:
            self._grounds = {
                panel: _DARK_GREY if theme.dark else _WHITE,
                surface: _BLACK if theme.dark else _BRIGHT,
                page: _BLACK if theme.dark else _BRIGHT,
            }
        else:
            self._grounds = {page: self._nearest(page, self.palette)}
            self._grounds[panel] = self._apart(panel, [page])
            if surface not in self._grounds:
                self._grounds[surface] = self._nearest(surface, self.palette)
        self._bar = self._grounds[panel]
        self._strongest = words if depth == 16 and _hue(words) is None else None

    def ground(self, colour: Rgb) -> int:
        """The number of a background."""
        if colour not in self._grounds:
            found = self._nearest(colour, self.palette)
            if found == self._grounds[self._page] and contrast(colour, self._page) > _APART:
                found = self._bar  # what is chosen in a list is not to look like what is not
            self._grounds[colour] = found
        return self._grounds[colour]

    def pair(self, colour: Rgb, ground: Rgb) -> tuple[int, int]:
        """The numbers of words and of what they stand on."""
        below = self.ground(ground)
        if colour == ground:  # there are none
            return below, below
        under = self.palette[below]
        least = min(contrast(colour, ground), READABLE)
        clear = [number for number, rgb in self.palette.items() if contrast(rgb, under) >= least]
        if not clear or colour == self._strongest:
            return max(self.palette, key=lambda number: contrast(self.palette[number], under)), below
        if len(self.palette) == 16:  # too few to look for the nearest: the hue, or else none
            clear = [n for n in clear if _hue(self.palette[n]) == _hue(colour)] or [
                n for n in clear if _hue(self.palette[n]) is None
            ]
        return min(clear, key=lambda number: _unlike_ink(colour, self.palette[number])), below

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

    def _nearest(self, colour: Rgb, among: Iterable[int]) -> int:
        return min(among, key=lambda number: _unlike_ground(colour, self.palette[number]))

    def _apart(self, colour: Rgb, others: Iterable[Rgb]) -> int:
        """The nearest number that is told apart from the grounds ``others``."""
        taken = [self.palette[self._grounds[other]] for other in others]
        free = [n for n, rgb in self.palette.items() if all(contrast(rgb, t) >= _APART for t in taken)]
        return self._nearest(colour, free)
