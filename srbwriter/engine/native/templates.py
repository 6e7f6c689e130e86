"""Chat templates that llama.cpp knows by name: pure functions of C, safe on any thread."""

from __future__ import annotations

import ctypes as C
from collections.abc import Mapping, Sequence
from functools import cache, partial
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
    """Messages of role and text as one prompt, without a beginning token.

    Raises KeyError where there is no such name.
    """
    if name not in names():
        raise KeyError(name)
    texts = [(_bytes(message["role"]), _bytes(message.get("content") or "")) for message in messages]
    kind = L.llama_chat_message
    chat = (kind * len(texts))(*(kind(role=role, content=text) for role, text in texts))
    room = 1024 + 2 * sum(len(role) + len(text) for role, text in texts)
    write = partial(L.llama_chat_apply_template, name.encode(), chat, len(texts), add_generation_prompt)
    while True:
        buffer = C.create_string_buffer(room)
        size = int(write(buffer, room))
        if size < 0:
            raise KeyError(name)
        if size <= room:
            return buffer.raw[:size].decode("utf-8", "replace")
        room = size


def _bytes(value: object) -> bytes:
    return str(value).encode("utf-8", "replace")
