"""Language tags (BCP 47), which books use."""

from __future__ import annotations

import re
from os import environ

_TAG = re.compile(r"[a-z]{2,3}(-[a-z0-9]{1,8})*")
_REGION_OR_SCRIPT = re.compile(r"-[a-z]{2}(?![^-])|-[a-z]{4}(?![^-])")  # in capitals; capitalised


def language_tag(words: str) -> str | None:
    """Return the tag for a tag or a locale (``pt_BR.UTF-8``); None for anything else."""
    tag = re.sub(r"[.@].*", "", words.strip()).replace("_", "-").lower()
    if not _TAG.fullmatch(tag):
        return None
    return _REGION_OR_SCRIPT.sub(lambda part: part[0].upper() if len(part[0]) == 3 else part[0].title(), tag)


def default_language() -> str:
    """Return the language of the locale; English if it has none."""
    names = (environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))  # the first that is set counts
    name = next(filter(None, names), "")
    return "en" if name.upper().startswith(("C.", "POSIX")) else language_tag(name) or "en"
