"""NovelAI stories, scenarios and lorebooks.

The text of a story comes in both of the forms that the program has used: *fragments* (until 2022), and a
*document* (since) of paragraphs, called sections, packed by msgpackr into base64. Retries and
what was undone, which both keep as a history, are not read.  Positions count UTF-16 units.

Facts: NovelAI's scripting types (sections, origins, steps), and a story packed by the program
in the tests of Aedial/novelai-api.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, cast

from srbwriter.story.formats.base import Document, Format
from srbwriter.story.formats.build import Grower, notice, read_time
from srbwriter.story.formats.cursor import Cursor, top
from srbwriter.story.formats.document import mend
from srbwriter.story.formats.lore import add_lore, each, notice_placeholders
from srbwriter.story.formats.packed import PackedError, unpack
from srbwriter.story.model import (
    Author,
    DraftNode,
    JsonObject,
    LoreEntry,
    Span,
    StoryDraft,
    as_list,
    as_object,
)

NAME = "novelai"
SCENARIO_NAME = "novelai-scenario"
LOREBOOK_NAME = "novelai-lorebook"
CONTAINER_VERSION = 1

Stretch = tuple[str, Author]
"""A stretch of text of one author."""

_ENCODED = (
    "The text of this NovelAI story is in an encoded block that cannot be read here ({reason}); everything"
    " else was imported. Export the story as plain text in NovelAI and import that for the text."
)


def matches_story(document: Document) -> bool:
    return "storyContainerVersion" in document.keys


def matches_scenario(document: Document) -> bool:
    return "scenarioVersion" in document.keys and "prompt" in document.keys


def matches_lorebook(document: Document) -> bool:
    return "lorebookVersion" in document.keys


def read_story(document: Document) -> StoryDraft:
    whole = top(document)
    if whole.integer("storyContainerVersion") != CONTAINER_VERSION:
        raise whole.error(f"{CONTAINER_VERSION}, the only version known", "storyContainerVersion")
    content = whole.need_object("content")
    draft = _story_text(content)
    if (about := _object(whole, "metadata")) is not None:
        draft.title = about.text("title")
        draft.created = read_time(about.raw("createdAt"))
        draft.modified = read_time(about.raw("lastUpdatedAt"))
        _describe(draft, about)
    _add_context(draft, content)
    _add_lorebook(draft, content)
    return draft


def read_scenario(document: Document) -> StoryDraft:
    """Read a scenario: its prompt is the text, and placeholders stay in it."""
    whole = top(document)
    grower = Grower()
    prompt = whole.text("prompt")
    end = grower.add(grower.root, DraftNode("", text=prompt, author="writer")) if prompt else None
    draft = grower.draft(end, whole.text("title"))
    draft.byline = whole.text("author")
    _describe(draft, whole)
    _add_context(draft, whole)
    _add_lorebook(draft, whole)
    notice_placeholders(draft)
    return draft


def read_lorebook(document: Document) -> StoryDraft:
    whole = top(document)
    if not isinstance(whole.raw("entries"), list):
        raise whole.error("a list", "entries")
    draft = Grower().draft()
    _read_entries(draft, whole)
    return draft


def _story_text(content: Cursor) -> StoryDraft:
    """The draft with the story's text."""
    packed, plain = content.raw("document"), content.raw("story")
    if packed is None and plain is None:
        raise content.error("a story, or a document", "story")
    text: list[Stretch] | None = None
    reason = "it is empty"
    if isinstance(packed, str) and packed:
        try:
            text = from_document(packed, content)
        except PackedError as error:
            reason = f"expected {error}"
    story = _object(content, "story")
    if story is not None and not text:
        text = from_blocks(story)
    if text is None:
        draft = Grower().draft()
        if packed is not None:
            notice(draft, _ENCODED.format(reason=reason))
        return draft
    grower = Grower()
    end = grower.root
    for stretches in _split_by_author(text):
        end = grower.add(end, _node(stretches))
    return grower.draft(end)


def _object(above: Cursor, key: str) -> Cursor | None:
    """Return an optional object; any other value in its place adds a notice."""
    found = above.object(key)
    if found is None and above.raw(key) is not None:
        above.add_notice("left out; expected an object", key)
    return found


def _describe(draft: StoryDraft, about: Cursor) -> None:
    """The description as the note of the whole story, and its tags."""
    draft.root.mark(note=about.text("description"))
    tags = as_list(about.raw("tags"))
    if all(isinstance(tag, str) and tag.strip() and "\n" not in tag for tag in tags):
        draft.root.mark(tags=tuple(map(str, tags)))


