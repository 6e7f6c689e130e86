"""A hook of mkdocs: tables are made, and links to files outside the documentation lead to the repository."""

from __future__ import annotations

import re
from typing import Any

from tools import pages


def on_page_markdown(markdown: str, *, config: Any, **_: object) -> str:
    """Called by mkdocs with the text of each page."""
    return re.sub(r"\]\(\.\./", f"]({config.repo_url}/blob/main/", pages.renewed(markdown))
