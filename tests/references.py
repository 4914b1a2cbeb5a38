"""References that no order of combination enters: exact integers, and intervals for floating point.

The interval of a sum. The accumulator has the unit roundoff u (2^-24 for float32, 2^-53 for
float64). Before it is added up, each element is converted to `dtype=`; the reference converts it in
the same way, so that costs no error. Let

    h = (longest lane - 1) + log2(lanes) + log2(padded leaves)

be the largest number of additions that an element goes through: a lane begins with 0 + x, which is
exact, and makes one addition for each further element; each halving makes one. Each addition
multiplies what it holds by 1 + d with |d| <= u (additions do not underflow), so the accumulated sum
is sum(x_i (1 + e_i)) with |e_i| <= gamma_h = h u / (1 - h u) (Higham, Accuracy and Stability of
Numerical Algorithms, 3.1), and

    |accumulated - sum x| <= gamma_h sum |x|.

What follows is monotone: mean's division by n in the accumulator's type, and the rounding to the
result's dtype. So the result lies between what these make of the two ends of that interval.

The interval, its centre and the quotient are computed in long double. NumPy sums it in pairs within
a buffer of 8192 elements and then one buffer after the other, so an element is rounded fewer than
256 + n / 4096 times; both ends are widened by as many eps(long double) of sum |x|.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from dtypes import FLOAT8, accumulator, result_dtype, to_dtype
from numpy_walk import Dims, in_walking_order, order, p2, result_shape

LONG_EPS = np.finfo(np.longdouble).eps


def most_additions(n: int, size: int, wide_lane: bool = False) -> int:
    """h above, for n elements of `size` bytes in the input."""
    how = order(n, size, wide_lane)
    longest_leaf = max(n - (how.num_leaves - 1) * how.leaf, how.leaf if how.num_leaves > 1 else 0)
    longest_lane = math.ceil(longest_leaf / how.lanes)
    return max(0, longest_lane - 1) + int(math.log2(how.lanes)) + int(math.log2(p2(how.num_leaves)))


def relative_bound(n: int, size: int, acc: torch.dtype, wide_lane: bool = False) -> float:
    """gamma_h above."""
    hu = most_additions(n, size, wide_lane) * torch.finfo(acc).eps / 2
    return hu / (1 - hu)


@dataclass(frozen=True)
class Interval:
    """Both ends, in the result's dtype and shape."""

    low: torch.Tensor
    high: torch.Tensor

    def check(self, got: torch.Tensor) -> None:
        assert got.shape == self.low.shape and got.dtype == self.low.dtype, (
            f"{got.dtype} {got.shape}"
        )
        low, value, high = (_real(t.detach().cpu()).double() for t in (self.low, got, self.high))
        inside = (low <= value) & (value <= high)
        # Where an end is NaN the elements were (NaN, or infinities of both signs) or the dtype
        # cannot hold the sum (float8_e4m3fn has no infinity): the result is NaN too, except that it
        # may still be the other, finite end.
        one_end = low.isnan() ^ high.isnan()
        inside |= (low.isnan() | high.isnan()) & value.isnan()
        inside |= one_end & ((low <= value) | (value <= high))
        if not bool(inside.all()):
            where = tuple(int(i) for i in (~inside).nonzero()[0])
            raise AssertionError(
                f"at {where}: {value[where]} is not in [{low[where]}, {high[where]}]"
            )


