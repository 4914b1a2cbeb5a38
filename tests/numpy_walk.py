"""The order of combination (docs/order.md) once more, in NumPy, written from its description alone.

It is the third implementation beside the CUDA kernels and the CPU loops, and the one to read: no
threads, no vector width, no layout. `expected` gives the result that `torch.ops.gpureduce.sum` and
`.mean` must have, to the bit, for any view of any real or complex floating-point accumulation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from dtypes import accumulator, to_dtype

Dims = int | Sequence[int] | None


def p2(x: int) -> int:
    """The next power of two."""
    return 1 << max(0, x - 1).bit_length()


@dataclass(frozen=True)
class Order:
    lanes: int
    leaf: int
    num_leaves: int


def order(n: int, size: int) -> Order:
    """How `n` elements of `size` bytes are cut: lanes of a leaf, elements of a leaf, leaves."""
    if math.ceil(n * size / 16) <= 32:
        lanes = p2(n)
    else:
        lanes = max(512 // size, min(p2(math.ceil(n / 4)), 4096 // size, 2048))
    leaf = max(16384, p2(n * size) // 512) // size
    return Order(lanes, leaf, max(1, (n + leaf // 2) // leaf))


def halves(a: np.ndarray) -> np.ndarray:
    """Folds the last axis: its upper half onto its lower half until one value is left."""
    while a.shape[-1] > 1:
        half = a.shape[-1] // 2
        a = a[..., :half] + a[..., half:]
    return a[..., 0]


def leaf_values(leaves: np.ndarray, num_lanes: int) -> np.ndarray:
    """The value of each leaf; a leaf lies along the last axis."""
    lanes = np.zeros((*leaves.shape[:-1], num_lanes), leaves.dtype)
    for start in range(0, leaves.shape[-1], num_lanes):
        piece = leaves[..., start : start + num_lanes]
        lanes[..., : piece.shape[-1]] += piece
    return halves(lanes)


def walk(values: np.ndarray, size: int) -> np.ndarray:
    """The sum of each row of `values` (rows, n), whose elements took `size` bytes each in the
    input.
    """
    rows, n = values.shape
    how = order(n, size)
    split = (how.num_leaves - 1) * how.leaf
    partials = np.zeros((rows, p2(how.num_leaves)), values.dtype)
    with np.errstate(all="ignore"):
        if split:
            equal = values[:, :split].reshape(rows, how.num_leaves - 1, how.leaf)
            partials[:, : how.num_leaves - 1] = leaf_values(equal, how.lanes)
        partials[:, how.num_leaves - 1] = leaf_values(values[:, split:], how.lanes)
        return halves(partials)


def dim_list(ndim: int, dim: Dims) -> list[int]:
    """The reduced dims as indices from 0; both None and an empty list mean all of them."""
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return list(range(ndim))
    dims = [dim] if isinstance(dim, int) else list(dim)
    return sorted(d % ndim for d in dims) if ndim else []


def result_shape(shape: Sequence[int], dim: Dims, keepdim: bool) -> list[int]:
    reduced = dim_list(len(shape), dim)
    kept = [1 if d in reduced else size for d, size in enumerate(shape)]
    return kept if keepdim else [size for d, size in enumerate(kept) if d not in reduced]


def in_walking_order(t: torch.Tensor, dim: Dims) -> torch.Tensor:
    """`t` as (results, n): what one result is made of lies in the order in which it is walked."""
    reduced = dim_list(t.dim(), dim)
    kept = [d for d in range(t.dim()) if d not in reduced]
    strides = t.stride()
    reduced.sort(key=lambda d: (-strides[d], d))
    n = math.prod(t.shape[d] for d in reduced)
    return t.permute(kept + reduced).reshape(math.prod(t.shape[d] for d in kept), n)


@dataclass(frozen=True)
class Walked:
    """The accumulated sums of a tensor, before a result is made of them."""

    totals: np.ndarray
    n: int
    dtype: torch.dtype
    shape: list[int]

    def result(self, op: str) -> torch.Tensor:
        """The result of "sum" or "mean": finished in the accumulator's type, rounded once."""
        # A complex number is a pair: NumPy's complex division would round more.
        real = self.totals.view(self.totals.real.dtype).copy()
        if op == "mean":
            with np.errstate(all="ignore"):
                real /= real.dtype.type(self.n)
        # One NaN: the operations of an x86 processor and of a GPU make different ones.
        real[np.isnan(real)] = math.nan
        totals = torch.from_numpy(real.view(self.totals.dtype))
        return to_dtype(totals, self.dtype).reshape(self.shape)


def walked(
    t: torch.Tensor, dim: Dims = None, keepdim: bool = False, dtype: torch.dtype | None = None
) -> Walked:
    """Walks a view whose sums are floating-point or complex numbers."""
    rows = in_walking_order(t, dim).cpu()
    result = dtype or t.dtype
    converted = to_dtype(to_dtype(rows, result), accumulator(result)).numpy()
    shape = result_shape(t.shape, dim, keepdim)
    return Walked(walk(converted, t.element_size()), rows.shape[1], result, shape)


def expected(
    op: str,
    t: torch.Tensor,
    dim: Dims = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """What `op` ("sum" or "mean") must give for these arguments, on the CPU."""
    return walked(t, dim, keepdim, dtype).result(op)
