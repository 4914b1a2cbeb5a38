"""Norms: every order against long double, and the ends of the range of each dtype."""

from __future__ import annotations

import math

import numpy as np
import pytest
import references
import torch
from dtypes import COMPLEX, FLOATS, name, to_dtype
from hypothesis import given
from hypothesis import strategies as st
from numpy_walk import Dims, in_walking_order, result_shape
from tensors import generator
from views import dims, views

ops = torch.ops.gpureduce

ORDERS = [0, 1, 2, math.inf, -math.inf]
INEXACT = [*FLOATS, *COMPLEX]


def long_values(rows: torch.Tensor) -> np.ndarray:
    """|x| in long double, whose exponents reach far beyond the squares of any dtype here."""
    if rows.is_complex():
        real, imaginary = (part.numpy().astype(np.longdouble) for part in (rows.real, rows.imag))
        return np.hypot(real, imaginary)
    return np.abs(rows.double().numpy().astype(np.longdouble))


def exact(order: float, rows: torch.Tensor) -> np.ndarray:
    values = long_values(rows)
    if order == 0:
        return (values != 0).sum(1)
    if order == 1:
        return values.sum(1)
    if order == 2:
        return np.sqrt(np.square(values).sum(1))
    return values.max(1) if order > 0 else values.min(1)


def relative_error(order: float, dtype: torch.dtype, n: int, size: int) -> float:
    """Of the accumulated norm: the bound of references.py for its sum, and a few roundings more.

    Order 1 sums |x|, within 2 ulp where x is complex. Order 2 sums squares, each within 2u (one
    product; for complex x a sum of two), and what is lost to underflow is below 2^-29 of the sum
    (docs/accuracy.md); the root halves that and rounds once, scaling back rounds at most once.
    """
    acc = torch.float64 if dtype in (torch.float64, torch.complex128) else torch.float32
    u = torch.finfo(acc).eps / 2
    if order == 1:
        return references.relative_bound(n, size, acc) + 4 * u
    if order == 2:
        return references.relative_bound(n, size, acc) / 2 + 4 * u
    return 4 * u if dtype.is_complex else 0


def check(got: torch.Tensor, t: torch.Tensor, order: float, dim: Dims, result: torch.dtype) -> None:
    rows = in_walking_order(t, dim).cpu()
    with np.errstate(all="ignore"):
        want = exact(order, rows)
        off = want * relative_error(order, t.dtype, rows.shape[1], t.element_size())
        # A result that is subnormal is rounded to a whole number of smallest steps.
        wide = np.float64 if t.dtype in (torch.float64, torch.complex128) else np.float32
        off = off + np.finfo(wide).smallest_subnormal
        ends = [torch.from_numpy(e.astype(wide)) for e in (want - off, want + off)]
    low, high = (to_dtype(end, result).double() for end in ends)
    value = got.cpu().flatten().double()
    inside = (low <= value) & (value <= high)
    inside |= (low.isnan() | high.isnan()) & value.isnan()  # NaN, or past all of float8_e4m3fn
    inside |= high.isnan() & (low <= value)
    assert inside.all(), (got.flatten()[~inside], want[~inside.numpy()])


@pytest.mark.parametrize("dtype", INEXACT, ids=name)
@given(data=st.data())
def test_norms(dtype: torch.dtype, device: str, data: st.DataObject) -> None:
    view = data.draw(views(dtype, special=False))
    dim = data.draw(dims(len(view.sizes)))
    keepdim = data.draw(st.booleans())
    t = view.build(device)
    n = in_walking_order(t, dim).shape[1]
    for order in ORDERS:
        if math.isinf(order) and n == 0:
            continue
        got = ops.norm(t, order, dim, keepdim)
        assert got.dtype == dtype.to_real()
        assert list(got.shape) == result_shape(t.shape, dim, keepdim)
        assert got.is_contiguous()
        check(got, t, order, dim, dtype.to_real())


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", INEXACT, ids=name)
def test_special_values(dtype: torch.dtype, order: float, device: str) -> None:
    inf, nan = math.inf, math.nan
    rows = [[1, inf], [-inf, 2], [0, -0.0], [nan, 1], [1, nan], [-3, 3]]
    wants = {
        0: [2, 2, 0, 2, 2, 2],
        1: [inf, inf, 0, nan, nan, 6],
        2: [inf, inf, 0, nan, nan, 18**0.5],
        inf: [inf, inf, 0, nan, nan, 3],
        -inf: [1, 2, 0, nan, nan, 3],
    }
    if dtype == torch.float8_e4m3fn:  # has no infinity
        rows, wants = rows[2:], {o: w[2:] for o, w in wants.items()}
    t = torch.tensor(rows).to(dtype)
    want = torch.tensor(wants[order]).to(dtype.to_real())
    for x, dim in ((t, 1), (t.t().contiguous(), 0)):
        got = ops.norm(x.to(device), order, dim).cpu().double()
        torch.testing.assert_close(got, want.double(), rtol=1e-7, atol=0, equal_nan=True)


