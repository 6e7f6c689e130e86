"""Trees, sessions and chats of other programs, in JSON: one function reads each.

Facts are from the programs themselves. Fields that are not named here are not kept.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from itertools import groupby
from typing import Any, cast

from srbwriter.formats.draft import LOOM_TIME, Grower, arrange, nested, read_time, write_time
from srbwriter.formats.fields import Fields
from srbwriter.formats.lore import add_lore, kobold_entry, read_entries
from srbwriter.formats.opening import Document, FormatError, parse_json
from srbwriter.story.model import (
    Author,
    DraftNode,
    Generation,
    JsonObject,
    JsonValue,
    LoreEntry,
    Marks,
    Settings,
    StoryDraft,
    as_list,
    as_object,
)

BETWEEN = "\n\n"
"""What separates the messages of a chat when it is read as prose."""


# -- looms: nodes that hold their children, or name their parents ---------------------------------------

_PARENT = ("parent_id", "parentId", "parent_ids", "parentIds", "parent")
_SOURCES: dict[str, Author] = {
    "prompt": "writer", "user": "writer", "human": "writer", "AI": "model", "ai": "model", "model": "model",
    "mixed": "edited",
}  # fmt: skip


def is_loom(document: Document) -> bool:
    fields = document.object
    if document.kind == "jsonl":
        return any(
            {"id", "text"} & set(line) and set(_PARENT) & set(line) for line in document.value.values()
        )
    members = fields.get("nodes")
    members = list(as_object(members).values()) or as_list(members) or as_list(document.value)
    return any(map(_is_node, [fields, as_object(fields.get("root")), *map(as_object, members[:100])]))


def _is_node(fields: JsonObject) -> bool:
    """Whether it is a node that holds its children or names its parent. One of its fields may be damaged."""
    children = [as_object(child) for child in as_list(fields.get("children"))]
    if {"text", "value"} & set(fields):
        return "children" in fields or bool(set(_PARENT) & set(fields))
    return any("text" in child or "children" in child for child in children)


def read_loom(document: Document) -> StoryDraft:
    """Trees of socketteer/loom, old and new, and of the programs that followed it."""
    value = list(document.value.values()) if document.kind == "jsonl" else document.value
    whole = Fields({"nodes": value} if isinstance(value, list) else value)
    root = whole.raw("root")
    tops = whole.members("nodes") or [("", Fields(root if isinstance(root, dict) else whole.all))]
    by_name = isinstance(whole.raw("nodes"), dict)
    chapters = {each.ident("root_id"): each.text("title") for each in whole.objects("chapters")}
    nodes: list[DraftNode] = []
    stack = [(each, _loom_parent(each), name if by_name else "") for name, each in reversed(tops)]
    while stack:
        fields, parent_id, name = stack.pop()
        node = _loom_node(fields, parent_id, name)
        node.id = node.id or f"n{len(nodes)}"
        node.text = re.sub(r"\\([<\[])", r"\1", node.text) if name else node.text  # Loomsidian escapes them
        title = whole.inner("chapters").inner(fields.text("chapter_id")).text("title") or chapters.get(
            node.id
        )
        node.mark(chapter=title is not None, title=title or "")
        response = whole.inner("model_responses").inner(fields.inner("generation").ident("id") or "")
        node.generation = Generation(model=response.text("model")) if response.text("model") else None
        nodes.append(node)
        if not by_name:
            stack += [(child, node.id, "") for child in reversed(fields.objects("children"))]
    draft = arrange(nodes, whole.ident("selected_node_id") or whole.ident("current"))
    draft.root.settings.memory = draft.root.settings.memory or _loom_memory(whole)
    return draft


def _loom_parent(fields: Fields) -> str | None:
    values = (fields.raw(key) for key in _PARENT)
    found = next((value for value in values if value is not None), None)
    found = next(iter(as_list(found)), None) if isinstance(found, list) else found
    return str(found) if isinstance(found, str | int) else None


def _loom_memory(fields: Fields) -> str | None:
    """Return the text before every prompt, which a node's frame or the whole file gives."""
    return fields.inner("generation_settings").text("global_context") or None


