"""Calls that cannot be answered: torch's error classes, messages that say what to change, and an op
that still works afterwards.
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from dtypes import (
    CHOICES,
    COMPLEX,
    INTEGERS,
    LIST_OPS,
    OPS,
    SPREADS,
    TRUTHS,
    VALUES,
    WITH_DTYPE,
    name,
    of_torch,
)
from tensors import DEVICES, assert_same_bits, one_nan
from torch.autograd import forward_ad

ops = torch.ops.gpureduce
# Most tests here ask every device in turn.
pytestmark = pytest.mark.cuda

Call = Callable[[], torch.Tensor]

# Of five ones, where it is not 1.
ANSWERS = {
    **{"sum": 5, "nansum": 5, "argmax": 0, "argmin": 0, "norm": torch.tensor(5.0).sqrt().item()},
    **{"var": 0, "std": 0, "logsumexp": pytest.approx(1 + math.log(5), rel=1e-6)},
}


def error_of(call: Call) -> Exception:
    try:
        result = call()
    except Exception as error:
        return error
    raise AssertionError(f"no error, but {result}")


def assert_refused(call: Call, op: str, *parts: str, device: str = "cpu") -> Exception:
    """`call` raises, the message names the op and has all the parts, and the op still works."""
    error = error_of(call)
    message = str(error)
    for part in (f"gpureduce::{op}", *parts):
        assert part in message, message
    if op == "sum_rung":
        assert ops.sum_rung(torch.ones(5, device=device), "sum").item() == 5
    else:
        ones = torch.ones(5, device=device)
        result = getattr(ops, op)(ones)
        last = result if isinstance(result, torch.Tensor) else result[2 if op == "stats" else 1]
        assert last.item() == ANSWERS.get(op, 1)
    if device == "cuda":
        torch.cuda.synchronize()
    return error


def assert_refused_like_torch(op: str, t: torch.Tensor, *parts: str, **arguments: Any) -> None:
    """With the class that torch's function of the same name raises, on the CPU and on Meta too."""
    # torch's product takes one dim.
    their_op = "sum" if op == "prod" and isinstance(arguments.get("dim"), list) else op
    theirs = error_of(lambda: of_torch(their_op)(t, **arguments))
    for device in (*DEVICES, "meta"):
        on_device = t.to(device)
        ours = assert_refused(
            lambda x=on_device: getattr(ops, op)(x, **arguments),
            op,
            "expected",
            "got",
            *parts,
            device="cpu" if device == "meta" else device,
        )
        assert type(ours) is type(theirs), f"{device}: {ours!r}, torch: {theirs!r}"


# Dims


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dim", [2, -3, 2**40])
def test_no_such_dim(op: str, dim: int) -> None:
    t = torch.ones(2, 3)
    assert_refused_like_torch(op, t, "dim", "-2", "1", str(dim), dim=dim)
    if op in LIST_OPS:
        assert_refused_like_torch(op, t, "dim", "-2", "1", str(dim), dim=[0, dim])


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dim", [1, -2])
def test_a_0d_tensor_has_no_other_dim(op: str, dim: int) -> None:
    assert_refused_like_torch(op, torch.tensor(1.0), "dim", "-1", "0", str(dim), dim=dim)
    if op in LIST_OPS:
        assert_refused_like_torch(op, torch.tensor(1.0), "dim", str(dim), dim=[0, dim])


@pytest.mark.parametrize("op", LIST_OPS)
@pytest.mark.parametrize("dims", [[0, 0], [1, -1], [0, 1, -2]])
def test_the_same_dim_twice(op: str, dims: list[int]) -> None:
    assert_refused_like_torch(op, torch.ones(2, 3), "dim", dim=dims)


@pytest.mark.parametrize("op", LIST_OPS)
def test_the_only_dim_of_a_0d_tensor_twice(op: str) -> None:
    assert_refused_like_torch(op, torch.tensor(1.0), "dim", dim=[0, -1])


