"""A story: the one object through which a story's tree is read and changed.

The story lives in memory; its journal writes behind it. Any thread may call any method: one verb runs at a
time, and nobody waits for a disk. A verb checks first, then sets; one that raises changed nothing. Nothing
here knows an engine or a screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from srbwriter.story import library, outline
from srbwriter.story.draft import StoryDraft, default_language, language_tag, rows_of
from srbwriter.story.journal import FileLock, Journal, RowFile, SaveState, saving, state_of
from srbwriter.story.library import create_story, open_story
from srbwriter.story.model import (
    ROOT,
    JsonObject,
    JsonValue,
    NodeId,
    Refused,
    Span,
    State,
    StorySettings,
    as_object,
    settings_json,
)
from srbwriter.story.node import Node
from srbwriter.story.spans import Edit, edit_between, edited, fit, part_of, plain, text_of, tidy
from srbwriter.story.tree import Action, Rows, Tree
from srbwriter.story.words import well_formed


class Story(Tree, AbstractContextManager["Story"]):
    """An open story. Verbs raise Refused, which is a StoryError, and StoryError in a view."""

    def __init__(self, opened: RowFile) -> None:
        super().__init__()
        self.file = opened.path
        """The story file: a second one, after another program has replaced the first."""
        self._seen: object = None
        self._show(opened)

    def _show(self, opened: RowFile) -> None:
        """Fill memory with what a file holds, and write behind it from now on, if its lock is held."""
        self._take_in(opened.rows)
        self.read_only, self.damage = opened.read_only, opened.problem
        self._shown = opened.summary
        self._say_replaced(opened.second_file)
        self._journal = Journal(opened, self._rows, self._summary, self._moved)

    def _summary(self) -> JsonObject:
        """Return what a list of stories shows; as it was before, if a verb waits for the journal (ctrl+z)."""
        if self.lock.acquire(timeout=0.1):
            try:
                self._shown = {"title": self.title, "words": self.words(self.current)}
            finally:
                self.lock.release()
        return self._shown

    def _hand_over(self, rows: Rows) -> None:
        self._journal.put(rows | {("value", "uuid"): self._values.get("uuid")})  # whose rows they are

    def _say_replaced(self, ours: Path | None) -> None:
        words = f"Another program changed {self.file.name} while it was open here. That version stays there;"
        self.replaced = f"{words} yours is in {ours.name}." if ours is not None else ""

    def _moved(self, ours: Path) -> None:
        with self.lock:
            self._say_replaced(ours)
            self.file = ours
            self._values["title"] = f"{self.title} (your version)"

    # -- open and close ----------------------------------------------------------------------------

    @classmethod
    def create(cls, path: Path | str, title: str = "") -> Story:
        """Create a story file, and its folder. Raises NotSaved if that fails, also if it exists."""
        return cls.from_draft(path, StoryDraft(title=" ".join(well_formed(title).split()) or Path(path).stem))

    @classmethod
    def from_draft(cls, path: Path | str, draft: StoryDraft) -> Story:
        """Create a story file from a draft, which becomes the story. Raises NotSaved."""
        with saving(Path(path)):
            return cls(create_story(Path(path), rows_of(draft)))

    @classmethod
    def open(cls, path: Path | str, *, readonly: bool = False) -> Story:
        """Open an existing story. If it cannot be written to, :attr:`read_only` says why.

        Before a story of an older version is upgraded, a copy of it goes to the backups. Raises NotAStory.
        """
        return cls(open_story(Path(path), readonly=readonly))

    def close(self) -> None:
        """Write everything and close the file. Raises NotSaved; then the words are kept elsewhere."""
        self._journal.close()

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def save_state(self) -> SaveState:
        """Whether everything is on the disk, and why not."""
        return self._journal.state

    def flush(self) -> None:
        """Wait until everything is on the disk. Raises NotSaved, and the journal retries."""
        self._journal.flush()

    def follow(self) -> bool:
        """In a view of a story that is open elsewhere: read it again if it has changed; say whether.

        When the other program has closed it, this view becomes writable.
        """
        if self.read_only is None or self.read_only.reason != "in use":
            return False
        if (now := state_of(self.file)) is None:
            return False  # it was moved or deleted there
        lock = None
        with suppress(OSError):
            lock = FileLock(self.file)
        if lock is None and now == self._seen:
            return False
        opened = open_story(self.file, lock=lock)
        with self.lock:
            self._seen = now
            self._show(opened)
            self.changes += 1
        return True

    def backup_folder(self, folder: Path) -> Path:
        """Return the folder for copies of this story below ``folder``; moving the file does not change it."""
        return library.own_folder(self._values.get("uuid"), self.file, folder)

    def draft(self) -> StoryDraft:
        """Return a copy of the whole tree as it is now, with the bin, but without what only undo needs."""
        with self.lock:
            order = [ROOT]
            for number in order:  # which grows
                below = self.nodes(self.all_children(number))
                order += [n.id for n in below if n.state != State.ABSORBED or self.all_children(n.id)]
            nodes = {number: self.node(number) for number in order}
            title, author, language, uuid = self.properties.values()
            values = {key[2:]: value for key, value in self._values.items() if key.startswith("x-")}
            return StoryDraft(nodes, self.current, title, author, language, uuid, values, self.days())

    # -- the story ---------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        return str(self._values.get("title", ""))

    @property
    def properties(self) -> dict[str, str]:
        """Title, author, language (BCP 47; that of the locale if it has none), and the UUID of exports."""
        found = {key: str(self._values.get(key) or "") for key in ("title", "author", "language")}
        uuid = as_object(self._values.get("draft")).get("id") or self._values.get("uuid", "")
        return found | {"language": found["language"] or default_language(), "id": str(uuid)}

    def set_properties(self, **given: str) -> None:
        """Set some of title, author and language; an empty language is that of the locale.

        Raises Refused for an empty title, and for a language without a BCP 47 tag.
        """
        with self.together():
            for key, words in given.items():
                words = " ".join(well_formed(words).split())
                if key == "title" and not words:
                    raise Refused("a story needs a title, and this one has no letter in it")
                value = language_tag(words) if words and key == "language" else words
                if value is None:
                    raise Refused(f"{words} is no language tag; one is written en, de or pt-BR")
                self.put(key, value)

    def put_value(self, key: str, value: JsonValue, *, local: bool = False) -> None:
        """Keep a JSON value for an interface; no export has a ``local`` one. This is not an action."""
        with self.together():
            self.put(f"local-{key}" if local else f"x-{key}", value)

    def put_settings(self, node: NodeId, settings: StorySettings) -> None:
        """Set the settings of ``node``, which its descendants inherit. Not an action of the text."""
        with self.together():
            self.set(self.check_living(node), own_settings=settings_json(settings))

    def put_meta(self, node: NodeId, key: str, value: JsonValue) -> None:
        """Keep a JSON value with a node; this is not an action."""
        with self.together():
            self.set(self.node(node), meta={**self.node(node).meta, key: value})

    # -- the tree ----------------------------------------------------------------------------------

    def pick(self, node: NodeId, at: int | None = None) -> NodeId:
        """Pick ``node`` as the current node; or its first ``at`` characters, in a new node beside it.

        Ancestors in the bin are restored, so that the picked text is readable from its beginning.
        """
        with self.verb("pick", node) as action:
            found = self.check_living(node, below_bin=True)
            if at is not None and not 0 < at <= len(found.text):
                raise Refused(f"node {node} has {len(found.text)} characters, not {at}")
            self.set(found, visited=True)
            if at in (None, len(found.text)):
                return self._picked(action, found)
            part = found.text[:at]
            return self.pick_as(found.parent or ROOT, part, part, node)

    def pick_as(self, parent: NodeId, text: str, original: str, end: NodeId | None = None) -> NodeId:
        """Pick ``text``, an edited version of a model's ``original``, in a new node below ``parent``.

        With ``end``, the nodes from ``parent`` down to ``end`` begin with ``original``. They stay as they
        are, and unchanged text keeps its tokens.
        """
        with self.verb("pick", parent) as action:
            self.check_unwritten(self.check_living(parent, below_bin=True))
            below = self.nodes(self.path(end)[len(self.path(parent)) :]) if end is not None else []
            first = below[0] if below else None
            whole = [span for node in below for span in node.spans] or plain(original, "model")
            begun = part_of(whole, 0, len(original), self.token_sizes)
            spans = edited(begun, [edit_between(original, well_formed(text))], self.token_sizes)
            if text == original:  # the whole branch is beside it
                author, undone, reason = first.author if first is not None else "model", State.ABSORBED, "cut"
            else:
                author, undone, reason = "edited", State.BINNED, ""
            made = self.add_node(parent, spans, author, like=first, undone=undone, finish_reason=reason)
            return self._picked(action, made)

    def _picked(self, action: Action, node: Node) -> NodeId:
        """Go to ``node``, and count the words by which the text is longer there."""
        self.restore(node.id)
        action.words = max(0, self.words(node.id) - self.words(self.current))
        self.put("current", node.id)
        return node.id

    def visit(self, node: NodeId) -> None:
        """Make ``node`` the current one and mark it read. This is not an action."""
        with self.together():
            self.set(self.check_living(node), visited=True)
            self.put("current", node)
            self.end_typing()

    def delete(self, node: NodeId) -> None:
        """Move ``node`` to the bin, with all its descendants."""
        with self.verb("delete", node):
            found = self.check_living(node)
            if found.parent is None:
                raise Refused("the root of the story cannot be deleted")
            self.set(found, state=State.BINNED)

    def restore(self, node: NodeId) -> None:
        """Take ``node`` out of the bin, with all its ancestors."""
        with self.verb("restore", node):
            for above in self.line(node):
                if above.state != State.LIVING:
                    self.set(above, state=State.LIVING)

    def mark(self, node: NodeId, *, bookmark: bool) -> None:
        """Set or remove the bookmark of a node."""
        with self.verb("bookmark", node):
            self.set(self.check_living(node), bookmark=bookmark)

    # -- chapters ----------------------------------------------------------------------------------

    def outline(self) -> list[outline.Chapter]:
        """Chapters and scenes of the text up to the current node, with their words."""
        return outline.outline(self.text(self.current))

    def put_heading(self, place: int, title: str) -> None:
        """Begin a chapter at character ``place``, or give it another title, as ``heading_edit`` says."""
        with self.verb("heading", self.current):
            self.replace(outline.heading_edit(self.text(self.current), place, title))

    def move_chapter(self, place: int, *, later: bool) -> int:
        """Let the chapter that holds character ``place`` change places with the next or previous one.

        The first of the two is cut out of the text, and put in behind the other with its tokens.
        Returns the character at which the chapter starts now. Raises Refused without such a chapter.
        """
        with self.verb("move_chapter", self.current):
            text, whole = self.text(self.current), [s for node in self.line(self.current) for s in node.spans]
            first, second, end = outline.neighbours(text, place, later)
            ending = text[second:end][-2:]
            gap = "\n\n"[len(ending) - len(ending.rstrip("\n")) :]  # missing at the end of a text
            moved = (*plain(gap, "writer"), *part_of(whole, first, second, self.token_sizes))
            edits = Edit(first, second, ""), Edit(end, end, text_of(moved))
            self._change("move_chapter", edits, moved)
            return first + (end - second + len(gap)) * later

    # -- branches that a model writes --------------------------------------------------------------

    def begin_branch(self, parent: NodeId, *, vocab: str = "", **made_by: Any) -> NodeId:
        """Add an empty branch for a model to write, which is known by its node.

        ``made_by`` are its model, sampling and seed. This is not an action: generated text is never undone.
        """
        with self.together():
            self.check_unwritten(self.node(parent))
            self.end_typing()
            return self.add_node(parent, (), "model", visited=False, streaming=vocab, **made_by).id

    def stream(
        self, branch: NodeId, text: str, ids: Sequence[int] = (), logprobs: Sequence[float | None] = (), *,
        lead: str = "",
    ) -> None:  # fmt: skip
        """Add text to a branch. ``lead`` is the part of the first ids already there (token healing)."""
        with self.together():
            node, text = self.node(branch), well_formed(text)
            if (vocab := node.streaming) is None:
                raise Refused(f"node {branch} is not being written")
            more = Span(text, "model", tuple(ids), vocab, tuple(logprobs), lead)
            self.put_spans(node, tidy([*node.spans, more if fit(ids) else Span(text, "model")]))

    def finish(self, branch: NodeId, reason: str) -> None:
        """Mark a branch as completely written, or note another reason: one may be killed after its end."""
        with self.together():
            self.set(self.node(branch), finish_reason=reason, streaming=None)