def _add_context(draft: StoryDraft, above: Cursor) -> None:
    """Memory comes first, the author's note second."""
    settings = draft.root.settings
    for index, part in above.good_members("context"):
        config = part.inner("contextConfig")
        if index == "0":
            settings.memory = _inserted(part, config) or None
        elif index == "1":
            settings.author_note = _inserted(part, config) or None
            settings.author_note_depth = _depth(config) if settings.author_note else None


def _inserted(part: Cursor, config: Cursor) -> str:
    """Return the text with its prefix and suffix, unless these are only space."""
    text, prefix, suffix = part.text("text"), config.text("prefix"), config.text("suffix")
    return f"{prefix if prefix.strip() else ''}{text}{suffix if suffix.strip() else ''}" if text else ""


def _add_lorebook(draft: StoryDraft, above: Cursor) -> None:
    lorebook = _object(above, "lorebook")
    if lorebook is not None:
        _read_entries(draft, lorebook)


def _read_entries(draft: StoryDraft, lorebook: Cursor) -> None:
    """The entries; those of a category that is switched off are off, too."""
    categories = [as_object(category) for category in as_list(lorebook.raw("categories"))]
    ids = [category.get("id") for category in categories if category.get("enabled") is False]
    off = [name for name in ids if isinstance(name, str)]
    add_lore(draft, each(lorebook, "entries", lambda entry, place: _entry(entry, f"novelai-{place}", off)))


def _entry(cursor: Cursor, entry_id: str, off: Sequence[str]) -> LoreEntry:
    config = cursor.inner("contextConfig")
    text = cursor.need_text("text")
    budget = config.number("tokenBudget")
    return LoreEntry(
        id=cursor.ident("id") or entry_id,
        name=cursor.text("displayName"),
        text=f"{config.text('prefix')}{text}{config.text('suffix')}",
        keys=cursor.texts("keys"),
        enabled=cursor.raw("category") not in off and cursor.flag("enabled", True),
        constant=cursor.flag("forceActivation"),
        depth=_depth(config),
        scan_depth=cursor.integer("searchRange"),
        token_budget=int(budget) if budget is not None and budget > 1 else None,  # up to 1 it is a share
        order=config.integer("budgetPriority") or 0,
    )


def _depth(config: Cursor) -> int | None:
    """Lines from the end; there -1 is the very end, and positions from 0 count from the top."""
    position = config.integer("insertionPosition")
    return -position - 1 if position is not None and position < 0 else None


STORY = Format(NAME, "NovelAI story", ".story", matches_story, read_story)
SCENARIO = Format(SCENARIO_NAME, "NovelAI scenario", ".scenario", matches_scenario, read_scenario)
LOREBOOK = Format(LOREBOOK_NAME, "NovelAI lorebook", ".lorebook", matches_lorebook, read_lorebook)


AUTHORS: dict[str, Author] = {"prompt": "writer", "user": "writer", "edit": "edited", "ai": "model"}
"""The author of a fragment by its ``origin``."""

_SECTION_AUTHORS: dict[int, Author] = {1: "writer", 2: "model", 3: "edited", 10: "writer"}
"""The same in a document, by number; 10 is an instruction to the model."""

_TEXT_SECTION = 1
_ORIGINS = 1  # the key of the origins among a section's metadata; 2 are italics and the like
_CREATE, _UPDATE, _REMOVE = 0, 1, 2

_Id = int | str
_Origin = tuple[int, int, int]

PARAGRAPH = "\n"
"""The separator of two sections."""


def from_blocks(story: Cursor) -> list[Stretch]:
    """Return the text of the fragments, or the text as a whole where they are another."""
    fragments: list[Stretch] = each(story, "fragments", lambda fragment, _: _fragment(fragment))
    text = story.raw("text")
    if isinstance(text, str) and text and "".join(words for words, _ in fragments) != text:
        fragments = [(text, "imported")]
    return join_stretches(fragments)


def _fragment(fragment: Cursor) -> Stretch:
    author: Author = AUTHORS.get(fragment.text("origin"), "imported")
    return fragment.need_text("data"), author


