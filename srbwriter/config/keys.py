"""The table of configuration keys: the only place where one is written down.

The TOML file, the environment, the flags, the documentation and the settings screen are all made from
these rows. Sampling keys come from the engine's own table of parameters and are added where the program
is put together; this room must never import the engine or a face.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar, cast, get_args

from srbwriter.config.kinds import ADDRESS, INTEGER, LAYERS, NUMBERS, PATH, SWITCH, TEXT, TEXTS, Kind, one_of

FlashAttention = Literal["auto", "on", "off"]
Dialect = Literal["auto", "vllm", "openai", "llamacpp", "srb"]
Pooling = Literal["mean", "cls", "last"]
Siblings = Literal["independent", "distinct"]
LookAhead = Literal["off", "focused", "all"]

T_co = TypeVar("T_co", covariant=True)


class Key(NamedTuple, Generic[T_co]):
    """One setting.

    ``name`` is ``section.key`` as in the TOML file. ``flags`` are its spellings on the command line, the
    first one shown; a switch also gets the ``--no-`` spelling of its long flags. ``minimum`` and
    ``maximum`` are inclusive and apply to numbers. ``variable`` names the environment variable if that does
    not follow from the name.
    """

    name: str
    kind: Kind[T_co]
    default: T_co
    help: str
    flags: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    variable: str = ""

    @property
    def env(self) -> str:
        return self.variable or "SRBWRITER_" + self.name.replace(".", "_").upper()

    @property
    def section(self) -> str:
        return self.name.partition(".")[0]

    @property
    def expected(self) -> str:
        """What a value must be, in words that complete "expected …"."""
        low, high = (
            # nobody needs to know what fits 32 bits
            "" if bound is None or bound >= 2**31 - 1 else f"{bound:g}" if bound < 1e6 else str(int(bound))
            for bound in (self.minimum, self.maximum)
        )
        if low and high:
            return f"{self.kind.expected} from {low} to {high}"
        return self.kind.expected + (f", {low} or more" if low else f", {high} or less" if high else "")

    def read_text(self, text: str) -> T_co:
        """Read a flag or an environment variable. Raises ValueError."""
        return self.read_toml(self.kind.parse(text))

    def read_toml(self, value: object) -> T_co:
        """Read a parsed TOML value. Raises ValueError."""
        found = cast(Any, self.kind.read(value))
        for bound, sign in ((self.minimum, 1), (self.maximum, -1)):
            if bound is not None and found is not None and (found - bound) * sign < 0:
                raise ValueError
        return cast(T_co, found)

    def complaint(self, value: object) -> str:
        """Say that ``value`` is not taken: the value, and what was expected."""
        shown = str(value).lower() if isinstance(value, bool) else repr(value)
        return f"{shown}: expected {self.expected}"


SECTIONS = {
    "model": "The model",
    "generation": "Branches",
    "sampling": "Sampling",
    "instruments": "Instruments",
    "interface": "The terminal app",
    "keys": "Your own keys in the terminal app",
    "server": "The HTTP server",
    "log": "The log",
}
"""Sections of config.toml in the order of help and documentation, with their titles."""

CACHE_TYPE = one_of("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
"""Types of KV cache cells (``kv_cache_types`` in llama.cpp's ``common/arg.cpp``)."""

# fmt: off
MODEL = Key[Path | None](
    "model.path", PATH, None,
    "model file (GGUF), or the name of one in the models folder; the bundled one if not given",
    ("--model", "-m"), variable="SRBWRITER_MODEL",
)
CONNECT = Key[str | None](
    "model.connect", ADDRESS, None,
    "address of an engine that runs elsewhere, instead of a model file",
    ("--connect",), variable="SRBWRITER_CONNECT",
)
CONNECT_KEY = Key[str | None](
    "model.connect_key", TEXT, None,
    "API key for that engine; better in the environment, where others do not see it",
    ("--connect-key",), variable="SRBWRITER_CONNECT_KEY",
)
CONNECT_MODEL = Key[str | None](
    "model.connect_model", TEXT, None, "name of the model there; the first that is listed if not given",
    ("--connect-model",),
)
CONNECT_VERIFY = Key(
    "model.connect_verify", SWITCH, True, "take only certificates that are trusted", ("--connect-verify",),
)
DIALECT = Key[Dialect](
    "model.dialect", one_of(*get_args(Dialect)), "auto",
    "API of that engine", ("--dialect",),
)
CTX_SIZE = Key[int | None](
    "model.ctx_size", INTEGER, None,
    "context: tokens that story and branches share; if not given, the model's own, at most 8192, and fewer "
    "where the memory does not hold them",
    ("--ctx-size", "-c"), minimum=16,
)
THREADS = Key[int | None](
    "model.threads", INTEGER, None,
    "threads for writing; if not given, one a core, and fewer while other programs want the cores: a number "
    "that is given stays, and where others hold one of the cores each step may take 20 times as long",
    ("--threads", "-t"), minimum=1, maximum=512,
)
THREADS_BATCH = Key[int | None](
    "model.threads_batch", INTEGER, None, "threads for reading the prompt", ("--threads-batch", "-tb"),
    minimum=1, maximum=512,
)
BATCH_SIZE = Key[int | None](
    "model.batch_size", INTEGER, None, "most tokens in one batch", ("--batch-size", "-b"), minimum=1,
)
UBATCH_SIZE = Key[int | None](
    "model.ubatch_size", INTEGER, None, "most tokens computed at once", ("--ubatch-size", "-ub"), minimum=1,
)
GPU_LAYERS = Key[int | None](
    "model.gpu_layers", LAYERS, None,
    "layers that a GPU build keeps on the GPU; -1 or all is every one; if not given, as many as fit its free "
    "memory",
    ("--gpu-layers", "-ngl", "--n-gpu-layers"), minimum=-1,
)
MAIN_GPU = Key("model.main_gpu", INTEGER, 0, "number of the main GPU", ("--main-gpu", "-mg"), minimum=0)
TENSOR_SPLIT = Key[tuple[float, ...]](
    "model.tensor_split", NUMBERS, (), "share of the model on each GPU, for example 3,1",
    ("--tensor-split", "-ts"),
)
MLOCK = Key("model.mlock", SWITCH, False, "keep the model in memory, never swapped out", ("--mlock",))
MMAP = Key("model.mmap", SWITCH, True, "map the model file instead of reading it", ("--mmap",))
FLASH_ATTN = Key[FlashAttention](
    "model.flash_attn", one_of(*get_args(FlashAttention)), "auto", "flash attention", ("--flash-attn", "-fa"),
)
CACHE_TYPE_K = Key(
    "model.cache_type_k", CACHE_TYPE, "f16", "type of the cached keys", ("--cache-type-k", "-ctk"),
)
CACHE_TYPE_V = Key(
    "model.cache_type_v", CACHE_TYPE, "f16", "type of the cached values", ("--cache-type-v", "-ctv"),
)
CACHE_RAM = Key[int | None](
    "model.cache_ram", INTEGER, None,
    "MiB of memory for text that the model has read and may need again; if not given, a quarter of what is "
    "free, at most 8192; 0 is none", ("--cache-ram", "-cram"), minimum=0,
)
CACHE_DISK = Key(
    "model.cache_disk", INTEGER, 4096,
    "MiB on disk, so that a story opened again is not read again by the model; 0 is none", ("--cache-disk",),
    minimum=0,
)
LORA = Key[tuple[str, ...]](
    "model.lora", TEXTS, (), "LoRA adapter in GGUF format, FILE or FILE:SCALE; may be given several times",
    ("--lora", "--lora-scaled"),
)
POOLING = Key[Pooling | None](
    "model.pooling", one_of(*get_args(Pooling)), None,
    "how embeddings of tokens become one; the model's own way if not given", ("--pooling",),
)

N = Key("generation.n", INTEGER, 8, "branches written at once", ("--n", "-n"), minimum=1, maximum=64)
MAX_N = Key(
    "generation.max_n", INTEGER, 64, "most branches that may be live at once",
    ("--max-n", "--parallel", "-np"), minimum=1, maximum=64,
)
MAX_TOKENS = Key(
    "generation.max_tokens", INTEGER, 128, "most tokens in one branch; -1 is no limit",
    ("--max-tokens", "--predict", "--n-predict"), minimum=-1,
)
SEED = Key[int | None](
    "generation.seed", INTEGER, None,
    "number from which the seeds of all branches follow; random if not given", ("--seed", "-s"), minimum=0,
    maximum=2**32 - 1,
)

SIBLINGS = Key[Siblings](
    "instruments.siblings", one_of(*get_args(Siblings)), "distinct",
    "how the beginnings of branches differ: independent, or distinct (no two alike)", ("--siblings",),
)
LOOK_AHEAD = Key[LookAhead](
    "instruments.look_ahead", one_of(*get_args(LookAhead)), "focused",
    "next branches that are written while you read, so that a pick need not wait: after the chosen branch "
    "(focused), or after each of them (all)",
)
LOOK_AHEAD_TOKENS = Key(
    "instruments.look_ahead_tokens", INTEGER, 2048, "most tokens that are written before a pick",
    minimum=16,
)
SO_FAR = Key(
    "instruments.so_far", INTEGER, 20,
    "percent of the window for summaries of chapters that no longer fit, which the model writes while you "
    "read; 0 for none", minimum=0, maximum=50,
)
LOG_LEVEL = Key(
    "log.level", one_of("debug", "info", "warning", "error"), "info", "how much is written to the log",
    ("--log-level",),
)
# fmt: on


KEYS: tuple[Key[Any], ...] = tuple(
    cast("Key[Any]", row) for row in list(globals().values()) if isinstance(row, Key)
)
"""Every row above, in order."""
