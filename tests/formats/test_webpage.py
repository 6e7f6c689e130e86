"""HTML of any origin, read as text."""

from __future__ import annotations

import pytest

from srbwriter import formats
from srbwriter.story.draft import StoryDraft
from tests.formats.files import path_text


def read(html: str, name: str = "page.html") -> StoryDraft:
    return formats.read(html.encode(), name)


def body(html: str) -> str:
    return path_text(read(f"<!DOCTYPE html><html><body>{html}</body></html>"))


def test_a_page_is_read_with_headings_and_emphasis() -> None:
    draft = read("""<?xml version="1.0"?>
        <!-- made by hand --><!doctype html>
        <html lang="en-GB"><head><title>The
        Orchard</title><meta name="Author" content=" Ada "><style>p {x}</style></head>
        <body><h1>The Orchard</h1><p>It was <i>late</i>,&nbsp;she <b>said</b> &mdash;
        and   went.<br>On.</p><hr/><h2>Two <em>parts</em></h2><div>One<p>Two</div>
        <script>var a = "<p>no</p>";</script><!-- no --></body></html>""")
    assert (draft.title, draft.byline, draft.language) == ("The Orchard", "Ada", "en-GB")
    assert path_text(draft) == (
        "It was *late*,\u00a0she **said** — and went.\nOn.\n\n* * *\n\n## Two *parts*\n\nOne\n\nTwo"
    )


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>a <em> b </em> c</p>", "a *b* c"),
        ("<p>a</p>\n\n  <p>b</p>", "a\n\nb"),
        ('<p style="font-style: italic">all</p>', "*all*"),
        ('<p><span style="font-weight:700">b</span><i style="font-style:normal">n</i></p>', "**b**n"),
        ("<pre>  a\n\tb</pre>", "  a\n\tb"),
        ("<ul><li>one</li><li><p>two</p></li></ul>", "- one\n- two"),
        ("a<br>\n b <br/>c", "a\nb\nc"),
        ("<h1><b>Bold</b> as a whole</h1>", "# **Bold** as a whole"),
        ("<p>1 * 2 * 3 and *x*", "1 * 2 * 3 and \\*x\\*"),
        ("<p># no heading</p>", "\\# no heading"),
        ("<p>a<object><p>no</p></object>b</p>", "ab"),
        ("<p>a<svg/>b</p>", "ab"),
        ("&lt;b&gt; &amp; &eacute;", "<b> & é"),
        ("<i>a<p>b</i>c", "*a*\n\n*b*c"),
    ],
)
def test_tags_as_they_come(html: str, text: str) -> None:
    assert body(html) == text


def test_what_has_no_words_is_said() -> None:
    draft = read("<html><p>a <img src=x></p><table><tr><td>b<td>c</table></html>")
    assert path_text(draft) == "a\n\nb\n\nc"
    assert "pictures" in str(draft.notices)
