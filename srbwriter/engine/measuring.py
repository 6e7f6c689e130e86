"""Taking the times of a :class:`.costs.CostTable`: a loaded model, a context of its own, two seconds.

The most telling steps come first, and what does not fit into the time is left out. Knows no requests.
"""

from __future__ import annotations

import logging
import os
import platform
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

from .costs import CostTable, Point, Setting, keep_table, read_table
from .disk import state_key
from .model import Model
from .native.context import OK, Context, default_threads, flash_attention, has_gpu
from .native.library import build, hushed
from .types import EngineError, EngineOptions

log = logging.getLogger(__name__)

SECONDS = 2.0
ROWS = (1, 8, 2, 4, 16, 32, 3, 7, 6, 15, 12)
"""Sizes of steps. Kernels take rows in fours and eights, so their neighbours tell whether padding pays."""
DEEP = (1, 8, 2, 32)
DEPTH = 2048
"""Cells in use in the second half: the length of a long chapter."""
_PROMPT = 128  # tokens of one batch
_SEQUENCES = max(ROWS)
_REPEATS, _SHORT = 3, 0.005
"""How often a step is repeated at least, and seconds that the repeats of a short one take together."""
_LONG = 1 / 20  # share of the whole time: a step that takes longer is not repeated
_UNSTEADY = 1.6  # times the best of the same steps, from which on something else was running
_ALONE = 0.75  # share of its threads' time that a step has on cores of its own, at least


class _TimeOver(Exception):
    pass


def table_for(model: Model, options: EngineOptions, seconds: float = SECONDS) -> CostTable:
    """The table of this model on this machine: the one kept, or one measured now, in ``seconds`` at most."""
    key = table_key(model.path, options)
    table = read_table(key)
    if table is None or not table.steady:
        table = measure(model, options, seconds)
        keep_table(key, table)
        log.info("%s: %d steps measured in %.1f s", model.name, len(table.points), table.took)
    return table


def table_key(path: Path, options: EngineOptions) -> str:
    """Names what times depend on: the file, llama.cpp's build, the processor, and how the model is loaded."""
    placed = (options.gpu_layers, options.main_gpu, options.tensor_split) if has_gpu() else ()
    cache = (options.cache_type_k, options.cache_type_v)
    return state_key(path, build(), _processor(), str(default_threads()), str(placed), *cache)


def measure(model: Model, options: EngineOptions, seconds: float = SECONDS) -> CostTable:
    """Times of ``model`` now; what does not fit into ``seconds``, or into the memory, is unknown."""
    return _Measuring(model, options, seconds).run()


