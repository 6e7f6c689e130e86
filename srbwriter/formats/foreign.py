"""Trees, sessions and chats of other programs, in JSON: one function reads each.

Facts are from the programs themselves. Fields that are not named here are not kept.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from itertools import groupby
from typing import Any

from srbwriter.formats.draft import LOOM_TIME, Entry, Fields, Grower, arrange, read_time, write_time
from srbwriter.formats.lore import add_lore, read_entry
from srbwriter.formats.opening import Document, FormatError, parse_json
from srbwriter.story.draft import StoryDraft
from srbwriter.story.model import (
    ROOT,
    Author,
    JsonObject,
    JsonValue,
    LoreEntry,
    NodeId,
    Settings,
    State,
    as_list,
    as_object,
    settings_json,
)
from srbwriter.story.node import Node

BETWEEN = "\n\n"
"""What separates the messages of a chat when it is read as prose."""


# -- looms: nodes that hold their children, or name their parents ---------------------------------------

_SOURCES: dict[str, Author] = {"prompt": "writer", "AI": "model", "mixed": "edited"}


def is_loom(document: Document) -> bool:
    if document.kind != "json":
        return False
    listed = as_list(document.value) or as_list(document.object.get("nodes"))
    return any(map(_is_node, [document.object, as_object(document.object.get("root")), *listed[:100]]))


def _is_node(value: JsonValue) -> bool:
    """Whether it is a node that holds its children or names its parent. One of its fields may be damaged."""
    fields = as_object(value)
    children = [as_object(child) for child in as_list(fields.get("children"))]
    tied = {"children", "parent_id", "parentId"} & set(fields)
    return bool("text" in fields and tied) or any({"text", "children"} & set(child) for child in children)


def read_loom(document: Document) -> StoryDraft:
    """Trees of socketteer/loom, old and new, and lists of nodes that name their parents."""
    listed = as_list(document.value) or as_list(document.object.get("nodes"))
    whole = Fields(document.object)
    root = whole.raw("root")
    tops = Fields({"nodes": listed or [root if isinstance(root, dict) else whole.all]}).objects("nodes")
    entries: list[Entry] = []
    stack = [(each, each.ident("parent_id") or each.ident("parentId")) for each in reversed(tops)]
    while stack:
        fields, parent = stack.pop()
        about, tags = fields.inner("meta"), fields.tags()
        name = fields.ident("id") or f"n{len(entries)}"
        own: JsonObject = {
            "bookmark": fields.flag("bookmark") or "bookmark" in tags,
            "labels": "\n".join(tag for tag in tags if tag != "bookmark"),
            "visited": fields.flag("visited", True),
            "own_settings": settings_json(Settings(memory=_loom_memory(fields.inner("frame")))),
            "created": read_time(about.raw("creation_timestamp")) or 0.0,
        }
        author = _SOURCES.get(about.text("source"), "imported")
        entries.append(Entry(name, parent, fields.text("text"), author, own))
        stack += [(child, name) for child in reversed(fields.objects("children"))]
    draft = arrange(entries, whole.ident("selected_node_id") or "")
    if draft.root.own_settings is None:
        draft.root.settings = Settings(memory=_loom_memory(whole))
    return draft


def _loom_memory(fields: Fields) -> str | None:
    """Return the text before every prompt, which a node's frame or the whole file gives."""
    return fields.inner("generation_settings").text("global_context") or None


