"""The operators of ``torch.ops.gpureduce``, typed and documented.

What holds for all of them:

* ``self`` may have any shape, strides (transposed, sliced, expanded, overlapping) and storage
  offset, on the CPU, a CUDA device or ``meta``. It is never copied; the result is always a new
  tensor.
* ``dim`` is an int or several, negative ones count from the end, ``None`` and ``()`` mean all
  dimensions (but ``()`` none of them for :func:`any` and :func:`all`). A reduced dimension
  disappears from the shape, or stays with size 1 with ``keepdim``.
* **The order in which values are combined is fixed.** It depends on the number of reduced elements,
  the dtype and the op alone. So the same values give the same bits in every layout (as a row, a
  column, a strided view), in a batch of any size, on every run, stream and GPU, and on the CPU.
  (Where exponentials and logarithms enter, in :func:`logsumexp` and most orders of :func:`norm`,
  CPU and GPU agree to 2 ulp of the accumulator.)
* There is no derivative: on a tensor that requires grad the forward runs, and a backward through it
  raises an error.
* Errors are of the classes torch's functions raise: ``IndexError`` for a dimension that does not
  exist, ``RuntimeError`` for a dimension given twice or a dtype the op has no meaning for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, overload

import torch
from torch import Tensor

__all__ = [
    "AlongDim",
    "Ends",
    "Stats",
    "all",
    "amax",
    "amin",
    "aminmax",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "logsumexp",
    "max",
    "mean",
    "min",
    "nanmean",
    "nansum",
    "norm",
    "prod",
    "stats",
    "std",
    "std_mean",
    "sum",
    "var",
    "var_mean",
]


class Ends(NamedTuple):
    """What :func:`aminmax` returns."""

    min: Tensor
    max: Tensor


class AlongDim(NamedTuple):
    """What :func:`max` and :func:`min` return along a dimension."""

    values: Tensor
    indices: Tensor


class Stats(NamedTuple):
    """What :func:`stats` returns."""

    count: Tensor  # type: ignore[assignment]  # a tuple's method, which nobody misses here
    """Elements, int64."""
    sum: Tensor
    mean: Tensor
    var: Tensor
    """With a correction of 1, as :func:`var` has it."""
    min: Tensor
    max: Tensor
    argmin: Tensor
    """The position of the smallest element among the reduced dimensions, in row-major order."""
    argmax: Tensor
    num_nan: Tensor
    num_inf: Tensor
    """Infinities of both signs."""


def sum(
    self: Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Sum of the elements over `dim`, as :func:`torch.sum`.

    Args:
        self: The values, of any dtype.
        dim: What is reduced; all dimensions if None.
        keepdim: Whether reduced dimensions stay, with size 1.
        dtype: The dtype of the result. Each element is converted to it before it is added, in
            registers: ``sum(half, dtype=torch.float32)`` cannot overflow half and copies nothing.

    Returns:
        A tensor of `dtype`; without it int64 for integers and bool, the dtype of `self` otherwise.

    float16, bfloat16 and float8 values are accumulated in float32 and rounded once, at the end.
    Integers wrap around modulo 2**64. A NaN makes the sum NaN, and so does an inf beside a -inf.
    The sum of nothing is 0.

    Raises:
        IndexError: If a `dim` does not exist.
        RuntimeError: If a `dim` is given twice.

    >>> torch_reduce.sum(torch.tensor([[1, 2], [3, 4]]), dim=0)
    tensor([4, 6])
    """
    result: Tensor = torch.ops.gpureduce.sum(self, dim, keepdim, dtype=dtype)
    return result


