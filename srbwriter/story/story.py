"""A story: the one object through which a story's tree is read and changed.

The story lives in memory; its journal writes behind it. Any thread may call any method: one verb runs at a
time, and nobody waits for a disk. A verb checks first, then sets; one that raises changed nothing. Nothing
here knows an engine or a screen.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Self
from uuid import uuid4

from srbwriter.story import backup, convert, outline, search, store
from srbwriter.story.connection import log_of, making, not_saved, remove, state_of
from srbwriter.story.edits import Edit, edit_between
from srbwriter.story.journal import FileLock, Journal, SaveState
from srbwriter.story.languages import default_language, language_tag
from srbwriter.story.model import (
    ROOT,
    Author,
    Blocked,
    Damage,
    Hit,
    JsonObject,
    JsonValue,
    Marks,
    NodeId,
    NotSaved,
    OnProgress,
    Progress,
    Properties,
    Refused,
    SecondFile,
    Settings,
    Span,
    State,
    StoryDraft,
    TokenSizes,
    as_object,
    check_draft,
    no_progress,
    settings_text,
)
from srbwriter.story.node import Node, Recipe, node_of
from srbwriter.story.open import Opened, create_story, locked, open_story, read_story, rescue_of
from srbwriter.story.spans import changed, cut, fit, plain, tidy
from srbwriter.story.store import Image
from srbwriter.story.text import TextEditor
from srbwriter.story.tree import Action, Rows, Tree, picked_words
from srbwriter.story.words import well_formed, words_of

log = logging.getLogger(__name__)


class Story(Tree):
    """An open story. Verbs raise NoSuchNode, Refused or ReadOnlyStory, all of them StoryError."""

    def __init__(self, opened: Opened) -> None:
        super().__init__()
        self._editor = TextEditor(self)
        self._path, self.second_file = opened.path, opened.second_file
        self.damage: Damage | None = None
        """The unreadable parts of a damaged file; None for an intact one."""
        self._lock_held, self._journal = opened.lock, None
        self._closed = False
        self._seen: object = None
        self._load(opened.image)
        self.read_only = opened.read_only
        if opened.lock is not None and opened.read_only is None:
            self._begin_journal(opened.lock, opened.image.token)
            if opened.unsaved:
                self._hand_over(opened.unsaved)

    def _load(self, image: Image) -> None:
        """Fill memory with what a file holds."""
        self._forget()
        for (table, key), row in image.rows.items():
            if row is None:
                continue
            with contextlib.suppress(ValueError, TypeError):
                if table == "value":
                    self._values[key] = json.loads(row[1])
                elif table == "recipe":
                    self._recipes[key] = Recipe(row[0], row[1], json.loads(row[2]))
                elif table == "day":
                    self._days[key] = Progress(*row[1:])
                elif table == "action":
                    self._actions.append(Action.of(row[1]))
        self._actions.sort(key=lambda action: action.number)
        numbers = [action.number for action in self._actions]
        if numbers and numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            self._actions = []  # damaged
        done = self._values.pop("done", 0)
        self._done = min(done if isinstance(done, int) else 0, len(self._actions))
        for key in ("token", "count", "words"):
            self._values.pop(key, None)
        recipes = self._recipes
        self._take_in(node_of(row, recipes) for (t, _), row in image.rows.items() if t == "node" and row)
        if "current" not in self._values:  # then the newest node that was read is likeliest
            read = [node.id for node in self if node.state == State.LIVING and node.visited]
            self._values["current"] = max(read, default=ROOT)
        self._values["current"] = self.nearest_living(self.current)
        self.damage = image.damage

    def _begin_journal(self, lock: FileLock, token: str) -> None:
        self._journal = Journal(
            self._path, token, lock, self._rows, self._summary, rescue_of(str(self._values.get("uuid", ""))),
            self._moved,
        )  # fmt: skip

    def _summary(self) -> Rows:
        """Return the values that a list of stories shows."""
        with self.lock:
            found = {"count": len(self._nodes), "words": self.words(self.current)}
            return {("value", key): (key, json.dumps(value)) for key, value in found.items()}

    def _hand_over(self, rows: Rows) -> None:
        if self._journal is not None:
            self._journal.put(rows)

    def _moved(self, second: SecondFile) -> None:
        with self.lock:
            self._path, self.second_file = second.ours, second
            self._values["title"] = f"{self.title} (your version)"

    # -- open and close ----------------------------------------------------------------------------

    @classmethod
    def create(cls, path: Path | str, title: str = "") -> Story:
        """Create a story file, and its folder. Raises NotAStory if it exists, NotMade if that fails."""
        values: JsonObject = {
            "title": " ".join(well_formed(title).split()) or Path(path).stem, "current": ROOT,
            "uuid": str(uuid4()), "language": default_language(),
        }  # fmt: skip
        rows: Rows = {("value", key): (key, json.dumps(value)) for key, value in values.items()}
        rows["node", ROOT] = Node(ROOT, None).row()
        with making(Path(path)):
            return cls(create_story(Path(path), rows))

    @classmethod
    def from_draft(cls, path: Path | str, draft: StoryDraft, progress: OnProgress = no_progress) -> Story:
        """Create a story file from a draft. Raises DraftError, NotAStory or NotMade; then no file is left."""
        check_draft(draft)
        story = cls.create(path, draft.title)
        try:
            with making(story.file):
                convert.fill(story, draft, progress)
                story.flush()
        except BaseException:
            with contextlib.suppress(NotSaved):
                story.close()
            remove(story.file)
            raise
        return story

    @classmethod
    def open(cls, path: Path | str, *, readonly: bool = False, backups: Path | None = None) -> Story:
        """Open an existing story. If it cannot be written to, :attr:`read_only` says why.

        Before a story of an older version is upgraded, a copy of it goes below ``backups`` (the program's own
        backup folder by default). Raises NotAStory, TooNew, or NotSaved without room for the upgrade.
        """
        opened = open_story(Path(path), readonly=readonly, backups=backups)
        try:
            return cls(opened)
        except BaseException:
            if opened.lock is not None:
                opened.lock.release()
            raise

    def close(self) -> None:
        """Write everything and close the file. Raises NotSaved; then the words are kept elsewhere."""
        with self.lock:
            if self._closed:
                return
            self._closed = True
        if self._journal is not None:
            self._journal.close()
        elif self._lock_held is not None:
            self._lock_held.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def file(self) -> Path:
        """The path of the story file: a second one, after another program has replaced the first."""
        return self._path

    @property
    def save_state(self) -> SaveState:
        """Whether everything is on the disk, and why not."""
        return self._journal.state if self._journal is not None else SaveState(True)

    def flush(self) -> None:
        """Wait until everything is on the disk. Raises NotSaved, and the journal goes on trying."""
        if self._journal is not None:
            self._journal.flush()

    def follow(self) -> bool:
        """In a view of a story that is open elsewhere: read it again if it has changed; say whether.

        When the other program has closed it, this view becomes writable.
        """
        if self.read_only is None or self.read_only.reason is not Blocked.IN_USE:
            return False
        now = state_of(self._path), state_of(log_of(self._path))
        lock, _ = locked(self._path)
        if now[0] is None or (lock is None and now == self._seen):
            if lock is not None:  # the story was moved or deleted there
                lock.release()
            return False
        if lock is not None:
            opened = open_story(self._path, readonly=False, lock=lock)
        else:
            opened = Opened(self._path, read_story(self._path), read_only=self.read_only)
        with self.lock:
            self._load(opened.image)
            self._seen, self.read_only = now, opened.read_only
            if opened.lock is not None and opened.read_only is None:
                self._lock_held = opened.lock
                self._begin_journal(opened.lock, opened.image.token)
                self._hand_over(opened.unsaved)
            self.changes += 1
        return True

    @property
    def rescue(self) -> Path | None:
        """The file with the whole story, while the disk takes no words; None if there is none."""
        file = self._journal.rescue if self._journal is not None else None
        return file if file is not None and file.exists() else None

    def use_token_sizes(self, sizes: TokenSizes | None) -> None:
        """Use ``sizes`` for the lengths of tokens, so that a cut in generated text keeps its ids."""
        self.token_sizes = sizes

    # -- the story ---------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        return str(self._values.get("title", ""))

    @property
    def properties(self) -> Properties:
        """Title, author and language; without a language of its own, the story has that of the locale."""
        author, language = (str(self._values.get(key) or "") for key in ("author", "language"))
        return Properties(self.title, author, language or default_language())

    @property
    def id(self) -> str:
        """The UUID of the story, which exported books carry."""
        came = self._values.get("draft")
        given = as_object(came).get("id")
        return str(given or self._values.get("uuid", ""))

    def rename(self, title: str) -> None:
        """Set the title of the story. Raises Refused for an empty one."""
        self.set_properties(replace(self.properties, title=title))

    def set_properties(self, properties: Properties) -> None:
        """Set title, author and language; an empty language is that of the locale.

        Raises Refused for an empty title, and for a language without a BCP 47 tag, unless it is the present
        one, which may come from another program's file.
        """
        title, author = (
            " ".join(well_formed(words).split()) for words in (properties.title, properties.author)
        )
        wanted = properties.language.strip()
        language = language_tag(wanted) if wanted else default_language()
        if language is None and wanted == self.properties.language:
            language = wanted
        if not title:
            raise Refused("a story needs a title, and this one has no letter in it")
        if language is None:
            raise Refused(f"{wanted} is no language tag; one is written en, de or pt-BR")
        with self.change():
            for key, value in (("title", title), ("author", author), ("language", language)):
                self.put(key, value)

    def set_apart(self, title: str) -> None:
        """Make this copy of another story independent: give it ``title`` and a UUID of its own."""
        with self.change():
            self.rename(title)
            self.put("uuid", str(uuid4()))

    def put_value(self, key: str, value: JsonValue) -> None:
        """Keep a JSON value for an interface; this is not an action."""
        with self.change():
            self.put(f"x-{key}", value)

    def put_local_value(self, key: str, value: JsonValue) -> None:
        """Keep a JSON value for an interface in this file only: no export has it. Not an action."""
        with self.change():
            self.put(f"local-{key}", value)

    def put_settings(self, node: NodeId, settings: Settings) -> None:
        """Set the settings of ``node``, which its descendants inherit. Not an action of the text."""
        with self.change():
            self.set(self.check_living(node), own_settings=settings_text(settings))

    def put_meta(self, node: NodeId, key: str, value: JsonValue) -> None:
        """Keep a JSON value with a node; this is not an action."""
        with self.change():
            found = self.node(node)
            self.set(found, extra=json.dumps({**found.meta, key: value}))

    # -- text --------------------------------------------------------------------------------------

    def replace(self, *edits: Edit, node: NodeId | None = None) -> NodeId:
        """Apply ``edits`` to the text from the root to the end of ``node`` (the current one), as one action.

        The edits are in order and disjoint, and their places are those of the text before all of them.
        Returns the node at which the text ends now, which becomes the current one. Raises Refused for an edit
        that is not within the text.
        """
        with self.change():
            return self._editor.replace(edits, self.current if node is None else node)

    def set_text(self, text: str, node: NodeId | None = None) -> NodeId:
        """Make ``text`` the text from the root to the end of ``node``, as :meth:`replace` does."""
        with self.change():
            node = self.current if node is None else node
            return self._editor.replace([edit_between(self.text(node), well_formed(text))], node)

    def append(self, text: str, node: NodeId | None = None) -> NodeId:
        """Type ``text`` at the end of ``node`` (the current one); return the node that holds it.

        That is ``node`` itself if a person wrote it and nothing follows it, else a new child.
        """
        with self.change():
            return self._editor.append(self.current if node is None else node, well_formed(text))

    def rewrite(self, start: int, end: int, spans: Sequence[Span]) -> None:
        """Replace characters ``start`` to ``end`` of the current text by ``spans``, which a model wrote.

        One action; an empty passage is a place. Raises Refused for one that is not within the text.
        """
        with self.change():
            self._editor.put_passage(start, end, tuple(spans), self.current)
            self.end_typing()

    def end_typing(self) -> None:
        """Let the next keystroke start an action of its own."""
        self._editor.unit = None

    # -- the tree ----------------------------------------------------------------------------------

    @contextmanager
    def verb(self, name: str, node: NodeId, *, again: bool = False) -> Generator[Action]:
        """See :meth:`.tree.Tree.verb`; another verb ends the unit of typing."""
        if not again:
            self._editor.unit = None
        with super().verb(name, node, again=again) as action:
            yield action

    def add(
        self, parent: NodeId, texts: Sequence[str], author: Author = "writer", *, stand: bool = False
    ) -> list[NodeId]:
        """Add ``texts`` as branches below ``parent``; with ``stand``, move to the last one.

        Text by "imported" does not count as written today, nor by "model" before it is picked.
        """
        with self.verb("add", parent) as action:
            self.check_unwritten(self.check_living(parent))
            made = [self.add_node(parent, plain(well_formed(t), author), author) for t in texts]
            if author in ("writer", "edited"):
                action.typed += sum(node.count[0] for node in made)
            if stand and made:
                action.became = made[-1].id
            return [node.id for node in made]

    def pick(self, node: NodeId, at: int | None = None) -> NodeId:
        """Pick ``node``, or its first ``at`` characters, as the current node; the rest becomes its child.

        Ancestors in the bin are restored, so that the picked text is readable from its beginning.
        """
        with self.verb("pick", node) as action:
            found = self.check_kept(node)
            if at is not None and not 0 < at <= len(found.text):
                raise Refused(f"node {node} has {len(found.text)} characters, not {at}")
            if at is not None and at < len(found.text):
                self.check_unwritten(found)
                self.split_node(found, at)
            self._take_out_of_bin(node)
            self.set(found, visited=True)
            action.picked, action.became = picked_words(self, action.was, node), node
            return node

    def pick_as(self, parent: NodeId, text: str, original: str, end: NodeId | None = None) -> NodeId:
        """Pick ``text``, an edited version of a model's ``original``, below ``parent``; return its node.

        With ``end``, the nodes from ``parent`` down to ``end`` begin with ``original``. They stay as they
        are, and unchanged text keeps its tokens.
        """
        with self.verb("pick", parent) as action:
            self.check_unwritten(self.check_kept(parent))
            self._take_out_of_bin(parent)
            text = well_formed(text)
            below = self.nodes(self.path(end)[len(self.path(parent)) :]) if end is not None else []
            spans = plain(original, "model")
            if below:
                whole = tidy(span for node in below for span in node.spans)
                spans = cut(whole, len(original), self.token_sizes)[0]
            if text != original:
                spans = changed(spans, text, "writer", self.token_sizes)
            like: JsonObject = {}
            if below:
                like = {"recipe": below[0].recipe, "seed": below[0].seed, "place": below[0].place}
            made = self.add_node(parent, spans, "model" if text == original else "edited", **like)
            action.typed = words_of(text) - words_of(original)
            known = sum(node.count[0] for node in below if node.author == "writer")
            action.picked = self.words(made.id) - self.words(parent) - action.typed - known
            action.became = made.id
            return made.id

    def _take_out_of_bin(self, node: NodeId) -> None:
        for above in list(self.upward(node)):
            self.set(above, state=State.LIVING)

    def visit(self, node: NodeId) -> None:
        """Make ``node`` the current one and mark it read. This is not an action."""
        with self.change():
            self.set(self.check_living(node), visited=True)
            self.put("current", node)
            self.end_typing()

    def split(self, node: NodeId, at: int) -> NodeId:
        """Move the text from ``at`` on, with all children of ``node``, into a new child; return the child."""
        with self.verb("split", node) as action:
            self.check_parent(node, "split")
            found = self.node(node)
            self.check_unwritten(found)
            if not 0 < at < len(found.text):
                raise Refused(f"node {node} cannot be split at character {at} of {len(found.text)}")
            rest = self.split_node(found, at)
            action.became = rest.id if action.was == node else action.became
            return rest.id

    def merge(self, node: NodeId) -> NodeId:
        """Join ``node`` to its parent and return that; siblings stay below a copy of the parent."""
        with self.verb("merge", node) as action:
            parent, lower = self.check_parent(node, "merged"), self.node(node)
            if parent.id == ROOT:
                raise Refused(f"node {node} has no parent with text to merge with")
            self.check_unwritten(parent, lower)
            self.join_node(parent, lower)
            if lower.own_settings:
                both = self.own_settings(node).inherit(self.own_settings(parent.id))
                self.set(parent, own_settings=settings_text(both))
            tags = dict.fromkeys((*parent.tags, *lower.tags))
            self.set(
                parent, bookmark=parent.bookmark or lower.bookmark, labels="\n".join(tags),
                note="\n".join(filter(None, (parent.note, lower.note))), title=parent.title or lower.title,
            )  # fmt: skip
            if parent.author != lower.author:
                spans = parent.spans
                self.set(parent, author="edited")
                self.put_spans(parent, spans)
            action.became = parent.id if action.was == node else action.became
            return parent.id

    def delete(self, node: NodeId) -> None:
        """Move ``node`` to the bin, with all its descendants."""
        with self.verb("delete", node) as action:
            parent = self.check_parent(node, "deleted")
            if any(above.id == node for above in self.upward(action.was)):
                action.became = parent.id
            self.set(self.node(node), state=State.BINNED)

    def restore(self, node: NodeId) -> None:
        """Take ``node`` out of the bin, with all its ancestors."""
        with self.verb("restore", node):
            if self.node(node).state == State.ABSORBED:
                self.check_kept(node)
            self._take_out_of_bin(node)

    def reorder(self, node: NodeId, index: int) -> None:
        """Move ``node`` to position ``index`` (from 0) among its siblings."""
        with self.verb("reorder", node):
            parent = self.check_parent(node, "moved")
            living = [sibling for sibling in self.children(parent.id) if sibling != node]
            order = [sibling for sibling in self.all_children(parent.id) if sibling != node]
            index = max(0, min(index, len(living)))
            order.insert(order.index(living[index]) if index < len(living) else len(order), node)
            for place, sibling in enumerate(order):
                self.set(self.node(sibling), place=place)

    def move(self, node: NodeId, parent: NodeId) -> None:
        """Move ``node``, with all its descendants, below ``parent``, as the last of its children.

        Raises Refused if ``parent`` is ``node`` or follows it, and while a model writes at either.
        """
        with self.verb("move", node):
            above, target = self.check_parent(node, "moved"), self.check_living(parent)
            if any(n.id == node for n in self.upward(parent)):
                problem = "itself" if node == parent else f"node {parent}, which follows it"
                raise Refused(f"node {node} cannot be moved below {problem} — choose a node outside of it")
            if parent == above.id:
                raise Refused(f"node {node} follows node {parent} already")
            below = [n for n, _ in self._live.values() if any(a.id == node for a in self.upward(n))]
            self.check_unwritten(target, *self.nodes(below))
            self.set(self.node(node), parent=parent, place=self.last_place(parent))

    def mark(
        self, node: NodeId, *, bookmark: bool | None = None, tags: Sequence[str] | None = None,
        note: str | None = None, title: str | None = None,
    ) -> Marks:  # fmt: skip
        """Change some of a node's marks and return all of them."""
        if any("\n" in tag or not tag for tag in tags or ()):
            raise Refused("a tag is one line with something in it")
        labels = None if tags is None else well_formed("\n".join(tags))
        given = {"bookmark": bookmark, "labels": labels, "note": note, "title": title}
        with self.verb("mark", node):
            words = {
                k: well_formed(v) if isinstance(v, str) else v for k, v in given.items() if v is not None
            }
            found = self.check_living(node)
            self.set(found, **words)
            return found.marks

    # -- chapters ----------------------------------------------------------------------------------

    def outline(self) -> list[outline.Chapter]:
        """Chapters and scenes of the text up to the current node, with their words."""
        return outline.outline(self.text(self.current))

    def begin_chapter(self, at: int, title: str) -> int:
        """Write the heading of a chapter before the paragraph at character ``at``; a scene without a title.

        At the end of the text it stands behind the last paragraph. Returns where its line begins.
        """
        with self.verb("heading", self.current):
            text = self.text(self.current)
            if not 0 <= at <= len(text):
                raise Refused(f"the text has no character {at}")
            at, words = outline.heading_at(text, at, title)
            self._editor.replace([Edit(at, at, words)], self.current)
            return at + len(words) - len(words.lstrip("\n"))

    def set_heading(self, at: int, title: str) -> None:
        """Give the chapter whose line begins at character ``at`` another title; empty for a scene break."""
        with self.verb("heading", self.current):
            found = next((c for c in self.outline() if c.begin == at), None)
            if found is None:
                raise Refused("there is no chapter")
            signs = "#" * (found.level or 1) if title.strip() else ""
            line = f"{signs} {' '.join(title.split())}" if signs else outline.heading_of("")
            self._editor.replace([Edit(at, found.end, line)], self.current)

    def move_chapter(self, place: int, *, later: bool) -> int:
        """Let the chapter that holds character ``place`` change places with the next or previous one.

        Nodes keep numbers, tokens and marks. What was not picked stays below the node that it follows.
        Returns the character at which the chapter starts now. Raises Refused without such a chapter.
        """
        with self.verb("move_chapter", self.current):
            return outline.move_chapter(self, place, later)

    # -- branches that a model writes --------------------------------------------------------------

    def begin_branches(
        self, parent: NodeId, n: int, *, model: str = "", vocab: str = "",
        sampling: JsonObject | Sequence[JsonObject] = (), seeds: Sequence[int | None] = (),
    ) -> list[NodeId]:  # fmt: skip
        """Add ``n`` empty branches for a model to write; ``sampling`` is one for all, or one for each.

        This is not an action: generated text is never undone. A branch is known by its first node.
        """
        each = [sampling] * n if isinstance(sampling, dict) else list(sampling) or [{}] * n
        with self.change():
            if self.node(parent).state == State.ABSORBED:
                raise Refused(f"node {parent} is part of another node now")
            if self.node(parent).streaming:
                raise Refused(f"node {parent} is still being written — finish it, or pick a part of it")
            names: list[NodeId] = []
            for own, seed in zip(each, list(seeds) or [None] * n, strict=True):
                recipe = self.recipe(model, own)
                node = self.add_node(
                    parent, (), "model", recipe=recipe, seed=seed, visited=False, streaming=True
                )
                self._live[node.id] = node.id, vocab
                names.append(node.id)
            return names

    def target(self, branch: NodeId) -> NodeId:
        """Return the node that gets a branch's text now. Raises Refused if it is not being written."""
        return self._live_branch(branch)[0].id

    def _live_branch(self, branch: NodeId) -> tuple[Node, str]:
        if branch not in self._live:
            raise Refused(f"node {branch} is not being written")
        node, vocab = self._live[branch]
        return self._nodes[node], vocab

    def stream(
        self, branch: NodeId, text: str, ids: Sequence[int] = (), logprobs: Sequence[float | None] = (), *,
        lead: str = "",
    ) -> None:  # fmt: skip
        """Add text to a branch. ``lead`` is the part of the first ids already there (token healing)."""
        if text or ids:
            with self.change():
                node, vocab = self._live_branch(branch)
                self.put_spans(node, tidy([*node.spans, _span(text, ids, logprobs, vocab, lead)]))

    def replace_stream(
        self, branch: NodeId, text: str = "", ids: Sequence[int] = (), seed: int | None = None
    ) -> NodeId:
        """Restart a branch with ``text``; return its new first node, by which it is known from now on.

        The text written so far stays as a node with the old number. Without a ``seed`` the old one stays.
        """
        with self.change():
            node, vocab = self._live_branch(branch)
            first = self.node(branch)
            spans, seed = tidy([_span(text, ids, (), vocab)]), first.seed if seed is None else seed
            if node.id == branch and not first.text:
                self.set(first, seed=seed)
                self.put_spans(first, spans)
                return branch
            new = self.add_node(
                first.parent, spans, "model", place=first.place, recipe=first.recipe, seed=seed,
                visited=False, streaming=True,
            )  # fmt: skip
            self.set(node, finish_reason="replaced", streaming=False)
            del self._live[branch]
            self._live[new.id] = new.id, vocab
            return new.id

    def carry_marks(self, old: NodeId, new: NodeId) -> None:
        """Copy the bookmark of ``old`` to ``new``, another version of the same branch. Not an action."""
        with self.change():
            self.set(self.node(new), bookmark=self.node(old).bookmark)

    def finish(self, branch: NodeId, reason: str) -> None:
        """Mark a branch as completely written; ``reason`` is its finish reason."""
        with self.change():
            node, _ = self._live_branch(branch)
            self.set(node, finish_reason=reason, streaming=False)
            self._record(0, 0, node.count[0])
            del self._live[branch]

    def set_finish_reason(self, node: NodeId, reason: str) -> None:
        """Note why a branch that has been written ended: one may be killed after its end. Not an action."""
        with self.change():
            self.set(self.node(node), finish_reason=reason)

    # -- search, and out of the file ---------------------------------------------------------------

    def search(self, query: str, limit: int = 50, *, with_bin: bool = False) -> list[Hit]:
        """Return the nodes that contain all words of ``query``, newest first; ``"…"`` is a phrase."""
        return search.search(self, query, limit, with_bin)

    def to_draft(self, progress: OnProgress = no_progress) -> StoryDraft:
        """Return the whole tree as it is now, including the bin, as plain values."""
        with self.lock:
            return convert.to_draft(self, progress)

    def backup_folder(self, folder: Path) -> Path:
        """Return the folder for copies of this story below ``folder``; moving the file does not change it."""
        return backup.own_folder(self._values.get("uuid"), self.file, folder)

    def snapshot(self, folder: Path, name: str) -> Path:
        """Save a named copy below ``folder``, which is never removed. Raises NotSaved."""
        self.flush()
        return backup.snapshot(self.file, self.backup_folder(folder), name)

    def recover(self, target: Path, title: str) -> Path:
        """Save this view of a damaged story as a new one called ``title``; return it. Raises NotSaved."""
        rows = self._rows()
        rows["value", "title"] = "title", json.dumps(title)
        try:
            store.write_whole(target, rows, token_hex(8))
        except (OSError, sqlite3.Error) as error:
            raise not_saved(target, error) from error
        return target


def _span(
    text: str, ids: Sequence[int], logprobs: Sequence[float | None], vocab: str, lead: str = ""
) -> Span:
    text = well_formed(text)
    return Span(text, "model", tuple(ids), vocab, tuple(logprobs), lead) if fit(ids) else Span(text, "model")