def _real(t: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(t) if t.is_complex() else t


def sum_interval(
    op: str,
    t: torch.Tensor,
    dim: Dims = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> Interval:
    """Where the result of a floating-point sum or mean, with or without NaNs, must lie."""
    rows = in_walking_order(t, dim).cpu()
    result = result_dtype(op, t.dtype, dtype)
    acc = accumulator(result)
    converted = to_dtype(to_dtype(rows, dtype or t.dtype), acc)
    counts: np.ndarray | int = rows.shape[1]
    if op.startswith("nan"):
        nan = converted.isnan()
        counts = (~nan).sum(1).numpy()
        converted = torch.where(nan, torch.zeros((), dtype=acc), converted)
        if acc.is_complex:
            counts = counts[:, None]
    values = np.ascontiguousarray(np.moveaxis(_real(converted).numpy(), 1, -1))
    n, real_acc = values.shape[-1], values.dtype.type
    in_reference = (256 + n / 4096) * LONG_EPS
    with np.errstate(all="ignore"):
        total = values.sum(axis=-1, dtype=np.longdouble)
        absolute = np.abs(values).sum(axis=-1, dtype=np.longdouble)
        finite = np.isfinite(absolute)
        assert not (absolute[finite] > np.finfo(real_acc).max / 2).any(), (
            "a partial sum could overflow"
        )
        bound = (relative_bound(n, t.element_size(), acc) + in_reference) * absolute
        ends = [np.where(finite, total + sign * bound, total) for sign in (-1, 1)]
        if op.endswith("mean"):
            ends = [end / np.asarray(counts).astype(real_acc).astype(np.longdouble) for end in ends]
        # One more rounding: the quotient in long double.
        ends = [
            np.where(np.isfinite(end), end + sign * 2 * LONG_EPS * np.abs(end), end)
            for end, sign in zip(ends, (-1, 1), strict=True)
        ]
    shape = result_shape(t.shape, dim, keepdim)
    low, high = (
        to_dtype(_from_real(end.astype(real_acc), acc), result).reshape(shape) for end in ends
    )
    return Interval(low, high)


def long_values(t: torch.Tensor) -> np.ndarray:
    return t.double().numpy().astype(np.longdouble)


def logsumexp_interval(t: torch.Tensor, dim: Dims = None, keepdim: bool = False) -> Interval:
    """Where log(sum(exp(x))) must lie.

    2^e is summed, e = (x - c) log2(e) with the leaf's centre c. A difference and two products (one
    is the rounding of the constant) put e off by 3u|e|, the exponential's own error is below 4u
    (2^-22 for float32, what a GPU's instruction has), the sum's is gamma_h. The terms' mean of |e|
    is at most |E| + log2(n), E being the largest one: with the largest term at most 1 and the mean
    of k over weights 2^-k, it is at most their entropy. E ln(2) is kept below 8 ln(2) + |leaf's
    result|, or below 100 ln(2) where the result has 16 bits or fewer, and a leaf that is far below
    the result has a weight that is smaller than its own logarithm is large, which adds less than 1.
    So the result is off by

        3u (E0 + |result| + 1 + ln(n)) + 4u + gamma_h,    E0 = 8 ln(2) or 100 ln(2)

    and, where float64 is the accumulator and parts are no wider, by 6u |result| for them.
    """
    rows = in_walking_order(t, dim).cpu()
    result = result_dtype("logsumexp", t.dtype)
    acc = accumulator(result)
    converted = to_dtype(to_dtype(rows, result), acc)
    values = long_values(converted)
    n = values.shape[1]
    u = torch.finfo(acc).eps / 2
    with np.errstate(all="ignore"):
        largest = values.max(axis=1, initial=-np.inf)
        shift = np.where(np.isfinite(largest), largest, 0)
        want = np.log(np.exp(values - shift[:, None]).sum(axis=1)) + shift
        want = np.where(largest == np.inf, np.inf, want)
        want = np.where(np.isnan(values).any(axis=1), np.nan, want)
        farthest = 100 if t.dtype.is_floating_point and t.dtype.itemsize <= 2 else 8
        size = farthest * math.log(2) + np.abs(want) + 1 + math.log(max(n, 1))
        of_sum = relative_bound(n, t.element_size(), acc, wide_lane=True)
        off = 3 * u * size + 4 * u + of_sum + (6 * u * np.abs(want) if acc == torch.float64 else 0)
        ends = [np.where(np.isfinite(want), want + sign * off, want) for sign in (-1, 1)]
    wide = np.float64 if acc == torch.float64 else np.float32
    low, high = (
        to_dtype(torch.from_numpy(end.astype(wide)), result).reshape(
            result_shape(t.shape, dim, keepdim)
        )
        for end in ends
    )
    return Interval(low, high)


def _from_real(values: np.ndarray, acc: torch.dtype) -> torch.Tensor:
    t = torch.from_numpy(np.ascontiguousarray(values))
    return torch.complex(t[..., 0], t[..., 1]) if acc.is_complex else t


def integer_sum(
    t: torch.Tensor, dim: Dims = None, keepdim: bool = False, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """The sum modulo 2^64, cut down to the result's dtype; an element of a bool tensor is true if
    its byte is not 0.
    """
    rows = in_walking_order(logical(t), dim).cpu()
    result = result_dtype("sum", t.dtype, dtype)
    converted = to_dtype(to_dtype(rows, dtype or t.dtype), torch.int64)
    return to_dtype(converted.sum(1), result).reshape(result_shape(t.shape, dim, keepdim))


def logical(t: torch.Tensor) -> torch.Tensor:
    return t.view(torch.uint8) != 0 if t.dtype == torch.bool else t


def _comparable(t: torch.Tensor, dim: Dims) -> np.ndarray:
    """(results, n), each n in the logical row-major order of the reduced dims, as numbers that
    NumPy compares.
    """
    # Contiguous first: then the walking order is the logical one.
    rows = in_walking_order(logical(t).contiguous(), dim).cpu()
    return (rows.double() if rows.dtype.is_floating_point else rows).numpy()


def argmax(t: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> torch.Tensor:
    """NaN wins, the lowest index of equals wins, -0.0 equals 0.0: NumPy's rules too."""
    index = np.argmax(_comparable(t, dim), axis=1)
    return torch.from_numpy(index).to(torch.int64).reshape(result_shape(t.shape, dim, keepdim))


def argmin(t: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> torch.Tensor:
    index = np.argmin(_comparable(t, dim), axis=1)
    return torch.from_numpy(index).to(torch.int64).reshape(result_shape(t.shape, dim, keepdim))


def amax(t: torch.Tensor, dim: Dims = None, keepdim: bool = False) -> torch.Tensor:
    """NaN wins. Of -0.0 and 0.0, which are equal, it may be either: compare with ==."""
    values = torch.from_numpy(np.max(_comparable(t, dim), axis=1))
    return values.to(t.dtype).reshape(result_shape(t.shape, dim, keepdim))


def amin(t: torch.Tensor, dim: Dims = None, keepdim: bool = False) -> torch.Tensor:
    values = torch.from_numpy(np.min(_comparable(t, dim), axis=1))
    return values.to(t.dtype).reshape(result_shape(t.shape, dim, keepdim))


def is_nonzero(t: torch.Tensor) -> torch.Tensor:
    """Where an element is not zero; a NaN is not, and -0.0 is."""
    values = t.float() if t.dtype in FLOAT8 else logical(t)
    return (values != 0).contiguous()


def nonzero(t: torch.Tensor, dim: Dims = None) -> torch.Tensor:
    """The same as (results, n)."""
    return in_walking_order(is_nonzero(t.cpu()), dim)


def integer_prod(
    t: torch.Tensor, dim: Dims = None, keepdim: bool = False, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """The product modulo 2^64, cut down to the result's dtype."""
    rows = in_walking_order(logical(t), dim).cpu()
    result = result_dtype("prod", t.dtype, dtype)
    converted = to_dtype(to_dtype(rows, dtype or t.dtype), torch.int64)
    return to_dtype(converted.prod(1), result).reshape(result_shape(t.shape, dim, keepdim))
