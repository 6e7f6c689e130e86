"""Kills a writer amid one edit of the text, at each statement and each write of SQLite in turn.

``python -m tests.story.crash_edits FOLDER`` prints one JSON object: for each edit how often the story was
found as it was before, as it was after, or as neither. The writer is killed at every ``STEP``-th statement or
write. Each writer is a fork of this process. Run by ``test_edits.py`` only.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections import Counter
from pathlib import Path

from srbwriter.story import Story
from srbwriter.story.check import check
from tests.story.branches import generated, sizes
from tests.story.crash_child import Fault, replace_pwrite

STEP = 7
PARTS = ["It rained. ", "Take 10 of it drove on. ", "Take 11 of it drove on. ", "Take 12 of it drove on. "]
TEXT = "".join(PARTS)
EDITS = {
    "inside a take": TEXT.replace("Take 10", "Tale 10"),
    "across takes": TEXT.replace("10 of it drove on. Take 11 of it drove on. Take", "and"),
    "off the end": TEXT[: len(PARTS[0]) + 7] + " stopped.",
    "at the end": f"{TEXT}It stopped.",
}


def begin(path: Path) -> None:
    """The story that is edited."""
    with Story.create(path) as story:
        story.append(PARTS[0])
        for part in PARTS[1:]:
            take, _ = generated(story, story.current, part, "Other words.")
            story.pick(take)


def edit(path: Path, text: str, how: str, at: int) -> None:
    """In a child: edit the story and be killed at the ``at``-th statement or write; 0 for never."""
    fault, statements = Fault(0, how, os.open(os.devnull, os.O_WRONLY)), 0
    if how != "statement":
        replace_pwrite(fault.write)
    story = Story.open(path)
    story.use_token_sizes(sizes)

    def statement(_: str) -> None:
        nonlocal statements
        statements += 1
        if statements == at:
            os.kill(os.getpid(), signal.SIGKILL)

    if how == "statement":
        story._document.store.db.set_trace_callback(statement)
    elif at:
        fault.at = fault.count + at
    story.set_text(text)
    os._exit(0)


def forked(path: Path, text: str, how: str, at: int) -> bool:
    """Whether the edit was killed."""
    child = os.fork()
    if not child:
        try:
            edit(path, text, how, at)
        finally:
            os._exit(70)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return True
    if os.waitstatus_to_exitcode(status):
        raise RuntimeError("the writer ended by itself")
    return False


def seen(path: Path) -> list[tuple[object, ...]]:
    """The whole tree as a reader finds it, with the text and what undo would take back."""
    with Story.open(path) as story:
        order = list(story.reading_order())
        tree = [(n.id, n.parent, n.text, n.author, n.spans) for n in story.nodes(order)]
        return [("text", story.text(story.current), story._history.head), *tree]


def run(folder: Path) -> dict[str, dict[str, object]]:
    base = folder / "base.srbw"
    begin(base)
    results: dict[str, dict[str, object]] = {}
    for name, text in EDITS.items():
        before = seen(base)
        path = Path(shutil.copy(base, folder / "whole.srbw"))
        forked(path, text, "statement", 0)
        after = seen(path)
        assert after[0][1] == text != before[0][1]
        found, problems = Counter[str](), list[str]()
        for how in ("statement", "before", "inside", "after"):
            at, killed = 0, True
            while killed:
                at += STEP
                path = Path(shutil.copy(base, folder / f"{at}-{how}.srbw"))
                killed = forked(path, text, how, at)
                now = seen(path)
                found["before" if now == before else "after" if now == after else "neither"] += 1
                problems += check(path).problems
                path.unlink()
        results[name] = {kind: found[kind] for kind in ("before", "after", "neither")}
        results[name]["problems"] = problems
    return results


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]))))
