"""The order of combination (docs/order.md) once more, in NumPy, written from its description alone.

It is the third implementation beside the CUDA kernels and the CPU loops, and the one to read: no
threads, no vector width, no layout. `expected` gives the result that each op whose order is
promised must have, to the bit, for any view of any real or complex floating-point accumulation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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


def order(n: int, size: int, wide_lane: bool = False) -> Order:
    """How `n` elements of `size` bytes are cut: lanes of a leaf, elements of a leaf, leaves."""
    most = 2048 if wide_lane else 4096
    if math.ceil(n * size / 16) <= 32:
        lanes = p2(n)
    else:
        lanes = max(512 // size, min(p2(math.ceil(n / 4)), most // size, 2048))
    leaf = max(16384, p2(n * size) // 512) // size
    return Order(lanes, leaf, max(1, (n + leaf // 2) // leaf))


Merge = Callable[[np.ndarray, np.ndarray], np.ndarray]


def halves(a: np.ndarray, merge: Merge = np.add) -> np.ndarray:
    """Folds the last axis: its upper half onto its lower half until one value is left."""
    while a.shape[-1] > 1:
        half = a.shape[-1] // 2
        a = merge(a[..., :half], a[..., half:])
    return a[..., 0]


def leaf_values(leaves: np.ndarray, num_lanes: int, merge: Merge, identity: float) -> np.ndarray:
    """The value of each leaf; a leaf lies along the last axis."""
    lanes = np.full((*leaves.shape[:-1], num_lanes), identity, leaves.dtype)
    for start in range(0, leaves.shape[-1], num_lanes):
        piece = leaves[..., start : start + num_lanes]
        taken = slice(piece.shape[-1])
        lanes[..., taken] = merge(lanes[..., taken], piece)
    return halves(lanes, merge)


def walk(
    values: np.ndarray,
    size: int,
    merge: Merge = np.add,
    identity: float = 0,
    wide_lane: bool = False,
) -> np.ndarray:
    """The sum (or what `merge` makes) of each row of `values` (rows, n), whose elements took `size`
    bytes each in the input.
    """
    rows, n = values.shape
    how = order(n, size, wide_lane)
    split = (how.num_leaves - 1) * how.leaf
    partials = np.full((rows, p2(how.num_leaves)), identity, values.dtype)
    with np.errstate(all="ignore"):
        if split:
            equal = values[:, :split].reshape(rows, how.num_leaves - 1, how.leaf)
            partials[:, : how.num_leaves - 1] = leaf_values(equal, how.lanes, merge, identity)
        partials[:, how.num_leaves - 1] = leaf_values(values[:, split:], how.lanes, merge, identity)
        return halves(partials, merge)


def times(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product; of complex numbers by the rule of school, and exactly 1 + 0i changes nothing."""
    if not np.iscomplexobj(a):
        return a * b
    real, imaginary = a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real
    product = np.empty_like(a)
    product.real, product.imag = real, imaginary
    one_a, one_b = ((x.real == 1) & (x.imag == 0) & ~np.signbit(x.imag) for x in (a, b))
    return np.where(one_a, b, np.where(one_b, a, product))


def magnitude(x: np.ndarray) -> np.ndarray:
    if not np.iscomplexobj(x):
        return np.abs(x)
    if x.dtype == np.complex64:
        re, im = x.real.astype(np.float64), x.imag.astype(np.float64)
        return np.sqrt(re * re + im * im).astype(np.float32)
    larger = np.maximum(np.abs(x.real), np.abs(x.imag))
    power = np.where(larger > 2.0**500, -600, np.where(larger < 2.0**-400, 600, 0))
    re, im = np.ldexp(x.real, power), np.ldexp(x.imag, power)
    return np.ldexp(np.sqrt(re * re + im * im), -power)


def leaf_slices(how: Order, n: int) -> list[slice]:
    starts = [leaf * how.leaf for leaf in range(how.num_leaves)]
    return [slice(a, b) for a, b in zip(starts, [*starts[1:], n], strict=True)]


