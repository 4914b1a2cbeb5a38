"""What is measured: the cases as data, and the tensors and calls that they stand for."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from benchmarks.values import is_inexact

FLOATS = ("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
INTEGERS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
COMPLEX = ("complex64", "complex128")

OURS, TORCH = "gpureduce", "torch"
OPS = ("sum", "mean", "amax", "argmax")  # of every dtype
FLOAT_OPS = ("var", "logsumexp", "norm3", "stats")

Reduce = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Case:
    """One call of one op on one tensor."""

    group: str
    op: str
    shape: tuple[int, ...]
    dtype: str
    dim: int | None = None
    quick: bool = False
    """Whether `--quick` measures it."""

    @property
    def name(self) -> str:
        shape = "x".join(str(size) for size in self.shape)
        dim = "" if self.dim is None else f" dim={self.dim}"
        return f"{self.op}{dim} {shape} {self.dtype}"

    @property
    def torch_dtype(self) -> torch.dtype:
        dtype: torch.dtype = getattr(torch, self.dtype)
        return dtype

    @property
    def input_bytes(self) -> int:
        return math.prod(self.shape) * self.torch_dtype.itemsize

    @property
    def num_outputs(self) -> int:
        return 1 if self.dim is None else math.prod(self.shape) // self.shape[self.dim]

    @property
    def bytes_moved(self) -> int:
        """Bytes that have to be read and written, whoever does it."""
        result = result_dtype(self.op, self.torch_dtype)
        return self.input_bytes + self.num_outputs * result.itemsize


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def result_dtype(op: str, dtype: torch.dtype) -> torch.dtype:
    if op == "argmax":
        return torch.int64
    if op == "amax":
        return dtype
    if op == "stats":
        return torch.float64 if dtype == torch.float64 else torch.float32
    if is_inexact(dtype):
        return dtype
    # A mean of integers has no dtype by default: float32 is asked for.
    return torch.float32 if op == "mean" else torch.int64


def arguments(op: str, dtype: torch.dtype, dim: int | None) -> dict[str, object]:
    """The keyword arguments of the op's call, the same for torch and for gpureduce."""
    result: dict[str, object] = {} if dim is None else {"dim": dim}
    if op == "mean" and not is_inexact(dtype):
        result["dtype"] = torch.float32
    return result


def bind(function: Callable[..., torch.Tensor], keywords: dict[str, object]) -> Reduce:
    """`function` of one tensor, called as people call it: dim by position, nothing superfluous."""
    if not keywords:
        return lambda x: function(x)
    if set(keywords) == {"dim"}:
        dim = keywords["dim"]
        return lambda x: function(x, dim)
    return lambda x: function(x, **keywords)


def ours(op: str, dtype: torch.dtype, dim: int | None = None) -> Reduce:
    ops = torch.ops.gpureduce
    if op == "norm3":
        return lambda x: ops.norm(x, 3, dim)
    if op == "stats":
        return lambda x: ops.stats(x, dim)[3]
    return bind(getattr(ops, op), arguments(op, dtype, dim))


def theirs(op: str, dtype: torch.dtype, dim: int | None = None) -> Reduce:
    if op == "norm3":
        return lambda x: torch.linalg.vector_norm(x, 3, dim)
    if op == "stats":
        return lambda x: _stats_of_torch(x, dim)
    if op == "logsumexp" and dim is None:  # torch's needs a dim
        return lambda x: torch.logsumexp(x, tuple(range(x.dim())))
    return bind(getattr(torch, op), arguments(op, dtype, dim))


def _stats_of_torch(x: torch.Tensor, dim: int | None) -> torch.Tensor:
    """The calls that tell what `stats` tells; the variance stands for all of it."""
    torch.sum(x, dim)
    torch.aminmax(x, dim=dim)
    torch.argmin(x, dim)
    torch.argmax(x, dim)
    torch.sum(torch.isnan(x), dim)
    torch.sum(torch.isinf(x), dim)
    variance, _ = torch.var_mean(x, dim)
    return variance.to(result_dtype("stats", x.dtype))


