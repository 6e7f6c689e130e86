"""mikupad sessions: a linear text of typed and generated chunks; every value is JSON inside a text.

Also the export of all sessions at once.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from functools import reduce
from itertools import groupby

from srbwriter.story.formats.base import Document, Fault, Format, FormatError
from srbwriter.story.formats.build import Grower
from srbwriter.story.formats.cursor import Cursor, top
from srbwriter.story.formats.document import parse_json
from srbwriter.story.model import (
    DraftNode,
    JsonObject,
    JsonValue,
    LoreEntry,
    Marks,
    Settings,
    StoryDraft,
    as_list,
    as_object,
    path_to,
)

NAME = "mikupad"
NODE_KEY = "srbwriterNode"
"""An extra key in exported chunks that marks where our nodes begin; mikupad ignores it."""

_SHOWN = "selectedSessionId"
_COUNTERS = {_SHOWN, "nextSessionId"}
"""Keys in the list of sessions that are no sessions."""

CHARACTERS_PER_TOKEN = 3.3
"""mikupad's own estimate, by which it turns its search ranges into characters."""

_SAMPLING = {
    theirs: re.sub(r"[A-Z]", lambda capital: f"_{capital[0].lower()}", theirs)
    for theirs in (
        "temperature", "repeatPenalty", "repeatLastN", "presencePenalty", "frequencyPenalty", "topK", "topP",
        "typicalP", "minP", "mirostat", "mirostatTau", "mirostatEta", "xtcThreshold", "xtcProbability",
        "dryMultiplier", "dryBase", "dryAllowedLength",
    )
} | {
    "dynaTempRange": "dynatemp_range", "dynaTempExp": "dynatemp_exponent",
    "dryPenaltyRange": "dry_penalty_last_n",
}  # fmt: skip
"""Their name of a sampling number → ours."""


def matches(document: Document) -> bool:
    return _is_session(document.object) or _is_database(document.object)


def _is_session(fields: JsonObject) -> bool:
    """Every value is JSON inside a text; one of them may be damaged."""
    prompt = fields.get("prompt")
    packed = [value for value in fields.values() if isinstance(value, str)]
    return isinstance(prompt, str) and prompt.lstrip().startswith("[") and len(packed) >= len(fields) - 1


def _is_database(fields: JsonObject) -> bool:
    return isinstance(fields.get("Sessions"), list) and bool({"Names", "Templates", "Themes"} & set(fields))


def read(document: Document) -> StoryDraft:
    if _is_database(document.object):
        return _read_database(top(document))
    session = Cursor(_unpack(document), document.name, faults=document.faults)
    grower = Grower()
    here = _grow(grower, grower.root, session)
    draft = grower.draft(here, session.text("name"))
    draft.root.settings = _settings(session)
    return draft


def _unpack(document: Document) -> JsonObject:
    return {key: _unpacked(key, value, document) for key, value in document.object.items()}


def _unpacked(key: str, value: JsonValue, document: Document) -> JsonValue:
    try:
        return parse_json(value, document.name, key) if isinstance(value, str) else value
    except FormatError as error:
        document.faults.append(Fault(error.place, f"left out; expected {error.expected}"))
        return value


def _read_database(whole: Cursor) -> StoryDraft:
    """The export of all sessions: a branch for each, below an empty root, with its settings and its name.

    They are not packed into texts there, and their names are in a list of their own.
    """
    names = {str(entry.raw("key")): entry for entry in whole.good_objects("Names")}
    grower = Grower()
    ends: dict[str, DraftNode] = {}
    shown = ""
    for entry in whole.good_objects("Sessions"):
        key = str(entry.raw("key"))
        session = entry.object("value")
        if session is None:
            shown = str(entry.raw("value")) if key == _SHOWN else shown
            if key not in _COUNTERS:
                entry.add_notice("left out; expected a session", "value")
            continue
        ends[key] = _grow_session(grower, session, names.get(key))
    return grower.draft(ends.get(shown) or next(iter(ends.values()), None))


def _grow_session(grower: Grower, session: Cursor, name: Cursor | None) -> DraftNode:
    """A branch of its own for a session; returns its end."""
    title = name.text("value") if name else session.text("name")
    top_node = grower.add(grower.root, DraftNode("", marks=Marks(title=title)))
    end = _grow(grower, top_node, session)
    top_node.settings = _settings(session)
    return end


def _grow(grower: Grower, here: DraftNode, session: Cursor) -> DraftNode:
    for node in _nodes(session.good_objects("prompt")):
        here = grower.add(here, node)
    return here


