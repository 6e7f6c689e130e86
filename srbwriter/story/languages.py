"""Language tags (BCP 47), which books use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from os import environ

_TAG = re.compile(r"[a-z]{2,3}(-[a-z0-9]{1,8})*", re.IGNORECASE)
_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")  # the first that is set counts, as for every program


def language_tag(words: str) -> str | None:
    """Return the tag for a tag or a locale (``pt_BR.UTF-8``); None for anything else."""
    tag = re.sub(r"[.@].*", "", words.strip()).replace("_", "-")
    if not _TAG.fullmatch(tag):
        return None
    first, *rest = tag.split("-")
    return "-".join([first.lower(), *map(_subtag, rest)])


def default_language(environment: Mapping[str, str] = environ) -> str:
    """Return the language of the locale; English if it has none."""
    locale_name = next((environment[name] for name in _VARIABLES if environment.get(name)), "")
    tag = language_tag(locale_name)
    return "en" if tag is None or locale_name.upper().startswith(("C.", "POSIX")) else tag


def _subtag(part: str) -> str:
    """Return a subtag in its usual case: regions in capitals, scripts capitalised."""
    if len(part) == 2 and part.isalpha():
        return part.upper()
    return part.title() if len(part) == 4 and part.isalpha() else part.lower()