class _Measuring:
    def __init__(self, model: Model, options: EngineOptions, seconds: float) -> None:
        self.model, self.options, self.seconds = model, options, seconds
        self.started = time.perf_counter()
        self.most = options.threads or default_threads()
        self.usual = Setting(self.most, flash_attention(options) == "on")
        self.best: dict[tuple[Setting, int, int], float] = {}
        self.spread: list[float] = []
        self.wanted = self.had = 0.0  # seconds of processors
        self.crowded = False  # others have the cores that more than one thread needs
        self.prompt = self.copy_out = self.copy_in = self.state_bytes = 0.0

    @property
    def left(self) -> float:
        return self.seconds - (time.perf_counter() - self.started)

    def run(self) -> CostTable:
        ways = [self.usual.flash]
        if self.options.flash_attn == "auto" and self._may_do_without():
            ways.append(not self.usual.flash)
        for flash in ways:
            try:
                with hushed(), self._context(flash) as context:
                    self._measure(context, flash)
            except _TimeOver:
                break
            except EngineError as error:
                log.info("%s: steps were not measured: %s", self.model.name, error)
        return CostTable(
            self.usual, tuple(Point(*key, seconds) for key, seconds in self.best.items()), self._prompt(),
            self.copy_out, self.copy_in, self.state_bytes, whole=not self.model.partial_removal,
            steady=self._steady(), took=time.perf_counter() - self.started,
        )  # fmt: skip

    def _steady(self) -> bool:
        """Whether equal steps took equal time, on as many cores as they have threads."""
        even = not self.spread or median(self.spread) < _UNSTEADY
        return even and self._alone and not self.crowded

    @property
    def _alone(self) -> bool:
        return self.had >= _ALONE * self.wanted

    def _may_do_without(self) -> bool:
        """Whether both ways of attention are possible and matter."""
        return self.options.cache_type_v in ("f16", "f32", "bf16") and not self.model.recurrent

    @contextmanager
    def _context(self, flash: bool) -> Generator[Context]:
        """A context that stops computing when the time is over. Raises _TimeOver when it is already."""
        if self.left <= 0:
            raise _TimeOver
        context = Context(
            self.model.pointer, cells=DEPTH + 8 * _SEQUENCES, sequences=_SEQUENCES, batch=_PROMPT,
            ubatch=_PROMPT, threads=self.most, threads_batch=self.most,
            options=replace(self.options, flash_attn="on" if flash else "off"), path=str(self.model.path),
        )  # fmt: skip
        context.enable_abort()
        timer = threading.Timer(max(self.left, 0.0), context.abort)
        timer.start()
        try:
            yield context
        finally:
            timer.cancel()
            timer.join()
            context.close()

    def _measure(self, context: Context, flash: bool) -> None:
        if not self.best:
            self._step(context, self.usual, 1, 0)
            if self.usual.threads > 1 and not self._alone:  # one thread still tells something
                self.best.clear()
                self.crowded, self.usual = True, Setting(1, flash)
        main = Setting(self.usual.threads, flash)
        if flash == self.usual.flash:
            for rows in ROWS[:6]:
                self._step(context, main, rows, 0)
            held = self._prompt_batch(context, main)
            self._copy(context, held)
            cells = self._fill(context, held)
            for rows in DEEP if cells else ():
                self._step(context, main, rows, cells, start=held)
            context.clear()
            for threads in self._fewer():
                for rows in (1, 8, 32):
                    self._step(context, Setting(threads, flash), rows, 0)
            for rows in ROWS[6:]:
                self._step(context, main, rows, 0)
            return
        cells = self._fill(context, self._some(context, main))
        for rows in DEEP if cells else ():
            self._step(context, main, rows, cells, start=context.last_position(0) + 1)

    def _fewer(self) -> list[int]:
        if self.options.threads or (has_gpu() and self.options.gpu_layers):
            return []
        return sorted({1, (self.most + 1) // 2} - {self.most}) if not self.crowded else []

    # ---- steps

    def _step(self, context: Context, setting: Setting, rows: int, cells: int, start: int = 0) -> None:
        """Time a step of ``rows`` sequences of which each goes on at ``start``."""
        if self._estimate(rows) > self.left:
            return
        seqs = list(range(rows))
        if cells == 0:
            context.clear()
        else:
            for seq in seqs[1:]:
                context.copy(0, seq)
        times: list[float] = []
        context.set_threads(setting.threads, setting.threads)
        while len(times) <= _REPEATS or (sum(times) < _SHORT and len(times) < 5 * _REPEATS):
            position = start if self.model.partial_removal else start + len(times)
            context.batch.clear()
            context.batch.add_rows([self._token] * rows, [position] * rows, seqs)
            seconds = self._decode(context, setting.threads)
            times.append(seconds)
            if self.model.partial_removal:
                for seq in seqs:
                    context.remove(seq, start)
            if seconds > self.seconds * _LONG:
                break
        if cells:
            for seq in seqs[1:]:
                context.remove(seq)
        warm = times[1:] or times  # the first of a shape builds its graph
        if len(warm) > 1:
            self.spread.append(max(warm) / min(warm))
        self.best[setting, rows, cells] = min(warm)

    def _decode(self, context: Context, threads: int) -> float:
        started, processors = time.perf_counter(), time.process_time()
        code = context.decode()
        seconds = time.perf_counter() - started
        self.wanted += seconds * threads
        self.had += time.process_time() - processors
        if code != OK:
            raise _TimeOver
        return seconds

    def _estimate(self, rows: int) -> float:
        """Seconds that a step will take at the most: no row costs more in company than alone."""
        known = [(n, t) for (_, n, _), t in self.best.items()]
        if not known:
            return 0.0
        n, seconds = max((n, t) for n, t in known if n <= rows or n == min(n for n, _ in known))
        return seconds * max(rows / n, 1.0)

    def _run_of(self, context: Context, count: int, threads: int) -> float:
        """Evaluate ``count`` tokens of sequence 0 in an empty cache."""
        context.clear()
        context.batch.clear()
        context.batch.add_run([self._token] * count, 0, 0, 1)
        return self._decode(context, threads)

    def _prompt_batch(self, context: Context, setting: Setting) -> int:
        """Time a piece of a prompt, the longest there is time for; how many tokens sequence 0 holds of it."""
        count = self._some(context, setting)
        if self.left > 4 * self.prompt * count:
            self.prompt = min(self.prompt, self._run_of(context, count, setting.threads) / count)
        return count

    def _some(self, context: Context, setting: Setting) -> int:
        """Let sequence 0 hold some tokens."""
        longest = context.window or _PROMPT  # of a sliding layer no more is saved
        sizes = (n for n in (_PROMPT, 32, 8) if n <= longest and self._estimate(n) < self.left / 4)
        count = next(sizes, 2)
        context.set_threads(setting.threads, setting.threads)
        seconds = self._run_of(context, count, setting.threads)
        if setting == self.usual:
            self.prompt = seconds / count
        return count

    def _prompt(self) -> float:
        """Seconds a token of a prompt; by the largest step where no prompt was timed."""
        if self.prompt:
            return self.prompt
        times = [(n, t) for (setting, n, _), t in self.best.items() if setting == self.usual]
        rows, seconds = max(times, default=(1, 0.0))
        return seconds / rows

    # ---- copies

    def _copy(self, context: Context, held: int) -> None:
        """Time a copy of what sequence 0 holds out of the cells and back; by the token if each has cells."""
        started = time.perf_counter()
        data = context.save(0, 0, held)
        out = time.perf_counter()
        if not context.restore(data, 0, held, 1, 0, held):
            return
        back = time.perf_counter()
        context.remove(1)
        units = held if self.model.partial_removal else 1
        self.copy_out, self.copy_in = (out - started) / units, (back - out) / units
        self.state_bytes = data.size / units

    def _fill(self, context: Context, held: int) -> int:
        """Let sequence 0 hold ``DEPTH`` cells, copies of the ``held`` ones; how many it holds then.

        Nothing is evaluated. That positions stand in it several times changes no step's time.
        """
        if not self.model.partial_removal:
            return 0
        data = context.save(0, 0, held)
        cells = held
        while cells + held <= DEPTH and context.restore(data, 0, held, 0, 0, held):
            cells += held
        return cells

    @property
    def _token(self) -> int:
        return min(1, self.model.n_vocab - 1)


def _processor() -> str:
    """The processor's name, as the system has it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith(("model name", "Hardware", "CPU part")):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return f"{platform.machine()} {platform.processor()} {os.cpu_count()}"