# One value of each binade, and what lies just inside the ends of the dtype.
def binades(dtype: torch.dtype) -> list[float]:
    info = torch.finfo(dtype)
    smallest = float(torch.tensor(1).to(torch.uint8).view(dtype)) if dtype.itemsize == 1 else None
    if smallest is None:
        integer = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
        smallest = torch.tensor(1, dtype=integer).view(dtype).item()
    first, last = round(math.log2(smallest)), math.frexp(info.max)[1] - 1
    values = [2.0**e for e in range(first, last + 1)]
    return values + [1.75 * v for v in values if 1.75 * v <= info.max and v >= 4 * smallest]


@pytest.mark.parametrize("n", [1, 2, 3, 33, 1000, 5000])
@pytest.mark.parametrize("dtype", INEXACT, ids=name)
def test_order_2_neither_overflows_nor_underflows(dtype: torch.dtype, n: int, device: str) -> None:
    """Rows of one magnitude, for every magnitude whose norm the dtype has; rows that mix two."""
    real = dtype.to_real()
    values = torch.tensor(binades(real), dtype=torch.float64)
    values = values[values < torch.finfo(real).max / 4 / math.sqrt(n)]
    rows = values[:, None].repeat(1, n)
    mixed = rows.clone()
    mixed[:, n // 2 :] = rows.flip(0)[:, n // 2 :]
    signs = generator("binades", name(dtype), n).choice([-1.0, 1.0], n)
    t = torch.cat([rows, mixed]) * torch.from_numpy(signs)
    t = t.to(real)
    if dtype.is_complex:
        t = torch.complex(t, -t)
    for x, dim in ((t, 1), (t.t().contiguous(), 0)):
        got = ops.norm(x.to(device), 2, dim)
        check(got, x, 2, dim, real)
    assert got.double().isfinite().all()
    assert (got.double() > 0).all()


@pytest.mark.parametrize("dtype", INEXACT, ids=name)
@pytest.mark.parametrize("order", ORDERS)
def test_a_wider_dtype_converts_first(order: float, dtype: torch.dtype, device: str) -> None:
    rng = generator("wider", name(dtype))
    t = torch.from_numpy(rng.standard_normal((5, 300)))
    t = (torch.complex(t, t.flip(1)) if dtype.is_complex else t).to(dtype)
    wider = torch.complex128 if dtype.is_complex else torch.float64
    got = ops.norm(t.to(device), order, 1, dtype=wider)
    assert got.dtype == torch.float64
    check(got, to_dtype(t, wider), order, 1, torch.float64)
    if dtype.itemsize <= 2:
        check(ops.norm(t.to(device), order, 1, dtype=torch.float32), t, order, 1, torch.float32)


def test_long_norms(device: str) -> None:
    for values in (torch.ones(2**20 + 1) * 1e-30, torch.ones(2**20 + 1) * 1e30):
        for t, dim in ((values, None), (values[:, None].expand(-1, 3).contiguous(), 0)):
            got = ops.norm(t.to(device), 2, dim)
            want = torch.linalg.vector_norm(t.double(), 2, dim)
            torch.testing.assert_close(got.cpu().double(), want, rtol=1e-6, atol=0)
            assert (
                torch.linalg.vector_norm(t, 2, dim).isfinite().logical_not().all()
                or (torch.linalg.vector_norm(t, 2, dim) == 0).all()
            )
