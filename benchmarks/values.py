"""Whether a result is right: a reference in float64 or int64, and what rounding may cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

# Dtypes that torch cannot reduce, with the nearest one that holds their values and that it can.
WIDER = {
    torch.float8_e4m3fn: torch.float32,
    torch.float8_e5m2: torch.float32,
    torch.bool: torch.uint8,
    torch.uint16: torch.int64,
    torch.uint32: torch.int64,
    torch.uint64: torch.int64,  # a large one wraps, as the sum in int64 does
}
TOP_BIT = -(2**63)


@dataclass(frozen=True)
class Verdict:
    """How a result compares with the reference."""

    wrong: bool
    error: float
    """The largest distance from the reference."""
    bound: float
    """What rounding may cost, before the result is rounded to its dtype."""


def is_inexact(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else torch.int64


def pieces(x: torch.Tensor, limit: int = 2**24) -> Iterator[torch.Tensor]:
    """Parts that make up `x`, few enough elements each to be converted without much memory."""
    if x.numel() <= limit:
        yield x
        return
    dim = max(range(x.dim()), key=lambda d: x.size(d))
    for part in x.tensor_split(2, dim):
        yield from pieces(part, limit)


def total(
    x: torch.Tensor, dtype: torch.dtype, f: Callable[[torch.Tensor], torch.Tensor] = lambda t: t
) -> torch.Tensor:
    """The sum of f of the elements, which are converted to `dtype` before."""
    return torch.stack([f(piece.to(dtype)).sum() for piece in pieces(x)]).sum()


def inexact_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.complex128 if dtype.is_complex else torch.float64


def reference(op: str, x: torch.Tensor, dim: int | None = None) -> torch.Tensor:
    """The result in float64, complex128 or int64, computed with torch alone."""
    if op in ("sum", "mean"):
        wide = wide_dtype(x.dtype) if op == "sum" else inexact_dtype(x.dtype)
        if dim is None:
            result, count = total(x, wide), x.numel()
        else:
            result, count = x.to(WIDER.get(x.dtype, x.dtype)).sum(dim, dtype=wide), x.size(dim)
        return result if op == "sum" else result / count
    if op in ("var", "stats", "logsumexp", "norm3"):
        return _float_reference(op, x, dim)
    unsigned = x.dtype == torch.uint64
    # With its top bit flipped an uint64 compares as an int64.
    comparable = x.view(torch.int64) ^ TOP_BIT if unsigned else x.to(WIDER.get(x.dtype, x.dtype))
    dims = list(range(x.dim())) if dim is None else [dim]
    largest = torch.amax(comparable, dims, keepdim=True)
    if op == "amax":
        largest = largest.squeeze(dims)
        return largest ^ TOP_BIT if unsigned else largest.to(wide_dtype(x.dtype))
    # The first of equal maxima, NaN being the largest of all.
    hit = comparable == largest
    if comparable.dtype.is_floating_point:
        hit |= comparable.isnan()
    if dim is None:
        return hit.reshape(-1).nonzero()[0, 0]
    index = torch.arange(x.size(dim), device=x.device)
    index = index.view([-1 if i == dim % x.dim() else 1 for i in range(x.dim())])
    return torch.where(hit, index, x.size(dim)).amin(dim)


def _float_reference(op: str, x: torch.Tensor, dim: int | None) -> torch.Tensor:
    functions: dict[str, Callable[[torch.Tensor, list[int]], torch.Tensor]] = {
        "logsumexp": torch.logsumexp,
        "norm3": lambda t, dims: torch.linalg.vector_norm(t, 3, dims),
    }
    dims = list(range(x.dim())) if dim is None else [dim]
    return functions.get(op, torch.var)(x.to(torch.float64), dims)


def order_depth(length: int, item_bytes: int) -> int:
    """The most additions that an element of a sum goes through in gpureduce's order.

    A lane takes the elements of a leaf one after the other, then lanes and leaves fold in halves.
    """
    power_of_two = 1 << max(0, length * item_bytes - 1).bit_length()
    leaf_bytes = max(16384, power_of_two // 512)
    per_lane = math.ceil(1.5 * leaf_bytes / min(4096, 2048 * item_bytes))
    return per_lane + 2 * (length + 1).bit_length()


def rounding_bound(
    op: str, x: torch.Tensor, length: int, depth: int, expected: torch.Tensor, worst_case: bool
) -> float:
    """How far a sum or mean of `length` of the values in `x` may be from the exact one.

    Worst case: every addition rounds against us, depth * u * sum |x|. For data drawn at random
    about zero that is orders too wide to notice a lost element. There the roundings, like the
    partial sums that they are a share of, add up as random walks do, and eight standard deviations
    of that are the bound: 8 * u * rms * sqrt(length * depth).
    """
    exact = op in ("amax", "argmax") or (op == "sum" and not is_inexact(x.dtype))
    if exact or x.numel() == 0:
        return 0.0
    unit = 2.0**-53 if x.dtype in (torch.float64, torch.complex128) else 2.0**-24
    if op in ("var", "stats", "logsumexp", "norm3"):
        return _float_bound(op, unit, length, depth, float(expected.abs().max()), worst_case)
    if worst_case:
        magnitude = float(total(x, inexact_dtype(x.dtype), torch.abs))
        bound = depth * unit * magnitude * (length / x.numel())
    else:
        square = float(total(x, inexact_dtype(x.dtype), lambda t: t.abs().square()))
        rms = math.sqrt(square / x.numel())
        bound = 8 * unit * rms * math.sqrt(length * depth)
    if op == "mean":  # and the division rounds, by a length that may have been rounded too
        bound = bound / length + 2 * unit * float(expected.abs().max())
    # With inf or NaN among the values there is nothing to round.
    return bound if math.isfinite(bound) else 0.0


def _float_bound(
    op: str, unit: float, length: int, depth: int, size: float, worst_case: bool
) -> float:
    """Of the ops that sum squares, exponentials and powers: what docs/accuracy.md derives, where
    the roundings of the sum are again those of a random walk. `size`: of the largest result.
    """
    of_sum = depth * unit if worst_case else 8 * unit * math.sqrt(depth / length)
    if op in ("var", "stats"):
        bound = (48 * of_sum + 6 * unit) * size
    elif op == "logsumexp":
        bound = of_sum + unit * (3 * (70 + size + 1 + math.log(length)) + 4)
    else:
        farthest = (24 + math.log2(length)) / 3
        bound = (of_sum / 3 + unit * (math.log(2) * (6 + 2 * farthest) + 4)) * size
    return bound if math.isfinite(bound) else 0.0


def compare(result: torch.Tensor, expected: torch.Tensor, bound: float) -> Verdict:
    """Right is what lies between expected - bound and expected + bound, rounded as the result is.

    Rounding is monotonic, so that holds for every dtype, overflow to inf or NaN included.
    """
    if result.shape != expected.shape:
        return Verdict(True, math.inf, bound)
    if result.numel() == 0:
        return Verdict(False, 0.0, bound)
    if not is_inexact(expected.dtype):
        got = result.to(torch.int64)
        distance = (got.to(torch.float64) - expected.to(torch.float64)).abs().max()
        return Verdict(not torch.equal(got, expected), float(distance), bound)
    if result.is_complex():
        result, expected = torch.view_as_real(result), torch.view_as_real(expected)
    value = result.to(torch.float64)
    low, high = ((expected + b).to(result.dtype).to(torch.float64) for b in (-bound, bound))
    above, below = (value >= low) | low.isnan(), (value <= high) | high.isnan()
    right = torch.where(
        value.isnan(), low.isnan() | high.isnan(), above & below & ~(low.isnan() & high.isnan())
    )
    # An infinity or NaN that is right has no distance.
    error = torch.where(right & ~value.isfinite(), 0.0, (value - expected).abs())
    return Verdict(not bool(right.all()), float(error.max()), bound)