def random_tensor(
    shape: tuple[int, ...], dtype: torch.dtype, device: str, generator: torch.Generator
) -> torch.Tensor:
    """Normal floats, small integers of both signs where there are, fair booleans.

    Never zeros, whose bits all agree: the power that a GPU draws, and so its clock, depends on
    them. Drawn in a dtype that torch can draw and converted piece by piece, so that a tensor of
    many GiB needs no second one of its size.
    """
    result = torch.empty(shape, dtype=dtype, device=device)
    flat, step = result.view(-1), 2**26
    for start in range(0, flat.numel(), step):
        piece = flat[start : start + step]
        if is_inexact(dtype):
            drawable = dtype if dtype.itemsize > 1 else torch.float32
            piece.copy_(
                torch.randn(piece.shape, dtype=drawable, device=device, generator=generator)
            )
        else:
            low = -50 if dtype.is_signed else 0
            high = 2 if dtype == torch.bool else 50
            piece.copy_(
                torch.randint(
                    low, high, piece.shape, dtype=torch.int32, device=device, generator=generator
                )
            )
    return result


# ---- the list

SIZES = [10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30]  # log2 of elements
ROWS = [
    (2**23, 8),
    (2**20, 64),
    (2**17, 512),
    (16384, 4096),
    (4096, 16384),
    (128, 2**19),
    (8, 2**23),
    (1000, 37000),
    (100_003, 257),
]
COLUMNS = [
    (2**23, 8),
    (2**20, 64),
    (16384, 4096),
    (4096, 16384),
    (64, 2**20),
    (2**24, 3),
    (37000, 1000),
    (512, 512),
]
LINES = [  # what is done to rows and columns
    ("sum", "float32"),
    ("sum", "bfloat16"),
    ("mean", "float16"),
    ("amax", "float32"),
    ("argmax", "float32"),
]
QUICK_DTYPES = ("float16", "bfloat16", "int8", "bool", "float8_e4m3fn")
QUICK_SHAPES = ((2**20, 64), (16384, 4096))
FLOAT_OP_SHAPES = ((2**20, 64), (16384, 4096), (1000, 37000), (64, 2**20))


def _shrunk(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A sixteenth of it along the longest dim: a CPU reads that much slower than a GPU, or more."""
    longest = shape.index(max(shape))
    return tuple(max(1, n // 16) if i == longest else n for i, n in enumerate(shape))


def all_cases(device: str) -> list[Case]:
    """The cases for a `device`; those for the CPU are smaller."""

    def sized(shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape if device == "cuda" else _shrunk(shape)

    cases = []
    for k in SIZES if device == "cuda" else [k for k in SIZES if k <= 26]:
        for dtype in ("float32", "bfloat16"):
            quick = dtype == "float32" and k in (10, 16, 20, 24, 26)
            cases.append(Case("sizes", "sum", (2**k,), dtype, quick=quick))
    for op in ("mean", "amax", "argmax"):
        for k in (12, 20, 24, 28) if device == "cuda" else (12, 16, 20, 24):
            cases.append(Case("sizes", op, (2**k,), "float32", quick=k == 24))
    for op in FLOAT_OPS:
        for k in (12, 20, 28) if device == "cuda" else (12, 16, 20):
            for dtype in ("float32", "bfloat16"):
                quick = k == 20 and dtype == "float32"
                cases.append(Case("sizes", op, (2**k,), dtype, quick=quick))
    for dtype in (*FLOATS, *INTEGERS, *COMPLEX):
        for op in ("sum", "amax", "argmax"):
            if op != "sum" and dtype in COMPLEX:
                continue  # they have no order
            quick = op == "sum" and dtype in QUICK_DTYPES
            cases.append(Case("dtypes", op, sized((2**26 - 1024,)), dtype, quick=quick))
    for group, dim, shapes in (("rows", -1, ROWS), ("columns", 0, COLUMNS)):
        for shape in shapes:
            for op, dtype in LINES:
                quick = shape in QUICK_SHAPES and dtype == "float32"
                cases.append(Case(group, op, sized(shape), dtype, dim, quick))
            if shape in FLOAT_OP_SHAPES:
                cases += [
                    Case(group, op, sized(shape), dtype, dim)
                    for op in FLOAT_OPS
                    for dtype in ("float32", "bfloat16")
                ]
    return cases


# Host time does not depend on the tensor: small ones, in the forms that a call is written in.
HOST_CALLS: dict[str, tuple[str, tuple[int, ...], tuple[object, ...]]] = {
    "sum(x)": ("sum", (64,), ()),
    "sum(m, -1)": ("sum", (8, 8), (-1,)),
    "sum(m, [0, 1], True)": ("sum", (8, 8), ([0, 1], True)),
    "mean(x)": ("mean", (64,), ()),
    "amax(m, -1)": ("amax", (8, 8), (-1,)),
    "argmax(x)": ("argmax", (64,), ()),
}
