"""The text before every prompt, from ``--system-prompt-file`` or llama.cpp's field ``system_prompt``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

from srbwriter.server.settings import ServerError, ServerSettings, read_text


@dataclass(frozen=True, slots=True)
class SystemPrompt:
    """A text before every prompt, and the names that chat clients read from ``/props``."""

    prompt: str = ""
    anti_prompt: str = ""
    assistant_name: str = ""


_NAMES = tuple(part.name for part in fields(SystemPrompt))
_MEANT_AS_JSON = re.compile(r'\s*\{\s*"')
_EXPECTED = (
    'expected a text, or JSON as {"system_prompt": {"prompt": …, "anti_prompt": …, "assistant_name": …}}'
)


def read_system_prompt(settings: ServerSettings) -> SystemPrompt:
    """Read the file of the settings: a text, or a JSON object. Raises ServerError."""
    file = settings.system_prompt_file
    if file is None:
        return SystemPrompt()
    text = read_text(file, "the system prompt")
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        if file.suffix.lower() == ".json" or _MEANT_AS_JSON.match(text):
            raise ServerError(f"{file}: this is no JSON ({error}); {_EXPECTED}") from None
        return SystemPrompt(text)
    if isinstance(value, dict):
        return _read_object(str(file), cast("dict[str, Any]", value))
    if isinstance(value, list):
        raise ServerError(f"{file}: this is a JSON list; {_EXPECTED}")
    return SystemPrompt(text)  # a number, or a sentence in quotation marks


def _read_object(file: str, values: Mapping[str, Any]) -> SystemPrompt:
    """The object with or without ``system_prompt`` around it, as llama.cpp's server took both."""
    inner: Any = values.get("system_prompt")
    if isinstance(inner, str) and len(values) == 1:
        return SystemPrompt(inner)
    if "system_prompt" in values:
        if beside := next((name for name in values if name != "system_prompt"), None):
            raise ServerError(f"{file}: {beside[:60]!r} stands beside 'system_prompt'; {_EXPECTED}")
        if not isinstance(inner, dict):
            raise ServerError(f"{file}: system_prompt: expected text or an object; {_EXPECTED}")
        values = cast("dict[str, Any]", inner)
    unknown = [name for name in values if name not in _NAMES]
    if unknown or not values:
        what = f"there is no field {unknown[0][:60]!r}" if unknown else "this JSON object is empty"
        raise ServerError(f"{file}: {what}; {_EXPECTED}")
    if wrong := next((name for name, item in values.items() if not isinstance(item, str)), None):
        raise ServerError(f"{file}: {wrong}: expected text; {_EXPECTED}")
    return SystemPrompt(**values)


def put_before_messages(
    messages: Sequence[dict[str, Any]], text: str, *, as_system: bool
) -> list[dict[str, Any]]:
    """Return messages with ``text`` as the first system message, or at the beginning of the user's first."""
    roles = [one.get("role") for one in messages]
    wanted = roles[0] if as_system and roles[0] in ("system", "developer") else "user"
    if wanted not in roles or (as_system and wanted == "user"):
        return [{"role": "system" if as_system else "user", "content": text}, *messages]
    at = roles.index(wanted)
    content = "\n\n".join(part for part in (text, messages[at].get("content")) if part)
    return [*messages[:at], {**messages[at], "content": content}, *messages[at + 1 :]]
