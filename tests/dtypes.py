"""The dtypes that the ops take, and the rules for the dtypes of result and accumulator."""

from __future__ import annotations

import warnings

import torch

FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2]
HALF = [torch.float16, torch.bfloat16]
FLOATS = [*FLOAT8, *HALF, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
SIGNED = [torch.int8, torch.int16, torch.int32, torch.int64]
UNSIGNED = [torch.uint8, torch.uint16, torch.uint32, torch.uint64]
INTEGERS = [*SIGNED, *UNSIGNED, torch.bool]
REAL = [*FLOATS, *INTEGERS]
ALL = [*REAL, *COMPLEX]

OPS = ("sum", "mean", "amax", "argmax")
DTYPES_OF = {"sum": ALL, "mean": ALL, "amax": REAL, "argmax": REAL}


def name(dtype: torch.dtype | None) -> str:
    return str(dtype).removeprefix("torch.")


def is_inexact(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def result_dtype(op: str, dtype: torch.dtype, asked: torch.dtype | None = None) -> torch.dtype:
    if op == "argmax":
        return torch.int64
    if op == "amax":
        return dtype
    if asked is not None:
        return asked
    return dtype if is_inexact(dtype) else torch.int64


def accumulator(result: torch.dtype) -> torch.dtype:
    """What a sum or a mean with this result dtype is accumulated in."""
    if result in COMPLEX or result == torch.float64:
        return result
    return torch.float32 if result.is_floating_point else torch.int64


def to_dtype(t: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """torch's conversion, without its warning that a complex value loses its imaginary part."""
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="Casting complex values to real", category=UserWarning
        )
        return t.to(dtype)
