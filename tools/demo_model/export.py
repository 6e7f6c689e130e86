"""Step 4: write the trained weights as a GGUF file with everything a program asks it for.

Matrices are Q4_0, the embedding (and head) is Q8_0, norms are float32.

    python -m tools.demo_model.export BASE.gguf --out WORK --file storyteller.gguf
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import torch
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType, quants

from tools import llama_gguf
from tools.demo_model import train
from tools.demo_model.network import MATRICES, NORMS, Shape, Weights, interleave, read_model, rotary_heads
from tools.demo_model.vocabulary import END, FIM, SPECIAL, Vocabulary

CONTEXT = 4096
DESCRIPTION = (
    "A small English fiction model that ships with srbwriter; pruned from SmolLM2-135M-Instruct "
    "(Hugging Face, Apache-2.0) and trained on public-domain fiction and simple stories."
)
#: A story answers a request as plainly as training shows it: request, blank line, story.
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ message['content'] | trim }}{{ '\\n\\n' }}{% endfor %}"
)


def add_description(writer: GGUFWriter, parameters: int) -> None:
    writer.add_type("model")
    writer.add_name("storyteller")
    writer.add_author("srbwriter contributors")
    writer.add_version("2")
    writer.add_license("apache-2.0")
    writer.add_size_label(f"{parameters / 1e6:.0f}M")
    writer.add_description(DESCRIPTION)
    writer.add_languages(["en"])
    writer.add_file_type(LlamaFileType.MOSTLY_Q4_0)
    writer.add_quantization_version(2)
    writer.add_base_model_count(1)
    writer.add_base_model_name(0, "SmolLM2 135M")
    writer.add_base_model_organization(0, "HuggingFaceTB")
    writer.add_base_model_repo_url(0, "https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct")


def add_vocabulary(writer: GGUFWriter, vocabulary: Vocabulary) -> None:
    end = vocabulary.tokens.index(END)
    llama_gguf.add_vocabulary(writer, vocabulary.tokens, vocabulary.merges, SPECIAL, end, split="smollm")
    writer.add_pad_token_id(end)
    writer.add_unk_token_id(end)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    for key, token in zip(("fim_pre", "fim_suf", "fim_mid"), FIM, strict=True):
        writer.add_uint32(f"tokenizer.ggml.{key}_token_id", vocabulary.tokens.index(token))
    writer.add_chat_template(CHAT_TEMPLATE)


def quantisation(name: str) -> GGMLQuantizationType:
    """Return the number format of a tensor."""
    if name.endswith(MATRICES):
        return GGMLQuantizationType.Q4_0
    return GGMLQuantizationType.F32 if name.endswith((*NORMS, "output_norm")) else GGMLQuantizationType.Q8_0


def write_model(path: Path, shape: Shape, weights: Weights, vocabulary: Vocabulary) -> None:
    """Write a model, its layers numbered from 0."""
    writer = GGUFWriter(path, "llama")
    add_description(writer, sum(weight.numel() for weight in weights.values()))
    llama_gguf.add_sizes(
        writer, layers=shape.layers, width=shape.width, hidden=shape.hidden, heads=shape.heads,
        kv_heads=shape.kv_heads, head_size=shape.head_size, context=CONTEXT, rope_base=shape.rope_base,
        eps=shape.eps, vocab=len(vocabulary.tokens),
    )  # fmt: skip
    add_vocabulary(writer, vocabulary)
    for name, weight in weights.items():
        heads = rotary_heads(shape, name)
        values = (interleave(weight, heads) if heads else weight).contiguous().numpy()
        kind = quantisation(name)
        writer.add_tensor(f"{name}.weight", quants.quantize(values, kind), raw_dtype=kind)
    llama_gguf.write(writer)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the trained weights as GGUF.")
    parser.add_argument("base", type=Path, help="GGUF file of the base model, for its sizes")
    parser.add_argument("--out", type=Path, required=True, help="working folder, trained")
    parser.add_argument("--file", type=Path, required=True, help="GGUF file to write")
    args = parser.parse_args()
    shape, _ = read_model(args.base)
    weights: Weights = torch.load(args.out / train.FILE, weights_only=True)
    layers = sum(name.endswith("attn_q") for name in weights)
    write_model(args.file, replace(shape, layers=layers), weights, Vocabulary.load(args.out))
    print(f"{args.file}: {args.file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
