"""The page's instruments, driven in headless Chromium on the bundled model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import httpx
import pytest

from .test_page import Page, chromium

if TYPE_CHECKING:
    from selenium import webdriver

__all__ = ["chromium"]
pytestmark = [pytest.mark.full, pytest.mark.needs("chromium", "chromedriver")]


@pytest.fixture
def page(real: httpx.Client, chromium: webdriver.Chrome) -> Iterator[Page]:
    chromium.get(str(real.base_url))
    chromium.execute_script("localStorage.clear(); sessionStorage.clear()")
    chromium.refresh()
    page = Page(chromium)
    page.until(lambda: "storyteller" in page.find("#status").text)
    page.find("#instruments summary").click()
    choose(page, "until", "")
    fill(page, "tokens", "12")
    page.complaints()
    yield page
    assert not page.complaints()


def choose(page: Page, select: str, value: str) -> None:
    page.find(f"#{select} option[value='{value}']").click()


def fill(page: Page, name: str, value: str) -> None:
    page.find(f"#{name}").clear()
    page.find(f"#{name}").send_keys(value)


def over(page: Page) -> bool:
    return len(page.states) > 0 and not {None, "waiting", "writing"} & set(page.states)


def write(page: Page, text: str = "Once upon a time there was a little fox") -> None:
    page.write(text)
    page.until(lambda: over(page))


def marks(page: Page, name: str) -> list[str]:
    return [mark.text for mark in page.all(f".pane .marks .{name}")]


def requests(real: httpx.Client) -> set[str]:
    return {one["id"] for one in real.get("/srb/v1/requests").json()["data"]}


def test_a_pick_shows_what_was_written_ahead(page: Page, real: httpx.Client) -> None:
    choose(page, "ahead", "all")
    write(page)
    page.until(lambda: marks(page, "ahead") == ["»"] * 4)
    before = len(requests(real))
    page.find(".pane:nth-child(3) .pick").click()
    page.until(lambda: len(page.story) > 45 and over(page))
    page.until(lambda: marks(page, "ahead") == ["»"] * 4)
    assert (
        len(requests(real)) == before - 3 + 4
    )  # what was not picked is gone, and the next four are written ahead


def test_branches_are_drawn_together(page: Page, real: httpx.Client) -> None:
    choose(page, "siblings", "distinct")
    fill(page, "repulsion", "2")
    before = requests(real)
    write(page)
    (made,) = requests(real) - before
    assert real.get(f"/srb/v1/requests/{made}/branches/3").json()["drawn"]
    assert len(set(page.panes)) == 4


def test_what_is_not_shown_opens_as_a_branch(page: Page) -> None:
    write(page)
    page.until(lambda: "Not shown" in page.find("#shown").text)
    opening = page.find("#shown button")
    word = opening.text.rsplit(" ", 2)[0]
    opening.click()
    page.until(lambda: len(page.panes) == 5 and over(page))
    assert page.panes[4].strip().startswith(word)


def test_another_token_is_written_on_with(page: Page) -> None:
    write(page)
    base, text = page.story, page.panes[0]
    page.find(".pane .look").click()
    page.until(lambda: len(page.all(".pane .tokens > button")) > 4)
    written = page.all(".pane .tokens > button")
    before = "".join(token.get_property("textContent") for token in written[:3])
    assert "".join(token.get_property("textContent") for token in written) == text
    written[3].click()
    other = page.find(".tokens p button")
    word = other.text.rsplit(" ", 2)[0]
    other.click()
    page.until(lambda: page.story == base + before and over(page))
    assert all(text.strip().startswith(word) for text in page.panes)


def test_phrases_do_not_come(page: Page) -> None:
    page.find("#banned").send_keys("who\nHe\nlived\nnamed\nthe\na")
    write(page)
    assert not {"who", "he", "lived", "named", "the", "a"} & set(" ".join(page.panes).lower().split())
    page.until(lambda: any(mark.startswith("⌫") for mark in marks(page, "bans")))