def mean(
    self: Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Mean of the elements over `dim`, as :func:`torch.mean`.

    Args:
        self: The values; integers and bool need `dtype`.
        dim: What is reduced; all dimensions if None.
        keepdim: Whether reduced dimensions stay, with size 1.
        dtype: The dtype of the result, floating point or complex. Each element is converted to it
            before it is added, in registers, without a copy of `self`.

    Returns:
        A tensor of `dtype`; without it of the dtype of `self`.

    It is :func:`sum`, divided by the number of elements in the accumulator's type: the mean of
    float16 values is right also where their sum would overflow. A NaN makes it NaN. The mean of
    nothing is NaN.

    Raises:
        IndexError: If a `dim` does not exist.
        RuntimeError: If a `dim` is given twice, or if `self` holds integers or bool and `dtype` is
            missing or not a floating-point or complex type.

    >>> torch_reduce.mean(torch.tensor([True, False]), dtype=torch.float32)
    tensor(0.5000)
    """
    result: Tensor = torch.ops.gpureduce.mean(self, dim, keepdim, dtype=dtype)
    return result


def prod(
    self: Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Product of the elements over `dim`, as :func:`torch.prod`.

    Args:
        self: The values, of any dtype.
        dim: What is reduced; all dimensions if None.
        keepdim: Whether reduced dimensions stay, with size 1.
        dtype: The dtype of the result. Each element is converted to it first, in registers.

    Returns:
        A tensor of `dtype`; without it int64 for integers and bool, the dtype of `self` otherwise.

    float16, bfloat16 and float8 values are multiplied in float32 and rounded once, at the end.
    Integers wrap around modulo 2**64. The product of nothing is 1.

    Raises:
        IndexError: If a `dim` does not exist.
        RuntimeError: If a `dim` is given twice.

    >>> torch_reduce.prod(torch.tensor([[1, 2], [3, 4]]), dim=0)
    tensor([3, 8])
    """
    result: Tensor = torch.ops.gpureduce.prod(self, dim, keepdim, dtype=dtype)
    return result


def nansum(
    self: Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Sum of the elements that are not NaN over `dim`, as :func:`torch.nansum`.

    Args:
        self: The values, of any dtype.
        dim: What is reduced; all dimensions if None.
        keepdim: Whether reduced dimensions stay, with size 1.
        dtype: The dtype of the result. Each element is converted to it first, in registers.

    Returns:
        A tensor of `dtype`; without it int64 for integers and bool, the dtype of `self` otherwise.

    It is :func:`sum` with each NaN of the input counted as 0, to the bit. Infinities of both signs
    still make a NaN. A complex element is NaN if either part is.

    Raises:
        IndexError: If a `dim` does not exist.
        RuntimeError: If a `dim` is given twice.

    >>> torch_reduce.nansum(torch.tensor([1.0, float("nan"), 2.0]))
    tensor(3.)
    """
    result: Tensor = torch.ops.gpureduce.nansum(self, dim, keepdim, dtype=dtype)
    return result


def nanmean(
    self: Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Mean of the elements that are not NaN over `dim`, as :func:`torch.nanmean`.

    Args:
        self: The values, of a floating-point or complex dtype.
        dim: What is reduced; all dimensions if None.
        keepdim: Whether reduced dimensions stay, with size 1.
        dtype: The dtype of the result. Each element is converted to it first, in registers.

    Returns:
        A tensor of `dtype`; without it of the dtype of `self`.

    It is :func:`nansum` divided by the number of elements that are not NaN, in the accumulator's
    type. NaN where there is no such element.

    Raises:
        IndexError: If a `dim` does not exist.
        RuntimeError: If a `dim` is given twice, or if `self` or `dtype` is of integers or bool.

    >>> torch_reduce.nanmean(torch.tensor([1.0, float("nan"), 2.0]))
    tensor(1.5000)
    """
    result: Tensor = torch.ops.gpureduce.nanmean(self, dim, keepdim, dtype=dtype)
    return result


def amax(
    self: Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
) -> Tensor:
    """Largest element over `dim`, as :func:`torch.amax`.

    Args:
        self: The values, of any dtype but complex ones.
        dim: What is reduced; all dimensions if None.
        keepdim: Whether reduced dimensions stay, with size 1.

    Returns:
        A tensor of the dtype of `self`.

    NaN wins over every number; −0.0 and 0.0 are equal; False is less than True.

    Raises:
        IndexError: If a `dim` does not exist, or if a reduced dimension has no elements.
        RuntimeError: If a `dim` is given twice, or if `self` is complex.

    >>> torch_reduce.amax(torch.tensor([[1.0, 5.0], [3.0, 2.0]]), dim=1)
    tensor([5., 3.])
    """
    result: Tensor = torch.ops.gpureduce.amax(self, dim, keepdim)
    return result


def amin(
    self: Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
) -> Tensor:
    """Smallest element over `dim`, as :func:`torch.amin`.

    Args:
        self: The values, of any dtype but complex ones.
        dim: What is reduced; all dimensions if None.
        keepdim: Whether reduced dimensions stay, with size 1.

    Returns:
        A tensor of the dtype of `self`.

    NaN wins over every number; −0.0 and 0.0 are equal; False is less than True.

    Raises:
        IndexError: If a `dim` does not exist, or if a reduced dimension has no elements.
        RuntimeError: If a `dim` is given twice, or if `self` is complex.

    >>> torch_reduce.amin(torch.tensor([[1.0, 5.0], [3.0, 2.0]]), dim=1)
    tensor([1., 2.])
    """
    result: Tensor = torch.ops.gpureduce.amin(self, dim, keepdim)
    return result


def aminmax(
    self: Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
) -> Ends:
    """Smallest and largest element over `dim` in one reading, as :func:`torch.aminmax`.

    Args:
        self: The values, of any dtype but complex ones.
        dim: What is reduced; all dimensions if None.
        keepdim: Whether reduced dimensions stay, with size 1.

    Returns:
        ``(min, max)``, both of the dtype of `self`: what :func:`amin` and :func:`amax` return.

    Raises:
        IndexError: If a `dim` does not exist, or if a reduced dimension has no elements.
        RuntimeError: If a `dim` is given twice, or if `self` is complex.

    >>> torch_reduce.aminmax(torch.tensor([3.0, 1.0, 2.0]))
    Ends(min=tensor(1.), max=tensor(3.))
    """
    return Ends(*torch.ops.gpureduce.aminmax(self, dim, keepdim))


@overload
def max(self: Tensor) -> Tensor: ...
@overload
def max(self: Tensor, dim: int, keepdim: bool = False) -> AlongDim: ...
def max(self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor | AlongDim:
    """Largest element, or along `dim` with its index, as :func:`torch.max`.

    Args:
        self: The values, of any dtype but complex ones.
        dim: The one dimension that is reduced; all if None.
        keepdim: Whether the reduced dimension stays, with size 1.

    Returns:
        Without `dim` a tensor of the dtype of `self`, the one value. With it ``(values, indices)``,
        the indices int64.

    NaN wins over every number. The index is that of :func:`argmax`: the first NaN's, else the
    lowest of equal values; a value that is zero is 0.0, whichever zero it was.

    Raises:
        IndexError: If `dim` does not exist, or has no elements.
        RuntimeError: If `self` is complex, or empty without `dim`.

    >>> torch_reduce.max(torch.tensor([[1, 7], [3, 2]]), 1).indices
    tensor([1, 0])
    """
    if dim is None:
        result: Tensor = torch.ops.gpureduce.max(self)
        return result
    return AlongDim(*torch.ops.gpureduce.max(self, dim, keepdim))


@overload
def min(self: Tensor) -> Tensor: ...
@overload
def min(self: Tensor, dim: int, keepdim: bool = False) -> AlongDim: ...
def min(self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor | AlongDim:
    """Smallest element, or along `dim` with its index, as :func:`torch.min`.

    Args:
        self: The values, of any dtype but complex ones.
        dim: The one dimension that is reduced; all if None.
        keepdim: Whether the reduced dimension stays, with size 1.

    Returns:
        Without `dim` a tensor of the dtype of `self`, the one value. With it ``(values, indices)``,
        the indices int64.

    NaN wins over every number. The index is that of :func:`argmin`: the first NaN's, else the
    lowest of equal values; a value that is zero is 0.0, whichever zero it was.

    Raises:
        IndexError: If `dim` does not exist, or has no elements.
        RuntimeError: If `self` is complex, or empty without `dim`.

    >>> torch_reduce.min(torch.tensor([[1, 7], [3, 2]]), 1).indices
    tensor([0, 1])
    """
    if dim is None:
        result: Tensor = torch.ops.gpureduce.min(self)
        return result
    return AlongDim(*torch.ops.gpureduce.min(self, dim, keepdim))


def argmax(self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the largest element along `dim`, as :func:`torch.argmax`.

    Args:
        self: The values, of any dtype but complex ones; bool is accepted, False is less than True.
        dim: The one dimension that is reduced; all if None.
        keepdim: Whether reduced dimensions stay, with size 1.

    Returns:
        An int64 tensor of indices along `dim`. Without `dim`, the index into the flattened tensor
        in row-major order, whatever its strides are.

    The first NaN wins over every number; among equal values, −0.0 and 0.0 included, the lowest
    index wins.

    Raises:
        IndexError: If `dim` does not exist, or if a reduced dimension has no elements.
        RuntimeError: If `self` is complex.

    >>> torch_reduce.argmax(torch.tensor([1.0, 7.0, 7.0]))
    tensor(1)
    """
    result: Tensor = torch.ops.gpureduce.argmax(self, dim, keepdim)
    return result


def argmin(self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the smallest element along `dim`, as :func:`torch.argmin`.

    Args:
        self: The values, of any dtype but complex ones; bool is accepted, False is less than True.
        dim: The one dimension that is reduced; all if None.
        keepdim: Whether reduced dimensions stay, with size 1.

    Returns:
        An int64 tensor of indices along `dim`. Without `dim`, the index into the flattened tensor
        in row-major order, whatever its strides are.

    The first NaN wins over every number; among equal values, −0.0 and 0.0 included, the lowest
    index wins.

    Raises:
        IndexError: If `dim` does not exist, or if a reduced dimension has no elements.
        RuntimeError: If `self` is complex.

    >>> torch_reduce.argmin(torch.tensor([7.0, 1.0, 1.0]))
    tensor(1)
    """
    result: Tensor = torch.ops.gpureduce.argmin(self, dim, keepdim)
    return result


def any(
    self: Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
) -> Tensor:
    """Whether any elements over `dim` are not zero, as :func:`torch.any`.

    Args:
        self: The values, of any dtype.
        dim: What is reduced; all dimensions if None, and nothing if empty.
        keepdim: Whether reduced dimensions stay, with size 1.

    Returns:
        A bool tensor; of uint8 input one of uint8, as torch has it.

    NaN is not zero, -0.0 is. Of no elements it is False.

    Raises:
        IndexError: If a `dim` does not exist.
        RuntimeError: If a `dim` is given twice.

    >>> torch_reduce.any(torch.tensor([[0, 1], [1, 1]]), dim=1)
    tensor([True, True])
    """
    result: Tensor = torch.ops.gpureduce.any(self, dim, keepdim)
    return result


def all(
    self: Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
) -> Tensor:
    """Whether all elements over `dim` are not zero, as :func:`torch.all`.

    Args:
        self: The values, of any dtype.
        dim: What is reduced; all dimensions if None, and nothing if empty.
        keepdim: Whether reduced dimensions stay, with size 1.

    Returns:
        A bool tensor; of uint8 input one of uint8, as torch has it.

    NaN is not zero, -0.0 is. Of no elements it is True.

    Raises:
        IndexError: If a `dim` does not exist.
        RuntimeError: If a `dim` is given twice.

    >>> torch_reduce.all(torch.tensor([[0, 1], [1, 1]]), dim=1)
    tensor([False,  True])
    """
    result: Tensor = torch.ops.gpureduce.all(self, dim, keepdim)
    return result


def count_nonzero(self: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Number of elements over `dim` that are not zero, as :func:`torch.count_nonzero`.

    Args:
        self: The values, of any dtype.
        dim: What is reduced; all dimensions if None.

    Returns:
        An int64 tensor.

    NaN is not zero, -0.0 is.

    Raises:
        IndexError: If a `dim` does not exist.
        RuntimeError: If a `dim` is given twice.

    >>> torch_reduce.count_nonzero(torch.tensor([[0, 1], [1, 1]]), dim=1)
    tensor([1, 2])
    """
    result: Tensor = torch.ops.gpureduce.count_nonzero(self, dim)
    return result


def norm(
    self: Tensor,
    ord: float = 2,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Vector norm over `dim`, as :func:`torch.linalg.vector_norm`.

    Args:
        self: The values, of a floating-point or complex dtype.
        ord: The order: ``sum(abs(x) ** ord) ** (1 / ord)``; 0 counts what is not zero, inf and -inf
            give the largest and the smallest ``abs(x)``.
        dim: What is reduced; all dimensions if None.
        keepdim: Whether reduced dimensions stay, with size 1.
        dtype: What elements are converted to first, in registers: of the kind of `self` (real or
            complex) and no narrower.

    Returns:
        A tensor of the real dtype of `dtype`, or of that of `self`.

    It neither overflows nor underflows where the result is representable. A NaN makes the norm NaN,
    except that order 0 counts it.

    Raises:
        IndexError: If a `dim` does not exist.
        RuntimeError: If a `dim` is given twice, if there is nothing to reduce and `ord` is negative
            or infinite, or if a dtype is not as above.

    >>> torch_reduce.norm(torch.tensor([3.0, 4.0]))
    tensor(5.)
    """
    result: Tensor = torch.ops.gpureduce.norm(self, ord, dim, keepdim, dtype=dtype)
    return result


def var(
    self: Tensor,
    dim: int | Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Tensor:
    """Variance of the elements over `dim`, as :func:`torch.var`.

    Args:
        self: The values, of a floating-point or complex dtype.
        dim: What is reduced; all dimensions if None.
        correction: What is taken off the number of elements; 1 if None.
        keepdim: Whether reduced dimensions stay, with size 1.

    Returns:
        A tensor of the dtype of `self`, of its real one where that is complex.

    The sum of ``abs(x - mean) ** 2``, divided by the number of elements less `correction` (by 0
    where that is negative). It does not cancel where all elements are far from
    0, and does not overflow where the result is representable. A NaN or an infinity makes it NaN.
    The variance of nothing is NaN.

    Raises:
        IndexError: If a `dim` does not exist.
        RuntimeError: If a `dim` is given twice, or if `self` is of integers or bool.

    >>> torch_reduce.var(torch.tensor([1.0, 2.0, 4.0]))
    tensor(2.3333)
    """
    result: Tensor = torch.ops.gpureduce.var(self, dim, correction=correction, keepdim=keepdim)
    return result


def std(
    self: Tensor,
    dim: int | Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Tensor:
    """Standard deviation of the elements over `dim`, as :func:`torch.std`.

    Args:
        self: The values, of a floating-point or complex dtype.
        dim: What is reduced; all dimensions if None.
        correction: What is taken off the number of elements; 1 if None.
        keepdim: Whether reduced dimensions stay, with size 1.

    Returns:
        A tensor of the dtype of `self`, of its real one where that is complex.

    The root of :func:`var`, taken before that is rounded: it is right also where the variance would
    overflow or underflow (of float64 as far as squares reach). A NaN or an infinity makes it NaN.
    The standard deviation of nothing is NaN.

    Raises:
        IndexError: If a `dim` does not exist.
        RuntimeError: If a `dim` is given twice, or if `self` is of integers or bool.

    >>> torch_reduce.std(torch.tensor([1.0, 3.0]), correction=0)
    tensor(1.)
    """
    result: Tensor = torch.ops.gpureduce.std(self, dim, correction=correction, keepdim=keepdim)
    return result


def var_mean(
    self: Tensor,
    dim: int | Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> tuple[Tensor, Tensor]:
    """Variance and mean over `dim` of one reading, as :func:`torch.var_mean`.

    Args:
        self: The values, of a floating-point or complex dtype.
        dim: What is reduced; all dimensions if None.
        correction: What is taken off the number of elements; 1 if None.
        keepdim: Whether reduced dimensions stay, with size 1.

    Returns:
        ``(var, mean)``, of the dtype of `self`, the variance of complex numbers of its real one.

    The variance has the bits of :func:`var`.

    Raises:
        IndexError: If a `dim` does not exist.
        RuntimeError: If a `dim` is given twice, or if `self` is of integers or bool.

    >>> torch_reduce.var_mean(torch.tensor([1.0, 2.0, 6.0]))
    (tensor(7.), tensor(3.))
    """
    result: tuple[Tensor, Tensor] = torch.ops.gpureduce.var_mean(
        self, dim, correction=correction, keepdim=keepdim
    )
    return result


def std_mean(
    self: Tensor,
    dim: int | Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean over `dim` of one reading, as :func:`torch.std_mean`.

    Args:
        self: The values, of a floating-point or complex dtype.
        dim: What is reduced; all dimensions if None.
        correction: What is taken off the number of elements; 1 if None.
        keepdim: Whether reduced dimensions stay, with size 1.

    Returns:
        ``(std, mean)``, of the dtype of `self`, the standard deviation of complex numbers of its
        real one.

    The standard deviation has the bits of :func:`std`.

    Raises:
        IndexError: If a `dim` does not exist.
        RuntimeError: If a `dim` is given twice, or if `self` is of integers or bool.

    >>> torch_reduce.std_mean(torch.tensor([1.0, 3.0]), correction=0)
    (tensor(1.), tensor(2.))
    """
    result: tuple[Tensor, Tensor] = torch.ops.gpureduce.std_mean(
        self, dim, correction=correction, keepdim=keepdim
    )
    return result


def logsumexp(
    self: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False
) -> Tensor:
    """``log(sum(exp(x)))`` over `dim`, as :func:`torch.logsumexp`.

    Args:
        self: The values, of any dtype but complex ones.
        dim: What is reduced; all dimensions if None.
        keepdim: Whether reduced dimensions stay, with size 1.

    Returns:
        A tensor of the dtype of `self`; of torch's default dtype for integers and bool.

    Nothing overflows on the way: the result is at least the largest element, and above it by at
    most the logarithm of their number. A NaN makes it NaN; of nothing, and of -inf alone, it is
    -inf.

    Raises:
        IndexError: If a `dim` does not exist.
        RuntimeError: If a `dim` is given twice.
        NotImplementedError: If `self` is complex.

    >>> torch_reduce.logsumexp(torch.tensor([1000.0, 1000.0]))
    tensor(1000.6932)
    """
    result: Tensor = torch.ops.gpureduce.logsumexp(self, dim, keepdim)
    return result


def stats(self: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Stats:
    """What is worth knowing of activations and gradients, over `dim` and of one reading.

    Args:
        self: The values, of a real floating-point dtype.
        dim: What is reduced; all dimensions if None.
        keepdim: Whether reduced dimensions stay, with size 1.

    Returns:
        :class:`Stats`: ``count``, ``argmin``, ``argmax``, ``num_nan`` and ``num_inf`` int64;
        ``sum``, ``mean`` and ``var`` float32, or float64 if `self` is; ``min`` and ``max`` of the
        dtype of `self`.

    A NaN makes ``sum``, ``mean``, ``var``, ``min`` and ``max`` NaN, and ``argmin`` and ``argmax``
    find the first one. Positions are indices into the reduced dimensions in row-major order, as
    those of :func:`argmax` are.

    Raises:
        IndexError: If a `dim` does not exist, or if a reduced dimension has no elements.
        RuntimeError: If a `dim` is given twice, or if there is no element and no `dim`.
        NotImplementedError: If `self` is of integers, bool or complex.

    >>> found = torch_reduce.stats(torch.tensor([1.0, -2.0, 4.0]))
    >>> found.mean, found.argmax
    (tensor(1.), tensor(2))
    """
    return Stats(*torch.ops.gpureduce.stats(self, dim, keepdim))
