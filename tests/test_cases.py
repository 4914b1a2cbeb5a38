"""Inputs on which reduction libraries have failed, and their whole kinds."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import references
import torch
from dtypes import DTYPES_OF, INDICES, OPS, SPREADS, TRUTHS, VALUES, is_inexact, name, of_torch
from numpy_walk import expected, result_shape
from tensors import Kind, assert_same_bits, generator, one_nan, sequences, some_numbers

ops = torch.ops.gpureduce

f16, bf16, f32 = torch.float16, torch.bfloat16, torch.float32
MIB, GIB = 2**20, 2**30


def call(op: str, t: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> torch.Tensor:
    """The op, with `dtype=float32` where a mean of integers needs it."""
    if op == "mean" and not is_inexact(t.dtype):
        return ops.mean(t, dim, keepdim, dtype=f32)
    return getattr(ops, op)(t, dim, keepdim=keepdim)


def cases_of(dtypes: list[torch.dtype]) -> list[tuple[str, torch.dtype]]:
    return [(op, dtype) for op in OPS for dtype in dtypes if dtype in DTYPES_OF[op]]


# Misaligned views


@pytest.mark.parametrize(("op", "dtype"), cases_of([f16, bf16, f32, torch.int8, torch.bool]))
def test_misaligned_views(op: str, dtype: torch.dtype, device: str) -> None:
    """Contiguous, but beginning 1, 2, 3, 5 or 7 elements past a 16-byte line."""
    for n in (1, 2, 3, 15, 16, 17, 1023, 1024):
        for start in (1, 2, 3, 5, 7):
            base = torch.arange(n + start).to(dtype).to(device)
            view, fresh = base[start:], base[start:].clone()
            for dim in (None, -1):
                assert_same_bits(call(op, view, dim), call(op, fresh, dim))
        for pitch in (n + 1, n + 3, n + 16):
            base = torch.arange(5 * pitch).to(dtype).to(device).view(5, pitch)
            for view in (base[:, :n], base[:, pitch - n :]):
                for dim in (None, 0, -1):
                    assert_same_bits(call(op, view, dim), call(op, view.clone(), dim))
    if device == "cuda":
        torch.cuda.synchronize()  # a read past the end would show here


# Half precision


@pytest.mark.parametrize(
    ("values", "sum_", "mean", "float_sum"),
    [
        (torch.tensor([32000.0] * 4 + [-32000.0] * 4, dtype=f16), 0.0, 0.0, 0.0),
        (torch.full((4096,), 60000.0, dtype=f16), math.inf, 60000.0, 245760000.0),
        (torch.ones(4096, dtype=bf16), 4096.0, 1.0, 4096.0),
        (torch.ones(8193, dtype=f16), 8192.0, 1.0, 8193.0),
    ],
    ids=["cancels", "overflows", "bfloat16 ones", "float16 ones"],
)
def test_half_precision_accumulates_in_float(
    values: torch.Tensor, sum_: float, mean: float, float_sum: float, device: str
) -> None:
    n = len(values)
    values = values.to(device)
    for t, dim in (
        (values, 0),
        (values.expand(3, n).clone(), 1),
        (values[:, None].repeat(1, 3), 0),
    ):
        for got, want in (
            (ops.sum(t, dim), sum_),
            (ops.mean(t, dim), mean),
            (ops.sum(t, dim, dtype=f32), float_sum),
            (ops.mean(t, dim, dtype=f32), float_sum / n),
        ):
            assert got.flatten().tolist() == [want] * got.numel()


# No limit at 2^31 or 2^32


@pytest.mark.alone
@pytest.mark.big_memory(100)
def test_more_than_2_to_the_31_elements(cuda: str) -> None:
    values = torch.ones(2**31, dtype=f16, device=cuda)
    values[2**30 :] = -1
    assert ops.sum(values).item() == 0
    assert ops.mean(values).item() == 0
    assert ops.sum(values, dtype=f32).item() == 0
    assert ops.amax(values).item() == 1
    assert ops.argmax(values).item() == 0
    assert ops.argmax(values.neg()).item() == 2**30


@pytest.mark.alone
@pytest.mark.big_memory(100)
def test_an_index_past_2_to_the_32(cuda: str) -> None:
    values = torch.zeros(2**32, dtype=torch.int8, device=cuda)
    values[-1] = 1
    assert ops.amax(values).item() == 1
    assert ops.argmax(values).item() == 2**32 - 1
    assert ops.sum(values).item() == 1
    assert ops.mean(values, dtype=torch.float64).item() == 2.0**-32
    for shape, dim in (((2**16, 2**16), 1), ((2**31, 2), 0), ((2, 2**31), 1), ((2**30, 4), 0)):
        matrix = values.view(shape)
        assert ops.sum(matrix, dim).sum().item() == 1
        where = ops.argmax(matrix, dim)
        assert where[-1].item() == shape[dim] - 1
        assert where[:-1].any().item() is False


@pytest.mark.alone
@pytest.mark.big_memory(100)
@pytest.mark.parametrize(
    ("shape", "dim"), [((2**31 + 8, 2), 1), ((2**32 + 2, 1), 1), ((2, 2**31 + 8), 0)]
)
def test_more_than_2_to_the_31_results(shape: tuple[int, int], dim: int, cuda: str) -> None:
    t = torch.zeros(shape, dtype=torch.int8, device=cuda)
    t.select(1 - dim, shape[1 - dim] - 1).fill_(3)
    got = ops.amax(t, dim)
    assert got[-1].item() == 3
    assert got[:-1].any().item() is False


@pytest.mark.slow
def test_an_expanded_tensor_of_more_than_2_to_the_31_elements(device: str) -> None:
    n = 2**31 + 8
    t = torch.ones(1, dtype=torch.int8, device=device).expand(n)
    assert ops.sum(t).item() == n
    assert ops.mean(t, dtype=torch.float64).item() == 1
    assert ops.amax(t).item() == 1
    assert ops.argmax(t).item() == 0


@pytest.mark.parametrize("op", OPS)
def test_shapes_of_more_than_2_to_the_31_elements(op: str) -> None:
    """What needs no memory: the shape rule in 64 bits."""
    t = torch.empty(1, device="meta").expand(2**31 + 8, 3, 2**27)
    assert call(op, t, 1).shape == (2**31 + 8, 2**27)
    assert call(op, t, 0, True).shape == (1, 3, 2**27)


# NaN, infinities, ties, zeros

NAN, INF = math.nan, math.inf
SPECIAL_ROWS = [
    ([1, NAN, 3], NAN, 1),
    ([NAN, NAN], NAN, 0),
    ([-INF] * 12, -INF, 0),
    ([INF, NAN], NAN, 1),
    ([NAN, INF], NAN, 0),
    ([1, 1, 1, 1], 1, 0),
    ([0, 1, 0, 1], 1, 1),
    ([-0.0, 0.0], 0, 0),
    ([0.0, -0.0], 0, 0),
    ([-INF, -3, -INF], -3, 1),
    ([INF, INF], INF, 0),
]
FLOATS_WITH_INF = [torch.float8_e5m2, f16, bf16, f32, torch.float64]


def negated(t: torch.Tensor) -> torch.Tensor:
    """-t in the same layout, for the dtypes that torch does not negate too."""
    flat = t.as_strided((t.untyped_storage().nbytes() // t.itemsize,), (1,), 0)
    minus = (-flat.double()).to(t.dtype)
    return minus.as_strided(t.shape, t.stride(), t.storage_offset())


def assert_maximum(t: torch.Tensor, dim: int | None, value: float, index: int) -> None:
    """By each op that tells of it, and by those that tell of the minimum of -t."""
    minus = negated(t)
    found = [
        (1, ops.amax(t, dim), ops.argmax(t, dim)),
        (-1, ops.amin(minus, dim), ops.argmin(minus, dim)),
        (1, ops.aminmax(t, dim)[1], None),
        (-1, ops.aminmax(minus, dim)[0], None),
        *([(1, ops.max(t), None)] if dim is None else [(1, *ops.max(t, dim))]),
        *([(-1, ops.min(minus), None)] if dim is None else [(-1, *ops.min(minus, dim))]),
    ]
    for sign, got, where in found:
        if where is not None:
            assert where.flatten().tolist() == [index] * where.numel()
        values = got.double().flatten() * sign
        assert bool((values.isnan() if math.isnan(value) else values == value).all()), values


@pytest.mark.parametrize("dtype", FLOATS_WITH_INF, ids=name)
@pytest.mark.parametrize(("row", "value", "index"), SPECIAL_ROWS)
def test_special_rows(
    row: list[float], value: float, index: int, dtype: torch.dtype, device: str
) -> None:
    t = torch.tensor(row).to(dtype).to(device)
    n = len(row)
    assert_maximum(t, None, value, index)
    assert_maximum(t, 0, value, index)
    bits = t.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[t.itemsize])
    rows = bits.expand(37, n).clone().view(dtype)
    assert_maximum(rows, 1, value, index)
    assert_maximum(rows.t(), 0, value, index)
    assert_maximum(bits[:, None].repeat(1, 37).view(dtype), 0, value, index)


@pytest.mark.parametrize("dtype", FLOATS_WITH_INF, ids=name)
@pytest.mark.parametrize("n", [2, 4, 31, 33, 1025, 70000])
@pytest.mark.parametrize("special", [NAN, INF, 1.5])
def test_the_special_value_comes_last(
    special: float, n: int, dtype: torch.dtype, device: str
) -> None:
    for filling in (0.0, -1.0, -INF):
        for width in (1, 3):
            values = torch.full((n, width), filling)
            values[-1] = special
            columns = values.to(dtype).to(device)
            assert_maximum(columns, 0, special, n - 1)
            rows = values.t().contiguous().to(dtype).to(device)
            assert_maximum(rows, 1, special, n - 1)
            if width == 1:
                assert_maximum(columns, None, special, n - 1)


@pytest.mark.parametrize("n", [2, 33, 1025, 70000])
def test_the_first_of_several_nans_wins(n: int, device: str) -> None:
    values = torch.full((n,), INF)
    values[n // 2 :] = NAN
    for t in (values, values.double(), values.bfloat16()):
        assert_maximum(t.to(device), 0, NAN, n // 2)


# Integers and bool


def test_small_integers_and_bool(device: str) -> None:
    def on(values: object, dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype, device=device)

    assert ops.sum(torch.ones(300, dtype=torch.bool, device=device)).item() == 300
    assert ops.sum(on([120, 120], torch.int8)).item() == 240
    lowest = torch.full((40,), -128, dtype=torch.int8, device=device)
    assert ops.amax(lowest).item() == -128
    assert ops.argmax(lowest).item() == 0
    assert ops.mean(on([True, True], torch.bool), dtype=f32).item() == 1.0
    assert ops.sum(on([2], torch.uint8).view(torch.bool)).item() == 1


def test_truth_and_products_of_small_types(device: str) -> None:
    def on(values: object, dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype, device=device)

    for op, values in (("all", [1, 2]), ("any", [2, 4])):
        got = getattr(ops, op)(on(values, torch.uint8))
        assert got.dtype == torch.uint8
        assert got.item() == 1
    assert ops.all(on([1, 0], f32)).item() is False
    assert ops.any(on([0.0, -0.0], f32)).item() is False
    assert ops.all(on([math.nan, 1], f16)).item() is True
    assert ops.prod(torch.ones(20, 30, 400, dtype=torch.uint8, device=device)).item() == 1
    assert ops.prod(on([True, True], torch.bool)).item() == 1
    halves = on([300.0, 300.0, 0.5], f16)
    assert ops.prod(halves, dtype=f32).item() == halves.float().prod().item() == 45000.0
    threes = torch.full((50,), -3, dtype=torch.int8, device=device)
    assert ops.prod(threes).item() == (3**50 + 2**63) % 2**64 - 2**63
    assert ops.prod(on([2**32, 2**31, 2], torch.int64)).item() == 0


@pytest.mark.parametrize("n", [1, 2, 16, 33, 1025, 70001])
def test_a_bool_is_true_if_its_byte_is_not_zero(n: int, device: str) -> None:
    bytes_ = torch.from_numpy(generator("bytes", n).integers(0, 4, n, dtype="uint8")) * 85
    bools = bytes_.to(device).view(torch.bool)
    truth = bytes_ != 0
    assert ops.sum(bools).item() == int(truth.sum())
    assert ops.mean(bools, dtype=torch.float64).item() == int(truth.sum()) / n
    assert ops.amax(bools).item() is bool(truth.any())
    assert ops.argmax(bools).item() == int(truth.int().argmax())
    assert ops.argmin(bools).item() == int(truth.int().argmin())
    assert ops.prod(bools).item() == int(truth.all())
    assert ops.count_nonzero(bools).item() == int(truth.sum())
    assert ops.any(bools).item() is bool(truth.any())
    assert ops.all(bools).item() is bool(truth.all())
    assert [end.item() for end in ops.aminmax(bools)] == [bool(truth.all()), bool(truth.any())]


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64], ids=name)
def test_the_lowest_integer_is_a_value_like_others(dtype: torch.dtype, device: str) -> None:
    lowest = torch.iinfo(dtype).min
    for n in (1, 5, 33, 4097):
        t = torch.full((3, n), lowest, dtype=dtype, device=device)
        assert ops.amax(t, 1).tolist() == [lowest] * 3
        assert ops.argmax(t, 1).tolist() == [0] * 3
        assert ops.argmax(t).item() == 0


# Empty tensors


def outcome(
    function: Callable[[], torch.Tensor],
) -> tuple[torch.Tensor | None, Exception | None]:
    """What a call gives: a result or an error."""
    try:
        return function(), None
    except Exception as error:
        return None, error


def prod_of_torch(t: torch.Tensor, dim: int | None, keepdim: bool) -> torch.Tensor:
    if dim is not None:
        return torch.prod(t, dim, keepdim)
    return torch.prod(t).reshape([1] * t.dim() if keepdim else [])


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0), (2, 2, 0, 3), (36, 0)])
@pytest.mark.parametrize("op", OPS)
def test_empty_tensors(op: str, shape: tuple[int, ...], device: str) -> None:
    """Results and error classes are torch's, for each dim and both values of keepdim."""
    t = torch.full(shape, 2.0)
    function = of_torch(op)
    if op == "prod":  # torch's takes keepdim beside dim only
        function = prod_of_torch
    for dim in (None, *range(-len(shape), len(shape))):
        for keepdim in (False, True):
            arguments = {
                "keepdim": keepdim,
                **({} if dim is None and op in VALUES else {"dim": dim}),
            }
            want, error = outcome(lambda a=arguments: function(t, **a))
            got, own_error = outcome(lambda d=dim, k=keepdim: call(op, t.to(device), d, k))
            assert type(own_error) is type(error), f"{own_error!r} and torch's {error!r}"
            if want is None or got is None:
                assert f"gpureduce::{op}" in str(own_error)
                continue
            assert got.stride() == want.stride()
            assert_same_bits(got, one_nan(want))


