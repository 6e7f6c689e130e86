"""The pane of one branch: a header line with its state, and its text.

The pane draws its own lines and never grows, so a new token repaints one line and causes no layout; unchanged
lines are cached. The scroll position stays at the beginning, where the reader scrolled to, or at the end if
the pane follows the end. The pane reads its branch by cursor and changes nothing: keys go to the commands.
"""

from __future__ import annotations

import time
from itertools import accumulate, groupby

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.color import Color
from textual.filter import LineFilter
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from srbwriter.engine.generation import Branch, Cursor
from srbwriter.engine.types import BranchState, FinishReason
from srbwriter.prose import Unit
from srbwriter.tui.widgets.tints import Tints
from srbwriter.tui.widgets.wrap import Wrapper
from srbwriter.tui.write.branch_words import NO_THOUGHTS, Head, find_thoughts, state_sign, state_words
from srbwriter.tui.write.prose_area import tell_of_dictionaries, unit_step

_PAD = 1  # cells left and right of the text
_HEADER_SECONDS = 0.25  # numbers that change with every token are painted this often
_WHEEL_LINES = 3
_LONGEST_MARK = 40  # after so many characters it is clear whether a text begins with thoughts
_BLANK, _PLACE = -1, -2  # pseudo rows: an empty one below the text, and the placeholder of an empty pane
_SIDES = "▌▐"
_MOST_LINES = 200  # painted lines that are cached; more than are visible