def add_scaled(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of (sum, exponent) pairs along the first axis: sum * 2^exponent, with the larger exponent."""
    exponent = np.maximum(a[1], b[1])
    total = sum(np.ldexp(x[0], (x[1] - exponent).astype(int)) for x in (a, b))
    return np.stack([total, exponent])


def root_of_squares(values: np.ndarray, size: int, scaled: bool) -> np.ndarray:
    """Order 2. Where squares may be out of range (`scaled`), a leaf whose sum is too large or too
    small is walked again with elements scaled by a power of two. Leaves add up in float64.
    """
    parts = [values.real, values.imag] if np.iscomplexobj(values) else [values]
    real = parts[0].dtype.type
    how = order(values.shape[1], size)
    single = real == np.float32
    usual, down, up, large, small = (
        (20, -80, 100, 120, -120) if single else (0, -600, 600, 1000, -960)
    )
    if not scaled:
        usual = 0

    partials = np.zeros((2, len(values), p2(how.num_leaves)))
    partials[1] = 0 if single else -(2**20)  # of what is not there no exponent counts
    for leaf, where in enumerate(leaf_slices(how, values.shape[1])):

        def squares(power: int, where: slice = where) -> np.ndarray:
            scale = real(2.0**power)
            total = np.square(parts[0][:, where] * scale)
            for part in parts[1:]:
                total = total + np.square(part[:, where] * scale)
            return leaf_values(total, how.lanes, np.add, 0)

        total, power = squares(usual), np.full(len(values), usual)
        if scaled:
            is_large = ~(total <= 2.0**large)
            is_small = total < (where.stop - where.start) * 2.0**small
            total = np.where(is_large, squares(down), np.where(is_small, squares(up), total))
            power = np.where(is_large, down, np.where(is_small, up, usual))
        total = total.astype(np.float64)
        partials[:, :, leaf] = (
            (np.ldexp(total, -2 * power), 0 * power) if single else (total, -2 * power)
        )
    total, exponent = halves(partials, add_scaled)
    return np.ldexp(np.sqrt(total), (exponent / 2).astype(int)).astype(real)


@dataclass(frozen=True)
class Parts:
    """What leaves leave behind, (rows, leaves): counts, means by real and imaginary part, sums of
    squared distances from them.
    """

    count: np.ndarray
    mean: list[np.ndarray]
    squares: np.ndarray

    def half(self, upper: bool) -> Parts:
        n = self.count.shape[-1] // 2
        take = slice(n, None) if upper else slice(n)
        return Parts(
            self.count[..., take], [m[..., take] for m in self.mean], self.squares[..., take]
        )


def merge_parts(a: Parts, b: Parts) -> Parts:
    """As Chan, Golub and LeVeque merge them; without a division where counts or means are equal."""
    away = [x - y for x, y in zip(a.mean, b.mean, strict=True)]
    apart = sum_of_squares(away)
    count = a.count + b.count
    share_a, share_b = a.count * (1 / count), b.count * (1 / count)
    equal = (a.count == b.count) | np.logical_and.reduce([d == 0 for d in away])
    weight = np.where(equal, a.count * 0.5, a.count * share_b)
    squares = (a.squares + b.squares) + apart * weight
    means = [
        np.where(equal, (x + y) * 0.5, x * share_a + y * share_b)
        for x, y in zip(a.mean, b.mean, strict=True)
    ]

    def present(merged: np.ndarray, of_a: np.ndarray, of_b: np.ndarray) -> np.ndarray:
        return np.where(a.count == 0, of_b, np.where(b.count == 0, of_a, merged))

    return Parts(
        count,
        [present(m, x, y) for m, x, y in zip(means, a.mean, b.mean, strict=True)],
        present(squares, a.squares, b.squares),
    )


def product(a: list[np.ndarray], b: list[np.ndarray]) -> np.ndarray:
    """Of numbers, or of complex ones that point the same way, by real and imaginary part."""
    total = a[0] * b[0]
    for x, y in zip(a[1:], b[1:], strict=True):
        total = total + x * y
    return total


def sum_of_squares(parts: list[np.ndarray]) -> np.ndarray:
    return product(parts, parts)


USUAL, DOWN, UP = 20, -80, 100  # powers of two that elements are taken times


def settled(shift: np.ndarray) -> np.ndarray:
    """What distances are measured from: nothing so small that a product's lost bits would show."""
    return np.where(np.abs(shift) < 2.0**-100, shift.dtype.type(0), shift)


def leaf_moments(
    parts: list[np.ndarray], num_lanes: int, size: int, scaled: bool, root: bool
) -> Parts:
    """Of one leaf of each row, whose real and imaginary parts are (rows, n): distances from the
    mean of the first 16 bytes (8 elements at most) and their squares are summed, and again with
    another scale or from another place where these sums are of no use.
    """
    real = parts[0].dtype.type
    rows, n = parts[0].shape
    power = np.full(rows, USUAL if scaled else 0)
    up = real(2.0**USUAL if scaled else 1)
    samples = max(1, min(8, 16 // size))
    taken = np.minimum(np.arange(samples), n - 1)
    firsts = [p[:, 0] * up for p in parts]
    shifts = [halves(p[:, taken], np.add) * (real(1) / real(samples)) * up for p in parts]
    for otherwise in (firsts, [np.zeros(rows, real)] * len(parts)):
        finite = np.logical_and.reduce([np.isfinite(shift) for shift in shifts])
        shifts = [np.where(finite, s, o) for s, o in zip(shifts, otherwise, strict=True)]
    centred = np.zeros(rows, int)
    most = 0.6875 if n < 2048 else 0.875 if n < 65536 else 0.9375
    while True:
        scale = np.exp2(power.astype(np.float64)).astype(real)[:, None]
        away = [p * scale - shift[:, None] for p, shift in zip(parts, shifts, strict=True)]
        sums = [leaf_values(d, num_lanes, np.add, 0) for d in away]
        squares = leaf_values(sum_of_squares(away), num_lanes, np.add, 0)
        means = [t * (real(1) / real(n)) for t in sums]
        again = np.zeros(rows, bool)
        if scaled:
            large = ~(squares <= real(2.0**120))
            small = squares < real(n) * real(2.0**-120)
            small &= (sum_of_squares(shifts) < 1) & root
            again = (power == USUAL) & (large | small)
            other = np.where(again, np.where(large, DOWN, UP), power)
            by = np.exp2((other - power).astype(np.float64)).astype(real)
            shifts = [np.where(again, settled(shift * by), shift) for shift in shifts]
            power = other
        far = ~again & (centred < 2) & (product(means, sums) > real(most) * squares)
        moved = [s + mean for s, mean in zip(shifts, means, strict=True)]
        moved = [settled(shift) for shift in moved] if scaled else moved
        shifts = [np.where(far, m, s) for m, s in zip(moved, shifts, strict=True)]
        centred = centred + far
        if not (again | far).any():
            break
    back = np.exp2(-power.astype(np.float64))
    sums = [t.astype(np.float64) for t in sums]
    means = [t * (1 / n) for t in sums]
    left = squares.astype(np.float64) - product(means, sums)
    return Parts(
        np.full(rows, float(n)),
        [(s.astype(np.float64) + mean) * back for s, mean in zip(shifts, means, strict=True)],
        np.where(left < 0, 0.0, left) * back * back,
    )


def moments(
    values: np.ndarray, size: int, scaled: bool, root: bool
) -> tuple[np.ndarray, list[np.ndarray]]:
    """The sum of squared distances from the mean, and the mean, of each row in float64."""
    parts = [values.real, values.imag] if np.iscomplexobj(values) else [values]
    rows, n = values.shape
    how = order(n, size, wide_lane=True)
    padded = p2(how.num_leaves)
    count, squares = np.zeros((rows, padded)), np.zeros((rows, padded))
    means = [np.zeros((rows, padded)) for _ in parts]
    for leaf, where in enumerate(leaf_slices(how, n) if n else []):
        found = leaf_moments([p[:, where] for p in parts], how.lanes, size, scaled, root)
        count[:, leaf], squares[:, leaf] = found.count, found.squares
        for mean, of_leaf in zip(means, found.mean, strict=True):
            mean[:, leaf] = of_leaf
    total = Parts(count, means, squares)
    while total.count.shape[-1] > 1:
        total = merge_parts(total.half(upper=False), total.half(upper=True))
    if n == 0:
        return np.full(rows, math.nan), [np.full(rows, math.nan) for _ in parts]
    return total.squares[:, 0], [mean[:, 0] for mean in total.mean]


def of_moments(op: str, values: np.ndarray, size: int, in_range: bool) -> np.ndarray:
    """`var` and `std` with a correction of 1, and the mean that comes with the first."""
    real = values.real.dtype.type
    scaled = real == np.float32 and not in_range
    squares, means = moments(values, size, scaled, root=op == "std")
    if op == "mean_of_moments":
        mean = np.empty(len(values), values.dtype)
        mean.real = means[0].astype(real)
        if len(means) == 2:
            mean.imag = means[1].astype(real)
        return mean
    freedom = max(0.0, float(values.shape[1] - 1))
    variance = squares * (1 / freedom if freedom else math.inf)
    return (np.sqrt(variance) if op == "std" else variance).astype(real)


OF_MOMENTS = ("var", "std", "mean_of_moments")
ORDERED = ("sum", "mean", "prod", "nansum", "nanmean", "norm1", "norm2", *OF_MOMENTS)
REAL_VALUED = ("norm1", "norm2", "var", "std")


def combine(op: str, values: np.ndarray, size: int, dtype: torch.dtype) -> np.ndarray:
    """What `op` makes of each row of accumulator-typed values, before the result is rounded;
    `dtype` is the input's.
    """
    # A complex number is a pair: NumPy's complex division would round more.
    real = values.real.dtype.type
    with np.errstate(all="ignore"):
        if op == "prod":
            return walk(values, size, times, 1)
        if op == "norm1":
            return walk(magnitude(values), size)
        in_range = dtype.is_floating_point and dtype.itemsize <= 2 and dtype != torch.bfloat16
        if op == "norm2":
            return root_of_squares(values, size, scaled=not in_range)
        if op in OF_MOMENTS:
            return of_moments(op, values, size, in_range)
        skips = op.startswith("nan")
        nan = np.isnan(values)
        total = walk(np.where(nan, values.dtype.type(0), values) if skips else values, size)
        if op in ("sum", "nansum"):
            return total
        count = walk((~nan).astype(real), size)[:, None] if skips else real(values.shape[1])
        return (
            total.view(real).reshape(len(total), total.itemsize // np.dtype(real).itemsize) / count
        ).view(total.dtype)[:, 0]


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


def expected(
    op: str,
    t: torch.Tensor,
    dim: Dims = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """What `op` (of ORDERED) must give for these arguments, on the CPU: finished in the
    accumulator's type, rounded once.
    """
    rows = in_walking_order(t, dim).cpu()
    result = dtype or t.dtype
    converted = to_dtype(to_dtype(rows, result), accumulator(result)).numpy()
    combined = combine(op, converted, t.element_size(), t.dtype)
    # One NaN: the operations of an x86 processor and of a GPU make different ones.
    real = combined.view(combined.real.dtype).copy()
    real[np.isnan(real)] = math.nan
    if op in REAL_VALUED:
        result = result.to_real()
    totals = torch.from_numpy(real.view(combined.dtype))
    return to_dtype(totals, result).reshape(result_shape(t.shape, dim, keepdim))
