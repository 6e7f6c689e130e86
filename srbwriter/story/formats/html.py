"""A page that shows the whole tree, complete in itself: no scripts, nothing loaded from anywhere.

The current path is plain text to read; at every fork the other branches fold out.  Away from the
current path the child with the most below it carries the text on, so that branches are nested no
deeper than the logarithm of the number of nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

from srbwriter.story.draft import DraftNode, StoryDraft, children_by_parent, nested_text, path_to
from srbwriter.story.formats.base import Format
from srbwriter.story.formats.prose import xml_text

NAME = "html"

_STYLE = """
:root { color-scheme: light dark; --quiet: #777; --model: #1a5fb4; --edited: #a3386c; }
@media (prefers-color-scheme: dark) { :root { --quiet: #999; --model: #8ab8f5; --edited: #e29ac0; } }
body { font: 1.1rem/1.6 Georgia, serif; max-width: 42rem; margin: 2rem auto; padding: 0 1rem; }
.story { white-space: pre-wrap; overflow-wrap: break-word; }
.model { color: var(--model); } .edited { color: var(--edited); }
details { margin: .3rem 0; padding-left: 1rem; border-left: 2px solid var(--quiet); }
summary { cursor: pointer; color: var(--quiet); font-size: .85rem; white-space: nowrap;
  overflow: hidden; text-overflow: ellipsis; }
header, footer { color: var(--quiet); font-size: .85rem; }
"""

_OPENING = 80
"""Characters of a branch shown while it is folded."""


def write(draft: StoryDraft) -> bytes:
    title = xml_text(draft.title.strip() or "Untitled")
    byline = f"<p>{xml_text(draft.byline)}</p>" if draft.byline.strip() else ""
    page = f"""<!DOCTYPE html>
<html lang="{xml_text(draft.language.strip() or "und")}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{_STYLE}</style>
</head>
<body>
<header><h1>{title}</h1>{byline}</header>
<main class="story">{_tree(draft)}</main>
<footer><p>Text by <span>the writer</span>, <span class="model">the model</span>, \
<span class="edited">the model, edited</span>.</p></footer>
</body>
</html>
"""
    return page.encode("utf-8", "replace")


def _tree(draft: StoryDraft) -> str:
    children = children_by_parent(draft)
    carries_on = _carriers(draft, children)

    def parts(node: DraftNode) -> Iterator[str | DraftNode]:
        yield _span(node)
        main = carries_on.get(node.id)
        for branch in children[node.id]:
            if branch is not main:
                yield from (f"<details><summary>{_opening(branch)}</summary>", branch, "</details>")
        if main is not None:
            yield main

    return nested_text(draft.root, parts)


def _carriers(draft: StoryDraft, children: dict[str, list[DraftNode]]) -> dict[str, DraftNode]:
    """For every node with children, the one that carries the text on."""
    sizes: dict[str, int] = {}
    for node in reversed(draft.nodes):  # children come after their parents
        sizes[node.id] = 1 + sum(sizes[child.id] for child in children[node.id])
    on_path = {node.id for node in path_to(draft, draft.current_id)}
    return {
        node_id: max(below, key=lambda child: (child.id in on_path, sizes[child.id]))
        for node_id, below in children.items()
        if below
    }


def _span(node: DraftNode) -> str:
    if not node.text:
        return ""
    chapter = f' id="{xml_text(node.id)}"' if node.marks.chapter else ""
    if node.author in ("model", "edited"):
        return f'<span class="{node.author}"{chapter}>{xml_text(node.text)}</span>'
    return f"<span{chapter}>{xml_text(node.text)}</span>"


def _opening(node: DraftNode) -> str:
    words = node.marks.title or " ".join(node.text.split())
    if len(words) > _OPENING:
        words = words[: _OPENING - 1] + "…"
    return ("★ " if node.marks.bookmark else "") + (xml_text(words) or "(empty)")


FORMAT = Format(NAME, "HTML page (whole tree)", ".html", write=write)