@pytest.mark.parametrize("op", CHOICES)
@pytest.mark.parametrize(
    ("shape", "dim"), [((0,), 0), ((0, 3), 0), ((3, 0), -1), ((2, 2, 0, 3), 2), ((36, 0), 1)]
)
def test_nothing_to_choose_from_along_a_dim(op: str, shape: tuple[int, ...], dim: int) -> None:
    empty = torch.ones(shape)
    assert_refused_like_torch(op, empty, f"dim {dim % len(shape)}", dim=dim)
    assert_refused_like_torch(op, empty, f"dim {dim % len(shape)}", dim=dim, keepdim=True)
    if op in VALUES:
        dims = list(range(len(shape)))
        assert_refused_like_torch(op, empty, "dim", dim=dims)


@pytest.mark.parametrize("op", CHOICES)
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 2, 0, 3)])
def test_nothing_to_choose_from_at_all(op: str, shape: tuple[int, ...]) -> None:
    assert_refused_like_torch(op, torch.ones(shape), "self", str(list(shape)))


def assert_answer(op: str, got: torch.Tensor, want: torch.Tensor) -> None:
    """torch's bits, where no exponential rounds."""
    if op == "logsumexp":
        torch.testing.assert_close(got.cpu(), want.cpu(), rtol=1e-6, atol=1e-6)
    else:
        assert_same_bits(got, one_nan(want))


@pytest.mark.parametrize("op", OPS)
def test_more_than_64_dims(op: str) -> None:
    t = torch.ones([1] * 65)
    for dim in (0, -1, 64):
        theirs = error_of(lambda d=dim: of_torch(op)(t, dim=d))
        for device in (*DEVICES, "meta"):
            x = t.to(device)
            ours = assert_refused(lambda x=x, d=dim: getattr(ops, op)(x, d), op, "self", "64", "65")
            assert type(ours) is type(theirs)
    # The whole of such a tensor is another matter: torch's CPU reduces it, with keepdim where the
    # op takes dim=[].
    whole = t.expand([3] + [1] * 64)
    for device in DEVICES:
        got = getattr(ops, op)(whole.to(device), None, keepdim=True)
        want = of_torch(op)(whole.flatten())
        assert got.shape == (1,) * 65
        assert_answer(op, got.flatten(), want.flatten())
        assert_answer(op, getattr(ops, op)(whole.to(device)), want)


