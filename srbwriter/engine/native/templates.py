"""Chat templates that llama.cpp knows by name: pure functions of C, safe on any thread."""

from __future__ import annotations

import ctypes as C
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from .library import L


@cache
def names() -> tuple[str, ...]:
    """What llama.cpp calls the templates it has built in."""
    count = int(L.llama_chat_builtin_templates(None, 0))
    found = (C.c_char_p * count)()
    L.llama_chat_builtin_templates(found, count)
    return tuple(sorted(name.decode() for name in found if name))


def render(name: str, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool) -> str:
    """Messages of role and text as one prompt, without a beginning token. Raises KeyError for no such name."""
    if name not in names():
        raise KeyError(name)
    texts = [(str(message["role"]), str(message.get("content") or "")) for message in messages]
    chat = (L.llama_chat_message * len(texts))(
        *(L.llama_chat_message(role=role.encode(), content=text.encode("utf-8", "replace")) for role, text in texts)
    )
    room = 1024 + 2 * sum(len(part.encode("utf-8", "replace")) for pair in texts for part in pair)
    while True:
        buffer = C.create_string_buffer(room)
        size = int(L.llama_chat_apply_template(name.encode(), chat, len(texts), add_generation_prompt, buffer, room))
        if size < 0:
            raise KeyError(name)
        if size <= room:
            return buffer.raw[:size].decode("utf-8", "replace")
        room = size
