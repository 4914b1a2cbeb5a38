"""The dtypes that the ops take, and the rules for the dtypes of result and accumulator."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import torch

FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2]
HALF = [torch.float16, torch.bfloat16]
FLOATS = [*FLOAT8, *HALF, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
SIGNED = [torch.int8, torch.int16, torch.int32, torch.int64]
UNSIGNED = [torch.uint8, torch.uint16, torch.uint32, torch.uint64]
INTEGERS = [*SIGNED, *UNSIGNED, torch.bool]
REAL = [*FLOATS, *INTEGERS]
INEXACT = [*FLOATS, *COMPLEX]
ALL = [*REAL, *COMPLEX]

# Ops that are called op(t, dim, keepdim=keepdim), by what they share.
SUMS = ("sum", "mean", "nansum", "nanmean")
WITH_DTYPE = (*SUMS, "prod")
VALUES = ("amax", "amin")
INDICES = ("argmax", "argmin")
CHOICES = (*VALUES, *INDICES)  # need an element
TRUTHS = ("any", "all")
SPREADS = ("var", "std")
OPS = (*WITH_DTYPE, *CHOICES, *TRUTHS, *SPREADS, "logsumexp")
LIST_OPS = tuple(op for op in OPS if op not in INDICES)  # `dim` may be a list

DTYPES_OF = {
    **dict.fromkeys(("sum", "mean", "prod", "nansum", *TRUTHS), ALL),
    **dict.fromkeys(("nanmean", *SPREADS), INEXACT),
    **dict.fromkeys((*CHOICES, "logsumexp"), REAL),
}


def of_torch(op: str) -> Callable[..., torch.Tensor]:
    """torch's function of the same name, which may be called without `dim`."""
    if op != "logsumexp":
        function: Callable[..., torch.Tensor] = getattr(torch, op)
        return function

    def logsumexp(t: torch.Tensor, dim: object = None, keepdim: bool = False) -> torch.Tensor:
        return torch.logsumexp(t, list(range(t.dim())) if dim is None else dim, keepdim)

    return logsumexp


def name(dtype: torch.dtype | None) -> str:
    return str(dtype).removeprefix("torch.")


def is_inexact(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def result_dtype(op: str, dtype: torch.dtype, asked: torch.dtype | None = None) -> torch.dtype:
    if op in INDICES:
        return torch.int64
    if op in VALUES:
        return dtype
    if op in TRUTHS:
        return torch.uint8 if dtype == torch.uint8 else torch.bool
    if op in SPREADS:
        return dtype.to_real()
    if op == "logsumexp":
        return dtype if is_inexact(dtype) else torch.get_default_dtype()
    if asked is not None:
        return asked
    return dtype if is_inexact(dtype) else torch.int64


def accumulator(result: torch.dtype) -> torch.dtype:
    """What a sum or a product with this result dtype is accumulated in."""
    if result in COMPLEX or result == torch.float64:
        return result
    return torch.float32 if result.is_floating_point else torch.int64


def to_dtype(t: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """torch's conversion, with its result for floats that an integer dtype cannot hold pinned: they
    saturate at 64 bits, NaN is 0, and what is narrower keeps the low bits.
    """
    if dtype in INTEGERS and dtype != torch.bool and is_inexact(t.dtype):
        real = (t.real if t.dtype.is_complex else t).double()
        return _to_integer(real.numpy(), unsigned=dtype == torch.uint64).to(dtype)
    with warnings.catch_warnings():
        # A complex value loses its imaginary part.
        warnings.filterwarnings("ignore", message="Casting complex values to real")
        converted = t.to(dtype)
    if dtype == torch.bfloat16:
        # Of a NaN torch's vectorised loops make another one than its scalar loops do.
        bits = torch.where(converted.isnan(), 0x7FC0, converted.view(torch.int16))
        return bits.to(torch.int16).view(dtype)
    return converted


def _to_integer(values: np.ndarray, unsigned: bool) -> torch.Tensor:
    """As int64, or as uint64 in the bits of an int64."""
    high, low = values >= 2.0**63, values < -(2.0**63)
    result = np.where(high | low | np.isnan(values), 0.0, values).astype(np.int64)
    result[low] = np.iinfo(np.int64).min
    if unsigned:
        above = np.where(high & (values < 2.0**64), values - 2.0**63, 0.0).astype(np.int64)
        result[high] = above[high] + np.iinfo(np.int64).min  # the top bit
        result[values >= 2.0**64] = -1
    else:
        result[high] = np.iinfo(np.int64).max
    return torch.from_numpy(result)
