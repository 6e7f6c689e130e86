"""Trees, sessions and chats of other programs, in JSON: one function reads each.

Facts are from the programs themselves. Fields that are not named here are not kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby

from srbwriter.formats.draft import Fields, Grower
from srbwriter.formats.lore import add_lore, read_entry
from srbwriter.formats.opening import Document, FormatError, parse_json
from srbwriter.story.draft import StoryDraft
from srbwriter.story.model import (
    Author,
    JsonObject,
    JsonValue,
    NodeId,
    StorySettings,
    as_list,
    as_object,
)
from srbwriter.story.node import Node

BETWEEN = "\n\n"
"""What separates the messages of a chat when it is read as prose."""


# -- Loom ---------------------------------------------------------------------------------------------

_SOURCES: dict[str, Author] = {"prompt": "writer", "AI": "model", "mixed": "edited"}


def is_loom(document: Document) -> bool:
    """Whether it is a node that holds its children, or has one as its root."""
    top = as_object(document.object.get("root")) or document.object
    children = [as_object(child) for child in as_list(top.get("children"))]
    held = "text" in top and "children" in top
    return document.kind == "json" and (held or any({"text", "children"} & set(child) for child in children))


def read_loom(document: Document) -> StoryDraft:
    """A tree of socketteer/loom, or any of ``{text, children}``. The memory is the context before prompts."""
    whole, grower = Fields(document.object), Grower()
    top = whole.inner("root") if isinstance(whole.raw("root"), dict) else whole
    made: dict[str, Node] = {}
    leaf: Node | None = None
    stack = [(top, grower.root)]
    while stack:
        fields, node = stack.pop()
        tags, children = fields.tags(), fields.objects("children")
        if fields is not top or fields.text("text"):
            author = _SOURCES.get(fields.inner("meta").text("source"), "imported")
            node = grower.add(node, fields.text("text"), author, visited=fields.flag("visited", True))
        node.bookmark = fields.flag("bookmark") or "bookmark" in tags
        node.tags = tuple(tag for tag in tags if tag != "bookmark")
        for place in (fields.inner("frame"), *([whole] if fields is top else [])):
            if memory := place.inner("generation_settings").text("global_context"):
                node.settings = StorySettings(memory=memory)
        made[fields.ident("id")] = node
        leaf = leaf or (None if children else node)
        stack += [(child, node) for child in reversed(children)]
    current = whole.ident("selected_node_id")
    return grower.draft(made.get(current, leaf) if current else leaf)


# -- mikupad ------------------------------------------------------------------------------------------


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
    settings = StorySettings()
    for key, name in (("memoryTokens", "memory"), ("authorNoteTokens", "author_note")):
        part = session.inner(key)
        if text := part.text("text"):
            whole = part.text("prefix") + text + part.text("suffix")
            setattr(settings, name, whole.replace("\\n", "\n"))  # line breaks are typed as \\n there
    settings.author_note_depth = session.integer("authorNoteDepth")
    for place, fields in session.inner("worldInfo").members("entries"):
        settings.lore.append(entry := read_entry(fields, place))
        entry.keys = ["/{}/i".format(key.replace("/", r"\/")) for key in entry.keys]  # regular expressions
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
    names = {"user": saved.text("chatname"), "char": saved.text("chatopponent").split("||$||")[0]}

    def shown(text: str) -> str:
        named = re.sub(
            r"\{\{(user|char)\}\}", lambda found: names[found[1].lower()] or found[0], text, flags=re.I
        )
        return _TURNS.sub(BETWEEN, _PICTURE.sub("", named))

    after: dict[tuple[NodeId, str], Node] = {}

    def grow(chunks: list[JsonValue]) -> Node:
        """Merge a branch with the existing ones, as far as their chunks agree; return its end."""
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
    """Messages as prose with their speakers as tags; swipes are siblings of the message that was shown.

    Messages outside the prompt are text as well, with the tag "hidden"; comments are notes.
    """
    values = document.value if document.kind == "jsonl" else [document.value]
    grower, names = Grower(), dict[str, bool]()
    end = grower.root
    for message in map(Fields, values):
        text, is_user, extra = message.text("mes"), message.flag("is_user"), message.inner("extra")
        if extra.text("type") == "comment":
            end.note = "\n".join(filter(None, (end.note, text)))
            continue
        name = " ".join(re.split(r"[,\s]+", message.text("name"))).strip()
        swipes, above = message.texts("swipes") or [text], end
        if edited := text not in swipes:
            swipes.insert(message.integer("swipe_id") or 0, text)
        for take in dict.fromkeys(filter(None, swipes)):
            words = take if above is grower.root else BETWEEN + take
            author = "writer" if is_user else "edited" if edited and take == text else "model"
            node = grower.add(above, words, author, model=extra.text("model"))
            node.tags = (*["hidden"] * message.flag("is_system"), *filter(None, [name]))
            end = node if take == text else end
        names[name] = is_user
    head = Fields(document.object)
    draft = grower.draft(end)
    titles = [head.text(key).removeprefix("unused") for key in ("character_name", "user_name")]
    characters = [name for name, is_user in names.items() if name and not is_user]
    draft.title = titles[0] or ", ".join(characters[:3])
    draft.byline = titles[1] or next((name for name, is_user in names.items() if name and is_user), "")
    about = head.inner("chat_metadata")
    note, depth = about.text("note_prompt") or None, about.integer("note_depth")
    draft.root.settings = StorySettings(author_note=note, author_note_depth=depth)
    return draft


# -- chats of ChatGPT and Claude ----------------------------------------------------------------------


def is_conversations(document: Document) -> bool:
    first = as_object(next(iter(as_list(document.value)), document.value))
    return isinstance(first.get("mapping"), dict) or isinstance(first.get("chat_messages"), list)


def read_conversations(document: Document) -> StoryDraft:
    """``conversations.json`` as ChatGPT and Claude export it: each conversation with all its branches.

    Several conversations are siblings below an empty root; the one that was changed last is shown.
    Instructions, tools and messages without words are left out.
    """
    grower, newest, here, title = Grower(), "", None, ""
    chats = [Fields(value) for value in as_list(document.value) or [document.value]]
    for chat in chats:
        of_claude = isinstance(chat.raw("chat_messages"), list)
        name = chat.text("name" if of_claude else "title")
        top = grower.add(grower.root, "", title=name) if len(chats) > 1 else grower.root
        made: dict[str, Node] = {}  # the node that each message became, or hangs on
        last = top
        for key, parent, author, text in (_claude_messages if of_claude else _chatgpt_messages)(chat):
            node = made.get(parent, top)
            if text:
                node = last = grower.add(node, text if node is top else BETWEEN + text, author)
            made[key] = node
        changed = str(chat.raw("updated_at" if of_claude else "update_time"))  # ISO 8601, or seconds
        if last is not top and changed > newest:
            shown = chat.ident("current_leaf_message_uuid" if of_claude else "current_node")
            newest, here, title = changed, made.get(shown, last), name
    return grower.draft(here, title if len(chats) == 1 else "")


def _chatgpt_messages(chat: Fields) -> Iterator[tuple[str, str, Author, str]]:
    """Yield id, parent, author and text of the messages, parents first."""
    entries = dict(chat.members("mapping"))
    order = [name for name, entry in entries.items() if str(entry.raw("parent")) not in entries]
    for name in order:  # grows while it is walked
        if (entry := entries.pop(name, None)) is None:
            continue
        order += [str(child) for child in as_list(entry.raw("children"))]
        message = entry.inner("message")
        role = message.inner("author").text("role")
        text = "\n".join(message.inner("content").texts("parts")).strip("\n")
        hidden = message.inner("metadata").flag("is_visually_hidden_from_conversation")
        said = role in ("user", "assistant") and not hidden
        yield name, str(entry.raw("parent")), "writer" if role == "user" else "model", text if said else ""


def _claude_messages(chat: Fields) -> Iterator[tuple[str, str, Author, str]]:
    """The same of Claude. Old exports name no parents: each message follows the one before it."""
    last = ""
    for place, message in enumerate(chat.objects("chat_messages")):
        key = message.ident("uuid") or f"m{place}"
        parts = (part.text("text") for part in message.objects("content") if part.text("type") == "text")
        text = (BETWEEN.join(filter(None, parts)) or message.text("text")).strip("\n")
        author: Author = "writer" if message.raw("sender") == "human" else "model"
        yield key, message.ident("parent_message_uuid") or last, author, text
        last = key
