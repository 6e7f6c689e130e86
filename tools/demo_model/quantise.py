"""Step 5: make a GGUF file smaller with llama.cpp's own quantiser.

python -m tools.demo_model.quantise IN.gguf OUT.gguf --type Q8_0
"""

from __future__ import annotations

import argparse
import ctypes
from pathlib import Path

import llama_cpp

TYPES = {
    "F16": llama_cpp.LLAMA_FTYPE_MOSTLY_F16,
    "Q8_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0,
    "Q6_K": llama_cpp.LLAMA_FTYPE_MOSTLY_Q6_K,
    "Q5_K_M": llama_cpp.LLAMA_FTYPE_MOSTLY_Q5_K_M,
    "Q4_K_M": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M,
}


def quantise(source: Path, target: Path, kind: str) -> None:
    """Write `source` as `target` in type `kind`; raises RuntimeError where llama.cpp refuses."""
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = TYPES[kind]
    code = llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params))
    if code != 0:
        raise RuntimeError(f"llama.cpp could not quantise {source} to {kind} (code {code})")


def main() -> None:
    parser = argparse.ArgumentParser(description="Quantise a GGUF file.")
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--type", choices=TYPES, default="Q8_0", help="default %(default)s")
    args = parser.parse_args()
    quantise(args.source, args.target, args.type)
    print(f"{args.target}: {args.target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
