"""Names of keys: validation for the section ``[keys]``, and names for the documentation."""

from __future__ import annotations

import string
from functools import cache

from textual.binding import Binding
from textual.keys import KEY_NAME_REPLACEMENTS, Keys, key_to_character

_MODIFIERS = frozenset({"ctrl", "alt", "shift", "super", "hyper", "meta"})


def check_keys(value: object) -> str:
    """Return ``value`` if it is empty or comma-separated key names. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError
    for name in filter(None, map(str.strip, value.split(","))):
        *modifiers, base = name.split("+") if len(name) > 1 else [name]
        known = len(base) == 1 or base in _special() or key_to_character(base) is not None
        if not (known and _MODIFIERS.issuperset(modifiers)):
            raise ValueError
    return value


def shown_name(key: str) -> str:
    """Return the character that a key types, or else its name, as :func:`check_keys` accepts it."""
    return _signs().get(key, key)


@cache
def _signs() -> dict[str, str]:
    """Return the punctuation characters, but for the comma, by Textual's names of their keys."""
    signs = [Binding(sign, sign, "") for sign in string.punctuation.replace(",", "")]
    return {binding.key: binding.action for binding in Binding.make_bindings(signs)}


@cache
def _special() -> frozenset[str]:
    """Return the names of keys that type nothing, and Textual's names of some that do."""
    names = {key.value.rpartition("+")[2] for key in Keys if key.value[0] != "<"}
    return frozenset({name for name in names if len(name) > 1} | set(KEY_NAME_REPLACEMENTS.values()))
