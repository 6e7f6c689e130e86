"""Names of keys: validation for the section ``[keys]``, and names for the documentation."""

from __future__ import annotations

import string
from functools import cache

from textual.binding import Binding
from textual.keys import KEY_NAME_REPLACEMENTS, Keys, key_to_character

_MODIFIERS = frozenset({"ctrl", "alt", "shift", "super", "hyper", "meta"})
_OTHERS = ("ctrl-at", "return")  # names that Textual knows but terminals never produce
_BETWEEN = ","  # separates names


def check_keys(value: object) -> str:
    """Return ``value`` if it is empty or comma-separated key names. Raises ValueError."""
    if not isinstance(value, str) or not all(map(is_key, filter(None, _split(value)))):
        raise ValueError
    return value


def is_key(name: str) -> bool:
    """Return whether ``name`` is a key: a character or a name, with optional modifiers such as ``ctrl+``."""
    if len(name) == 1:
        return True
    *modifiers, base = name.split("+")
    known = len(base) == 1 or base in _special() or key_to_character(base) is not None
    return known and _MODIFIERS.issuperset(modifiers)


def shown_name(key: str) -> str:
    """Return the character that a key types, or else its name, as :func:`is_key` accepts it."""
    return _signs().get(key, key)


@cache
def _signs() -> dict[str, str]:
    """Return the punctuation characters by Textual's names of their keys."""
    signs = string.punctuation.replace(_BETWEEN, "")
    return {
        binding.key: binding.action for binding in Binding.make_bindings([Binding(c, c, "") for c in signs])
    }


@cache
def _special() -> frozenset[str]:
    """Return the names of keys that type nothing, and Textual's names of some that do."""
    keys = {key.value.rpartition("+")[2] for key in Keys if key.value[0] != "<" and key.value not in _OTHERS}
    return frozenset({name for name in keys if len(name) > 1} | set(KEY_NAME_REPLACEMENTS.values()))


def _split(keys: str) -> list[str]:
    return [name.strip() for name in keys.split(_BETWEEN)]