def write_loom(draft: StoryDraft) -> bytes:
    """The tree as socketteer/loom has it, which other looms read too."""
    sources = {"model": "AI", "edited": "mixed"}
    living = [node for node in draft.nodes.values() if node.state == State.LIVING]
    names = sorted({tag for node in living for tag in node.tags})
    children: dict[NodeId | None, list[Node]] = {}
    for node in sorted(living, key=lambda node: node.place):
        children.setdefault(node.parent, []).append(node)
    plain = {"scope": "node", "hide": False, "show_only": False, "toggle_key": "None", "icon": "None"}
    head: JsonObject = {
        "selected_node_id": str(draft.current),
        "tags": {name: {"name": name, **plain} for name in names},  # loom fails on a tag without a definition
    }
    parts = [json.dumps(head, ensure_ascii=False)[:-1], ', "root": ']
    stack: list[Node | str] = [draft.root]  # not by recursion: a novel is deeper than the call stack
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            parts.append(node)
            continue
        fields: JsonObject = {
            "id": str(node.id), "text": node.text, "parent_id": str(node.parent) if node.parent else None,
            "mutable": node.id != ROOT, "visited": node.visited,
            "tags": [*node.tags, *["bookmark"] * node.bookmark],
            "meta": {"source": sources.get(node.author, "prompt")},
        }  # fmt: skip
        if node.created:
            fields["meta"]["creation_timestamp"] = write_time(node.created, LOOM_TIME)
        if (memory := node.settings.memory) is not None:
            fields["frame"] = {"generation_settings": {"global_context": memory}}
        parts += [json.dumps(fields, ensure_ascii=False)[:-1], ', "children": [']
        stack.append("]}")
        for place, child in reversed(list(enumerate(children.get(node.id, ())))):
            stack += [child, ", "] if place else [child]
    return "".join([*parts, "}"]).encode("utf-8", "replace")


# -- mikupad ------------------------------------------------------------------------------------------

_CHARACTERS_PER_TOKEN = 3.3  # mikupad's own estimate, by which it turns search ranges into characters


def is_mikupad(document: Document) -> bool:
    """Every value of a session is JSON inside a text."""
    prompt = document.object.get("prompt")
    packed = sum(isinstance(value, str) for value in document.object.values()) >= len(document.object) - 1
    return isinstance(prompt, str) and prompt.lstrip().startswith("[") and packed


def read_mikupad(document: Document) -> StoryDraft:
    """A session: its text, memory, author's note and lorebook."""
    values: JsonObject = {}
    for key, value in document.object.items():
        with suppress(FormatError):
            values[key] = parse_json(value, document.name, key) if isinstance(value, str) else value
    session, grower = Fields(values), Grower()
    end = grower.root
    for typed, group in groupby(session.objects("prompt"), lambda chunk: chunk.raw("type") == "user"):
        if text := "".join(chunk.text("content") for chunk in group):
            end = grower.add(end, text, "writer" if typed else "model")
    settings = Settings()
    for key, name in (("memoryTokens", "memory"), ("authorNoteTokens", "author_note")):
        part = session.inner(key)
        if text := part.text("text"):
            whole = part.text("prefix") + text + part.text("suffix")
            setattr(settings, name, whole.replace("\\n", "\n"))  # line breaks are typed as \\n there
    settings.author_note_depth = session.integer("authorNoteDepth")
    for place, entry in session.inner("worldInfo").members("entries"):
        depth = str(entry.raw("search") or "")[:6]
        keys = [key.replace("/", r"\/") for key in entry.texts("keys") if key]
        settings.lore.append(
            LoreEntry(
                id=f"mikupad-{place}",
                name=entry.text("displayName"),
                text=entry.text("text"),
                keys=[f"/{key}/i" for key in keys],  # all keys are regular expressions there
                scan_depth=round(int(depth) * _CHARACTERS_PER_TOKEN) if depth.isdecimal() else None,
            )
        )
    grower.root.settings = settings
    return grower.draft(end, session.text("name"))


# -- Kobold Lite --------------------------------------------------------------------------------------

_PICTURE = re.compile(r"\[?<\|([phd])\|.+?\|\1\|>\]?", re.DOTALL)
_TURNS = re.compile(r"(?:\s*\{\{\[(?:INPUT|OUTPUT|SYSTEM)(?:_END)?\]\}\}\s*)+")


def is_kobold(document: Document) -> bool:
    return {"gamestarted", "actions"} <= set(document.object)


