"""The page and the documentation, driven in headless Chromium."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from .conftest import Serve
from .fake_backend import FakeEngine

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")


@pytest.fixture(scope="module")
def chromium() -> Iterator[webdriver.Chrome]:
    assert CHROMIUM and DRIVER, "install Debian's chromium and chromium-driver"
    options = Options()
    options.binary_location = CHROMIUM
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.set_page_load_timeout(60)
    yield driver
    driver.quit()


class Page:
    """What a person sees and does."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def until(self, condition) -> None:
        # Panes are replaced while they are looked at.
        wait = WebDriverWait(self.driver, 30, 0.05, [StaleElementReferenceException])
        wait.until(lambda _: condition())

    def find(self, selector: str):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    @property
    def story(self) -> str:
        return self.find("#story").get_property("value")

    @property
    def panes(self) -> list[str]:
        return [
            p.get_property("textContent") for p in self.driver.find_elements(By.CSS_SELECTOR, ".pane .text")
        ]

    @property
    def states(self) -> list[str]:
        return [p.text for p in self.driver.find_elements(By.CSS_SELECTOR, ".pane .state")]

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

    page.driver.find_elements(By.CSS_SELECTOR, ".pane .pick")[2].click()
    page.until(lambda: page.story == "Once upon a time, part2 of 17 cat")
    page.until(lambda: page.panes[0].startswith(" part0 of 33"))
    parent = engine.generations[-2]
    assert engine.submitted[-1].prompt[0].ids == parent.prompt_ids + parent.branches[2].ids

    page.until(lambda: page.states == ["eog"] * 4)
    engine.script = lambda prompt, branch: " other"
    page.driver.find_elements(By.CSS_SELECTOR, ".pane .again")[1].click()
    page.until(lambda: page.panes[1] == " other" and page.states[1] == "eog")
    assert page.panes[0].startswith(" part0")

    page.find("#undo").click()
    page.until(lambda: page.story == "Once upon a time," and page.panes == [" other"] * 4)
    assert page.complaints() == []


def test_typed_text_goes_on_from_the_picked_branch(page: Page, engine: FakeEngine) -> None:
    page.write("Once")
    page.until(lambda: page.states == ["eog"] * 4)
    page.find("#status").click()
    page.find("body").send_keys("1")
    page.until(lambda: page.story == "Once part0 of 4 cat" and page.states == ["eog"] * 4)
    page.write(" and")
    page.until(lambda: engine.submitted[-1].prompt[-1].text == " and")
    assert len(engine.submitted[-1].prompt) == 2


def test_the_number_of_branches_and_the_keys_of_a_keyboard(page: Page, engine: FakeEngine) -> None:
    box = page.find("#n")
    box.clear()
    box.send_keys("7")
    page.find("#story").send_keys("Once" + Keys.CONTROL + Keys.ENTER)
    page.until(lambda: len(page.panes) == 7 and page.states == ["eog"] * 7)
    assert engine.submitted[-1].n == 7


def test_the_story_survives_a_reload(page: Page) -> None:
    page.find("#story").send_keys("Words worth keeping")
    page.driver.refresh()
    assert page.story == "Words worth keeping"


def test_an_error_is_shown_in_words(page: Page) -> None:
    page.write("cat" * 600)
    page.until(lambda: "exceeds the available context" in page.find("#status").text)


def test_a_key_is_asked_for(serve: Serve, engine: FakeEngine, chromium: webdriver.Chrome) -> None:
    chromium.get(serve(api_keys=("s3cret",)).url)
    page = Page(chromium)
    page.until(lambda: page.find("#ask").get_property("open"))
    page.find("#key").send_keys("s3cret" + Keys.ENTER)
    page.until(lambda: "fake" in page.find("#status").text)


def test_a_phones_screen_is_wide_enough(page: Page) -> None:
    page.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True},
    )
    try:
        page.write("Once")
        page.until(lambda: page.states == ["eog"] * 4)
        assert page.driver.execute_script("return document.documentElement.scrollWidth") <= 360
        lefts = [pane.rect["x"] for pane in page.driver.find_elements(By.CSS_SELECTOR, ".pane")]
        assert len(set(lefts)) == 1  # one under the other
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_nothing_is_fetched_from_anybody_else(page: Page) -> None:
    base = page.driver.current_url
    page.driver.get_log("performance")
    page.driver.get(base + "docs")
    page.until(lambda: page.driver.find_elements(By.CSS_SELECTOR, "details"))
    import json

    messages = [json.loads(entry["message"])["message"] for entry in page.driver.get_log("performance")]
    sent = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert sent and all(url.startswith((base, "data:")) for url in sent)


def test_the_documentation_lists_and_tries_every_endpoint(page: Page, engine: FakeEngine) -> None:
    page.driver.get(page.driver.current_url + "docs")
    page.until(lambda: len(page.driver.find_elements(By.CSS_SELECTOR, "details")) > 30)
    for details in page.driver.find_elements(By.CSS_SELECTOR, "details"):
        if details.find_element(By.CSS_SELECTOR, ".path").text == "/v1/models":
            details.find_element(By.CSS_SELECTOR, "summary").click()
            details.find_element(By.CSS_SELECTOR, "button").click()
            answer = details.find_element(By.CSS_SELECTOR, ".answer")
            page.until(lambda shown=answer: '"id":"fake"' in shown.text)
            break
    else:
        pytest.fail("the models are not listed")
    assert page.complaints() == []
