"""Languages by their tags (BCP 47): how one is written, and which a text is in unless somebody says so."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

FALLBACK = "en"

_TAG = re.compile(
    r"(?:[a-z]{2,3}(?:-[a-z]{3}){0,3}|[a-z]{4,8})"  # a language, with what extends it
    r"(?:-[a-z]{4})?"  # script
    r"(?:-(?:[a-z]{2}|[0-9]{3}))?"  # region
    r"(?:-(?:[a-z0-9]{5,8}|[0-9][a-z0-9]{3}))*"  # variants
    r"(?:-[a-wyz0-9](?:-[a-z0-9]{2,8})+)*"  # extensions
    r"(?:-x(?:-[a-z0-9]{1,8})+)?",  # private use
    re.IGNORECASE,
)
_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")  # the first that is set counts, as for every program


def language_tag(words: str) -> str | None:
    """The tag that ``words`` are, also in the spelling of a locale (``pt_BR.UTF-8``); None for no tag."""
    tag = re.sub(r"[.@].*", "", words.strip()).replace("_", "-")
    if not _TAG.fullmatch(tag):
        return None
    first, *rest = tag.split("-")
    return "-".join([first.lower(), *map(_subtag, rest)])


def _subtag(part: str) -> str:
    """Regions in capitals, scripts with one, as is usual."""
    if len(part) == 2 and part.isalpha():
        return part.upper()
    return part.title() if len(part) == 4 and part.isalpha() else part.lower()


def default_language(environment: Mapping[str, str] = os.environ) -> str:
    """The language of the writer's surroundings; English where they say nothing of use."""
    said = next((environment[name] for name in _VARIABLES if environment.get(name)), "")
    tag = language_tag(said)
    return FALLBACK if tag is None or said.upper().startswith(("C.", "POSIX")) else tag
