"""The page and the documentation, driven in headless Chromium."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from srbwriter.engine.types import Request
from tests.fakes.engine import FakeEngine

from .conftest import Serve

if TYPE_CHECKING:  # takes a second to import, which the tests that a plain run skips need not cost
    from selenium import webdriver

CONTROL, ENTER, ESCAPE = "\ue009", "\ue007", "\ue00c"
"""Keys of a keyboard, by their numbers in the protocol that drives a browser."""

pytestmark = [pytest.mark.full, pytest.mark.needs("chromium", "chromedriver")]


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

    width = 0

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
    parent = engine.generations[-2]
    assert engine.submitted[-1].prompt[0].ids == parent.prompt_ids + parent.branches[2].ids

    page.until(lambda: page.states == ["eog"] * 4)
    engine.script = lambda prompt, branch: " other"
    page.all(".pane .again")[1].click()
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


def test_the_story_survives_a_reload(page: Page, engine: FakeEngine) -> None:
    page.find("#story").send_keys("Words worth keeping")
    page.driver.refresh()
    assert page.story == "Words worth keeping"
    page.find("#story").send_keys(CONTROL + ENTER)
    page.until(lambda: page.states == ["eog"] * 4)


def test_a_key_is_asked_for(serve: Serve, engine: FakeEngine, chromium: webdriver.Chrome) -> None:
    chromium.get(serve(api_keys=("s3cret",)).url)
    page = Page(chromium)
    page.until(lambda: page.find("#ask").get_property("open"))
    assert not page.find("#wrong").is_displayed()
    page.find("#key").send_keys("guess" + ENTER)
    page.until(lambda: page.find("#wrong").is_displayed())
    assert "does not know that key" in page.find("#ask").text and "does not know" in page.find("#status").text
    page.find("#key").send_keys("s3cret" + ENTER)
    page.until(lambda: "fake" in page.find("#status").text)


@pytest.fixture(params=[390, 1280])
def sized(page: Page, request: pytest.FixtureRequest) -> Iterator[Page]:
    """The page on a phone and on a desk."""
    width = request.param
    page.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    page.driver.refresh()
    page.until(lambda: "fake" in page.find("#status").text)
    page.width = width
    yield page
    page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_screen_is_wide_enough(sized: Page) -> None:
    sized.write("Once")
    sized.until(lambda: sized.states == ["eog"] * 4)
    assert sized.driver.execute_script("return document.documentElement.scrollWidth") <= sized.width
    lefts = {pane.rect["x"] for pane in sized.all(".pane")}
    assert len(lefts) == 1 if sized.width < 500 else len(lefts) > 1  # one under the other, or side by side


def test_whatever_is_pressed_is_large_enough_for_a_finger(sized: Page) -> None:
    sized.write("Once")
    sized.until(lambda: sized.states == ["eog"] * 4)
    sized.find("#more summary").click()
    controls = sized.all("button, input, select, summary, a.button")
    shown = [control for control in controls if control.is_displayed()]
    assert len(shown) > 20
    for control in shown:
        size = control.rect
        assert size["height"] >= 44 and size["width"] >= 44, control.get_attribute("outerHTML")


def test_after_a_pick_the_story_is_in_view(sized: Page, engine: FakeEngine) -> None:
    sized.write("Once " * 100)
    sized.until(lambda: sized.states == ["eog"] * 4)
    sized.driver.execute_script("window.scrollTo(0, document.body.scrollHeight)")
    sized.all(".pane .pick")[3].click()
    sized.until(lambda: sized.story.endswith("part3 of 500 cat"))
    sized.until(lambda: sized.states == ["eog"] * 4)
    box = sized.driver.execute_script(
        "return document.getElementById('story').getBoundingClientRect().toJSON()"
    )
    assert 0 <= box["top"] < box["bottom"] <= 844
    left = sized.driver.execute_script(
        "const s = document.getElementById('story'); return s.scrollHeight - s.scrollTop - s.clientHeight"
    )
    assert left < 3


def test_an_empty_story_begins_with_what_is_proposed(sized: Page, engine: FakeEngine) -> None:
    sized.find("#write").click()
    sized.until(lambda: sized.states == ["eog"] * 4)
    assert sized.story == engine.submitted[-1].prompt == "Once upon a time,"


def test_a_sentence_is_picked_token_by_token(sized: Page, engine: FakeEngine) -> None:
    engine.script = lambda prompt, branch: " The cat sat. The dog slept. It was"
    sized.write("Once")
    sized.until(lambda: sized.states == ["sentence"] * 4 or sized.states == ["eog"] * 4)
    engine.script = lambda prompt, branch: " there was. And on. And on."
    select = sized.find("#until")
    select.find_element("css selector", "option[value='']").click()
    sized.find("#reroll").click()
    sized.until(lambda: sized.panes == [" there was. And on. And on."] * 4 and sized.states == ["eog"] * 4)
    sized.all(".pane:nth-child(2) .sentence")[1].click()
    sized.until(lambda: sized.story == "Once there was. And on. ")
    sized.until(lambda: not isinstance(engine.submitted[-1].prompt, str))
    runs = engine.submitted[-1].prompt
    assert "".join(run.text for run in runs) == "Once there was. And on. "
    parent = engine.generations[-2]
    assert runs[0].ids == (parent.prompt_ids + parent.branches[1].ids)[: len(runs[0].ids)]
    assert len(runs[0].ids) > len(parent.prompt_ids)


def test_every_sampler_can_be_reached(sized: Page, engine: FakeEngine) -> None:
    sized.find("#more summary").click()
    found = sized.all("#samplers input")
    boxes = {box.get_attribute("name"): box for box in found}
    assert {"top_k", "top_p", "min_p", "repeat_penalty", "dry_multiplier", "seed"} <= set(boxes)
    assert "temperature" not in boxes and "max_tokens" not in boxes
    boxes["min_p"].send_keys("0.25")
    boxes["top_k"].send_keys("7")
    sized.find("#n").clear()
    sized.find("#n").send_keys("3")
    sized.write("Once")
    sized.until(lambda: len(sized.panes) == 3 and sized.states == ["eog"] * 3)
    asked = engine.submitted[-1].sampling[0]
    assert (asked.min_p, asked.top_k, asked.temperature) == (0.25, 7, 0.9)
    sized.driver.refresh()
    sized.until(lambda: sized.find("#sampler-min_p").get_property("value") == "0.25")
    sized.find("#more summary").click()
    sized.find("#defaults").click()
    assert sized.find("#sampler-min_p").get_property("value") == ""
    assert sized.find("#n").get_property("value") == "4"


def test_light_and_dark(sized: Page) -> None:
    def paper() -> str:
        return sized.driver.execute_script("return getComputedStyle(document.body).backgroundColor")

    sized.driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    )
    dark = paper()
    sized.find("#theme").click()
    light = paper()
    assert light != dark and sized.find("#theme").get_attribute("aria-label") == "Colours: light"
    sized.driver.refresh()
    assert paper() == light
    sized.find("#theme").click()
    assert paper() == dark
    sized.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_the_story_is_taken_along(page: Page, tmp_path: Path) -> None:
    allowed = {"behavior": "allow", "downloadPath": str(tmp_path)}
    page.driver.execute_cdp_cmd("Browser.setDownloadBehavior", allowed)
    page.find("#story").send_keys("Once: a naïve cat")
    page.find("#export").click()
    file = tmp_path / "Once a naïve cat.txt"
    page.until(file.exists)
    assert file.read_text("utf-8") == "Once: a naïve cat"
    assert page.complaints() == []


def test_keys_are_told_where_there_is_a_keyboard(sized: Page, engine: FakeEngine) -> None:
    assert sized.find("#shortcuts").is_displayed() is (sized.width > 500)
    reply = sized.find("#shortcuts").get_property("textContent")
    assert all(key in reply for key in ("ctrl", "esc", "re-roll"))
    engine.hold = 1
    sized.write("Once")
    sized.until(lambda: sized.states == ["writing"] * 4)
    sized.find("#story").send_keys(ESCAPE)
    sized.until(lambda: sized.states == ["stopped"] * 4)


def test_a_place_in_the_queue_is_told(sized: Page, engine: FakeEngine) -> None:
    engine.queue = True
    engine.submit(Request("another"))
    sized.write("Once")
    sized.until(lambda: "waiting, 0 before this one" in sized.find("#status").text)
    engine.admit()
    sized.until(lambda: sized.states == ["eog"] * 4)


def test_the_documentation_lists_and_tries_every_endpoint(page: Page, engine: FakeEngine) -> None:
    page.driver.get(page.driver.current_url + "docs")
    page.until(lambda: len(page.all("details")) > 30)
    for details in page.all("details"):
        if details.find_element("css selector", ".path").text == "/v1/models":
            details.find_element("css selector", "summary").click()
            details.find_element("css selector", "button").click()
            answer = details.find_element("css selector", ".answer")
            page.until(lambda shown=answer: '"id":"fake"' in shown.text)
            break
    else:
        pytest.fail("the models are not listed")
    assert page.complaints() == []


@pytest.mark.needs("curl")
def test_every_endpoint_has_a_line_of_curl_that_runs(page: Page, tmp_path: Path) -> None:
    page.driver.get(page.driver.current_url + "docs")
    page.until(lambda: len(page.all("details")) > 60)
    nodes = page.all("details .curl")
    lines = [str(node.get_property("textContent")) for node in nodes]
    assert len(lines) == len(page.all("details"))
    assert all(line.startswith("curl ") for line in lines)
    whole = [line for line in lines if "{" not in line.split(" -d ")[0]]  # the others name a request or slot
    assert len(whole) > 60
    script = [f"{line} -s -m 30 -o /dev/null -w '%{{http_code}}\\n'" for line in whole]
    (tmp_path / "lines.sh").write_text("\n".join(script))
    done = subprocess.run(["bash", tmp_path / "lines.sh"], capture_output=True, text=True, timeout=200)
    answers = dict(zip(whole, done.stdout.split(), strict=True))
    allowed = {"200", "202", "501"}
    odd = {line: code for line, code in answers.items() if code not in allowed and "/load" not in line}
    assert odd == {}


# ---- the chat page


@pytest.fixture(params=[360, 1280], ids=["phone", "desk"])
def talk(request: pytest.FixtureRequest, page: Page) -> Iterator[Page]:
    metrics = {"width": request.param, "height": 700, "deviceScaleFactor": 1, "mobile": request.param < 500}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    page.width = request.param
    page.driver.get(page.driver.current_url + "chat")
    page.until(lambda: page.find("#status").text == "fake")
    yield page
    page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def said(page: Page) -> list[str]:
    return [str(p.get_property("textContent")) for p in page.all("#talk p")]


def test_a_conversation_on_the_chat_page(talk: Page, engine: FakeEngine) -> None:
    engine.script = lambda prompt, branch: f" I heard {prompt.count('User:')}.\nUser: no"
    for count in (1, 2):
        talk.find("#message").send_keys(f"Hello {count}", ENTER)
        talk.until(lambda count=count: len(said(talk)) == 2 * count and said(talk)[-1].endswith("."))
        talk.until(lambda: talk.find("#send").text == "Send")
    assert said(talk) == ["Hello 1", "I heard 1.", "Hello 2", "I heard 2."]
    prompt = str(engine.submitted[-1].prompt)
    assert prompt.endswith("User: Hello 1\nFriend: I heard 1.\nUser: Hello 2\nFriend:")
    assert prompt.startswith("A conversation between two friends")
    talk.driver.refresh()
    talk.until(lambda: len(said(talk)) == 4)
    talk.find("#clear").click()
    assert said(talk) == []
    assert talk.complaints() == []


def test_an_answer_can_be_stopped(talk: Page, engine: FakeEngine) -> None:
    engine.hold = 2
    talk.find("#message").send_keys("Hello", ENTER)
    talk.until(lambda: len(said(talk)) == 2 and said(talk)[1])
    assert talk.find("#send").text == "Stop"
    talk.find("#send").click()
    talk.until(lambda: talk.find("#send").text == "Send")
    assert engine.cancel_seen.wait(30)