def join_stretches(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Return the stretches without empty ones, and neighbours of one author as one."""
    filled = groupby((stretch for stretch in stretches if stretch[0]), key=itemgetter(1))
    return [("".join(words for words, _ in group), author) for author, group in filled]


def _split_by_author(stretches: Iterable[Stretch]) -> list[list[Stretch]]:
    """Return nodes: what the writer and what the model wrote apart, words that were edited within either."""
    groups: list[list[Stretch]] = []
    last: Author | None = None
    for text, author in stretches:
        own = author in ("writer", "model")
        if groups and (not own or last in (None, author)):
            groups[-1].append((text, author))
        else:
            groups.append([(text, author)])
        last = author if own else last
    return groups


def _node(stretches: Sequence[Stretch]) -> DraftNode:
    text, authors = "".join(words for words, _ in stretches), {author for _, author in stretches}
    if len(authors) == 1:
        return DraftNode("", text=text, author=stretches[0][1])
    author: Author = "edited" if "edited" in authors or "model" in authors else "writer"
    return DraftNode("", text=text, author=author, spans=[Span(words, own) for words, own in stretches])


# --- documents


@dataclass(frozen=True, slots=True)
class _Section:
    """A paragraph; an origin is a position, a length and an author."""

    text: str
    origins: tuple[_Origin, ...]
    spans: tuple[Stretch, ...]


@dataclass(frozen=True, slots=True)
class _State:
    order: list[_Id]
    sections: dict[_Id, _Section]


def _text_of(state: _State) -> list[Stretch]:
    """Return the text; the break between two paragraphs belongs to the second."""
    stretches: list[Stretch] = []
    for index, here in enumerate(state.order):
        section = state.sections[here]
        if index:
            stretches.append((PARAGRAPH, _first_author(section, stretches)))
        stretches += section.spans
    return join_stretches(stretches)


def _first_author(section: _Section, before: Sequence[Stretch]) -> Author:
    for _, author in (*section.spans[:1], *before[-1:]):
        return author
    return "imported"


def from_document(packed: str, content: Cursor) -> list[Stretch]:
    """Return the text of a packed document; parts that are no text add a notice to ``content``.

    Raises :class:`PackedError` if it cannot be read.
    """
    document = _unpacked(packed)
    live, unsaved = _live(document, content), as_object(document.get("dirtySections"))
    try:
        if _text_of(_last_state(document)) == _text_of(live):  # else the sections have these changes already
            return _text_of(_changed(unsaved, live))
    except ValueError:
        pass
    return _text_of(live)


def _last_state(document: dict[Any, Any]) -> _State:
    """Return the state at the current point of the history.  Raises :class:`ValueError` if it has gaps."""
    history = as_object(document.get("history"))
    points = {_id(key): as_object(value) for key, value in as_object(history.get("nodes")).items()}
    way, here = list[JsonObject](), _id(history.get("current"))
    while here in points and len(way) < len(points):
        way.append(points[here])
        here = _id(points[here].get("parent"))
    state = _State([], {})
    for point in reversed(way):
        state = _changed(as_object(point.get("changes")), state)
    return state


def _unpacked(packed: str) -> dict[Any, Any]:
    try:
        raw = base64.b64decode("".join(packed.split()), validate=True)
    except ValueError as error:
        raise PackedError(f"base64 ({error})") from error
    document = unpack(raw)
    if not isinstance(document, dict) or not {"sections", "order"} <= cast(dict[Any, Any], document).keys():
        raise PackedError("sections, and their order")
    return cast(dict[Any, Any], document)


def _live(document: dict[Any, Any], content: Cursor) -> _State:
    """Return the sections in the document's order; those without a place come last."""
    sections: dict[_Id, _Section] = {}
    pictures = 0
    for key, value in as_object(document["sections"]).items():
        here, fields = _id(key), as_object(value)
        if here is not None and isinstance(fields.get("text"), str):
            sections[here] = _section(fields)
        elif fields.get("type") == _TEXT_SECTION or not fields:
            content.add_notice(f"paragraph {key} has no text and is left out", "document")
        else:
            pictures += 1
    if pictures:
        content.add_notice(f"{pictures} of its parts are no text and are not read", "document")
    ids = map(_id, as_list(document["order"]))
    order = [here for here in ids if here is not None and here in sections]
    return _State(list(dict.fromkeys([*order, *sections])), sections)


def _changed(changes: Mapping[Any, Any], state: _State) -> _State:
    """The state after a step of the history.  Raises :class:`ValueError` if the step does not fit it."""
    order, sections = list(state.order), dict(state.sections)
    created: list[tuple[_Id, Any]] = []
    removed: set[_Id] = set()
    for key, value in changes.items():
        here, step = _id(key), as_object(value)
        match step.get("type"):
            case _ if here is None:
                raise ValueError("the id of a section")
            case int(kind) if kind == _CREATE:
                sections[here] = _section(as_object(step.get("section")))
                created.append((here, step.get("after")))
            case int(kind) if kind == _UPDATE and here in sections:
                sections[here] = _updated(sections[here], as_object(step.get("diff")))
            case int(kind) if kind == _REMOVE:
                removed.add(here)
            case _:
                raise ValueError(f"a step that is known, of a section that is there: {key}")
    _place(order, created)
    if removed:
        order = [here for here in order if here not in removed]
        sections = {here: section for here, section in sections.items() if here not in removed}
    return _State(order, sections)


def _place(order: list[_Id], created: list[tuple[_Id, Any]]) -> None:
    """Put new sections behind those they follow, which may be new themselves; 0 is the very beginning."""
    waiting = [pair for pair in created if pair[0] not in order]
    while waiting:
        later: list[tuple[_Id, Any]] = []
        for here, after in waiting:
            before = _id(after)
            if before == 0:
                order.insert(0, here)
            elif before in order:
                order.insert(order.index(before) + 1, here)
            elif after is None:
                order.append(here)
            else:
                later.append((here, after))
        if len(later) == len(waiting):
            order.extend(here for here, _ in later)
            return
        waiting = later


def _section(fields: JsonObject) -> _Section:
    if fields.get("type") != _TEXT_SECTION:
        return _made("", [])
    text = fields.get("text")
    if not isinstance(text, str):
        raise ValueError("the text of a section")
    return _made(text, [_origin(stretch) for stretch in _stretches(fields.get("meta"))])


def _stretches(meta: Any) -> list[JsonObject]:
    """What metadata says of origins."""
    return [as_object(stretch) for stretch in as_list(cast(dict[Any, Any], as_object(meta)).get(_ORIGINS))]


def _origin(stretch: JsonObject) -> _Origin:
    return _number(stretch.get("position")), _number(stretch.get("length")), _number(stretch.get("data"))


def _made(text: str, origins: Sequence[_Origin]) -> _Section:
    sound = mend(text)
    spans: list[Stretch] = []
    at = 0
    for position, length, data in sorted(origins):
        start, end = max(_characters(sound, position), at), _characters(sound, position + length)
        if start < end:
            spans.append((sound[at:start], "imported"))
            spans.append((sound[start:end], _SECTION_AUTHORS.get(data, "imported")))
            at = end
    spans.append((sound[at:], "imported"))
    return _Section(sound, tuple(origins), tuple(join_stretches(spans)))


def _updated(section: _Section, diff: JsonObject) -> _Section:
    """The section after a change; of its origins the change says by how much each number differs."""
    if "to" in diff:
        return _section(as_object(diff["to"]))
    origins = list(section.origins)
    for stretch in _stretches(diff.get("metas")):
        index = _number(stretch.get("index"))
        if index == len(origins):
            origins.append((0, 0, 0))
        if 0 <= index < len(origins):
            (position, length, data), more = origins[index], _origin(stretch)
            origins[index] = position + more[0], length + more[1], data + more[2]
    kept = [origin for origin in origins if origin[1] > 0]
    return _made(_patched(section.text, as_list(diff.get("parts"))), kept)


def _patched(text: str, parts: Sequence[Any]) -> str:
    """The text with some stretches replaced; each position counts from the end of the stretch before."""
    units = _units(text)
    pieces: list[bytes] = []
    at = 0
    for part in map(as_object, parts):
        old, new = part.get("delete"), part.get("insert")
        if not isinstance(old, str) or not isinstance(new, str):
            raise ValueError("what a change inserts and deletes")
        gone, start = _units(mend(old)), at + 2 * _number(part.get("from"))
        if not at <= start <= len(units) or not units.startswith(gone, start):
            raise ValueError("a change that fits its text")
        pieces += [units[at:start], _units(new)]
        at = start + len(gone)
    return _text(b"".join([*pieces, units[at:]]))


def _id(value: Any) -> _Id | None:
    """The id of a section or point: JavaScript packs large whole numbers as floats."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, str) or type(value) is int else None


def _number(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and value == value and abs(value) < 2**53 else 0


def _units(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")


def _text(units: bytes) -> str:
    """Text of UTF-16 units; half an emoji becomes U+FFFD."""
    return mend(units.decode("utf-16-le", "surrogatepass"))


def _characters(text: str, units: int) -> int:
    """How many characters that many UTF-16 units at the beginning are; one that is cut in half is one."""
    if text.isascii():
        return max(0, min(units, len(text)))
    return len(_units(text)[: 2 * max(0, units)].decode("utf-16-le", "replace"))
