"""Kills writers of a story at chosen instants and counts what they had been promised and is gone.

``python -m tests.story.crash_child FOLDER INSTANTS`` prints one JSON object. Each writer is a fork of
this process that says in a log what was acknowledged. It is killed with SIGKILL either by itself, before,
inside or after a certain write of SQLite (its ``pwrite`` is replaced through ``xSetSystemCall``), or from
outside after a while. Run by ``test_crash.py`` only.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from srbwriter.story import Story, checkpoint
from srbwriter.story.check import check
from srbwriter.story.migrations import STEPS, migrate

STEPS_OF_WORK = 24
_HOOKS: list[Any] = []  # callbacks that C holds on to


class _Vfs(ctypes.Structure):
    """The head of ``struct sqlite3_vfs``, version 3."""

    _fields_ = [
        ("version", ctypes.c_int),
        ("file_size", ctypes.c_int),
        ("longest_path", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        *((f"method{n}", ctypes.c_void_p) for n in range(13)),
        (
            "set_system_call",
            ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
        ),
    ]


_PWRITE = ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64)


def replace_pwrite(hook: Callable[[int, bytes, int], int]) -> None:
    """Let ``hook`` (file, data, offset) do SQLite's writing from now on. Raises if this build cannot."""
    library = ctypes.CDLL(_sqlite3.__file__)
    library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
    vfs = library.sqlite3_vfs_find(None)

    def write(file: int, data: int, size: int, offset: int) -> int:
        return hook(file, ctypes.string_at(data, size), offset)

    call = _PWRITE(write)
    _HOOKS.append(call)
    pointer = ctypes.cast(call, ctypes.c_void_p)
    results = [vfs.contents.set_system_call(vfs, name, pointer) for name in (b"pwrite", b"pwrite64")]
    if sqlite3.SQLITE_OK not in results:
        raise RuntimeError(f"pwrite cannot be replaced ({results})")


