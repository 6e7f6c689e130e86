"""Pictures of the workbench for the documentation, taken from the real program with the bundled model.

python tools/screenshots.py [--out docs/images]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from textual.pilot import Pilot  # noqa: E402

from srbwriter.cli import table  # noqa: E402
from srbwriter.config import Settings  # noqa: E402
from srbwriter.config.settings import Setting  # noqa: E402
from srbwriter.prose import sentence_ends  # noqa: E402
from srbwriter.session import Session  # noqa: E402
from srbwriter.session.ahead import Budget  # noqa: E402
from srbwriter.session.rewriting import Rewriting  # noqa: E402
from srbwriter.tui import options  # noqa: E402
from srbwriter.tui.app import App  # noqa: E402

SEED = 11
HERO_PICK = 1
OPENING = (
    "Once upon a time there was a girl named Ilse who was sent every evening to fetch water. The well "
    "stood behind the last house of the village, and nobody liked to go there after dark, for there was a "
    "light at the bottom of it.\n\nOne night Ilse let down her bucket, and when she pulled it up again it "
    "was much too heavy."
)

Act = Callable[[Pilot[None], App], Awaitable[None]]


@dataclass(frozen=True)
class Shot:
    """One picture: its name, its size in cells, its theme, and what happens before it is taken."""

    name: str
    act: Act
    size: tuple[int, int] = (120, 40)
    theme: str = "lamplight"
    layout: str = "below"
    text: str = OPENING
    n: int = 8


async def until(ready: Callable[[], bool]) -> None:
    """Let the program run until something holds."""
    while not ready():
        await asyncio.sleep(0.01)


async def write(pilot: Pilot[None], app: App, tokens: int = 60) -> None:
    """Have branches written until the first has some tokens, or all have ended."""
    app.write_screen.run("generate")
    session = app.session

    def far_enough() -> bool:
        branches = session.round.branches if session.round is not None else []
        long = any(len(branch.buffer.ids) >= tokens for branch in branches)
        return long or (bool(branches) and not any(branch.live for branch in branches))

    await until(far_enough)
    app.write_screen.choose_pane()  # no key press: those wait until nothing moves
    await until(lambda: not app.write_screen.unchosen)
    app.write_screen.pump.flush()


async def hero(pilot: Pilot[None], app: App) -> None:
    """A pick, a sentence typed, and branches that continue it, in the colours of who wrote what."""
    app.preferences.put(options.COLOUR_TOKENS, "author")
    app.apply_preferences()
    session = app.session
    session.stop = replace(session.stop, max_tokens=72)
    await written(app)
    text = session.round.branches[HERO_PICK].text  # type: ignore[union-attr]
    session.pick(HERO_PICK, sentence_ends(text)[-1])
    session.story.append(" She set it down, and looked over her shoulder.")
    app.write_screen.show_story()
    await written(app)


async def written(app: App) -> None:
    """A round that is over."""
    app.write_screen.run("generate")
    await until(lambda: app.session.round is not None and app.session.round.over)
    app.write_screen.choose_pane()
    app.write_screen.pump.flush()


async def opening(pilot: Pilot[None], app: App) -> None:
    await pilot.press("down", "down")


async def writing(pilot: Pilot[None], app: App) -> None:
    await write(pilot, app)


async def picking(pilot: Pilot[None], app: App) -> None:
    await write(pilot, app, 70)
    await pilot.press("right", "d", "d")


async def tree(pilot: Pilot[None], app: App) -> None:
    for number in ("1", "2", "3"):
        await write(pilot, app, 50)
        if number == "2":
            app.write_screen.run("bookmark")
        await pilot.press(number)
        await pilot.press("tab")
    await pilot.press("escape", "f3", "up", "space")


async def settings(pilot: Pilot[None], app: App) -> None:
    await write(pilot, app)
    await pilot.press("f2", "right", "right")


async def tokens(pilot: Pilot[None], app: App) -> None:
    await ended(pilot, app)
    await pilot.press("f6", "home", *["right"] * 9)
    await asyncio.sleep(1.0)
    await pilot.press("down")


async def coloured(pilot: Pilot[None], app: App) -> None:
    app.preferences.put(options.COLOUR_TOKENS, "surprisal")
    app.apply_preferences()
    await ended(pilot, app)
    await asyncio.sleep(1.0)
    app.write_screen.pump.flush()


async def ended(pilot: Pilot[None], app: App) -> None:
    """Branches that were stopped after some tokens."""
    await write(pilot, app)
    app.session.stop_all()
    await until(lambda: not any(branch.live for branch in app.session.round.branches))  # type: ignore[union-attr]
    app.write_screen.pump.flush()


async def ahead(pilot: Pilot[None], app: App) -> None:
    app.session.look_ahead.budget = Budget("all", 4096)
    app.session.stop = replace(app.session.stop, max_tokens=60)
    await write(pilot, app, 60)
    await until(lambda: app.session.round is not None and app.session.round.over)
    app.session.look_ahead.focus(1)
    await until(lambda: app.session.look_ahead.share(1) == 1.0)
    app.write_screen.grid.go(1)
    await until(lambda: app.session.look_ahead.share(2) == 1.0)
    app.write_screen.flush_slowly()
    app.write_screen.pump.flush()


async def rewriting(pilot: Pilot[None], app: App) -> None:
    app.write_screen.editor.move_to(OPENING.index("The well"))
    app.write_screen.run("rewrite")
    instrument = Rewriting.of(app.session)
    await until(lambda: instrument.variants is not None and instrument.variants.done)
    await asyncio.sleep(0.3)


SHOTS = (
    Shot("hero", hero, (140, 34), layout="right", n=4),
    Shot("opening", opening, text=""),
    Shot("writing", writing),
    Shot("picking", picking, theme="paper"),
    Shot("tree", tree, theme="midnight-ink"),
    Shot("settings", settings),
    Shot("ahead", ahead),
    Shot("rewriting", rewriting, (120, 36)),
    Shot("tokens", tokens),
    Shot("tokens-coloured", coloured, (160, 48), layout="right"),
)


async def take(shot: Shot, out: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name in ("CONFIG", "DATA", "STATE", "CACHE"):
            os.environ[f"XDG_{name}_HOME"] = f"{folder}/{name}"
        wanted = {
            "interface.theme": shot.theme,
            "interface.layout": shot.layout,
            "generation.n": shot.n,
            "generation.seed": SEED,
            "generation.max_tokens": 300,
            "instruments.look_ahead": "off",  # how far it is depends on the machine
        }
        found = {name: Setting(value, "flag") for name, value in wanted.items()}
        settings = Settings(table.every_key(), found)
        session = Session.open(settings, Path(folder) / "The lamp in the well.srbw")
        if shot.text:
            session.set_text(shot.text)
        session.loader.wait()
        app = App(session, settings)
        async with app.run_test(size=shot.size, notifications=True) as pilot:
            await pilot.pause()
            await shot.act(pilot, app)
            await asyncio.sleep(0.15)
            (out / f"{shot.name}.svg").write_text(app.export_screenshot(title="srbwriter"), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    parser.add_argument("names", nargs="*", help="pictures to take; all if none is named")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for shot in SHOTS:
        if not arguments.names or shot.name in arguments.names:
            asyncio.run(take(shot, arguments.out))
            print(arguments.out / f"{shot.name}.svg")


if __name__ == "__main__":
    main()
