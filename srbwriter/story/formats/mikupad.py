"""mikupad sessions: a linear text of typed and generated chunks; every value is JSON inside a text."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import groupby
from typing import cast

from srbwriter.story.draft import (
    DraftNode,
    JsonObject,
    JsonValue,
    LoreEntry,
    Settings,
    StoryDraft,
    as_list,
    as_object,
    foreign,
    keep_foreign,
    path_to,
)
from srbwriter.story.formats.base import Format
from srbwriter.story.formats.build import Grower, with_foreign
from srbwriter.story.formats.cursor import Cursor
from srbwriter.story.formats.document import Document, parse_json

NAME = "mikupad"
NODE_KEY = "srbwriterNode"
"""An extra key in exported chunks that tells where our nodes begin; mikupad ignores it."""

CHARACTERS_PER_TOKEN = 3.3
"""mikupad's own estimate, by which it turns its search ranges into characters."""

_SAMPLING = {
    "temperature": "temperature",
    "dynaTempRange": "dynatemp_range",
    "dynaTempExp": "dynatemp_exponent",
    "repeatPenalty": "repeat_penalty",
    "repeatLastN": "repeat_last_n",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
    "topK": "top_k",
    "topP": "top_p",
    "typicalP": "typical_p",
    "minP": "min_p",
    "mirostat": "mirostat",
    "mirostatTau": "mirostat_tau",
    "mirostatEta": "mirostat_eta",
    "xtcThreshold": "xtc_threshold",
    "xtcProbability": "xtc_probability",
    "dryMultiplier": "dry_multiplier",
    "dryBase": "dry_base",
    "dryAllowedLength": "dry_allowed_length",
    "dryPenaltyRange": "dry_penalty_last_n",
}
"""Their name of a sampling number → ours."""


def matches(document: Document) -> bool:
    prompt = document.object.get("prompt")
    return isinstance(prompt, str) and prompt.lstrip().startswith("[") and _all_texts(document.object)


def _all_texts(fields: JsonObject) -> bool:
    return all(isinstance(value, str) for value in fields.values())


def read(document: Document) -> StoryDraft:
    session = Cursor(_unpack(document), document.name)
    grower = Grower()
    here = grower.root
    for node in _nodes(session.need_objects("prompt")):
        here = grower.add(here, node)
    draft = grower.draft(here, session.text("name"))
    draft.root.settings = _settings(session)
    keep_foreign(draft.meta, NAME, session.rest())
    return draft


def _unpack(document: Document) -> JsonObject:
    return {key: parse_json(cast(str, value), document.name, key) for key, value in document.object.items()}


def _nodes(chunks: list[Cursor]) -> Iterator[DraftNode]:
    """Chunks of the same origin and node as one node; each token of a generated text is a chunk."""
    for (typed, _), group in groupby(chunks, _origin):
        pieces: list[JsonObject] = [
            {"content": chunk.need_text("content"), **chunk.rest()} for chunk in group
        ]
        text = "".join(piece["content"] for piece in pieces)
        kept: JsonObject = {"chunks": pieces} if any(len(piece) > 1 for piece in pieces) else {}
        if text:
            yield with_foreign(DraftNode("", text=text, author="writer" if typed else "model"), NAME, kept)


def _origin(chunk: Cursor) -> tuple[bool, object]:
    """Whether the chunk was typed, and which of our nodes it belongs to."""
    return chunk.raw("type") == "user", chunk.raw(NODE_KEY)


def _settings(session: Cursor) -> Settings:
    memory, note, world = (session.peek(key) for key in ("memoryTokens", "authorNoteTokens", "worldInfo"))
    sampling: JsonObject = {}
    for theirs, ours in _SAMPLING.items():
        value = session.number(theirs)
        if value is not None and math.isfinite(value):
            sampling[ours] = int(value) if ours in _WHOLE else value
    return Settings(
        memory=_wrapped(memory),
        author_note=_wrapped(note),
        author_note_depth=session.integer("authorNoteDepth"),
        lore=_lore(world),
        sampling=sampling,
    )


_WHOLE = {"top_k", "repeat_last_n", "mirostat", "dry_allowed_length", "dry_penalty_last_n"}


def _wrapped(value: JsonValue) -> str | None:
    """Prefix, text and suffix joined; nothing without a text."""
    fields = as_object(value)
    text = fields.get("text")
    whole = f"{fields.get('prefix') or ''}{text}{fields.get('suffix') or ''}"
    return whole.replace("\\n", "\n") if text else None  # line breaks are typed as \n there


def _lore(world: JsonValue) -> list[LoreEntry]:
    entries = [as_object(entry) for entry in as_list(as_object(world).get("entries"))]
    return [_entry(index, entry) for index, entry in enumerate(entries)]


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
    kept = foreign(draft.meta, NAME)
    settings = draft.root.settings
    session: JsonObject = {**kept, "name": draft.title}
    session["prompt"] = [chunk for node in path_to(draft, draft.current_id) for chunk in _chunks(node)]
    if settings.memory is not None:
        session["memoryTokens"] = _tokens(kept.get("memoryTokens"), settings.memory)
    if settings.author_note is not None:
        session["authorNoteTokens"] = _tokens(kept.get("authorNoteTokens"), settings.author_note)
    if settings.author_note_depth is not None:
        session["authorNoteDepth"] = settings.author_note_depth
    if settings.lore:
        session["worldInfo"] = _world(kept.get("worldInfo"), settings.lore)
    for theirs, ours in _SAMPLING.items():
        if ours in settings.sampling:
            session[theirs] = settings.sampling[ours]
    packed = {key: json.dumps(value, ensure_ascii=False) for key, value in session.items()}
    return json.dumps(packed, ensure_ascii=False).encode("utf-8", "replace")


def _chunks(node: DraftNode) -> list[JsonObject]:
    if not node.text:
        return []
    chunks = [as_object(chunk) for chunk in as_list(foreign(node.meta, NAME).get("chunks"))]
    if "".join(str(chunk.get("content")) for chunk in chunks) != node.text:
        chunks = [{"content": node.text}]
    typed: JsonObject = {} if node.author == "model" else {"type": "user"}
    return [{**typed, **chunk, NODE_KEY: node.id} for chunk in chunks]


def _tokens(kept: JsonValue, text: str) -> JsonObject:
    """Their fields with our text, which has prefix and suffix in it already."""
    return {**as_object(kept), "prefix": "", "text": text, "suffix": ""}


def _world(kept: JsonValue, lore: list[LoreEntry]) -> JsonObject:
    return {
        "prefix": "",
        "suffix": "",
        **as_object(kept),
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