class Fault:
    """Ends the process at the n-th write of SQLite; 0 only counts."""

    def __init__(self, at: int, how: str, log: int) -> None:
        self.at, self.how, self.log, self.count = at, how, log, 0
        self.doing = "open"

    def write(self, file: int, data: bytes, offset: int) -> int:
        self.count += 1
        if self.count != self.at:
            return os.pwrite(file, data, offset)
        name = os.readlink(f"/proc/self/fd/{file}") if os.path.exists("/proc/self/fd") else ""
        place = "log" if name.endswith("-wal") else "file"
        say(self.log, {"killed": self.how, "place": place, "doing": self.doing})
        if self.how == "inside":
            os.pwrite(file, data[: len(data) // 2], offset)
        elif self.how == "after":
            os.pwrite(file, data, offset)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")


def say(log: int, line: dict[str, Any]) -> None:
    os.write(log, json.dumps(line).encode() + b"\n")


def work(path: Path, log: int, fault: Fault, seed: int, steps: int) -> None:
    """A writer's half minute; every acknowledged word is in the log before the next verb begins."""
    story = Story.open(path)
    say(log, {"verb": "open", "words": []})
    # either way many writes are checkpoints
    checkpoint.LIMIT, checkpoint.REST_SECONDS = (6 * 4096, 1.0) if seed % 2 else (4 << 20, 0.0)
    rng, number = random.Random(seed), 0
    branches: list[int] = []
    pending: list[str] = []

    def words(n: int, kind: str) -> list[str]:
        nonlocal number
        number += n
        return [f"{kind}{seed}x{i}" for i in range(number - n, number)]

    for _ in range(steps):
        verb = rng.choice(["type", "type", "stream", "stream", "pick", "edit", "split", "delete", "undo"])
        fault.doing = verb
        said: list[str] = []
        if verb == "type":
            said = words(6, "t")
            story.append(" " + " ".join(said), story.current if not branches else story.append(" ", 1))
        elif verb == "stream":
            if not branches:
                branches = story.begin_branches(story.current, 2, vocab="v", model="m")
            for branch in branches:
                pending += (new := words(8, "g"))
                story.stream(branch, " " + " ".join(new), list(range(8)))
        elif verb == "pick" and branches:
            length = len(story.node(story.target(branches[0])).text)
            story.pick(story.target(branches[0]), rng.randint(1, length))
            for branch in branches:
                story.finish(branch, "length")
            branches = []
        elif verb == "edit":
            node = rng.choice(list(story.reading_order()))
            if node not in story.streaming.values():
                said = words(2, "e")
                story.edit(node, story.node(node).text + " " + " ".join(said))
        elif verb == "split":
            node = rng.choice(list(story.reading_order()))
            if len(story.node(node).text) > 1 and node not in story.streaming.values():
                story.merge(story.split(node, 1)) if rng.random() < 0.5 else story.split(node, 1)
        elif verb == "delete":
            node = rng.choice([n for n in story.reading_order() if n != 1] or [1])
            if node != 1 and node not in story.streaming.values():
                story.delete(node)
                story.restore(node)
        elif verb == "undo":
            story.undo()
            story.redo()
        say(log, {"verb": verb, "words": said + pending})
        pending = []
    fault.doing = "close"
    for branch in branches:
        story.finish(branch, "closed")
    story.close()


def writer(path: Path, log_path: Path, at: int, how: str, seed: int) -> int:
    """Fork a writer; returns its process id."""
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        fault = Fault(at, how, log)
        if how != "timed":
            replace_pwrite(fault.write)
        # who is killed from outside must still be at work by then, however fast the machine
        work(path, log, fault, seed, 100 * STEPS_OF_WORK if how == "timed" else STEPS_OF_WORK)
        say(log, {"writes": fault.count})
        code = 0
    except BaseException as error:
        print(f"writer: {error!r}", file=sys.stderr)
    finally:
        os._exit(code)
    raise AssertionError("unreachable")


def old_story(path: Path) -> None:
    """A story as the first version wrote it, with words in it: opening it runs every upgrade."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    migrate(db, STEPS[:1])
    db.execute("BEGIN")
    db.execute("INSERT INTO node VALUES (1, NULL, 0, 0, 'writer', 0, 0, 16, 4, 0, NULL, NULL, NULL, 0)")
    db.execute("INSERT INTO body (id, text) VALUES (1, '')")
    for node in range(2, 60):
        text = f" old{node}" * 40
        row = (node, node - 1, len(text), 40, 8)
        db.execute(
            "INSERT INTO node VALUES (?, ?, 0, 0, 'imported', ?, ?, ?, 4, 0, NULL, NULL, NULL, 0)", row
        )
        db.execute("INSERT INTO body (id, text) VALUES (?, ?)", (node, text))
    db.execute("INSERT INTO value VALUES ('current', '59')")
    db.execute("COMMIT")
    db.close()


def judge(path: Path, log_path: Path) -> dict[str, Any]:
    """Open what a killed writer left and count the words it was promised."""
    lines = [json.loads(line) for line in log_path.read_text().splitlines()] if log_path.exists() else []
    promised = {word for line in lines for word in line.get("words", [])}
    with Story.open(path) as story:
        assert story.read_only is None, story.read_only
        promised |= {f"old{n}" for n in range(2, 60) if path.name == "old.srbw"}
        missing = _missing(story, promised)
        if missing and story.redo():  # killed between an undo and its redo: they are one redo away
            missing = _missing(story, promised)
        story.append(" afterwards", 1)
        story.undo()
        story.redo()
    report = check(path)
    last = lines[-1] if lines else {}
    return {
        "promised": len(promised),
        "missing": sorted(missing),
        "problems": list(report.problems) + ([str(report.damage)] if report.damage else []),
        "killed": last.get("killed", "timed"),
        "place": last.get("place", ""),
        "doing": last.get("doing", ""),
    }


def _missing(story: Story, promised: set[str]) -> set[str]:
    """Which of ``promised`` stand nowhere in the tree.

    A word that a pick or a split cut stands in two nodes, and words may have been added to the first since.
    """
    nodes = [entry.id for entry in list(story._document.tree)]
    found = {word for node in nodes for word in re.findall(r"[a-z]+\d+(?:x\d+)?", story.node(node).text)}
    absent = promised - found
    if not absent:
        return absent
    whole = " ".join(story.text(node) for node in nodes)
    return {word for word in absent if word not in whole and not _parted(story, word, nodes)}


def _parted(story: Story, word: str, nodes: list[int]) -> bool:
    """Whether ``word`` was cut between two nodes, and the first has been written on since."""
    for node in nodes:
        if (above := story.parent(node)) is None:
            continue
        text, before = story.node(node).text, story.node(above).text
        if any(text.startswith(word[at:]) and f"{word[:at]} " in before for at in range(1, len(word))):
            return True
    return False


def run(folder: Path, instants: int) -> dict[str, Any]:
    """Kill ``instants`` writers; what became of their words."""
    bases = {"new": folder / "new.srbw", "old": folder / "old.srbw"}
    Story.create(bases["new"]).close()
    old_story(bases["old"])
    writes = {kind: _count(folder, base) for kind, base in bases.items()}
    outcome = Counter[str]()
    promised, missing, problems = 0, list[str](), list[str]()
    for instant in range(instants):
        kind = "old" if instant % 4 == 0 else "new"
        how = ("before", "inside", "after", "timed")[instant // 4 % 4]
        at = 1 + (instant * 7919) % (40 if kind == "old" else writes[kind])  # spread, the upgrade densely
        result = _one(folder / f"{instant}", bases[kind], at, how, instant % 5)
        promised += result["promised"]
        missing += result["missing"]
        problems += result["problems"]
        outcome[result["end"]] += 1
        if result["end"] == "killed":
            outcome[f"{result['killed']} {result['place']}".strip()] += 1
            outcome[f"during {result['doing'] or 'anything'}"] += 1
    return {"promised": promised, "missing": missing, "problems": problems, "outcome": dict(outcome)}


def _count(folder: Path, base: Path) -> int:
    """How many writes the whole work takes."""
    place = folder / f"count-{base.stem}"
    place.mkdir()
    path = Path(shutil.copy(base, place))
    os.waitpid(writer(path, place / "log", 0, "count", 0), 0)
    return int(json.loads((place / "log").read_text().splitlines()[-1])["writes"])


def _one(place: Path, base: Path, at: int, how: str, seed: int) -> dict[str, Any]:
    place.mkdir()
    path = Path(shutil.copy(base, place))
    child = writer(path, place / "log", at, how, seed)
    if how == "timed":
        time.sleep(at % 97 / 1000)  # the instant itself: nothing here waits for anything
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    end = "killed" if killed else f"ended with {os.waitstatus_to_exitcode(status)}"
    result = {**judge(path, place / "log"), "end": end}
    shutil.rmtree(place)
    return result


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]), int(sys.argv[2]))))
