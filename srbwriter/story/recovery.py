"""A story of what is left of a damaged one. The original is copied and never opened.

What is not proved to be as it was written is named as doubtful, and so is every node that is missing: the
numbers that were given are known. Nothing is made up: a text that breaks off is shorter.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import closing
from pathlib import Path

from srbwriter.story.connection import copy_aside
from srbwriter.story.lock import Note
from srbwriter.story.migrations import gaps_in
from srbwriter.story.remains import Remains, clean, connected, mend_header, parses
from srbwriter.story.search import take_in
from srbwriter.story.store import Body, Store
from srbwriter.story.tree import SETTINGS, VISITED, Entry
from srbwriter.story.types import ROOT, Damage, NodeId, NotAStory, State, numbers
from srbwriter.story.words import count


def recover(path: Path, problem: str, note: Note) -> tuple[Store, Damage]:
    """A private, read-only story with everything that could be read, and what could not.

    ``note`` is what was found beside the file. Raises NotAStory if nothing about the file looks like a story,
    or NotSaved without room for a copy.
    """
    folder = copy_aside(path)
    try:
        broken = folder / path.name
        marked = mend_header(broken)
        with closing(connected(broken)) as db:
            found = Remains(db, broken.stat().st_size)
        if not marked and not found.proved:
            raise NotAStory(path, "is not a story")
        store = Store.create(Path(tempfile.mkdtemp(dir=folder)) / path.name)
        damage = _rebuild(store, found, problem, note)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Store(path, store.db, writable=False, temp=folder), damage


def _rebuild(store: Store, found: Remains, problem: str, note: Note) -> Damage:
    known = found.known
    missing, doubtful = found.missing(known), set[NodeId]()
    if found.lost_log(note):
        found.other.append("what was written last is lost with the log that lay beside the file")
        missing |= note.nodes - known
        doubtful |= note.nodes & known
    entries: dict[NodeId, Entry] = {}
    cut: dict[NodeId, int] = {}
    with store.transaction():
        for node in sorted(known):
            text, proved = found.text(node)
            body = found.body(node, text)
            store.put_body(node, body)
            entries[node] = _measured(found.entry(node), body)
            if (lost := found.chars(node) - len(text)) > 0 and not proved:
                cut[node] = lost
            elif not proved or not found.sound(node):
                doubtful.add(node)
        if copied := sorted(doubtful - found.bodies.keys() - {ROOT}):
            found.other.append(f"the text of nodes {numbers(copied)} is from the search index")
        displaced = _hang(entries)
        store.put_entries(entries.values())
        _put_the_rest(store, found, entries)
        take_in(store.db)
    return Damage(
        problem,
        len(known),
        tuple(sorted(missing)),
        tuple(cut),
        sum(cut.values()),
        tuple(sorted(displaced)),
        tuple(sorted(doubtful)),
        tuple(found.other),
    )


def _measured(entry: Entry, body: Body) -> Entry:
    words = count(body.text)
    flags = entry.flags & ~SETTINGS | (SETTINGS if body.settings else 0)
    return entry._replace(chars=len(body.text), words=words.words, edges=words.edges, flags=flags)


def _hang(entries: dict[NodeId, Entry]) -> set[NodeId]:
    """Hang below the root whatever hangs on nothing, and the lowest node of every ring; returns them."""
    below: dict[NodeId | None, list[NodeId]] = {}
    for node, entry in entries.items():
        below.setdefault(entry.parent, []).append(node)
    moved = {node for node, entry in entries.items() if entry.parent not in entries} - {ROOT}
    reached = set[NodeId]()

    def reach(*nodes: NodeId) -> None:
        waiting = list(nodes)
        while waiting:
            node = waiting.pop()
            if node not in reached:
                reached.add(node)
                waiting += below.get(node, ())

    reach(ROOT, *moved)
    for start in sorted(entries.keys() - reached):
        walked, node = dict[NodeId, int](), start
        while node not in reached and node not in walked:
            walked[node] = len(walked)
            node = entries[node].parent or ROOT
        if node not in reached:
            lowest = min(above for above, step in walked.items() if step >= walked[node])
            moved.add(lowest)
            reach(lowest)
    for node in moved:
        entries[node] = entries[node]._replace(parent=ROOT, place=node)
    entries[ROOT] = entries[ROOT]._replace(parent=None)
    return moved


def _put_the_rest(store: Store, found: Remains, entries: dict[NodeId, Entry]) -> None:
    for number, model, sampling in found.recipes:
        if parses(lambda text: dict(json.loads(text)), sampling) and isinstance(model, str):
            recipe = number, clean(model), sampling
            store.db.execute("INSERT OR IGNORE INTO recipe VALUES (?, ?, ?)", recipe)
    for key, value in found.values.items():
        if key not in ("written", "head", "touched"):
            store.put_value(key, value)
    read = [e.id for e in entries.values() if e.state == State.LIVING and e.flags & VISITED]
    if "current" not in found.values:  # the writer may have been at the newest node that they had read
        store.put_value("current", max(read, default=ROOT))
    store.put_value("gaps", gaps_in(entries))
    for table, rows in found.progress.items():
        for row in rows:
            store.db.execute(f"INSERT OR IGNORE INTO {table} VALUES (?{', ?' * (len(row) - 1)})", row)
