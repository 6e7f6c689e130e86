"""The rule for which clients share cached prompts.

The number of cached tokens, and how soon an answer comes, would reveal what other clients have written. So
each key has its own namespace of the cache; only the server's own text before prompts is common to all. Knows
keys and texts; knows no HTTP.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from srbwriter.engine.backend import Backend
from srbwriter.engine.types import EngineError
from srbwriter.server.settings import Client, ServerSettings, server_keys

from .system_prompt import put_before_messages

_MARK = "\ue000"  # a private-use character; stands where a client's own words begin
_ROLES = ("system", "user")


class Scope(NamedTuple):
    """A part of the cache: the salt of its namespace, and the texts that are common to all namespaces."""

    salt: str = ""
    common: tuple[str, ...] = ()


class Sharing:
    """The rule of one server."""

    def __init__(self, settings: ServerSettings) -> None:
        self.separate = len({key.name for key in server_keys(settings)}) > 1 and not settings.share_cache

    def salt(self, client: Client, asked: str = "") -> str:
        """Return the salt of a client's request; ``asked`` is the one that it names.

        One that is a client's already stays as it is.
        """
        own = f"{client.name}\0" if self.separate else ""
        return asked if asked.startswith(own) else own + asked


def template_heads(engine: Backend, template: str, system: str) -> tuple[str, ...]:
    """Return the text that a chat template writes before a client's first words, by the role of the message.

    ``system`` is the text that the server puts before conversations, if any.
    """
    begins: list[Sequence[dict[str, Any]]] = [[{"role": role, "content": _MARK}] for role in _ROLES]
    if system:
        own = [*begins]
        begins = [put_before_messages(one, system, as_system=True) for one in own]
        begins.append(put_before_messages(own[-1], system, as_system=False))
    heads: list[str] = []
    for messages in begins:
        try:
            written = engine.apply_template(messages, add_generation_prompt=False, template=template)
        except (EngineError, NotImplementedError):
            continue  # it wants a conversation to begin otherwise
        head, found, _ = written.partition(_MARK)
        if found and head:
            heads.append(head)
    return tuple(heads)
