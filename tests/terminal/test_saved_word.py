"""The foot says "saved" only when what is typed is in the file: looked at again and again during typing."""

from __future__ import annotations

import json
import random
import re
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from tests.sizes import few_or_all
from tests.terminal.conftest import NewTerminal
from tests.terminal.support import make_story, says_saved, steady, two_at_once, words_from
from tests.terminal.terminal import Key, Terminal
from tests.terminal.test_steady_typing import PLACES, start

IN_FLIGHT = 0.35
"""Seconds in which a key that can be seen may not have reached the foot yet."""

SECONDS = {False: 3.5, True: 12.0}


def cells(file: Path) -> list[str]:
    """Every text in the file, wherever the program keeps it."""
    found: list[str] = []
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as db:
        tables = db.execute("SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE TABLE%'").fetchall()
        for (table,) in tables:
            for row in db.execute(f'SELECT * FROM "{table}"'):
                found += [cell for cell in row if isinstance(cell, str)]
    return found


def squeezed(text: str) -> str:
    """Without the blanks and borders that lines on a screen are broken by."""
    return re.sub(r"[\s│▌▎▐┃|]+", "", text)


def shown(screen: str, typed: list[Key]) -> int:
    """How many of the keys can be seen in what they wrote."""
    page = squeezed(screen)
    count = len(typed)
    while count and squeezed("".join(key.text for key in typed[:count])) not in page:
        count -= 1
    return count


class Looks:
    """Looks at the screen, and then at the file."""

    def __init__(self, terminal: Terminal, file: Path) -> None:
        self._terminal, self._file = terminal, file
        self.count = self.saved = 0
        self.lies: list[float] = []
        """For each look at which "saved" was not true: the age of the oldest key that was not in the file."""

    @property
    def oldest(self) -> float:
        """The worst of :attr:`lies`; 0 if there was none."""
        return max(self.lies, default=0.0)

    def look(self) -> None:
        moment = time.monotonic()
        screen = self._terminal.screen
        self.count += 1
        if not says_saved(screen):
            return
        self.saved += 1
        typed = list(self._terminal.typed)
        seen = typed[: shown(screen, typed)]
        words = "".join(key.text for key in seen)
        texts = [json.dumps(cell)[1:-1] for cell in cells(self._file)] + cells(self._file)
        kept = next((n for n in range(len(words), -1, -1) if any(words[:n].strip() in t for t in texts)), 0)
        if kept < len(words.rstrip()):
            self.lies.append(moment - seen[kept].at)


def looked_at(new_terminal: NewTerminal, seconds: float, place: str) -> Looks:
    begin: Callable[[Terminal], None] = PLACES[place][0]
    chance = random.Random(place)
    terminal = new_terminal(place)
    file = make_story(terminal.folder)
    terminal.columns = 80  # where the side panel has no story beside its lines
    start(terminal, file)
    begin(terminal)
    looks = Looks(terminal, file)
    end = time.monotonic() + seconds
    rhythm = (chance.choice([pause, pause, pause, 4 * pause]) for pause in steady(chance))
    typist = threading.Thread(target=terminal.type_steadily, args=(words_from(chance), rhythm, end))
    typist.start()
    while typist.is_alive():
        looks.look()
        typist.join(0.03)
    terminal.wait(says_saved, "saying that it is saved")
    looks.look()
    terminal.close()
    return looks


@few_or_all
@pytest.mark.full
def test_saved_is_said_only_when_it_is_true(new_terminal: NewTerminal, full: bool) -> None:
    places = ["story", "memory"]  # where the foot can be seen
    found = two_at_once([partial(looked_at, new_terminal, SECONDS[full], place) for place in places])
    for place, looks in zip(places, found, strict=True):
        early = f"{len(looks.lies)} of them too early, the oldest key by {looks.oldest:.2f} s"
        print(f"\n{place}: {looks.count} looks, {looks.saved} said saved, {early}")
    assert all(looks.saved for looks in found)
    assert max(looks.oldest for looks in found) <= IN_FLIGHT