def _loom_node(fields: Fields, parent_id: str | None, name: str = "") -> DraftNode:
    about, tags = fields.inner("meta"), fields.texts("tags")
    source = about.text("source") or fields.text("author") or fields.text("type")
    return DraftNode(
        fields.ident("id") or name,
        parent_id,
        text=fields.text("text") or fields.text("value"),
        author=_SOURCES.get(source, "imported"),
        marks=Marks(
            bookmark=fields.flag("bookmark") or fields.flag("bookmarked") or "bookmark" in tags,
            tags=tuple(tag for tag in tags if tag != "bookmark"),
            visited=fields.flag("visited", not fields.flag("unread")),
        ),
        settings=Settings(memory=_loom_memory(fields.inner("frame"))),
        created=read_time(about.raw("creation_timestamp") or fields.raw("createdAt")),
    )


def write_loom(draft: StoryDraft) -> bytes:
    """The tree as socketteer/loom has it, which other looms read too."""
    sources = {"model": "AI", "edited": "mixed"}
    starts = {node.id: f"chapter-{node.id}" for node in draft.nodes if node.marks.chapter}
    titles = {node.id: node.marks.title for node in draft.nodes}
    names = sorted({tag for node in draft.nodes for tag in node.marks.tags})
    plain = {"scope": "node", "hide": False, "show_only": False, "toggle_key": "None", "icon": "None"}
    head: JsonObject = {
        "selected_node_id": draft.current_id,
        "chapters": {
            name: {"id": name, "root_id": node, "title": titles[node]} for node, name in starts.items()
        },
        "tags": {name: {"name": name, **plain} for name in names},  # loom fails on a tag without a definition
    }
    parts = [json.dumps(head, ensure_ascii=False)[:-1], ', "root": ']
    for node, first in nested(draft):
        if node is None:
            parts.append("]}")
            continue
        fields: JsonObject = {
            "id": node.id, "text": node.text, "parent_id": node.parent_id,
            "mutable": node.parent_id is not None, "visited": node.marks.visited,
            "tags": [*node.marks.tags, *["bookmark"] * node.marks.bookmark],
            "meta": {"source": sources.get(node.author, "prompt")},
        }  # fmt: skip
        if node.created is not None:
            fields["meta"]["creation_timestamp"] = write_time(node.created, LOOM_TIME)
        if node.id in starts:
            fields["chapter_id"] = starts[node.id]
        if node.settings.memory is not None:
            fields["frame"] = {"generation_settings": {"global_context": node.settings.memory}}
        parts += ["" if first else ", ", json.dumps(fields, ensure_ascii=False)[:-1], ', "children": [']
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
            end = grower.add(end, DraftNode("", text=text, author="writer" if typed else "model"))
    settings = grower.root.settings
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
    return grower.draft(end, session.text("name"))


# -- Kobold Lite --------------------------------------------------------------------------------------

_PICTURE = re.compile(r"\[?<\|([phd])\|.+?\|\1\|>\]?", re.DOTALL)
_TURN = re.compile(r"\n?\{\{\[(INPUT|OUTPUT|SYSTEM)(_END)?\]\}\}\n?")


def is_kobold(document: Document) -> bool:
    own = {"gamestarted", "authorsnote", "anotetemplate", "altbranches", "savedsettings"}
    return bool(own & set(document.object)) and "actions" in document.object


