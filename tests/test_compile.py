"""What torch.compile, FakeTensor and opcheck ask of an operator."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from dtypes import ALL, DTYPES_OF, INDICES, LIST_OPS, OPS, SPREADS, WITH_DTYPE, is_inexact, name
from hypothesis import given, settings
from hypothesis import strategies as st
from tensors import assert_same_bits
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses.fake_tensor import FakeTensorMode
from views import dims, one_dim, views

ops = torch.ops.gpureduce

Sample = tuple[tuple[int, ...], Callable[[torch.Tensor], torch.Tensor], dict[str, Any]]


def same(t: torch.Tensor) -> torch.Tensor:
    return t


SAMPLES: dict[str, Sample] = {
    "(3, 4)": ((3, 4), same, {}),
    "dim": ((3, 4), same, {"dim": 1}),
    "negative dim": ((3, 4), same, {"dim": -2}),
    "transposed": ((3, 4), lambda t: t.t(), {"dim": 1}),
    "three dims, permuted": ((2, 3, 4), lambda t: t.permute(2, 0, 1), {"dim": 1, "keepdim": True}),
    "keepdim": ((3, 4), same, {"dim": 0, "keepdim": True}),
    "0-d": ((), same, {}),
    "0-d, dim": ((), same, {"dim": -1}),
    "size 1": ((3, 1, 4), same, {"dim": 1}),
    "all sizes 1": ((1, 1), same, {"dim": 0, "keepdim": True}),
    "sliced": ((5, 9), lambda t: t[1:4, ::2], {"dim": 1}),
    "expanded": ((1, 4), lambda t: t.expand(3, 4), {"dim": 0}),
    "nothing in, nothing out": ((3, 0), same, {"dim": 0}),
}
LIST_SAMPLES: dict[str, Sample] = {
    "dim list": ((2, 3, 4), same, {"dim": [0, 2]}),
    "dim list, keepdim": ((2, 3, 4), same, {"dim": [-1, 0], "keepdim": True}),
    "empty list": ((2, 3), same, {"dim": []}),
    "all dims": ((2, 3), lambda t: t.t(), {"dim": [0, 1]}),
}
DTYPE_SAMPLES: dict[str, Sample] = {
    "dtype": ((3, 4), same, {"dim": 1, "dtype": torch.float64}),
    "dtype of integers": ((3, 4), lambda t: t.to(torch.int8), {"dtype": torch.float32}),
    "complex": ((3, 4), lambda t: t.to(torch.complex64), {"dim": 0}),
}


def samples_of(op: str) -> dict[str, Sample]:
    return {
        **SAMPLES,
        **(LIST_SAMPLES if op in LIST_OPS else {}),
        **({} if op not in WITH_DTYPE else INEXACT_SAMPLES if op == "nanmean" else DTYPE_SAMPLES),
    }


INEXACT_SAMPLES = {k: v for k, v in DTYPE_SAMPLES.items() if k != "dtype of integers"}
CHECKS = [(op, label) for op in OPS for label in samples_of(op)]


def make(op: str, label: str, device: str) -> tuple[torch.Tensor, dict[str, Any]]:
    shape, view, arguments = samples_of(op)[label]
    if op in SPREADS:  # that of one element would be NaN, which opcheck finds different from NaN
        arguments = {"correction": 0, **arguments}
    return view(torch.randn(shape, device=device)), arguments


@pytest.mark.parametrize(("op", "label"), CHECKS)
def test_opcheck(op: str, label: str, device: str) -> None:
    t, arguments = make(op, label, device)
    torch.library.opcheck(getattr(ops, op).default, (t,), arguments)


# Calls of another form: the overload, its arguments after the tensor.
OTHERS: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "aminmax": (ops.aminmax.default, (), {}),
    "aminmax of dims": (ops.aminmax.default, ([0, 1], True), {}),
    "max": (ops.max.default, (), {}),
    "min": (ops.min.default, (), {}),
    "max along a dim": (ops.max.dim, (1,), {}),
    "min along a dim": (ops.min.dim, (-2, True), {}),
    "count_nonzero": (ops.count_nonzero.default, (), {}),
    "count_nonzero of columns": (ops.count_nonzero.default, ([0],), {}),
    "norm": (ops.norm.default, (), {}),
    **{
        f"norm of order {p}": (ops.norm.default, (p, 1, True), {})
        for p in (0, 1, math.inf, -math.inf)
    },
    **{f"norm of order {p}": (ops.norm.default, (p, 0), {}) for p in (3, -1, 0.5)},
    **{
        f"{op}{label}": (getattr(ops, op).default, dim, keywords)
        for op in ("var", "std", "var_mean", "std_mean")
        for label, dim, keywords in (
            ("", (), {}),
            (" along a dim", (1,), {"correction": 0, "keepdim": True}),
            (" of dims", ([0, -1],), {"correction": 1.5}),
        )
    },
    "logsumexp of dims": (ops.logsumexp.default, ([0, 1], True), {}),
    "stats": (ops.stats.default, (), {}),
    "stats along a dim": (ops.stats.default, (0, True), {}),
    "stats of dims": (ops.stats.default, ([0, 1],), {}),
    "norm, dtype": (ops.norm.default, (2, [0]), {"dtype": torch.float64}),
}


@pytest.mark.parametrize("label", OTHERS)
@pytest.mark.parametrize("transposed", [False, True])
def test_opcheck_of_others(label: str, transposed: bool, device: str) -> None:
    overload, arguments, keywords = OTHERS[label]
    t = torch.randn(3, 4, device=device)
    t = t.t() if transposed else t
    torch.library.opcheck(overload, (t, *arguments), keywords)
    real = overload(t, *arguments, **keywords)
    meta = overload(t.to("meta"), *arguments, **keywords)
    for a, b in zip(
        *((x,) if isinstance(x, torch.Tensor) else x for x in (real, meta)), strict=True
    ):
        assert (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride())


@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (0,)])
def test_opcheck_of_the_ladder(shape: tuple[int, ...], device: str) -> None:
    torch.library.opcheck(ops.sum_rung.default, (torch.randn(shape, device=device), "sum"))


@pytest.mark.parametrize(("op", "label"), CHECKS)
def test_meta_and_fake_tensors_are_like_the_real_ones(op: str, label: str, device: str) -> None:
    t, arguments = make(op, label, device)
    real = getattr(ops, op)(t, **arguments)
    meta = getattr(ops, op)(t.to("meta"), **arguments)
    assert meta.device.type == "meta"
    with FakeTensorMode() as mode:
        fake = getattr(ops, op)(mode.from_tensor(t), **arguments)
    assert fake.device == real.device
    for other in (meta, fake):
        assert other.shape == real.shape
        assert other.dtype == real.dtype
        assert other.stride() == real.stride()
        assert other.storage_offset() == 0


@pytest.mark.parametrize("op", OPS)
@settings(max_examples=150)
@given(data=st.data())
def test_meta_is_like_the_real_one_for_any_view(op: str, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(DTYPES_OF[op]))
    view = data.draw(views(dtype))
    dim = data.draw((one_dim if op in INDICES else dims)(len(view.sizes)))
    arguments: dict[str, Any] = {"dim": dim, "keepdim": data.draw(st.booleans())}
    if op in WITH_DTYPE:
        is_mean = op in ("mean", "nanmean")
        needed = is_mean and not is_inexact(dtype)
        targets = st.sampled_from([d for d in ALL if not is_mean or is_inexact(d)])
        arguments["dtype"] = data.draw(targets if needed else st.none() | targets)

    def outcome(device: str) -> tuple[Any, ...]:
        t = view.like(dtype, device)
        try:
            result = getattr(ops, op)(t, **arguments)
        except Exception as error:
            return type(error), str(error)
        return result.shape, result.dtype, result.stride()

    assert outcome("meta") == outcome("cpu")


CALLS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sum": lambda t: ops.sum(t),
    "sum of rows": lambda t: ops.sum(t, 1),
    "sum of columns": lambda t: ops.sum(t, [0], True),
    "sum in float64": lambda t: ops.sum(t.t(), -1, dtype=torch.float64),
    "mean": lambda t: ops.mean(t, 1),
    "amax": lambda t: ops.amax(t, [0, 1]),
    "amax of rows": lambda t: ops.amax(t, 1, True),
    "argmax": lambda t: ops.argmax(t),
    "any": lambda t: ops.any(t, 1),
    "max along a dim": lambda t: ops.max(t, 1)[0],
    "aminmax of columns": lambda t: ops.aminmax(t, [0])[1],
    "norm": lambda t: ops.norm(t, 2, [1]),
    "norm of order inf": lambda t: ops.norm(t, math.inf, [0]),
    "argmax of columns": lambda t: ops.argmax(t, 0),
    "norm of order 3": lambda t: ops.norm(t, 3, [1]),
    "std": lambda t: ops.std(t, 1, correction=0),
    "var and mean of columns": lambda t: ops.var_mean(t, [0], keepdim=True)[1],
    "logsumexp": lambda t: ops.logsumexp(t, [1]),
    "stats": lambda t: ops.stats(t, 1)[3],
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("label", CALLS)
def test_one_compilation_serves_every_batch_size(label: str, backend: str, device: str) -> None:
    call = CALLS[label]
    torch._dynamo.reset()
    counter = CompileCounterWithBackend(backend)

    def model(t: torch.Tensor) -> torch.Tensor:
        return call(t * 2) + 1

    compiled = torch.compile(model, backend=counter, fullgraph=True, dynamic=True)
    for batch in (4, 5, 6):
        t = torch.randn(batch, 7, device=device)
        assert_same_bits(compiled(t), model(t))
    assert counter.frame_count == 1


@pytest.mark.parametrize("op", ["sum", "mean", "amax", "argmax", "any", "logsumexp"])
def test_the_default_compiler(op: str, device: str) -> None:
    """Inductor calls the op as it is; the arithmetic around it is its own."""
    torch._dynamo.reset()
    function = getattr(ops, op)
    compiled = torch.compile(lambda t: function(t, 1, True), fullgraph=True, dynamic=True)
    for batch in (4, 5, 6):
        t = torch.randn(batch, 1000, device=device)
        assert_same_bits(compiled(t), function(t, 1, True))


def test_export_keeps_the_op(device: str) -> None:
    class Model(torch.nn.Module):
        def forward(self, t: torch.Tensor) -> torch.Tensor:
            return ops.mean(t, [-1], True) - ops.amax(t, [-1], True)

    batch = torch.export.Dim("batch", min=2, max=64)
    t = torch.randn(4, 33, device=device)
    exported = torch.export.export(Model(), (t,), dynamic_shapes={"t": {0: batch}})
    called = [str(node.target) for node in exported.graph.nodes if node.op == "call_function"]
    assert [n for n in called if n.startswith("gpureduce")] == [
        "gpureduce.mean.default",
        "gpureduce.amax.default",
    ]
    other = torch.randn(9, 33, device=device)
    assert_same_bits(exported.module()(other), Model()(other))


@pytest.mark.parametrize("dtype", ALL, ids=name)
def test_meta_dtypes(dtype: torch.dtype) -> None:
    t = torch.empty(3, dtype=dtype, device="meta")
    for op in OPS:
        if dtype not in DTYPES_OF[op] or (op.endswith("mean") and not is_inexact(dtype)):
            continue
        real = getattr(ops, op)(torch.zeros(3, dtype=dtype))
        assert getattr(ops, op)(t).dtype == real.dtype
