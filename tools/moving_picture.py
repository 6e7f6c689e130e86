"""Record the program in a terminal as one SVG that moves: start, an opening, a pick, words, a pick.

python -m tools.moving_picture [--out docs/images/writing-live.svg]

The frames are those of the real program in a pseudo-terminal. A line of the screen that stays the same over
several frames is drawn once; CSS shows each line while it was on the screen, so a viewer of pictures plays it
without a script.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from html import escape
from itertools import groupby
from pathlib import Path

from pyte.screens import Char

from srbwriter.demo import bundled_model
from tests.terminal.terminal import CTRL_N, CTRL_Q, ENTER, Terminal

COLUMNS, LINES = 110, 34
FRAMES_A_SECOND = 8
LONGEST_STILL = 1.6  # seconds that a picture without change is shown
WIDTH, HEIGHT, BASELINE, SIZE = 8.4, 18, 13.5, 14  # of a cell, in pixels
BACKGROUND, TEXT = "#1b1713", "#e8dcc8"
SENTENCE = " Then she heard a voice from below."
# What pyte calls the colours of 16-colour terminals.
NAMED = {"black": "#000000", "red": "#cc4444", "green": "#55aa55", "brown": "#bb9944", "blue": "#5577cc",
         "magenta": "#aa66aa", "cyan": "#55aaaa", "white": "#cccccc"}  # fmt: skip

Line = tuple[tuple[str, str, str, bool, bool, bool], ...]
"""Runs of a line: text, colour, background, bold, italic, underlined."""


def read_line(cells: list[Char]) -> Line:
    """Join neighbouring characters of one style."""

    def style(cell: Char) -> tuple[str, str, bool, bool, bool]:
        front, back = colour(cell.fg, TEXT), colour(cell.bg, BACKGROUND)
        if cell.reverse:
            front, back = back, front
        return front, back, cell.bold, cell.italics, cell.underscore

    return tuple(("".join(cell.data for cell in run), *key) for key, run in groupby(cells, style))


def colour(name: str, default: str) -> str:
    """Return pyte's colour as CSS writes it."""
    return default if name == "default" else NAMED.get(name, f"#{name}")


class Recorder(threading.Thread):
    """Looks at the screen at intervals until :meth:`stop`.

    ``frames`` are pairs of seconds and lines, one for each change.
    """

    def __init__(self, terminal: Terminal) -> None:
        super().__init__(daemon=True)
        self.frames: list[tuple[float, list[Line]]] = []
        self._terminal = terminal
        self._over = threading.Event()

    def run(self) -> None:
        at, before = 0.0, time.monotonic()
        while not self._over.wait(1 / FRAMES_A_SECOND):
            now = time.monotonic()
            lines = [read_line(cells) for cells in self._terminal.cells]
            if self.frames and self.frames[-1][1] == lines:
                continue
            at += min(now - before, LONGEST_STILL)
            before = now
            self.frames.append((at, lines))

    def stop(self) -> None:
        self._over.set()
        self.join()


def play(terminal: Terminal) -> None:
    """Press the keys of the recording, each when the screen is ready for it."""

    def ended(screen: str) -> bool:
        return screen.count(" ■ ") == 4

    terminal.wait_for("Choose an opening")
    terminal.rest(1.5)
    terminal.press(ENTER)
    terminal.wait(ended, "four branches")
    terminal.rest(1.5)
    before = terminal.screen
    terminal.press(b"2")
    terminal.wait(lambda screen: screen != before and ended(screen), "four more branches")
    terminal.rest(1.5)
    terminal.type_steadily(SENTENCE, [0.07] * len(SENTENCE))
    terminal.rest(0.5)
    before = terminal.screen
    terminal.press(CTRL_N)
    terminal.wait(lambda screen: screen != before and ended(screen), "branches after the sentence")
    terminal.rest(1.5)
    before = terminal.screen
    terminal.press(b"3")
    terminal.wait(lambda screen: screen != before and ended(screen), "branches after the last pick")
    terminal.rest(2.0)


def draw_line(row: int, line: Line) -> Iterator[str]:
    """Yield the SVG of a line of the screen."""
    x, top = 0.0, row * HEIGHT
    for text, front, back, bold, italic, underlined in line:
        width = round(WIDTH * len(text), 1)
        if back != BACKGROUND:
            yield f'<rect x="{x:.1f}" y="{top}" width="{width}" height="{HEIGHT}" fill="{back}"/>'
        if text.strip():
            look = ' font-weight="bold"' * bold + ' font-style="italic"' * italic
            look += ' text-decoration="underline"' * underlined
            yield (
                f'<text x="{x:.1f}" y="{top + BASELINE}" textLength="{width}" fill="{front}"{look}>'
                f"{escape(text).replace(' ', '&#160;')}</text>"  # viewers join plain spaces
            )
        x += width


def draw(frames: list[tuple[float, list[Line]]]) -> str:
    """Return the frames as one SVG in a loop."""
    total = frames[-1][0] + LONGEST_STILL
    ends = [at for at, _ in frames[1:]] + [total]
    shown: dict[tuple[int, Line], list[tuple[float, float]]] = defaultdict(list)
    for (start, lines), end in zip(frames, ends, strict=True):
        for place in enumerate(lines):
            times = shown[place]
            if times and times[-1][1] == start:
                times[-1] = times[-1][0], end
            else:
                times.append((start, end))
    names: dict[tuple[tuple[float, float], ...], str] = {}
    body: list[str] = []
    for (row, line), times in shown.items():
        drawn = "".join(draw_line(row, line))
        if not drawn:
            continue
        if times == [(frames[0][0], total)]:
            body.append(drawn)
        else:
            name = names.setdefault(tuple(times), f"t{len(names)}")
            body.append(f'<g class="{name}">{drawn}</g>')
    first = frames[0][0]
    style = [
        f".{name}{{animation:{name} {total - first:.2f}s step-end infinite;visibility:hidden}}"
        for name in names.values()
    ]
    for times, name in names.items():
        steps = {0.0: "hidden"}
        for start, end in times:
            steps[(start - first) / (total - first)] = "visible"
            steps[(end - first) / (total - first)] = "hidden"
        style.append(
            f"@keyframes {name}{{"
            + "".join(f"{at:.3%}{{visibility:{how}}}" for at, how in steps.items())
            + "}"
        )
    width, height = COLUMNS * WIDTH, LINES * HEIGHT
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" font-size="{SIZE}" '
        'font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace">'
        f"<style>{''.join(style)}</style>"
        f'<rect width="100%" height="100%" fill="{BACKGROUND}"/>{"".join(body)}</svg>\n'
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("docs/images/writing-live.svg"))
    out: Path = parser.parse_args().out
    with tempfile.TemporaryDirectory() as folder:
        terminal = Terminal(Path(folder))
        terminal.columns, terminal.lines = COLUMNS, LINES
        terminal.config.write_text("[instruments]\nlook_ahead = 'off'\n", "utf-8")
        arguments = ("-m", bundled_model(), "--n", "4", "--max-tokens", "40", "--seed", "3")
        terminal.start(*arguments, env={"COLORTERM": "truecolor"})
        recorder = Recorder(terminal)
        terminal.wait_for("Choose an opening")
        recorder.start()
        play(terminal)
        recorder.stop()
        terminal.press(CTRL_Q)
        terminal.ended()
        terminal.close()
    out.write_text(draw(recorder.frames), "utf-8")
    print(f"{out}: {len(recorder.frames)} frames, {out.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
