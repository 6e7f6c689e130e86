"""The page and the documentation, driven in headless Chromium."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.fakes.engine import FakeEngine

from .conftest import Serve

if TYPE_CHECKING:  # takes a second to import, which the tests that a plain run skips need not cost
    from selenium import webdriver

ENTER = "\ue007"
"""Keys of a keyboard, by their numbers in the protocol that drives a browser."""

pytestmark = [pytest.mark.slow, pytest.mark.needs("chromium", "chromedriver")]


@pytest.fixture(scope="module")
def chromium() -> Iterator[webdriver.Chrome]:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = str(shutil.which("chromium"))
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    driver.set_page_load_timeout(60)
    yield driver
    driver.quit()


class Page:
    """What a person sees and does."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def until(self, condition) -> None:
        from selenium.common.exceptions import StaleElementReferenceException
        from selenium.webdriver.support.ui import WebDriverWait

        # Panes are replaced while they are looked at.
        wait = WebDriverWait(self.driver, 30, 0.05, [StaleElementReferenceException])
        wait.until(lambda _: condition())

    def find(self, selector: str):
        return self.driver.find_element("css selector", selector)

    def all(self, selector: str):
        return self.driver.find_elements("css selector", selector)

    @property
    def story(self) -> str:
        return self.find("#story").get_property("value")

    @property
    def panes(self) -> list[str]:
        return [p.get_property("textContent") for p in self.all(".pane .text")]

    @property
    def states(self) -> list[str]:
        panes = self.all(".pane .state")
        return [pane.get_attribute("data-state") for pane in panes]

    def write(self, text: str) -> None:
        self.find("#story").send_keys(text)
        self.find("#write").click()

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]


@pytest.fixture
def page(serve: Serve, engine: FakeEngine, chromium: webdriver.Chrome) -> Page:
    engine.script = lambda prompt, branch: f" part{branch} of {len(prompt)} cat"
    chromium.get(serve().url)
    chromium.execute_script("localStorage.clear(); sessionStorage.clear()")
    chromium.refresh()
    page = Page(chromium)
    page.until(lambda: "fake" in page.find("#status").text)
    page.complaints()
    return page


def test_writing_picking_rerolling_and_undoing(page: Page, engine: FakeEngine) -> None:
    page.write("Once upon a time,")
    wanted = [f" part{k} of 17 cat" for k in range(4)]
    page.until(lambda: page.panes == wanted)
    assert (engine.submitted[-1].n, engine.submitted[-1].prompt) == (4, "Once upon a time,")
    assert engine.submitted[-1].stop.boundary == "sentence"

    page.all(".pane .pick")[2].click()
    page.until(lambda: page.story == "Once upon a time, part2 of 17 cat")
    page.until(lambda: page.panes[0].startswith(" part0 of 33"))
    assert engine.submitted[-1].prompt == page.story

    page.until(lambda: page.states == ["eog"] * 4)
    engine.script = lambda prompt, branch: " other"
    page.all(".pane .again")[1].click()
    page.until(lambda: page.panes[1] == " other" and page.states[1] == "eog")
    assert page.panes[0].startswith(" part0")

    page.find("#undo").click()
    page.until(lambda: page.story == "Once upon a time," and page.panes == [" other"] * 4)
    assert page.complaints() == []


def test_a_conversation(page: Page, engine: FakeEngine) -> None:
    engine.script = lambda prompt, branch: " It slept."
    page.driver.get(page.driver.current_url + "chat")
    page.until(lambda: page.find("#status").text == "fake")
    for words in ("And the cat?", "And then?"):
        page.find("#message").send_keys(words + ENTER)
        page.until(lambda: page.find("#send").text == "Send" and page.all("#talk p.theirs")[-1].text)
    assert [line.text for line in page.all("#talk p")] == [
        "And the cat?",
        "It slept.",
        "And then?",
        "It slept.",
    ]
    prompt = engine.submitted[-1].prompt
    assert isinstance(prompt, str) and prompt.endswith("Friend: It slept.\nUser: And then?\nFriend:")
    assert page.complaints() == []
