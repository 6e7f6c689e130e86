"""The front matter of a Markdown file: YAML between two lines of dashes.

Values are read by the rules of YAML 1.2: ``no``, ``12:30`` and ``2024-05-06`` are text. Anchors and aliases
are refused, because a few lines of them can expand beyond any memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import yaml

from srbwriter.story.formats.document import mend
from srbwriter.story.model import JsonObject, JsonValue, as_list, as_object

_yaml = cast(Any, yaml)  # its types are half known
_FENCED = re.compile(r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.MULTILINE | re.DOTALL)
_KEY = re.compile(r"\s*(?:#[^\n]*\n\s*)*[\"']?[^\W\d][\w .-]{0,60}[\"']?[ \t]{0,9}:(?:\s|\Z)")
_ESCAPED = re.compile("[^\n\x20-\x7e\xa0-\u2027\u2030-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_DEEPEST = 50  # levels; PyYAML goes down by recursion


class NotYaml(ValueError):
    """Something between dashes that looks like front matter and cannot be read; says where and why."""


def split(text: str) -> tuple[JsonObject | None, str]:
    """The front matter of ``text``, if it begins with some, and what follows it.

    Raises NotYaml where it can only have been meant as front matter, and is not.
    """
    found = _FENCED.match(text)
    if found is None or not _KEY.match(found[1]):
        return None, text
    try:
        value = _yaml.load(found[1], _Loader)  # a SafeLoader: plain values alone
    except RecursionError as error:
        raise NotYaml("it is nested too deeply") from error
    except (yaml.YAMLError, ValueError) as error:
        raise NotYaml(_problem(error)) from error
    if not isinstance(value, dict):
        raise NotYaml("it is no list of keys with values")
    return as_object(_as_json(value)), text[found.end() :]


def _as_json(value: Any) -> JsonValue:
    """A value that YAML may have made of a tag (``!!timestamp``) as JSON has it."""
    if isinstance(value, dict):
        return {mend(str(key)): _as_json(inner) for key, inner in cast(dict[Any, Any], value).items()}
    if isinstance(value, list):
        return [_as_json(inner) for inner in as_list(value)]
    return value if value is None or isinstance(value, bool | int) else mend(str(value))


def dump(fields: Mapping[str, JsonValue]) -> str:
    """``fields`` as lines of YAML."""
    if not fields:
        return ""
    return cast(str, _yaml.dump(dict(fields), Dumper=_Dumper, **_LAYOUT))


_LAYOUT: dict[str, Any] = {"allow_unicode": True, "sort_keys": False, "width": float("inf")}


def _problem(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    where = f"line {mark.line + 2}: " if mark is not None else ""  # the dashes are line 1
    return where + str(getattr(error, "problem", None) or error)


class _Loader(yaml.SafeLoader):
    """Plain values by the core schema of YAML 1.2, as far as they are written back the same."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - the class's own, in place of those of YAML 1.1
    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if cast(Any, self).check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases (*name) are not taken")
        self._depth += 1
        if self._depth > _DEEPEST:
            raise yaml.YAMLError("it is nested too deeply")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


class _Dumper(yaml.SafeDumper):
    """Quotes what any YAML would take for something else than text."""


def _text(dumper: Any, text: str) -> Any:
    """A text; line ends that folding would lose are escaped."""
    style = '"' if _ESCAPED.search(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


cast(Any, _Dumper).add_representer(str, _text)

for _tag, _pattern, _first in (
    ("null", r"null|~|", ["n", "~", ""]),
    ("bool", r"true|false", ["t", "f"]),
    ("int", r"0|-?[1-9][0-9]{0,15}", list("-0123456789")),
):
    _pattern = re.compile(rf"(?:{_pattern})\Z")
    cast(Any, _Loader).add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _pattern, _first)


def words_of(value: JsonValue) -> str:
    """A value that should be a text, as one: of a list its texts, of a mapping what it calls its name."""
    if isinstance(value, list):
        return ", ".join(filter(None, map(words_of, as_list(value))))
    if isinstance(value, dict):
        fields = as_object(value)
        return words_of(fields.get("name", fields.get("literal", "")))
    return "" if value is None or isinstance(value, bool) else str(value)