def read_kobold(document: Document) -> StoryDraft:
    """A save of Kobold Lite with its branches, as prose: no marks of turns, and no pictures."""
    whole, grower = Fields(document.object), Grower()
    saved = whole.inner("savedsettings")
    names = {
        key: saved.text(name).split("||$||")[0]
        for key, name in (("user", "chatname"), ("char", "chatopponent"))
    }

    def shown(text: str) -> str:
        named = re.sub(
            r"\{\{(user|char)\}\}", lambda found: names[found[1].lower()] or found[0], text, flags=re.I
        )
        return _TURNS.sub(BETWEEN, _PICTURE.sub("", named))

    after: dict[tuple[NodeId, str], Node] = {}

    def grow(chunks: list[JsonValue]) -> Node:
        """Lay a branch over those that are there, as far as their chunks agree; return its end."""
        end = grower.root
        for chunk in chunks:
            text = shown(chunk) if isinstance(chunk, str) else ""
            text = text.lstrip("\n") if end is grower.root else text
            if text:
                if (end.id, text) not in after:
                    after[end.id, text] = grower.add(end, text)
                end = after[end.id, text]
        return end

    active = [whole.raw("prompt"), *as_list(whole.raw("actions"))]
    branches = as_list(whole.raw("altbranches"))  # null is the active one
    ends = [grow(active if branch is None else as_list(branch)) for branch in branches]
    draft = grower.draft(ends[branches.index(None)] if None in branches else grow(active))
    settings = draft.root.settings
    memory, note, template = (
        shown(whole.text(key)).strip() for key in ("memory", "authorsnote", "anotetemplate")
    )
    settings.memory = memory or None
    if note:
        settings.author_note = template.replace("<|>", note) if "<|>" in template else note
    draft.root.settings = settings
    entries = [read_entry(entry, place) for place, entry in whole.members("worldinfo")]
    for entry in entries:
        entry.text = shown(entry.text).strip()
    add_lore(draft, [entry for entry in entries if entry.text or entry.keys])
    return draft


# -- SillyTavern's chats ------------------------------------------------------------------------------


def is_tavern_chat(document: Document) -> bool:
    keys = set(document.object)
    return "chat_metadata" in keys or {"user_name", "character_name"} <= keys or {"mes", "is_user"} <= keys


def read_tavern_chat(document: Document) -> StoryDraft:
    """Messages as prose; swipes are siblings of the message that was shown, hidden messages stand beside."""
    values = document.value.values() if document.kind == "jsonl" else [document.value]
    messages, grower = [Fields(value) for value in values], Grower()
    end, hidden_end = grower.root, None
    person, characters, hidden = "", dict[str, None](), 0
    head = messages.pop(0) if messages[0].raw("mes") is None and messages[0].raw("is_user") is None else None
    for message in messages:
        text = _tavern_text(message.raw("mes"))
        if text is None:
            continue
        speaker, is_user, is_hidden = message.text("name"), message.flag("is_user"), message.flag("is_system")
        name = " ".join(re.split(r"[,\s]+", speaker)).strip()
        tags = ("hidden",) * is_hidden + ((name,) if name else ())
        above = (hidden_end or end) if is_hidden else end
        shown, takes, edited = _tavern_takes(message, text)
        for index, (take, info) in enumerate(takes):
            author: Author = "writer" if is_user else "edited" if index == shown and edited else "model"
            take = take if above is grower.root else BETWEEN + take
            created, model = read_time(info.get("send_date")), Fields(info).inner("extra").text("model")
            node = grower.add(above, take, author, created=created or 0.0, model=model)
            node.tags = tags
            if index == shown:
                end, hidden_end = (end, node) if is_hidden else (node, None)
        hidden += is_hidden
        if is_user:
            person = person or speaker
        elif speaker and not is_hidden:
            characters[speaker] = None
    draft = grower.draft(end)
    if head is not None:
        names = [head.text(key).removeprefix("unused") for key in ("character_name", "user_name")]
        draft.title, draft.byline = names
        draft.created = read_time(head.raw("create_date"))
        about = head.inner("chat_metadata")
        draft.root.settings = Settings(
            author_note=about.text("note_prompt") or None, author_note_depth=about.integer("note_depth")
        )
    draft.title = draft.title or ", ".join(list(characters)[:3])
    draft.byline = draft.byline or person
    if hidden:
        words = "message stands" if hidden == 1 else "messages stand"
        document.tell(f"{hidden} hidden {words} beside the story, with the tag 'hidden'.")
    return draft


def _tavern_text(value: Any) -> str | None:
    """Return the text of a message or swipe; Chub puts it into an object."""
    text = as_object(value).get("message") if isinstance(value, dict) else value
    return text if isinstance(text, str) else None