def read_kobold(document: Document) -> StoryDraft:
    """A save of Kobold Lite with its branches, as it is shown there: turns instead of marks, no pictures."""
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
        return _PICTURE.sub("", named)

    after: dict[tuple[str, str], tuple[DraftNode, Author, bool]] = {}

    def grow(chunks: list[JsonValue]) -> DraftNode:
        """Lay a branch over those that are there, as far as their chunks agree; return its end."""
        end, author, begins = grower.root, cast(Author, "imported"), False
        for chunk in chunks:
            step = end.id, chunk if isinstance(chunk, str) else ""
            if step not in after:
                start = 0
                text = shown(step[1])
                for mark in [*_TURN.finditer(text), None]:
                    if piece := text[start : mark.start() if mark else None]:
                        piece = _apart(end.text, piece) if begins else piece
                        end = grower.add(end, DraftNode("", text=piece, author=author))
                        begins = False
                    if mark:
                        start = mark.end()
                        if not mark[2]:
                            author, begins = "model" if mark[1] == "OUTPUT" else "writer", True
                after[step] = end, author, begins
            end, author, begins = after[step]
        return end

    active = [whole.raw("prompt"), *as_list(whole.raw("actions"))]
    branches = as_list(whole.raw("altbranches"))
    ends = [
        grow(active if branch is None else as_list(branch)) for branch in branches
    ]  # null is the active one
    draft = grower.draft(ends[branches.index(None)] if None in branches else grow(active))
    settings = draft.root.settings
    settings.memory = _TURN.sub(BETWEEN, shown(whole.text("memory"))).strip() or None
    note, template = (
        _TURN.sub(BETWEEN, shown(whole.text(key))).strip() for key in ("authorsnote", "anotetemplate")
    )
    settings.author_note = (template.replace("<|>", note) if "<|>" in template else note) if note else None
    entries = read_entries(whole, "worldinfo", kobold_entry)
    for entry in entries:
        entry.text = _TURN.sub(BETWEEN, shown(entry.text)).strip()
    add_lore(draft, [entry for entry in entries if entry.text or entry.keys])
    return draft


def _apart(before: str, text: str) -> str:
    """Return the text with as many line breaks in front as make a blank line after ``before``."""
    there = len(before) - len(before.rstrip("\n")) + len(text) - len(text.lstrip("\n"))
    return BETWEEN[: max(len(BETWEEN) - there, 0)] + text if before else text


# -- SillyTavern's chats ------------------------------------------------------------------------------


def is_tavern_chat(document: Document) -> bool:
    keys = set(document.object)
    return "chat_metadata" in keys or {"user_name", "character_name"} <= keys or {"mes", "is_user"} <= keys


def read_tavern_chat(document: Document) -> StoryDraft:
    """Messages as prose; swipes are siblings of the message that was shown, hidden messages stand beside."""
    values = document.value.values() if document.kind == "jsonl" else [document.value]
    messages, grower = [Fields(value) for value in values], Grower()
    end, hidden_end = grower.root, None
    person, characters, hidden = "", list[str](), 0
    head = messages.pop(0) if messages[0].raw("mes") is None and messages[0].raw("is_user") is None else None
    for message in messages:
        text = _tavern_text(message.raw("mes"))
        if text is None:
            continue
        speaker, is_user = message.text("name"), message.flag("is_user")
        tags = [" ".join(re.split(r"[,\s]+", speaker)).strip()] if speaker.strip(", \n") else []
        is_hidden = message.flag("is_system")
        above = (hidden_end or end) if is_hidden else end
        shown, takes, edited = _tavern_takes(message, text)
        for index, (take, created, model) in enumerate(takes):
            node = DraftNode(
                "",
                text=(BETWEEN if above is not grower.root else "") + take,
                author="writer" if is_user else "edited" if index == shown and edited else "model",
                marks=Marks(tags=tuple(["hidden", *tags] if is_hidden else tags)),
                created=created,
                generation=Generation(model=model) if model else None,
            )
            grower.add(above, node)
            if index == shown:
                end, hidden_end = (end, node) if is_hidden else (node, None)
        hidden += is_hidden
        if is_user:
            person = person or speaker
        elif speaker and not is_hidden and speaker not in characters:
            characters.append(speaker)
    draft = grower.draft(end)
    if head is not None:
        names = [head.text(key).removeprefix("unused") for key in ("character_name", "user_name")]
        draft.title, draft.byline = names
        draft.created = read_time(head.raw("create_date"))
        about = head.inner("chat_metadata")
        draft.root.settings.author_note = about.text("note_prompt") or None
        draft.root.settings.author_note_depth = about.integer("note_depth")
    draft.title = draft.title or ", ".join(characters[:3])
    draft.byline = draft.byline or person
    if hidden:
        words = "message stands" if hidden == 1 else "messages stand"
        document.tell(f"{hidden} hidden {words} beside the story, with the tag 'hidden'.")
    return draft


def _tavern_text(value: Any) -> str | None:
    """Return the text of a message or swipe; Chub puts it into an object."""
    text = as_object(value).get("message") if isinstance(value, dict) else value
    return text if isinstance(text, str) else None


_Take = tuple[str, float | None, str]
"""Text, time and model."""


