"""log(sum(exp(x))): within a derived bound of long double, also where exp(x) is out of range."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import references
import torch
from dtypes import FLOATS, INTEGERS, REAL, name
from hypothesis import given
from hypothesis import strategies as st
from numpy_walk import result_shape
from tensors import assert_same_bits, generator, one_nan
from views import dims, views

ops = torch.ops.gpureduce


@pytest.mark.parametrize("dtype", REAL, ids=name)
@given(data=st.data())
def test_any_view(dtype: torch.dtype, device: str, data: st.DataObject) -> None:
    view = data.draw(views(dtype))
    dim = data.draw(dims(len(view.sizes)))
    keepdim = data.draw(st.booleans())
    t = view.build(device)
    got = ops.logsumexp(t, dim, keepdim)
    assert list(got.shape) == result_shape(t.shape, dim, keepdim)
    assert got.is_contiguous()
    references.logsumexp_interval(t, dim, keepdim).check(got)


def noise(n: int) -> torch.Tensor:
    return torch.from_numpy(generator("noise", n).standard_normal(n))


HARD: dict[str, Callable[[int], torch.Tensor]] = {
    "normal": noise,
    "30 times as wide": lambda n: 30 * noise(n),
    "1000 times as wide": lambda n: 1000 * noise(n),
    "offset 1000": lambda n: 1000 + noise(n),
    "offset -1000": lambda n: -1000 + noise(n),
    "offset 1e6": lambda n: 1e6 + noise(n),
    "log softmax": lambda n: torch.log_softmax(3 * noise(n), 0),
    "ascending": lambda n: torch.linspace(-200, 200, n, dtype=torch.float64),
    "descending": lambda n: torch.linspace(200, -200, n, dtype=torch.float64),
    "1e20 times as wide": lambda n: 1e20 * noise(n),
    "both ends of the range": lambda n: torch.tensor([-3e38, 3e38] * n, dtype=torch.float64)[:n],
    "the largest number": lambda n: torch.full((n,), 3.4e38, dtype=torch.float64),
    "the lowest number": lambda n: torch.full((n,), -3.4e38, dtype=torch.float64),
    "masked": lambda n: torch.where(torch.arange(n) % 3 == 0, -math.inf, noise(n) - 50),
    "masked up to the last": lambda n: torch.where(torch.arange(n) < n - 1, -math.inf, 7.0),
    "masked by a number": lambda n: torch.where(torch.arange(n) % 3 == 0, -1e38, noise(n)),
    "subnormal": lambda n: 1e-42 * noise(n),
    "one large": lambda n: torch.where(torch.arange(n) == n // 2, 80.0, noise(n)),
}


@pytest.mark.parametrize("n", [1, 2, 5, 33, 300, 4097, 24577, 100003])
@pytest.mark.parametrize("label", HARD)
def test_hard_inputs(label: str, n: int, device: str) -> None:
    t = HARD[label](n).float()
    want = references.logsumexp_interval(t)
    got = ops.logsumexp(t.to(device))
    want.check(got)
    for x, dim in ((t.repeat(3, 1), 1), (t[:, None].repeat(1, 5), 0)):
        assert_same_bits(ops.logsumexp(x.to(device), dim).cpu(), got.cpu().expand(x.shape[1 - dim]))
    references.logsumexp_interval(t.double()).check(ops.logsumexp(t.double().to(device)))


@pytest.mark.parametrize("dtype", FLOATS, ids=name)
@pytest.mark.parametrize("n", [3, 300, 24577])
def test_every_float(dtype: torch.dtype, n: int, device: str) -> None:
    for values in (noise(n), 10 * noise(n), noise(n) - 20):
        t = values.to(dtype)
        for x, dim in ((t, None), (t[:, None].expand(n, 4).clone(), 0)):
            references.logsumexp_interval(x, dim).check(ops.logsumexp(x.to(device), dim))


@pytest.mark.parametrize("dtype", INTEGERS, ids=name)
@pytest.mark.parametrize("default", [torch.float32, torch.float64, torch.float16], ids=name)
def test_integers_are_computed_in_the_default_dtype(
    dtype: torch.dtype, default: torch.dtype, device: str
) -> None:
    t = torch.tensor([[1, 0, 3], [2, 90, 100]]).to(dtype).to(device)
    before = torch.get_default_dtype()
    torch.set_default_dtype(default)
    try:
        got = ops.logsumexp(t, 1)
        assert ops.logsumexp(t.to("meta"), 1).dtype == got.dtype == default
    finally:
        torch.set_default_dtype(before)
    assert_same_bits(got, ops.logsumexp(t.cpu().to(default).to(device), 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=name)
@pytest.mark.parametrize("n", [2, 5, 33, 1025, 70000])
def test_infinities_and_nan(n: int, dtype: torch.dtype, device: str) -> None:
    inf, nan = math.inf, math.nan
    plain = noise(n)
    rows = {
        -inf: [torch.full((n,), -inf)],
        inf: [plain.index_fill(0, torch.tensor(i), inf) for i in (0, n // 2, n - 1)],
        nan: [plain.index_fill(0, torch.tensor(i), nan) for i in (0, n // 2, n - 1)],
    }
    rows[inf].append(torch.full((n,), inf))
    mixed = torch.full((n,), -inf)
    mixed[-1] = inf
    rows[inf].append(mixed)
    mixed = rows[inf][0].clone()
    mixed[-1] = nan
    rows[nan].append(mixed)
    for want, found in rows.items():
        t = torch.stack([row.double() for row in found]).to(dtype)
        wanted = one_nan(torch.full((len(found),), want).to(dtype))
        assert_same_bits(ops.logsumexp(t.to(device), 1), wanted)
        assert_same_bits(ops.logsumexp(t.t().contiguous().to(device), 0), wanted)


def test_nothing_and_one(device: str) -> None:
    empty = torch.ones(3, 0, device=device)
    assert ops.logsumexp(empty).item() == -math.inf
    assert ops.logsumexp(empty, 1).tolist() == [-math.inf] * 3
    assert ops.logsumexp(empty, 0).shape == (0,)
    one = torch.tensor([[2.5], [-1e30], [1e-3]], device=device)
    assert_same_bits(ops.logsumexp(one, 1), one[:, 0])
