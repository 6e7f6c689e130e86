"""The llama network as functions of flat weights, in PyTorch. Knows no text.

Weights are a dictionary with the names of GGUF. Rows of queries and keys are in half-split rotary order,
which vectorises well; files have them interleaved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from gguf import GGUFReader, quants
from torch import Tensor

from tools.demo_model.vocabulary import read_field

Weights = dict[str, Tensor]
MATRICES = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
NORMS = ("attn_norm", "ffn_norm")


@dataclass(frozen=True)
class Shape:
    """Sizes of a network of the llama architecture with a tied head."""

    layers: int
    width: int
    hidden: int
    heads: int
    kv_heads: int
    rope_base: float
    eps: float

    @property
    def head_size(self) -> int:
        return self.width // self.heads

    def matrix(self, name: str) -> tuple[int, int]:
        """Return rows and columns of a matrix of a layer."""
        keys = self.kv_heads * self.head_size
        return {
            "attn_q": (self.width, self.width),
            "attn_k": (keys, self.width),
            "attn_v": (keys, self.width),
            "attn_output": (self.width, self.width),
            "ffn_gate": (self.hidden, self.width),
            "ffn_up": (self.hidden, self.width),
            "ffn_down": (self.width, self.hidden),
        }[name]


def read_model(path: Path, rows: Sequence[int] | None = None) -> tuple[Shape, Weights]:
    """Read a GGUF file of any quantisation; of the embedding, only `rows` if they are given."""
    reader = GGUFReader(path)
    shape = Shape(
        layers=read_field(reader, "llama.block_count"),
        width=read_field(reader, "llama.embedding_length"),
        hidden=read_field(reader, "llama.feed_forward_length"),
        heads=read_field(reader, "llama.attention.head_count"),
        kv_heads=read_field(reader, "llama.attention.head_count_kv"),
        rope_base=read_field(reader, "llama.rope.freq_base"),
        eps=read_field(reader, "llama.attention.layer_norm_rms_epsilon"),
    )
    weights: Weights = {}
    for tensor in reader.tensors:
        values = quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        weights[tensor.name.removesuffix(".weight")] = torch.from_numpy(values)
    for name in weights:
        if heads := rotary_heads(shape, name):
            weights[name] = split_halves(weights[name], heads)
    if rows is not None:
        weights["token_embd"] = weights["token_embd"][torch.tensor(rows)]
    return shape, weights


def rotary_heads(shape: Shape, name: str) -> int:
    """Return how many heads the rows of a matrix belong to if it is turned by its position, else 0."""
    return shape.heads if name.endswith("attn_q") else shape.kv_heads if name.endswith("attn_k") else 0


def split_halves(weight: Tensor, heads: int) -> Tensor:
    """Return rows in half-split rotary order, from interleaved ones."""
    return weight.view(heads, weight.shape[0] // heads // 2, 2, -1).transpose(1, 2).reshape(weight.shape)


def interleave(weight: Tensor, heads: int) -> Tensor:
    """Return rows in interleaved rotary order, from half-split ones."""
    return weight.view(heads, 2, weight.shape[0] // heads // 2, -1).transpose(1, 2).reshape(weight.shape)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps) * weight).to(x.dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = (half.float() for half in x.chunk(2, -1))
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(x.dtype)


def run_layer(
    x: Tensor, cos: Tensor, sin: Tensor, shape: Shape, norms: Sequence[Tensor], matrices: Sequence[Tensor]
) -> Tensor:
    """Return the residual stream after one layer: causal attention and SwiGLU, both behind a norm."""
    rows, length, _ = x.shape
    q_rows, k_rows, v_rows, out, gate, up, down = matrices

    def project(weight: Tensor, heads: int) -> Tensor:
        return F.linear(h, weight).view(rows, length, heads, shape.head_size).transpose(1, 2)

    h = rms_norm(x, norms[0], shape.eps)
    q = rotate(project(q_rows, shape.heads), cos, sin)
    k = rotate(project(k_rows, shape.kv_heads), cos, sin)
    v = project(v_rows, shape.kv_heads)
    shared = shape.heads // shape.kv_heads
    k, v = (part.repeat_interleave(shared, dim=1) for part in (k, v))
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + F.linear(mixed.transpose(1, 2).reshape(rows, length, shape.width), out)
    h = rms_norm(x, norms[1], shape.eps)
    return x + F.linear(F.silu(F.linear(h, gate)) * F.linear(h, up), down)


def round_q4_0(flat: Tensor) -> Tensor:
    """Return weights as Q4_0 keeps them, rounded as llama.cpp rounds: blocks of 32, a half-float scale."""
    blocks = flat.view(-1, 32)
    largest = blocks.gather(1, blocks.abs().argmax(1, keepdim=True)) / -8
    inverse = torch.where(largest != 0, 1 / largest, torch.zeros_like(largest))
    steps = torch.clamp(torch.floor(blocks * inverse + 8.5), 0, 15)
    return ((steps - 8) * largest.half().float()).view(flat.shape)


class Network:
    """A network in training.

    The optimizer moves three flat float32 tensors (matrices, embedding, norms); the network computes with
    bfloat16 views of a copy. With `quantised` the copy of the matrices is rounded to Q4_0, while what is
    trained is not.
    """

    def __init__(self, shape: Shape, weights: Weights, layers: Sequence[int], device: str) -> None:
        self.shape, self.layers, self.quantised = shape, tuple(layers), False
        names = [f"blk.{layer}.{name}" for layer in layers for name in MATRICES]
        norms = [f"blk.{layer}.{name}" for layer in layers for name in NORMS] + ["output_norm"]
        self.matrices = torch.cat([weights[name].reshape(-1) for name in names]).float().to(device)
        self.embedding = weights["token_embd"].float().to(device).clone()
        self.norms = torch.stack([weights[name] for name in norms]).float().to(device)
        self.copies = self.matrices.bfloat16(), self.embedding.bfloat16(), self.norms.clone()
        for copy in self.copies:
            copy.requires_grad_()
        self.sizes = [rows * columns for rows, columns in map(shape.matrix, MATRICES)] * len(self.layers)
        steps = torch.arange(0, shape.head_size, 2, dtype=torch.float64) / shape.head_size
        angles = torch.outer(torch.arange(4096, dtype=torch.float64), shape.rope_base**-steps)
        self.cos, self.sin = angles.cos().float().to(device), angles.sin().float().to(device)
        self.run_layer: Callable[..., Tensor] = run_layer

    def views(self) -> list[list[Tensor]]:
        """Return the matrices of each layer, as the network computes with them."""
        parts = self.copies[0].split(self.sizes)
        shaped = [part.view(self.shape.matrix(MATRICES[i % 7])) for i, part in enumerate(parts)]
        return [shaped[i : i + 7] for i in range(0, len(shaped), 7)]

    def embed(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.copies[1])

    def run_layers(self, x: Tensor, layers: Sequence[int]) -> Tensor:
        """Return the residual stream after some layers, counted from 0 in this network."""
        cos, sin = self.cos[: x.shape[1]], self.sin[: x.shape[1]]
        views, norms = self.views(), self.copies[2]
        for i in layers:
            x = self.run_layer(x, cos, sin, self.shape, norms[2 * i : 2 * i + 2], views[i])
        return x

    def hidden(self, ids: Tensor) -> Tensor:
        """Return the residual stream after the last layer."""
        return self.run_layers(self.embed(ids), range(len(self.layers)))

    def logits(self, x: Tensor) -> Tensor:
        return F.linear(rms_norm(x, self.copies[2][-1], self.shape.eps), self.copies[1]).float()

    def make_optimizer(self) -> torch.optim.AdamW:
        groups = [
            {"params": [self.matrices], "weight_decay": 0.1},
            {"params": [self.embedding, self.norms], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, betas=(0.9, 0.95), fused=self.matrices.is_cuda)

    @torch.no_grad()
    def step(self, optimizer: torch.optim.AdamW, rate: float) -> None:
        """Move the weights along the gradients of the copies, norm bounded by 1, and renew the copies."""
        masters = self.matrices, self.embedding, self.norms
        for master, copy in zip(masters, self.copies, strict=True):
            assert copy.grad is not None
            master.grad = copy.grad.float()
            copy.grad = None
        torch.nn.utils.clip_grad_norm_(masters, 1.0)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        self.renew_copies()

    @torch.no_grad()
    def renew_copies(self) -> None:
        rounded = round_q4_0(self.matrices) if self.quantised else self.matrices
        for copy, master in zip(self.copies, (rounded, self.embedding, self.norms), strict=True):
            copy.copy_(master)

    def weights(self) -> Weights:
        """Return the trained weights, layers numbered from 0."""
        result: Weights = {"token_embd": self.embedding, "output_norm": self.norms[-1]}
        for i, part in enumerate(self.matrices.split(self.sizes)):
            name = MATRICES[i % 7]
            result[f"blk.{i // 7}.{name}"] = part.view(self.shape.matrix(name))
        for i, norm in enumerate(self.norms[:-1]):
            result[f"blk.{i // 2}.{NORMS[i % 2]}"] = norm
        return result