def _tavern_takes(message: Fields, text: str) -> tuple[int, list[_Take], bool]:
    """Return which take was shown, all of them, and whether it is none of the swipes: then it was edited."""
    infos = as_list(message.raw("swipe_info"))
    own = (
        text,
        read_time(message.raw("send_date")),
        str(as_object(message.raw("extra")).get("model") or ""),
    )
    takes: list[_Take] = []
    for index, value in enumerate(as_list(message.raw("swipes"))):
        swipe, info = _tavern_text(value), as_object(infos[index] if index < len(infos) else None)
        if swipe is not None:
            model = str(as_object(info.get("extra")).get("model") or "")
            takes.append((swipe, read_time(info.get("send_date")), model))
    same = [index for index, take in enumerate(takes) if take[0] == text]
    swiped = message.integer("swipe_id")
    shown = swiped if swiped in same else same[0] if same else min(max(swiped or 0, 0), len(takes))
    takes[shown : shown + bool(same)] = [own]
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
    nodes: list[DraftNode] = []
    newest, current, title = -1.0, "", ""
    for place, chat in enumerate(chats):
        of_claude = isinstance(chat.raw("chat_messages"), list)
        read = _claude_messages if of_claude else _chatgpt_messages
        top_id = f"conversation-{place + 1}"
        name = chat.text("name" if of_claude else "title")
        nodes.append(DraftNode(top_id, marks=Marks(title=name)))
        above: dict[str, str] = {}  # the node that each message became, or hangs on
        last = ""
        for key, parent, author, text, created, model in read(chat):
            parent_id = above.get(parent, top_id)
            above[key] = parent_id
            if text:
                words = text if parent_id == top_id else BETWEEN + text
                node_id = f"{place + 1}-{key}"
                node = DraftNode(node_id, parent_id, 0, words, author, created=created)
                node.generation = Generation(model=model) if model else None
                nodes.append(node)
                above[key] = last = node_id
        changed = read_time(chat.raw("updated_at" if of_claude else "update_time")) or 0.0
        if last and changed > newest:
            shown = chat.ident("current_leaf_message_uuid" if of_claude else "current_node") or ""
            newest, current, title = changed, above.get(shown, last), name
    draft = arrange(nodes, current)
    draft.title = title if len(chats) == 1 else ""
    return draft


_Message = tuple[str, str, Author, str, float | None, str]


def _chatgpt_messages(chat: Fields) -> list[_Message]:
    """Return (id, parent, author, text, time, model) of each message, parents first."""
    entries = dict(chat.members("mapping"))
    order = [name for name, entry in entries.items() if str(entry.raw("parent")) not in entries]
    found: list[_Message] = []
    for name in order:  # grows while it is walked
        entry = entries.pop(name, None)
        if entry is None:
            continue
        order += [str(child) for child in as_list(entry.raw("children"))]
        fields = entry.inner("message")
        role, about = as_object(fields.raw("author")).get("role"), as_object(fields.raw("metadata"))
        parts = as_list(as_object(fields.raw("content")).get("parts"))
        text = "\n".join(part for part in parts if isinstance(part, str)).strip("\n")
        hidden = about.get("is_visually_hidden_from_conversation") or role not in ("user", "assistant")
        author: Author = "writer" if role == "user" else "model"
        model = str(about.get("model_slug") or "") if author == "model" else ""
        created = read_time(fields.raw("create_time"))
        found.append((name, str(entry.raw("parent")), author, "" if hidden else text, created, model))
    return found


def _claude_messages(chat: Fields) -> list[_Message]:
    """The same of Claude. Old exports name no parents: each message follows the one before it."""
    found: list[_Message] = []
    last = ""
    for message in chat.objects("chat_messages"):
        key = message.ident("uuid") or f"m{len(found)}"
        parts = [as_object(part) for part in as_list(message.raw("content"))]
        text = "\n\n".join(
            str(part.get("text")) for part in parts if part.get("type") == "text" and part.get("text")
        )
        author: Author = "writer" if message.raw("sender") == "human" else "model"
        parent = message.ident("parent_message_uuid")
        text = (text or message.text("text")).strip("\n")
        found.append(
            (key, last if parent is None else parent, author, text, read_time(message.raw("created_at")), "")
        )
        last = key
    return found