# Streams, graphs and threads


def test_two_streams_at_once(cuda: str) -> None:
    """Both reduce over many blocks, and results are looked at while the others run."""
    n, repeats = 2**24, 2000
    inputs = [sequences(Kind(f32), n)[i].to(cuda) for i in (0, 1)]
    want = [expected("sum", t) for t in inputs]
    where = [t.argmax() for t in inputs]
    wrong = [torch.zeros((), dtype=torch.int64, device=cuda) for _ in inputs]
    wanted_bits = [w.view(torch.int32).to(cuda) for w in want]
    streams = [torch.cuda.Stream() for _ in inputs]
    torch.cuda.synchronize()
    for i in range(repeats):
        for k, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                wrong[k] += ops.sum(inputs[k]).view(torch.int32) != wanted_bits[k]
                if i % 10 == 0:
                    wrong[k] += ops.argmax(inputs[k]) != where[k]
                if i % 500 == 499:
                    assert wrong[k].item() == 0
    torch.cuda.synchronize()
    assert [int(w) for w in wrong] == [0, 0]


PREAMBLE = """
import torch, torch_reduce
values = torch.arange(3_000_000, device="cuda", dtype=torch.float32)
total = values.double().sum().item()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
"""
FIRST_CALLS = {
    "capture": PREAMBLE
    + """
with torch.cuda.graph(graph):
    result, where = torch.ops.gpureduce.sum(values), torch.ops.gpureduce.argmax(values)
result.zero_(); where.zero_()
graph.replay()
assert abs(result.item() / total - 1) < 1e-6 and where.item() == 2_999_999
""",
    "capture on a side stream": PREAMBLE
    + """
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    graph.capture_begin()
    result = torch.ops.gpureduce.sum(values)
    graph.capture_end()
    result.zero_()
    graph.replay()
side.synchronize()
assert abs(result.item() / total - 1) < 1e-6
""",
    "call, then capture on another stream": PREAMBLE
    + """
outside = torch.ops.gpureduce.sum(values)
with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
    captured = torch.ops.gpureduce.sum(values)
captured.zero_()
for _ in range(20):
    graph.replay()
    outside = torch.ops.gpureduce.sum(values)
torch.cuda.synchronize()
assert captured.item() == outside.item() and abs(outside.item() / total - 1) < 1e-6
""",
}


