"""The operators of ``torch.ops.gpureduce``, typed and documented.

What holds for all of them:

* ``self`` may have any shape, strides (transposed, sliced, expanded, overlapping) and storage
  offset, on the CPU, a CUDA device or ``meta``. It is never copied; the result is always a new
  tensor.
* ``dim`` is an int or several, negative ones count from the end, ``None`` and ``()`` mean all
  dimensions. A reduced dimension disappears from the shape, or stays with size 1 with ``keepdim``.
* **The order in which values are combined is fixed.** It depends on the number of reduced elements,
  the dtype and the op alone. So the same values give the same bits in every layout (as a row, a
  column, a strided view), in a batch of any size, on every run, stream and GPU, and on the CPU.
* There is no derivative: on a tensor that requires grad the forward runs, and a backward through it
  raises an error.
* Errors are of the classes torch's functions raise: ``IndexError`` for a dimension that does not
  exist, ``RuntimeError`` for a dimension given twice or a dtype the op has no meaning for.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["amax", "argmax", "mean", "sum"]


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
