"""From the key to the disk in a second, in a long book and while eight branches are being written."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest

from srbwriter.story import Story
from srbwriter.story.model import DraftNode, StoryDraft
from tests.sizes import few_or_all
from tests.terminal.support import OPENING, steady, words_from
from tests.terminal.terminal import CTRL_N, CTRL_Q, Terminal

BOUND = 1.0  # seconds from the key to the disk, for 99 keys of 100
KEYS = {False: 24, True: 250}
NODES, NODE_CHARS = 100, 20_000  # two megabytes
LOOK = 0.02  # seconds between two looks at the file
ENOUGH = 15.0  # seconds after the last key
PORTION = 25  # keys: three seconds, in which eight branches of 1000 tokens do not end


def make_book(folder: Path) -> Path:
    """A long story that ends with the opening."""
    chance = random.Random("book")
    page = "\n\n".join(words_from(chance, 700) for _ in range(NODE_CHARS // 700)).ljust(NODE_CHARS)
    nodes = [DraftNode("0")]
    nodes += [DraftNode(f"{n}", f"{n - 1}", text=page, author="writer") for n in range(1, NODES + 1)]
    nodes.append(DraftNode("end", f"{NODES}", text=f"\n\n{OPENING}", author="model"))
    file = folder / "tale.srbw"
    Story.from_draft(file, StoryDraft(nodes, "end", "tale")).close()
    assert file.stat().st_size > 2_000_000
    return file


class Watcher:
    """Notes when each character is first in the file."""

    def __init__(self, file: Path, text: str) -> None:
        self._file, self._text = file, text
        self.seen: list[float] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        with Story.open(self._file, readonly=True) as story:
            while not self._end.wait(LOOK) and len(self.seen) < len(self._text):
                story.refresh()
                end = story.text(story.current, chars=len(self._text) + 100)
                now = time.monotonic()
                typed = end[end.rindex(OPENING) + len(OPENING) :]
                assert self._text.startswith(typed), f"the file says {typed!r}"
                self.seen += [now] * (len(typed) - len(self.seen))

    def close(self) -> None:
        """Wait until all is in the file, but not for ever."""
        self._thread.join(ENOUGH)
        self._end.set()
        self._thread.join()


@few_or_all
@pytest.mark.full
def test_a_key_is_on_the_disk_within_a_second(terminal: Terminal, full: bool) -> None:
    file = make_book(terminal.folder)
    chance = random.Random("latency")
    terminal.start(file, "--n", "8", "--max-tokens", "1000", "--ctx-size", "8192" if full else "4096")
    terminal.wait_for(OPENING.strip())
    text = words_from(chance, KEYS[full]).rstrip()
    watcher = Watcher(file, text)
    streaming: list[int] = []  # branches being written at the end of each portion
    try:
        for start in range(0, len(text), PORTION):
            # Each portion has a round of its own: a fast machine ends one before the last key of a portion.
            terminal.press(CTRL_N)
            terminal.wait(lambda screen: screen.count("writing") >= 8, "eight branches")
            terminal.type_steadily(text[start : start + PORTION], steady(chance, 0.06, 0.2))
            streaming.append(terminal.screen.count("writing"))
    finally:
        watcher.close()
    typed = terminal.typed
    ages = sorted(seen - key.at for seen, key in zip(watcher.seen, typed, strict=False))
    assert len(ages) == len(typed), f"only {len(ages)} of {len(typed)} characters are in the file"
    worst = ages[min(len(ages) - 1, round(len(ages) * 0.99))]
    print(f"\n{len(ages)} keys, at least {min(streaming)} branches being written: from the key to the file")
    print(f"  median {ages[len(ages) // 2]:.2f} s, of 99 in 100 {worst:.2f} s, most {ages[-1]:.2f} s")
    assert all(streaming)
    assert worst <= BOUND
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