def _nodes(chunks: list[Cursor]) -> Iterator[DraftNode]:
    """Chunks of the same origin and node as one node; each token of a generated text is a chunk."""
    filled = (chunk for chunk in chunks if chunk.good_text("content"))
    for (typed, _), group in groupby(filled, _origin):
        text = "".join(chunk.text("content") for chunk in group)
        yield DraftNode("", text=text, author="writer" if typed else "model")


def _origin(chunk: Cursor) -> tuple[bool, object]:
    """Whether the chunk was typed, and which of our nodes it belongs to."""
    return chunk.raw("type") == "user", chunk.raw(NODE_KEY)


def _settings(session: Cursor) -> Settings:
    sampling: JsonObject = {}
    for theirs, ours in _SAMPLING.items():
        value = session.raw(theirs)
        if type(value) not in (int, float) or not math.isfinite(value):
            continue
        if ours not in _WHOLE or float(value).is_integer():
            sampling[ours] = int(value) if ours in _WHOLE else float(value)
    world = Cursor(as_object(session.raw("worldInfo")), session.file, "worldInfo", session)
    return Settings(
        memory=_wrapped(session.raw("memoryTokens")),
        author_note=_wrapped(session.raw("authorNoteTokens")),
        author_note_depth=session.integer("authorNoteDepth"),
        lore=[_entry(index, entry.all()) for index, entry in enumerate(world.good_objects("entries"))],
        sampling=sampling,
    )


_WHOLE = {"top_k", "repeat_last_n", "mirostat", "dry_allowed_length", "dry_penalty_last_n"}


def _wrapped(value: JsonValue) -> str | None:
    """Prefix, text and suffix joined; nothing without a text."""
    fields = as_object(value)
    text = fields.get("text")
    whole = f"{fields.get('prefix') or ''}{text}{fields.get('suffix') or ''}"
    return whole.replace("\\n", "\n") if text else None  # line breaks are typed as \n there


def _entry(index: int, entry: JsonObject) -> LoreEntry:
    depth = str(entry.get("search") or "")[:6]  # tokens, typed into a field, so it may be a text
    return LoreEntry(
        id=f"mikupad-{index}",
        name=str(entry.get("displayName") or ""),
        text=str(entry.get("text") or ""),
        keys=[_regex_key(str(key)) for key in as_list(entry.get("keys")) if key],
        scan_depth=round(int(depth) * CHARACTERS_PER_TOKEN) if depth.isdecimal() else None,
    )


def _regex_key(key: str) -> str:
    """All keys are regular expressions there, without regard to case."""
    return "/" + key.replace("/", r"\/") + "/i"


def write(draft: StoryDraft) -> bytes:
    path = path_to(draft, draft.current_id)
    settings = reduce(lambda above, node: node.settings.inherit(above), path, Settings())
    session: JsonObject = {"name": draft.title, "prompt": [_chunk(node) for node in path if node.text]}
    if settings.memory is not None:
        session["memoryTokens"] = _tokens(settings.memory)
    if settings.author_note is not None:
        session["authorNoteTokens"] = _tokens(settings.author_note)
    if settings.author_note_depth is not None:
        session["authorNoteDepth"] = settings.author_note_depth
    if settings.lore:
        session["worldInfo"] = _world(settings.lore)
    for theirs, ours in _SAMPLING.items():
        if ours in settings.sampling:
            session[theirs] = settings.sampling[ours]
    packed = {key: json.dumps(value, ensure_ascii=False) for key, value in session.items()}
    return json.dumps(packed, ensure_ascii=False).encode("utf-8", "replace")


def _chunk(node: DraftNode) -> JsonObject:
    typed: JsonObject = {} if node.author == "model" else {"type": "user"}
    return {**typed, "content": node.text, NODE_KEY: node.id}


def _tokens(text: str) -> JsonObject:
    """Our text, which has prefix and suffix in it already."""
    return {"prefix": "", "text": text, "suffix": ""}


def _world(lore: list[LoreEntry]) -> JsonObject:
    return {
        "prefix": "",
        "suffix": "",
        "mikuPediaVersion": 1,
        "entries": [
            {
                "displayName": entry.name,
                "text": entry.text,
                "keys": [_their_key(key) for key in entry.keys],
                "search": "" if entry.scan_depth is None else round(entry.scan_depth / CHARACTERS_PER_TOKEN),
            }
            for entry in lore
        ],
    }


def _their_key(key: str) -> str:
    is_pattern = len(key) > 2 and key.startswith("/") and key.rfind("/") > 1
    if is_pattern:
        return key[1 : key.rfind("/")].replace(r"\/", "/")
    return "".join(f"\\{char}" if char in r".^$*+?()[]{}|\/" else char for char in key)


FORMAT = Format(NAME, "mikupad session (active path)", ".json", matches, read, write)