@pytest.mark.parametrize("program", FIRST_CALLS.values(), ids=FIRST_CALLS)
def test_capture_is_the_first_call_of_a_process(program: str, cuda: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("shape", [(3_000_000,), (100_003, 33), (33, 100_003)])
def test_replays_with_new_contents(shape: tuple[int, ...], cuda: str) -> None:
    dim = None if len(shape) == 1 else 0 if shape[0] > shape[1] else 1
    t = torch.zeros(shape, device=cuda)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = [call(op, t, dim) for op in OPS]
    for replay in range(100):
        t.random_(-1000, 1000, generator=torch.Generator(cuda).manual_seed(replay))
        graph.replay()
        got = dict(zip(OPS, (result.clone() for result in captured), strict=True))
        for op, result in got.items():
            assert_same_bits(result, call(op, t, dim))
        assert torch.equal(got["amax"], t.amax() if dim is None else t.amax(dim))
        if replay < 3:
            assert_same_bits(got["sum"], expected("sum", t, dim))


@pytest.mark.parametrize(
    ("shape", "dim"),
    [
        ((2**21,), None),
        ((2**11, 2**10), 0),
        ((2**10, 2**11), 1),
        ((2**17, 16), 1),
        ((32, 2**16), 0),
    ],
)
def test_a_call_reads_what_the_one_before_wrote(
    shape: tuple[int, ...], dim: int | None, cuda: str
) -> None:
    """Where earlier calls have read what was there then, and before the writer has ended."""
    rows = 2**21
    inputs = [some_numbers(generator(rows, k), (rows, 4), f32, -10, 10) for k in range(3)]
    want = [expected("sum", expected("sum", t, 1).view(shape), dim) for t in inputs]
    on_card = [t.to(cuda) for t in inputs]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = [ops.sum(ops.sum(on_card[i % 3], 1).view(shape), dim) for i in range(30)]
    for _ in range(20):
        graph.replay()
        for i, result in enumerate(got):
            assert_same_bits(result, want[i % 3])


def test_two_graphs_replayed_at_once(cuda: str) -> None:
    inputs = [sequences(Kind(f32), 3_000_000)[i].to(cuda) for i in (0, 1)]
    want = [expected("sum", t) for t in inputs]
    graphs, results = [], []
    for t in inputs:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            results.append(ops.sum(t))
        graphs.append(graph)
    streams = [torch.cuda.Stream() for _ in graphs]
    torch.cuda.synchronize()
    for _ in range(200):
        for graph, stream, result in zip(graphs, streams, results, strict=True):
            with torch.cuda.stream(stream):
                result.zero_()
                graph.replay()
        torch.cuda.synchronize()
        for result, wanted in zip(results, want, strict=True):
            assert_same_bits(result, wanted)


def test_threads(device: str) -> None:
    """Eight threads, each with tensors of its own; on a GPU half of them use their own stream."""
    lengths = (5, 300, 4099, 70001)
    failures: list[str] = []

    def work(number: int) -> None:
        try:
            inputs = [some_numbers(generator(number, n), (n,), f32, -10, 10) for n in lengths]
            want = [expected("sum", t) for t in inputs]
            on_device = [t.to(device) for t in inputs]
            if device == "cpu":
                got = [ops.sum(on_device[i % len(lengths)]) for i in range(1000)]
            else:
                stream = torch.cuda.Stream() if number % 2 else torch.cuda.default_stream()
                stream.wait_stream(torch.cuda.default_stream())
                with torch.cuda.stream(stream):
                    got = [ops.sum(on_device[i % len(lengths)]) for i in range(1000)]
                    stream.synchronize()
            for i, result in enumerate(got):
                assert_same_bits(result, want[i % len(lengths)])
        except BaseException as error:  # a thread's exception would be lost
            failures.append(f"thread {number}: {error!r}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


# No surprises: synchronisation and memory


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("shape", [(5,), (1000, 1000), (3_000_000,), (40, 100_003)], ids=str)
def test_no_host_synchronisation(op: str, shape: tuple[int, ...], cuda: str) -> None:
    t = torch.ones(shape, device=cuda)
    torch.cuda.synchronize()
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for dim in (None, *range(len(shape))):
            call(op, t, dim)
        call(op, t.t() if t.dim() == 2 else t[1:])
        call(op, t.to(bf16))
    finally:
        torch.cuda.set_sync_debug_mode(before)


def read_status(key: str) -> int:
    """A figure of this process from the kernel, in bytes."""
    text = Path("/proc/self/status").read_text()
    found = re.search(rf"^{key}:\s+(\d+) kB", text, re.MULTILINE)
    assert found, key
    return int(found[1]) * 1024


def extra_bytes(device: str, function: Callable[[], torch.Tensor]) -> int:
    """The most memory that a second call of `function` takes at once, beside its result."""
    result = function()
    kept = result.numel() * result.element_size()
    del result
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        function()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before - kept
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = read_status("VmRSS")
    function()
    return read_status("VmHWM") - before - kept


# Bool, with a conversion; a conversion to a wider type; a transposed matrix. Smaller ones show a
# copy on a CPU too, from 64 MiB: glibc takes memory below 32 MiB from what it has kept.
def memory_cases(
    device: str,
) -> dict[str, tuple[Callable[[], torch.Tensor], str, dict[str, object]]]:
    count, side = (2900 * MIB if device == "cuda" else 64 * MIB), 8192
    return {
        "bool sum(dtype=int32)": (
            lambda: torch.ones(count, dtype=torch.bool, device=device),
            "sum",
            {"dtype": torch.int32},
        ),
        "bool mean(dtype=float32)": (
            lambda: torch.ones(64 * MIB, dtype=torch.bool, device=device),
            "mean",
            {"dtype": f32},
        ),
        "bfloat16 sum(dtype=float32)": (
            lambda: torch.ones(32 * MIB, dtype=bf16, device=device),
            "sum",
            {"dtype": f32},
        ),
        "sum of a transposed matrix": (
            lambda: torch.ones(side, side, device=device).t(),
            "sum",
            {},
        ),
        "sum of the rows of a transposed matrix": (
            lambda: torch.ones(side, side, device=device).t(),
            "sum",
            {"dim": 1},
        ),
        "amax of every second column": (
            lambda: torch.ones(side, side, device=device)[:, ::2],
            "amax",
            {"dim": 1},
        ),
        "argmax of a transposed matrix": (
            lambda: torch.ones(side, side, device=device).t(),
            "argmax",
            {},
        ),
        "argmax of columns": (
            lambda: torch.ones(side, side, device=device),
            "argmax",
            {"dim": 0},
        ),
    }


def skip_where_memory_cannot_be_seen(device: str) -> None:
    if device == "cuda" and torch.cuda.mem_get_info()[0] < 8 * GIB:
        pytest.skip("needs 8 GiB of free device memory")
    if device == "cpu" and not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("this system does not tell a process its peak of memory")


def test_a_copy_would_be_seen(device: str) -> None:
    """By the measure that the next test relies on."""
    skip_where_memory_cannot_be_seen(device)
    t = torch.ones(4096, 4096, device=device).t()
    assert extra_bytes(device, lambda: t.contiguous().amax()) > 60 * MIB
    assert extra_bytes(device, lambda: t.double().amax()) > 120 * MIB


@pytest.mark.parametrize("case", memory_cases("cpu"))
def test_no_hidden_copy(case: str, device: str) -> None:
    skip_where_memory_cannot_be_seen(device)
    make, op, arguments = memory_cases(device)[case]
    t = make()
    extra = extra_bytes(device, lambda: getattr(ops, op)(t, **arguments))
    assert extra < 4 * MIB, f"{extra / MIB:.1f} MiB"


# Accuracy


@pytest.mark.parametrize(
    ("values", "exact"),
    [
        (torch.full((1392640,), 0.1), 139264.0),
        (torch.arange(4096000, dtype=torch.float64).sub(2048000).add(0.5).float(), 0.0),
        (torch.cat([torch.ones(262144), torch.full((262144,), 0.1)]), 288358.4),
        (torch.ones(20_000_000), 2e7),
    ],
    ids=["0.1", "cancelling", "two magnitudes", "ones"],
)
def test_long_sums_keep_their_accuracy(values: torch.Tensor, exact: float, device: str) -> None:
    got = ops.sum(values.to(device))
    references.sum_interval("sum", values).check(got)
    # 0.1 in float32 is off by a part in 2^26, and so is a sum of them.
    absolute = values.double().abs().sum().item()
    bound = references.relative_bound(len(values), 4, f32) * absolute
    assert abs(got.item() - exact) <= bound + absolute * 2.0**-26
    assert_same_bits(ops.sum(values.to(device).view(-1, 1), 0), got.view(1))


# Contents do not decide the time


@pytest.mark.alone
@pytest.mark.parametrize("op", ["amax", "argmax", "argmin", "aminmax"])
def test_the_order_of_values_does_not_change_the_time(op: str, device: str) -> None:
    """A search that branches on each new maximum takes longest on ascending rows."""
    count, n = (1000, 37000) if device == "cuda" else (50, 37000)
    ascending = torch.arange(float(n)).expand(count, n).contiguous()
    shuffle = torch.from_numpy(generator("shuffle").permutation(n))
    inputs = [
        t.to(device) for t in (ascending, ascending.flip(1), ascending[:, shuffle].contiguous())
    ]
    best = [math.inf] * len(inputs)
    # Rounds take turns, and each input's shortest time counts: what other processes and the clocks
    # do falls on all of them, in the end. An input that takes longer does so in any round.
    for number in range(400):
        for i, t in enumerate(inputs):
            best[i] = min(best[i], seconds(device, lambda t=t: getattr(ops, op)(t, 1)))
        if number >= 24 and max(best) / min(best) < 1.25:
            break
    assert max(best) / min(best) < 1.25, [f"{1e6 * b:.1f} us" for b in best]


def seconds(device: str, function: Callable[[], torch.Tensor]) -> float:
    if device == "cpu":
        start = time.perf_counter()
        function()
        return time.perf_counter() - start
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    # Behind work that takes longer than launching does, so that only the kernels are timed.
    torch.cuda._sleep(1_000_000)
    first.record()
    for _ in range(4):
        function()
    last.record()
    last.synchronize()
    return float(first.elapsed_time(last)) / 4e3


# Shapes that a plain call has


@pytest.mark.parametrize("op", OPS)
def test_channels_of_an_image_batch(op: str, device: str) -> None:
    """What normalisation layers ask for, in both memory formats."""
    images = some_numbers(generator("images"), (4, 6, 9, 11), f32, -2, 2)
    for memory_format in (torch.contiguous_format, torch.channels_last):
        t = images.contiguous(memory_format=memory_format).to(device)
        for dim in (0, 1, 2, 3):
            got = call(op, t, dim)
            assert list(got.shape) == result_shape(t.shape, dim, False)
            if op in (*INDICES, *VALUES, *TRUTHS):
                assert torch.equal(got.cpu(), getattr(torch, op)(images, dim))
            elif op in ("prod", *SPREADS):
                assert_same_bits(got, expected(op, t, dim))
            elif op == "logsumexp":
                references.logsumexp_interval(t, dim).check(got)
            else:
                references.sum_interval(op, t, dim).check(got)
