"""Reads and writes story models as GGUF. The only module here that knows tensor names of llama.cpp."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, LlamaFileType, quants
from tokenizers import Tokenizer
from torch import Tensor

from tools import llama_gguf
from tools.demo_model.model import Config, Llama
from tools.demo_model.tokenizer import END, FIM, SPECIAL

#: Parameter names of a block here, and the names llama.cpp gives them.
BLOCK_NAMES = {
    "attn_norm": "attn_norm",
    "ffn_norm": "ffn_norm",
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
}
#: A story answers a request as plainly as the training text shows it: request, blank line, story.
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ message['content'] | trim }}{{ '\\n\\n' }}{% endfor %}"
)


def interleave(weight: Tensor, heads: int) -> Tensor:
    """Rows of a query or key matrix from half-split to interleaved rotary order."""
    rows, width = weight.shape
    return weight.view(heads, 2, rows // heads // 2, width).transpose(1, 2).reshape(rows, width)


def deinterleave(weight: Tensor, heads: int) -> Tensor:
    """The inverse of `interleave`."""
    rows, width = weight.shape
    return weight.view(heads, rows // heads // 2, 2, width).transpose(1, 2).reshape(rows, width)


def gguf_names(config: Config) -> dict[str, str]:
    """GGUF tensor name → parameter name, for every tensor of a model of this shape."""
    names = {"token_embd.weight": "embed.weight", "output_norm.weight": "norm.weight"}
    if not config.tied:
        names["output.weight"] = "head.weight"
    for layer in range(config.layers):
        for ours, theirs in BLOCK_NAMES.items():
            names[f"blk.{layer}.{theirs}.weight"] = f"blocks.{layer}.{ours}.weight"
    return names


def is_rotary(name: str) -> bool:
    return name.endswith((".q.weight", ".k.weight"))


def field(reader: GGUFReader, key: str) -> Any:
    found = reader.get_field(key)
    if found is None:
        raise ValueError(f"the GGUF file has no {key}")
    return found.contents()


def optional(reader: GGUFReader, key: str) -> int:
    """A number that a file may leave out; 0 where it does."""
    found = reader.get_field(key)
    return 0 if found is None else int(found.contents())


def read_vocabulary(path: Path) -> tuple[list[str], list[str]]:
    """Token and merge lists of a GGUF file; raises ValueError where it has none."""
    reader = GGUFReader(path)
    return field(reader, "tokenizer.ggml.tokens"), field(reader, "tokenizer.ggml.merges")


def read_model(path: Path) -> Llama:
    """Load a llama-architecture GGUF without GQA, of any quantisation that `gguf` can undo, in float32."""
    reader = GGUFReader(path)
    tensors = {t.name: t for t in reader.tensors}
    config = Config(
        vocab=len(field(reader, "tokenizer.ggml.tokens")),
        width=field(reader, "llama.embedding_length"),
        layers=field(reader, "llama.block_count"),
        heads=field(reader, "llama.attention.head_count"),
        hidden=field(reader, "llama.feed_forward_length"),
        context=field(reader, "llama.context_length"),
        theta=field(reader, "llama.rope.freq_base"),
        eps=field(reader, "llama.attention.layer_norm_rms_epsilon"),
        tied="output.weight" not in tensors,
    )
    size = optional(reader, "llama.attention.key_length")
    if size not in (0, config.head_dim):
        config = replace(config, head_size=size)
    weights: dict[str, Tensor] = {}
    for theirs, ours in gguf_names(config).items():
        found = tensors[theirs]
        weight = torch.from_numpy(quants.dequantize(found.data, found.tensor_type).astype(np.float32))
        weights[ours] = deinterleave(weight, config.heads) if is_rotary(ours) else weight
    if config.tied:
        weights["head.weight"] = weights["embed.weight"]
    model = Llama(config)
    model.load_state_dict(weights)
    return model


def write_vocabulary(writer: GGUFWriter, tokenizer: Tokenizer) -> None:
    """Tokens, merges and the special ids; the pre-tokenizer is GPT-2's."""
    vocabulary = tokenizer.get_vocab()
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    llama_gguf.add_vocabulary(writer, tokens, merges_of(tokenizer), SPECIAL, vocabulary[END])
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    for key, token in zip(("fim_pre", "fim_suf", "fim_mid"), FIM, strict=True):
        writer.add_uint32(f"tokenizer.ggml.{key}_token_id", vocabulary[token])
    writer.add_chat_template(CHAT_TEMPLATE)


def merges_of(tokenizer: Tokenizer) -> list[str]:
    """The merges as `left right` strings; `tokenizers` shows them only in its JSON form."""
    return [" ".join(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]


def write_model(path: Path, model: Llama, tokenizer: Tokenizer, general: dict[str, str]) -> None:
    """Write `model` in float16 (vectors in float32); `general` holds name, author, licence and the like."""
    config = model.config
    writer = GGUFWriter(path, "llama")
    for key, value in general.items():
        writer.add_string(f"general.{key}", value)
    writer.add_languages(["en"])
    writer.add_file_type(LlamaFileType.MOSTLY_F16)
    llama_gguf.add_sizes(
        writer, layers=config.layers, width=config.width, hidden=config.hidden, heads=config.heads,
        kv_heads=config.heads, head_size=config.head_dim, context=config.context, rope_base=config.theta,
        eps=config.eps, vocab=config.vocab,
    )  # fmt: skip
    writer.add_key_length(config.head_dim)  # llama.cpp would take width / heads
    writer.add_value_length(config.head_dim)
    write_vocabulary(writer, tokenizer)
    weights = model.state_dict()
    for theirs, ours in gguf_names(config).items():
        weight = weights[ours].detach().float().cpu()
        weight = interleave(weight, config.heads) if is_rotary(ours) else weight
        kind = GGMLQuantizationType.F32 if weight.ndim == 1 else GGMLQuantizationType.F16
        writer.add_tensor(theirs, quants.quantize(weight.numpy(), kind), raw_dtype=kind)
    llama_gguf.write(writer)