class BranchPane(Widget, can_focus=True):
    """Shows one branch. ``number`` is shown to the reader, ``index`` is its place in the round."""

    ALLOW_SELECT = True
    # Those that depend on the pane's state. The others are the grid's: Textual works all of them out anew for
    # each pane each time that a pane's state changes.
    COMPONENT_CLASSES = {"pane--head", "pane--text", "pane--taken"}

    DEFAULT_CSS = """
    BranchPane {
        height: 1fr; width: 1fr;
        .pane--head { background: $panel; color: $text-muted; }
        .pane--text { color: $foreground; }
        .pane--taken { color: $foreground; text-style: underline; }
        &:focus .pane--head { background: $primary; color: $background; text-style: bold; }
        &.-writing .pane--head { color: $text-accent; }
        &:focus.-writing .pane--head { color: $background; }
        &.-failed .pane--head { color: $text-error; }
        &.-stale .pane--text, &.-stale .pane--taken { color: $text-muted; }
        &.-killed .pane--text, &.-killed .pane--taken { color: $text-muted; }
    }
    """

    letter: reactive[str] = reactive("")
    stale: reactive[bool] = reactive(False)
    """Whether the text before the branch has changed since the branch was written."""

    class Chosen(Message):
        """The reader double-clicked, to pick this branch."""

        def __init__(self, pane: BranchPane) -> None:
            self.pane = pane
            super().__init__()

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index
        self.hint = ""  # the text of an empty pane
        self.number = index + 1
        self.branch: Branch | None = None
        self.take: int | None = None  # characters to pick; None means all
        self.thoughts = NO_THOUGHTS  # the model's thoughts before its text, which are hidden
        self._settled = False  # whether it is known if there are thoughts, and where they end
        self._unfolded = ""  # the whole text, until that is known
        self._cursor: Cursor | None = None
        self._text = Wrapper()
        self.start_at: int | None = 0  # first line shown at first; None keeps the end in view
        self._top: int | None = 0  # first line shown; None keeps the end in view
        self._room = Size(0, 0)  # the size that the lines are wrapped for
        self.marks = self.note = ""
        self.figures = False  # whether the head shows tokens and speed
        self._head = ""
        self._head_at = 0.0
        self.tints: Tints | None = None  # colours of its words; None means uncoloured
        self._token: tuple[int, int] | None = None  # characters of the highlighted token
        self._painted: dict[int, Strip] = {}  # painted lines of the text, by row
        self._painted_head: tuple[str, Strip] | None = None
        self._styles: dict[str, Style] = {}
        self._filters: list[LineFilter] = []
        self._ground: Color | None = None  # background colour of the lines

    # ---- content

    @property
    def text(self) -> str:
        """The branch's text as far as it has been painted."""
        return self._text.text

    @property
    def following(self) -> bool:
        """Whether the end of the text is kept in view."""
        return self._top is None

    @property
    def is_read(self) -> bool:
        """Whether the reader has scrolled in the pane or begun to select a part."""
        return self.take is not None or self._top != self.start_at

    @property
    def head(self) -> str:
        """The header line, as painted."""
        return self._head

    def show(self, branch: Branch | None, again: bool = False) -> None:
        """Show another branch from its beginning; with ``again`` the same one, where it was scrolled to."""
        take, top = self.take, self._top
        self.branch = branch
        self._cursor, self.take, self._top = None, None, self.start_at
        self.thoughts, self._settled, self._unfolded = NO_THOUGHTS, False, ""
        self._text.reset("")
        self.pull(force=True)
        if again:
            self.take = take if take is not None and take <= len(self._text.text) else None
            self._top = top if top is None else min(top, self._last_top)
        self.refresh()

    def pull(self, force: bool = False) -> None:
        """Read what the branch has published since the last call, and paint only that."""
        if self.branch is None:
            self._set_head(force)
            return
        delta = self.branch.read(self._cursor)
        self._cursor = delta.cursor
        reset = delta.reset or (bool(delta.text) and self._fold(delta.text))
        if delta.reset:
            self._fold_from_start(delta.text)
        elif delta.text and not reset:
            self._append(delta.text)
        if self.tints is not None and self.tints.stale(self.branch):
            self.refresh()
        self._set_head(force or reset)

    def _fold(self, text: str) -> bool:
        """Process new text; return True if thoughts were found or hidden and everything was repainted."""
        if self._settled:
            return False
        return self._fold_from_start(self._unfolded + text)

    def _fold_from_start(self, text: str) -> bool:
        found = find_thoughts(text)
        before, self.thoughts = self.thoughts, found
        decided = found != NO_THOUGHTS or len(text) > _LONGEST_MARK
        self._settled = decided and found.end is not None and found.end < len(text)
        self._unfolded = "" if self._settled else text
        shown = "" if found.end is None else text[found.end :]
        if found == NO_THOUGHTS and before == NO_THOUGHTS and shown.startswith(self._text.text):
            self._append(shown[len(self._text.text) :])
        else:
            self._replace(shown)
        return True

    def _replace(self, text: str) -> None:
        self._text.reset(text)
        if self.take is not None:
            self.take = min(self.take, len(text)) or None
        self._top = self.start_at
        self.refresh()

    def _append(self, text: str) -> None:
        last = max(0, len(self._text.lines) - 1)
        before = self._first
        self._text.append(text)
        self._painted.pop(last, None)
        body = Region(0, 1, self._room.width, self._body)
        fresh = Region(0, 1 + last - self._first, self._room.width, len(self._text.lines) - last)
        if changed := body if self._first != before else fresh.intersection(body):
            super().refresh(changed)

    # ---- the header line

    def _set_head(self, force: bool) -> None:
        now = time.monotonic()
        self.set_class(self.branch is not None and self.branch.state is BranchState.WRITING, "-writing")
        self.set_class(self.branch is not None and self.branch.state is BranchState.FAILED, "-failed")
        self.set_class(self._killed, "-killed")
        if not force and now - self._head_at < _HEADER_SECONDS and self._state_unchanged():
            return
        head = self._compose_head()
        if head != self._head or force:
            self._head, self._head_at = head, now
            super().refresh(Region(0, 0, self._room.width, 1))

    @property
    def _killed(self) -> bool:
        branch = self.branch
        return branch is not None and branch.finish_reason is FinishReason.KILLED and not branch.live

    def _state_unchanged(self) -> bool:
        return self.branch is None or self._head_state == (self.branch.state, self.branch.finish_reason)

    _head_state: tuple[BranchState, FinishReason | None] | None = None

    def _compose_head(self) -> str:
        branch = self.branch
        name = f"[{self.letter}] {self.number}" if self.letter else str(self.number)
        if branch is None:
            return f" {name} "
        self._head_state = branch.state, branch.finish_reason
        hidden = len(self._text.lines) - self._body - self._first
        tokens = len(branch.buffer.ids) if self.figures else 0
        speed = branch.tokens_per_second if self.figures and branch.state is BranchState.WRITING else 0.0
        head = Head(
            name, state_sign(branch), state_words(branch), self.thoughts.words, self.note, self.marks,
            max(0, hidden), tokens, speed, self.stale,
        )  # fmt: skip
        return head.line(self._room.width - 1)

    def show_facts(self, marks: str, note: str, figures: bool) -> None:
        """Show marks and a note in the head, and with ``figures`` tokens and speed."""
        if (self.marks, self.note, self.figures) != (marks, note, figures):
            self.marks, self.note, self.figures = marks, note, figures
            self._set_head(force=True)

    def watch_letter(self) -> None:
        self._set_head(force=True)

    def watch_stale(self) -> None:
        self.set_class(self.stale, "-stale")
        self._set_head(force=True)
        self.refresh()

    # ---- drawing

    @property
    def _body(self) -> int:
        return max(0, self._room.height - 1)

    @property
    def _last_top(self) -> int:
        return max(0, len(self._text.lines) - self._body)

    @property
    def _first(self) -> int:
        return self._last_top if self._top is None else self._top

    def refresh(
        self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False
    ) -> BranchPane:
        """Repaint ``regions``, or everything without cached lines, because styles may have changed."""
        if not regions:
            self._forget()
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def _forget(self) -> None:
        self._painted.clear()
        self._styles.clear()
        self._painted_head = self._ground = None

    def _style(self, name: str) -> Style:
        if name not in self._styles:
            styled = self if name in self.COMPONENT_CLASSES else self.parent
            assert isinstance(styled, Widget)
            self._styles[name] = styled.get_component_rich_style(name)
        return self._styles[name]

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the visible lines: from the cache, and unlike Textual's without borders and padding."""
        filters = list(self.get_line_filters())
        if filters != self._filters:
            self._filters = filters
            self._forget()
        strips = [self.render_line(y) for y in crop.line_range]
        if crop.column_span != (0, self._room.width):
            strips = [strip.crop(*crop.column_span) for strip in strips]
        return strips

    def render_line(self, y: int) -> Strip:
        width = self._room.width
        if y == 0:
            if self._painted_head is None or self._painted_head[0] != self._head:
                segment = Segment(set_cell_size(self._head, width), self._style("pane--head"))
                self._painted_head = self._head, self._filtered(Strip([segment], width))
            return self._painted_head[1]
        row = self._first + y - 1
        if row >= len(self._text.lines):
            row = _PLACE if y == 1 and not self._text.lines else _BLANK
        strip = self._painted.get(row)
        if strip is None:
            if len(self._painted) >= _MOST_LINES:
                self._painted.clear()
            strip = self._painted[row] = self._paint(row, width)
        return strip

    def _paint(self, row: int, width: int) -> Strip:
        if row == _BLANK:
            return self._filtered(self._framed(Strip.blank(width, self.rich_style)))
        if row == _PLACE:
            return self._filtered(self._framed(self._placeholder(width)))
        # Filters cache one style for each style they see, so the offsets for the mouse come after them.
        return self._filtered(self._framed(self._line(row, width))).apply_offsets(-_PAD, row)

    def _framed(self, strip: Strip) -> Strip:
        """Add the sides of the frame to a line of the focused pane, in the cells beside the text."""
        if not self.has_focus or strip.cell_length <= 2 * _PAD:
            return strip
        left, right = (Strip([Segment(side, self._style("pane--frame"))], 1) for side in _SIDES)
        return Strip.join([left, strip.crop(_PAD, strip.cell_length - _PAD), right])

    def _filtered(self, strip: Strip) -> Strip:
        if self._ground is None:
            self._ground = self.background_colors[1]
        for line_filter in self._filters:
            strip = strip.apply_filter(line_filter, self._ground)
        return strip

    def _placeholder(self, width: int) -> Strip:
        words = self.hint if self.branch is None else ""
        if self.branch is not None and self.branch.finish_reason is FinishReason.ERROR:
            words = str(self.branch.error or self.branch.generation.error or "")
        style = self._style("pane--note")
        return Strip([Segment(set_cell_size(" " + words, width), style)], width)

    def _line(self, row: int, width: int) -> Strip:
        start = self._text.lines[row].start
        shown = self._text.shown(row)
        text_style = self._style("pane--text")
        if self.tints is not None or self._token is not None:
            segments = self._coloured(shown, start)
        elif self.take is None:
            segments = [Segment(shown, text_style)]
        else:
            cut = max(0, min(len(shown), self.take - start))
            segments = [
                Segment(shown[:cut], self._style("pane--taken")),
                Segment(shown[cut:], self._style("pane--rest")),
            ]
        segments = self._select(row, shown, segments)
        pad, used = Segment(" " * _PAD, text_style), _PAD + cell_len(shown)
        if used < width:
            segments.append(Segment(" " * (width - used), text_style))
        return Strip([pad, *segments], max(used, width)).adjust_cell_length(width, text_style)

    def _coloured(self, shown: str, start: int) -> list[Segment]:
        """Return a line in its tokens' colours, with the taken part and the highlighted token marked."""
        text, hidden = self._style("pane--text"), self.thoughts.end or 0
        styles = [text] * len(shown)
        if self.tints is not None and self.branch is not None and not (self.stale or self._killed):
            first, last = hidden + start, hidden + start + len(shown)
            for begin, end, tint in self.tints.between(self.branch, first, last):
                styles[begin - first : end - first] = [self._style(f"pane--{tint}")] * (end - begin)
        if self.take is not None:
            cut = max(0, min(len(shown), self.take - start))
            taken, rest = self._style("pane--taken"), self._style("pane--rest")
            styles = [style + Style(underline=taken.underline) for style in styles[:cut]]
            styles += [rest] * (len(shown) - cut)
        if self._token is not None:
            begin, end = (max(0, min(len(shown), place - hidden - start)) for place in self._token)
            styles[begin:end] = [self._style("pane--token")] * (end - begin)
        runs = [(style, len(list(same))) for style, same in groupby(styles)]
        places = list(accumulate((length for _, length in runs), initial=0))
        return [Segment(shown[at : at + n], style) for at, (style, n) in zip(places, runs, strict=False)]

    def _select(self, row: int, shown: str, segments: list[Segment]) -> list[Segment]:
        selection = self.text_selection
        span = selection.get_span(row) if selection is not None else None
        if span is None:
            return segments
        start, end = span
        end = len(shown) if end == -1 else end
        style: Style = self.screen.get_component_rich_style("screen--selection")
        cuts = [cell_len(shown[:at]) for at in (start, end, len(shown))]
        before, inside, behind = [*Segment.divide(segments, cuts), [], [], []][:3]
        return [*before, *Segment.apply_style(inside, post_style=style), *behind]

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        lines = "\n".join(self._text.shown(row) for row in range(len(self._text.lines)))
        return selection.extract(lines), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._forget()

    def on_resize(self, event: events.Resize) -> None:
        self.fit()

    def fit(self) -> None:
        """Wrap the text for the current size; do nothing if the size is unchanged or zero."""
        size = self.size
        if not size or size == self._room:
            return
        self._room = size
        reading = self._text.lines[self._first].start if self._text.lines and self._top is not None else None
        self._text.resize(size.width - 2 * _PAD)
        if reading is not None:  # keep the first visible line in view at the new width
            self._top = min(self._text.line_of(reading), self._last_top)
        self._set_head(force=True)
        self.refresh()

    # ---- reading

    def scroll_lines(self, lines: int) -> None:
        """Scroll; at the end of the text, follow it again."""
        if not self._last_top:
            return
        top = max(0, min(self._last_top, self._first + lines))
        self._top = None if top == self._last_top and lines > 0 else top
        self._set_head(force=True)
        self.refresh()

    def follow(self) -> None:
        """Keep the end of the text in view."""
        self._top = None
        self._set_head(force=True)
        self.refresh()

    def rewind_view(self) -> None:
        """Scroll to the beginning and stay there."""
        self._top = 0
        self._set_head(force=True)
        self.refresh()

    @property
    def first_line(self) -> int:
        """The first visible line of the text."""
        return self._first

    def page(self, pages: int) -> None:
        self.scroll_lines(pages * max(1, self._body - 1))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.prevent_default().stop()
        self.scroll_lines(-_WHEEL_LINES)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.prevent_default().stop()
        self.scroll_lines(_WHEEL_LINES)

    def on_click(self, event: events.Click) -> None:
        if event.chain == 2:
            self.post_message(self.Chosen(self))

    # ---- one token

    @property
    def token(self) -> tuple[int, int] | None:
        """The span of characters highlighted as a token."""
        return self._token

    @token.setter
    def token(self, token: tuple[int, int] | None) -> None:
        if token == self._token:
            return
        self._token = token
        if token is not None and self._text.text:
            row = self._text.line_of(
                max(0, min(token[0] - (self.thoughts.end or 0), len(self._text.text) - 1))
            )
            if not self._first <= row < self._first + self._body:
                self._top = min(max(0, row - self._body // 2), self._last_top)
            else:
                self._top = self._first
        self.refresh()

    @property
    def first_in_view(self) -> int:
        """The first visible character of the branch's text."""
        lines = self._text.lines
        return (self.thoughts.end or 0) + (lines[min(self._first, len(lines) - 1)].start if lines else 0)

    # ---- taking a part

    def move_take(self, unit: Unit, direction: int) -> None:
        """Move the taking cursor by one unit and keep it in view; at the start, unset it."""
        if not self._text.text:
            return
        if unit == "word":
            tell_of_dictionaries(self, self._text.text)
        at = self.take if self.take is not None else (0 if direction > 0 else len(self._text.text))
        self.take_to(unit_step(self._text.text, at, unit, direction))

    def take_to(self, chars: int) -> None:
        """Put the taking cursor behind so many characters and keep it in view; 0 removes it."""
        self.take = min(chars, len(self._text.text)) or None
        if self.take is not None:
            row = self._text.line_of(self.take - 1)
            if not self._first <= row < self._first + self._body:
                self._top = min(max(0, row - self._body + 1), self._last_top)
            else:
                self._top = self._first  # the selected text must not scroll away
        self.refresh()
