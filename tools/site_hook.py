"""A hook of mkdocs: tables are made, and links to files outside the documentation lead to the repository."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # mkdocs loads this file by its path
from tools import pages  # noqa: E402


def on_page_markdown(markdown: str, *, config: Any, **_: object) -> str:
    """Called by mkdocs with the text of each page."""
    return re.sub(r"\]\(\.\./", f"]({config.repo_url}/blob/main/", pages.renewed(markdown))