def test_more_than_64_dims_of_no_elements() -> None:
    """In a process of its own: squeezing does not make them fewer, and a stack has an end."""
    program = """
import torch, torch_reduce
nothing = torch.zeros([0] * 65)
try:
    print(torch.ops.gpureduce.sum(nothing).item())
except RuntimeError as error:
    assert "65" in str(error), error
    print("refused")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr or f"ended with {done.returncode}"
    assert done.stdout.strip() in ("0.0", "refused")


@pytest.mark.parametrize("op", OPS)
def test_64_dims_are_not_too_many(op: str, device: str) -> None:
    t = torch.arange(8.0, device=device).reshape([2] + [1] * 30 + [2] + [1] * 31 + [2])
    function = getattr(ops, op)
    assert_answer(op, function(t), of_torch(op)(t))
    for dim in (0, 31, 63, -1, 5):
        assert_answer(op, function(t, dim), of_torch(op)(t, dim=dim))


# Dtypes


@pytest.mark.parametrize("op", CHOICES)
@pytest.mark.parametrize("dtype", COMPLEX, ids=name)
def test_complex_numbers_have_no_order(op: str, dtype: torch.dtype) -> None:
    t = torch.ones(3, dtype=dtype)
    theirs = error_of(lambda: getattr(torch, op)(t))
    for device in (*DEVICES, "meta"):
        x = t.to(device)
        ours = assert_refused(
            lambda x=x: getattr(ops, op)(x), op, "self", "expected", "got", "Complex"
        )
        # torch raises RuntimeError for indices and NotImplementedError, which is one, for values.
        assert type(ours) is NotImplementedError
        assert isinstance(ours, type(theirs)), f"{ours!r}, torch: {theirs!r}"


@pytest.mark.parametrize("dtype", INTEGERS, ids=name)
def test_a_mean_of_integers_needs_a_dtype(dtype: torch.dtype) -> None:
    t = torch.ones(3).to(dtype)
    assert_refused_like_torch("mean", t, "self", "dtype")
    assert_refused_like_torch("mean", t, "dtype", dim=0)
    assert_refused_like_torch("mean", t, "dtype", dtype=torch.int64)


@pytest.mark.parametrize("dtype", INTEGERS, ids=name)
def test_nanmean_and_norm_are_of_floats(dtype: torch.dtype) -> None:
    t = torch.ones(3).to(dtype)
    assert_refused_like_torch("nanmean", t, "self", "dtype")
    assert_refused_like_torch("nanmean", t, "self", dtype=torch.float32)
    norm_is_refused_like_torch(t, "self", "dtype")
    norm_is_refused_like_torch(t, "self", dtype=torch.float32)


@pytest.mark.parametrize("dtype", INTEGERS, ids=name)
@pytest.mark.parametrize("op", [*SPREADS, "var_mean", "std_mean"])
def test_variances_are_of_floats(op: str, dtype: torch.dtype) -> None:
    t = torch.ones(3).to(dtype)
    assert_refused_like_torch(op, t, "self", "dtype")
    assert_refused_like_torch(op, t, "self", dim=0, correction=0)


@pytest.mark.parametrize("op", ["var_mean", "std_mean"])
def test_a_variance_with_its_mean_is_refused_like_one_alone(op: str) -> None:
    t = torch.ones(2, 3)
    for dim in (2, -3, [0, 2]):
        assert_refused_like_torch(op, t, "dim", dim=dim)
    assert_refused_like_torch(op, t, "dim", dim=[1, 1])


@pytest.mark.parametrize("op", [*SPREADS, "var_mean", "std_mean"])
def test_a_correction_is_a_real_number(op: str) -> None:
    assert_refused_like_torch(op, torch.ones(3), "correction", correction=1j)


@pytest.mark.parametrize("dtype", COMPLEX, ids=name)
def test_logsumexp_is_of_real_numbers(dtype: torch.dtype) -> None:
    for device in (*DEVICES, "meta"):
        t = torch.ones(3, dtype=dtype, device=device)
        error = assert_refused(lambda t=t: ops.logsumexp(t), "logsumexp", "self", "real", "got")
        assert type(error) is NotImplementedError


@pytest.mark.parametrize("dtype", [*INTEGERS, *COMPLEX], ids=name)
def test_stats_are_of_real_floats(dtype: torch.dtype) -> None:
    for device in (*DEVICES, "meta"):
        t = torch.ones(3).to(dtype).to(device)
        error = assert_refused(lambda t=t: ops.stats(t), "stats", "self", "expected", "got")
        assert type(error) is NotImplementedError


def test_stats_refuse_what_amax_refuses() -> None:
    for shape, arguments in (
        ((2, 3), {"dim": 2}),
        ((2, 3), {"dim": [1, -1]}),
        ((0, 3), {"dim": 0}),
        ((3, 0), {"dim": [0, 1]}),
        ((0,), {}),
        ((1,) * 65, {"dim": 0}),
    ):
        for device in (*DEVICES, "meta"):
            t = torch.ones(shape, device=device)
            theirs = error_of(lambda t=t, a=arguments: ops.amax(t, **a))
            ours = error_of(lambda t=t, a=arguments: ops.stats(t, **a))
            assert type(ours) is type(theirs)
            assert str(ours) == str(theirs).replace("amax", "stats")


def norm_is_refused_like_torch(t: torch.Tensor, *parts: str, **arguments: Any) -> None:
    theirs = error_of(lambda: torch.linalg.vector_norm(t, **arguments))
    for device in (*DEVICES, "meta"):
        x = t.to(device)
        ours = assert_refused(
            lambda x=x: ops.norm(x, **arguments), "norm", "expected", "got", *parts
        )
        assert type(ours) is type(theirs), f"{device}: {ours!r}, torch: {theirs!r}"


def test_a_norm_keeps_the_kind_and_the_precision_of_its_input() -> None:
    for dtype, asked in (
        (torch.float64, torch.float32),
        (torch.float32, torch.bfloat16),
        (torch.bfloat16, torch.float16),
        (torch.float16, torch.bfloat16),
        (torch.float32, torch.int32),
        (torch.float32, torch.complex64),
        (torch.complex64, torch.float32),
        (torch.complex128, torch.complex64),
    ):
        norm_is_refused_like_torch(torch.ones(3, dtype=dtype), "dtype", dtype=asked)


def test_orders_and_dims_of_a_norm() -> None:
    norm_is_refused_like_torch(torch.ones(3), "ord", ord=1j)
    norm_is_refused_like_torch(torch.ones(3), "dim", dim=3)
    norm_is_refused_like_torch(torch.ones(3, 2), "dim", dim=[0, 0])


@pytest.mark.parametrize("order", [float("inf"), -float("inf"), -1, -0.5])
def test_norms_that_need_an_element(order: float) -> None:
    norm_is_refused_like_torch(torch.ones(0), "self", ord=order)
    norm_is_refused_like_torch(torch.ones(0, 3), "dim 0", ord=order, dim=0)
    norm_is_refused_like_torch(torch.ones(0, 3), "dim 0", ord=order, dim=[0, 1])


@pytest.mark.parametrize("op", ["max", "min"])
def test_extremes_along_a_dim(op: str) -> None:
    for t, arguments in (
        (torch.ones(2, 3), {"dim": 2}),
        (torch.ones(2, 3), {"dim": -3}),
        (torch.ones(0, 3), {"dim": 0}),
        (torch.ones(0), {}),
    ):
        assert_refused_like_torch(op, t, "dim" if arguments else "self", **arguments)


def test_aminmax_and_count_nonzero() -> None:
    for arguments in ({"dim": 2}, {"dim": -3}):
        for op in ("aminmax", "count_nonzero"):
            theirs = error_of(lambda o=op, a=arguments: getattr(torch, o)(torch.ones(2, 3), **a))
            ours = error_of(lambda o=op, a=arguments: getattr(ops, o)(torch.ones(2, 3), **a))
            assert type(ours) is type(theirs) is IndexError
            assert f"gpureduce::{op}" in str(ours)
    with pytest.raises(RuntimeError, match=r"gpureduce::count_nonzero.*dim"):
        ops.count_nonzero(torch.ones(2, 3), [0, 0])
    for shape, dim in (((0, 3), 0), ((0,), None)):
        arguments = {} if dim is None else {"dim": dim}
        theirs = error_of(lambda s=shape, a=arguments: torch.aminmax(torch.ones(s), **a))
        ours = error_of(lambda s=shape, a=arguments: ops.aminmax(torch.ones(s), **a))
        assert type(ours) is type(theirs)


@pytest.mark.parametrize("dtype", INTEGERS, ids=name)
def test_a_mean_is_not_computed_in_integers(dtype: torch.dtype) -> None:
    assert_refused_like_torch("mean", torch.ones(3), "dtype", dtype=dtype)


UNKNOWN = [
    torch.complex32,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
    torch.bits8,
    torch.bits16,
]


def of_unknown(dtype: torch.dtype) -> torch.Tensor:
    return torch.zeros(8, dtype=torch.uint8).view(dtype)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", UNKNOWN, ids=name)
def test_dtypes_that_the_library_does_not_know(op: str, dtype: torch.dtype) -> None:
    t = of_unknown(dtype)
    # torch knows whether those of its dtypes are zero that it has no arithmetic for, and takes the
    # variance of small complex numbers.
    answered = op in TRUTHS and not name(dtype).startswith("bits")
    answered |= op in SPREADS and dtype == torch.complex32
    theirs = NotImplementedError() if answered else error_of(lambda: of_torch(op)(t))
    for device in (*DEVICES, "meta"):
        x = t.to(device)
        ours = assert_refused(lambda x=x: getattr(ops, op)(x), op, "self", "expected", "got")
        assert isinstance(ours, NotImplementedError)
        # Where torch refuses with a class of its own (a mean of bits), whoever expects that one
        # is served too.
        assert isinstance(ours, type(theirs)), f"{ours!r}, torch: {theirs!r}"


@pytest.mark.parametrize("op", ["sum", "mean"])
@pytest.mark.parametrize("dtype", [*UNKNOWN, torch.qint8, torch.quint8], ids=name)
def test_a_dtype_argument_that_the_library_does_not_know(op: str, dtype: torch.dtype) -> None:
    t = torch.ones(3)
    theirs = error_of(lambda: getattr(torch, op)(t, dtype=dtype))
    for device in (*DEVICES, "meta"):
        x = t.to(device)
        ours = assert_refused(
            lambda x=x: getattr(ops, op)(x, dtype=dtype), op, "dtype", "expected", "got"
        )
        assert isinstance(ours, type(theirs)), f"{ours!r}, torch: {theirs!r}"


# Arguments of another type: refused before the op is reached, like torch's own operators are


@pytest.mark.parametrize(
    ("op", "arguments"),
    [
        ("amax", (torch.ones(3), "a")),
        ("amax", (torch.ones(3), [1.5])),
        ("argmax", (torch.ones(3), 1.5)),
        ("argmax", (torch.ones(3), [0])),
        ("argmax", ([1.0, 2.0],)),
        ("amax", (None,)),
        ("amax", ()),
        ("amax", (torch.ones(3), 0, False, 1)),
    ],
    ids=str,
)
def test_arguments_of_another_type(op: str, arguments: tuple[Any, ...]) -> None:
    theirs = error_of(lambda: getattr(torch.ops.aten, op)(*arguments))
    assert isinstance(error_of(lambda: getattr(ops, op)(*arguments)), type(theirs))


@pytest.mark.parametrize("op", OPS)
def test_unknown_keywords(op: str) -> None:
    theirs = error_of(lambda: torch.ops.aten.amax(torch.ones(3), axis=0))
    ours = error_of(lambda: getattr(ops, op)(torch.ones(3), axis=0))
    assert type(ours) is type(theirs)
    assert "axis" in str(ours)
    if op not in WITH_DTYPE:
        ours = error_of(lambda: getattr(ops, op)(torch.ones(3), dtype=torch.float32))
        assert type(ours) is type(theirs)


# Tensors that are not dense and strided


def quantized() -> torch.Tensor:
    return torch.quantize_per_tensor(torch.ones(4, 4), 0.1, 0, torch.quint8)


NOT_STRIDED = {
    "sparse": lambda: torch.ones(4, 4).to_sparse(),
    "sparse_csr": lambda: torch.ones(4, 4).to_sparse_csr(),
    "sparse_csc": lambda: torch.ones(4, 4).to_sparse_csc(),
    "sparse_bsr": lambda: torch.ones(4, 4).to_sparse_bsr((2, 2)),
    "quantized": quantized,
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "mkldnn": lambda: torch.ones(4, 4).to_mkldnn(),
}


@pytest.mark.filterwarnings("ignore:.*(beta|prototype|nested).*:UserWarning")
@pytest.mark.parametrize("op", [*OPS, "sum_rung"])
@pytest.mark.parametrize("layout", NOT_STRIDED)
def test_tensors_that_are_not_strided(op: str, layout: str) -> None:
    t = NOT_STRIDED[layout]()
    arguments = ("sum",) if op == "sum_rung" else ()
    error = assert_refused(lambda: getattr(ops, op)(t, *arguments), op, "self", "expected", "got")
    assert isinstance(error, NotImplementedError)
    assert layout.replace("_", "") in str(error).lower().replace("_", "").replace("torch.", "")


@pytest.mark.filterwarnings("ignore:.*(beta|prototype|nested).*:UserWarning")
@pytest.mark.parametrize("layout", ["sparse", "sparse_csr", "quantized", "nested"])
def test_tensors_on_a_gpu_that_are_not_strided(layout: str, cuda: str) -> None:
    t = NOT_STRIDED[layout]().to(cuda)
    error = assert_refused(lambda: ops.sum(t), "sum", "self", "expected", "got", device=cuda)
    assert isinstance(error, NotImplementedError)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("backend", ["XLA", "MPS", "XPU", "PrivateUse1"])
def test_tensors_on_another_backend(op: str, backend: str) -> None:
    """No such device is here, so the dispatcher is told that the tensor is on one."""
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, backend))
    overload = getattr(ops, op).default
    error = error_of(lambda: overload.redispatch(keys, torch.ones(3)))
    assert type(error) is NotImplementedError
    assert f"gpureduce::{op}" in str(error)
    assert backend in str(error)


@pytest.mark.parametrize("op", OPS)
def test_a_meta_tensor_has_no_data(op: str) -> None:
    result = getattr(ops, op)(torch.ones(2, 3, device="meta"), 1)
    assert result.device.type == "meta"
    assert result.shape == (2,)
    like = of_torch(op)(torch.ones(2, 3, device="meta"), dim=1)
    for read in (lambda t: t.tolist(), lambda t: t.cpu(), lambda t: t[0].item()):
        theirs = error_of(lambda r=read: r(like))
        assert type(error_of(lambda r=read: r(result))) is type(theirs)


# Gradients


@pytest.mark.parametrize("op", [*WITH_DTYPE, *VALUES, *SPREADS, "logsumexp"])
def test_a_backward_says_that_there_is_no_derivative(op: str, device: str) -> None:
    t = torch.arange(6.0, device=device).reshape(2, 3).requires_grad_()
    for dim in (None, 1):
        result = getattr(ops, op)(t, dim)
        assert_same_bits(result, getattr(ops, op)(t.detach(), dim))
        assert result.requires_grad
        with pytest.raises(RuntimeError, match=rf"gpureduce::{op}.*not implemented"):
            result.sum().backward()
    assert t.grad is None
    with torch.no_grad():
        assert not getattr(ops, op)(t).requires_grad


@pytest.mark.parametrize("op", ["sum", "argmax", "stats", "count_nonzero"])
def test_a_forward_gradient_is_refused(op: str, device: str) -> None:
    t = torch.arange(6.0, device=device)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(t, torch.ones_like(t))
        with pytest.raises(NotImplementedError, match=rf"gpureduce::{op}.*no derivative"):
            getattr(ops, op)(dual)


def test_no_result_of_stats_has_a_derivative(device: str) -> None:
    t = torch.arange(6.0, device=device).requires_grad_()
    found = ops.stats(t)
    for got, want in zip(found, ops.stats(t.detach()), strict=True):
        assert_same_bits(got, want)
    with pytest.raises(RuntimeError, match=r"gpureduce::stats.*not implemented"):
        found[2].backward()


def test_an_index_needs_no_derivative(device: str) -> None:
    t = torch.arange(6.0, device=device).requires_grad_()
    where = ops.argmax(t)
    assert where.item() == 5
    assert not where.requires_grad or where.grad_fn is not None


# The ladder


@pytest.mark.parametrize("rung", ["", "v4", "Serial", "sum ", "v3_warp\n"])
def test_an_unknown_rung(rung: str, device: str) -> None:
    t = torch.ones(5, device=device)
    rungs = ("serial", "v1", "v2", "v3_warp", "v3", "sum")
    error = assert_refused(
        lambda: ops.sum_rung(t, rung), "sum_rung", "rung", "expected", "got", *rungs
    )
    assert isinstance(error, ValueError)
    with pytest.raises(ValueError, match="rung"):
        ops.sum_rung(t.to("meta"), rung)


# Out of memory


@pytest.mark.parametrize("size", [1, 3_000_000])
def test_no_memory_for_result_and_scratch(size: int, cuda: str) -> None:
    """torch's own error, and everything works once there is memory again."""
    t = torch.ones(size, device=cuda)
    want = ops.sum(t).item()
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    hoard = []
    torch.cuda.set_per_process_memory_fraction(torch.cuda.memory_reserved() / total)
    try:
        # Of what the allocator holds already, each block is taken, large and small.
        for n in (2**20, 2**14, 512, 1):
            while True:
                try:
                    hoard.append(torch.empty(n, dtype=torch.uint8, device=cuda))
                except torch.OutOfMemoryError:
                    break
        error = error_of(lambda: ops.sum(t))
        assert isinstance(error, torch.OutOfMemoryError)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        hoard.clear()
    assert ops.sum(t).item() == want == size
