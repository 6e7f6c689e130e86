"""HTML: our own page with its emphasis, and pages of any origin read as text."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srbwriter.story import formats
from srbwriter.story.formats import FormatError
from srbwriter.story.model import DraftNode, Marks, StoryDraft
from tests.sizes import examples
from tests.story.format_files import path_text, tale


def page(*nodes: DraftNode, current: str = "", **fields: str) -> str:
    draft = StoryDraft([DraftNode("r"), *nodes], current or nodes[-1].id, **fields)
    whole = formats.write(draft, "html").decode()
    found = re.search(r'<main class="story">(.*)</main>', whole, re.DOTALL)
    assert found is not None
    return found[1]


def read(html: str, name: str = "page.html") -> StoryDraft:
    return formats.read(html.encode(), name)


CHAPTER = Marks(chapter=True, title="One")


def body(html: str) -> str:
    return path_text(read(f"<!DOCTYPE html><html><body>{html}</body></html>"))


# ---- out


@pytest.mark.parametrize(
    ("nodes", "shown"),
    [
        (  # emphasis across nodes
            [
                DraftNode("a", "r", text="It *was "),
                DraftNode("b", "a", text="late*, **now**.", author="model"),
            ],
            ['<span>It <em>was </em></span><span class="model"><em>late</em>, <strong>now</strong>.</span>'],
        ),
        (  # emphasis of a branch that begins before it
            [
                DraftNode("a", "r", text="Line.\nIt *was "), DraftNode("c", "a", 0, text="early* on."),
                DraftNode("b", "a", 1, text="late*."),
            ],
            ["<span><em>late</em>.</span>", "<span><em>early</em> on.</span></details>"],
        ),
        (  # headings, unless they run over nodes
            [
                DraftNode("a", "r", text="Before.\n\n## One *two* ##\n\nText.\n\n# Th"),
                DraftNode("b", "a", text="ree\n\n***\n\nEnd."),
            ],
            ["<h3>One <em>two</em></h3>", "# Th</span><span>ree", "***"],
        ),
        (  # a chapter has its anchor once
            [DraftNode("a", "r", text="# One\n\nText.", marks=CHAPTER, author="edited")],
            ['<h2 class="edited" id="a">One</h2><span class="edited">\nText.</span>'],
        ),
    ],
)  # fmt: skip
def test_emphasis_and_headings_of_nodes_are_set(nodes: list[DraftNode], shown: list[str]) -> None:
    made = page(*nodes)
    assert [part for part in shown if part not in made] == [] and "<span>***" not in made
    assert len(shown) > 1 or made == shown[0]


def test_author_and_language_are_on_the_page() -> None:
    draft = StoryDraft([DraftNode("r", text="Text.")], "r", title="T", byline="Ada <x>", language="pt_br")
    whole = formats.write(draft, "html").decode()
    assert '<html lang="pt-BR">' in whole and '<meta name="author" content="Ada &lt;x&gt;">' in whole


class Page(HTMLParser):
    """Checks nesting and collects the text and what would be loaded from elsewhere."""

    VOID = {"meta", "link", "br", "img"}

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.deepest = 0
        self.loaded: list[str] = []
        self.story: list[str] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "link", "img", "iframe"):
            self.loaded.append(tag)
        self.loaded += [f"{key}={value}" for key, value in attrs if key in ("src", "href", "onclick")]
        if tag not in self.VOID:
            self.open.append(tag)
        self.deepest = max(self.deepest, self.open.count("details"))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "main" in self.open:
            self.words += data
            self.story += [data] if "summary" not in self.open else []


def parse_html(draft: StoryDraft) -> Page:
    page = Page()
    page.feed(formats.write(draft, "html").decode())
    page.close()
    assert page.open == []
    assert page.loaded == []
    return page


def test_html_holds_every_branch_once_and_the_path_in_order() -> None:
    nodes = [
        DraftNode("r"),
        DraftNode("a", "r", 0, text="One <1>"),
        DraftNode("b", "a", 0, text=" two &"),
        DraftNode("c", "a", 1, text=" three", author="model"),
        DraftNode("d", "r", 1, text="Other"),
    ]
    page = parse_html(StoryDraft(nodes, "c", title="<b>"))
    assert sorted(page.story) == sorted(["One <1>", " two &", " three", "Other"])
    assert page.story.index("One <1>") < page.story.index(" three")


def test_html_branches_are_not_nested_deeper_than_needed() -> None:
    """A comb of 300 forks: a branch at each, all beside the path or beside the longest branch."""
    nodes = [DraftNode("r")]
    for index in range(300):
        parent = nodes[0].id if index == 0 else f"a{index - 1}"
        nodes.append(DraftNode(f"a{index}", parent, 0, text="a"))
        nodes.append(DraftNode(f"b{index}", parent, 1, text="b"))
    for current in ("r", "a299", "b150"):
        assert parse_html(StoryDraft(nodes, current)).deepest <= 2


STORIES = st.text(st.characters(codec="utf-8"), max_size=200)


@settings(max_examples=examples(100), deadline=None)
@given(
    title=STORIES,
    texts=st.lists(STORIES, max_size=5),
    parents=st.lists(st.integers(0, 4), min_size=5, max_size=5),
)
def test_every_html_page_is_nested_and_loads_nothing(
    title: str, texts: list[str], parents: list[int]
) -> None:
    nodes = [DraftNode("r")]
    for index, text in enumerate(texts):
        nodes.append(DraftNode(f"n{index}", nodes[min(parents[index], index)].id, index, text=text))
    parse_html(StoryDraft(nodes, nodes[-1].id, title=title))


MARKED = st.text(st.sampled_from("ab *_\\#\n&<"), max_size=30)


@settings(max_examples=examples(200))
@given(st.lists(MARKED, min_size=1, max_size=5))
def test_no_word_is_lost_however_nodes_cut_the_marks(texts: list[str]) -> None:
    words = parse_html(tale(*texts)).words
    marks = re.compile(r"[\s*_#\\]")
    assert marks.sub("", words) == marks.sub("", "".join(texts))


# ---- there and back


# ---- in


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
    assert [(n.marks.chapter, n.marks.title) for n in draft.nodes[1:]] == [(False, ""), (True, "Two parts")]


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>a <em> b </em> c</p>", "a *b* c"),
        ("<p>a</p>\n\n  <p>b</p>", "a\n\nb"),
        ('<p style="font-style: italic">all</p>', "*all*"),
        ('<p><span style="font-weight:700">b</span><i style="font-style:normal">n</i></p>', "**b**n"),
        ("<pre>  a\n\tb</pre>", "  a\n\tb"),
        ("<ul><li>one</li><li><p>two</p></li></ul>", "- one\n\n- two"),
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
    assert "pictures" in str(draft.meta["notices"]) and "tables" in str(draft.meta["notices"])


@pytest.mark.parametrize("text", ["<p>one</p><p>two</p>", "<h2>one</h2>\n<p>two</p>"])
def test_a_piece_of_a_page_is_html_too(text: str) -> None:
    assert formats.detect(text.encode()).name == "html"


@pytest.mark.parametrize(
    "text", ["<sigh> she went", "a <b>bold</b> move", "<div align=center>\n\n# Title\n</div>", "5 < 6 > 4"]
)
def test_a_text_with_a_tag_in_it_is_a_text(text: str) -> None:
    assert formats.detect(text.encode()).name in ("text", "markdown")


@settings(max_examples=examples(200))
@given(st.lists(st.sampled_from(
    ["<p>", "</p>", "<i>", "</i>", "<b", ">", "<![if", "<!", "<!--", "-->", "<?", "&#x", "&", "word ", "<br>",
     "<title>", "</title>", "<svg>", "</svg>", "<li>", "<h1>", "</h1>", "]]>", '"', "<![CDATA["]
)))  # fmt: skip
def test_no_page_is_a_defect(parts: list[str]) -> None:
    try:
        draft = read("<html>" + "".join(parts) + "end")
    except FormatError as error:
        assert "page.html" in str(error)
    else:
        assert "\x00" not in path_text(draft)