def _tavern_takes(message: Fields, text: str) -> tuple[int, list[tuple[str, JsonObject]], bool]:
    """Return which take was shown, all of them with what is said of each, and whether it was edited."""
    infos = as_list(message.raw("swipe_info"))
    takes: list[tuple[str, JsonObject]] = []
    for index, value in enumerate(as_list(message.raw("swipes"))):
        if (swipe := _tavern_text(value)) is not None:
            takes.append((swipe, as_object(infos[index] if index < len(infos) else None)))
    same = [index for index, take in enumerate(takes) if take[0] == text]
    swiped = message.integer("swipe_id")
    shown = swiped if swiped in same else same[0] if same else min(max(swiped or 0, 0), len(takes))
    takes[shown : shown + bool(same)] = [(text, message.all)]
    return shown, takes, len(takes) > 1 and not same


# -- chats of ChatGPT and Claude ----------------------------------------------------------------------


def is_conversations(document: Document) -> bool:
    first = as_object(next(iter(as_list(document.value)), document.value))
    return isinstance(first.get("mapping"), dict) or isinstance(first.get("chat_messages"), list)


def read_conversations(document: Document) -> StoryDraft:
    """``conversations.json`` as ChatGPT and Claude export it: each conversation with all its branches.

    Several conversations stand side by side below an empty root; the one that was changed last is shown.
    Instructions, tools and messages without words are left out.
    """
    value = as_list(document.value) or [document.value]
    chats = Fields({"conversations": value}).objects("conversations")
    entries: list[Entry] = []
    newest, current, title = -1.0, "", ""
    for place, chat in enumerate(chats):
        of_claude = isinstance(chat.raw("chat_messages"), list)
        read = _claude_messages if of_claude else _chatgpt_messages
        top_id = f"conversation-{place + 1}"
        name = chat.text("name" if of_claude else "title")
        entries.append(Entry(top_id, None, "", fields={"title": name}))
        above: dict[str, str] = {}  # the node that each message became, or hangs on
        last = ""
        for key, parent, author, text, created, model in read(chat):
            parent_id = above.get(parent, top_id)
            above[key] = parent_id
            if text:
                words = text if parent_id == top_id else BETWEEN + text
                above[key] = last = f"{place + 1}-{key}"
                entries.append(Entry(last, parent_id, words, author, {"created": created, "model": model}))
        changed = read_time(chat.raw("updated_at" if of_claude else "update_time")) or 0.0
        if last and changed > newest:
            shown = chat.ident("current_leaf_message_uuid" if of_claude else "current_node") or ""
            newest, current, title = changed, above.get(shown, last), name
    draft = arrange(entries, current)
    draft.title = title if len(chats) == 1 else ""
    return draft


_Message = tuple[str, str, Author, str, float, str]
"""Id, parent, author, text, time and model."""


def _chatgpt_messages(chat: Fields) -> list[_Message]:
    """Return the messages, parents first."""
    entries = dict(chat.members("mapping"))
    order = [name for name, entry in entries.items() if str(entry.raw("parent")) not in entries]
    found: list[_Message] = []
    for name in order:  # grows while it is walked
        if (entry := entries.pop(name, None)) is None:
            continue
        order += [str(child) for child in as_list(entry.raw("children"))]
        fields = entry.inner("message")
        role, about = fields.inner("author").text("role"), fields.inner("metadata")
        text = "\n".join(fields.inner("content").texts("parts")).strip("\n")
        if role not in ("user", "assistant") or about.flag("is_visually_hidden_from_conversation"):
            text = ""
        author: Author = "writer" if role == "user" else "model"
        model = about.text("model_slug") if author == "model" else ""
        parent, created = str(entry.raw("parent")), read_time(fields.raw("create_time")) or 0.0
        found.append((name, parent, author, text, created, model))
    return found


def _claude_messages(chat: Fields) -> list[_Message]:
    """The same of Claude. Old exports name no parents: each message follows the one before it."""
    found: list[_Message] = []
    last = ""
    for message in chat.objects("chat_messages"):
        key = message.ident("uuid") or f"m{len(found)}"
        parts = (part.text("text") for part in message.objects("content") if part.text("type") == "text")
        text = (BETWEEN.join(filter(None, parts)) or message.text("text")).strip("\n")
        author: Author = "writer" if message.raw("sender") == "human" else "model"
        parent = message.ident("parent_message_uuid")
        created = read_time(message.raw("created_at")) or 0.0
        found.append((key, last if parent is None else parent, author, text, created, ""))
        last = key
    return found
