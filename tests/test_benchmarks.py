"""The benchmark programs: their judgement of values and times, their files, their errors."""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import torch_reduce

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))  # benchmarks/ is not installed

from benchmarks import (  # noqa: E402
    bench,
    cases,
    compare,
    ladder,
    own_tensor,
    report,
    sweep,
    timing,
    values,
)
from benchmarks.timing import Budget, Timing  # noqa: E402

HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Python in the checkout, with the torch_reduce that this process has."""
    package = str(Path(torch_reduce.__file__).resolve().parents[1])
    path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=600,
    )


# ---- values


@pytest.mark.parametrize("dim", [None, 0, -1])
@pytest.mark.parametrize("name", [*cases.FLOATS, *cases.INTEGERS, *cases.COMPLEX])
def test_references(name: str, dim: int | None) -> None:
    dtype = getattr(torch, name)
    x = cases.random_tensor((37, 53), dtype, "cpu", torch.Generator().manual_seed(0))
    wide = x.to(values.wide_dtype(dtype)).numpy()
    for op in cases.OPS:
        if op in ("amax", "argmax") and dtype.is_complex:
            continue
        got = values.reference(op, x, dim).numpy()
        np.testing.assert_allclose(got, getattr(np, op)(wide, axis=dim), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dim", [None, 0, -1])
@pytest.mark.parametrize("name", cases.FLOATS)
def test_references_of_float_ops(name: str, dim: int | None) -> None:
    x = cases.random_tensor((37, 53), getattr(torch, name), "cpu", torch.Generator().manual_seed(0))
    wide = x.double().numpy()
    variance = np.var(wide, axis=dim, ddof=1)
    wants = {
        "var": variance,
        "stats": variance,
        "logsumexp": np.log(np.exp(wide).sum(dim)),
        "norm3": (np.abs(wide) ** 3).sum(dim) ** (1 / 3),
    }
    for op, want in wants.items():
        expected = values.reference(op, x, dim)
        np.testing.assert_allclose(expected.numpy(), want, rtol=1e-12)
        length = x.numel() if dim is None else x.size(dim)
        depth = values.order_depth(length, x.element_size())
        bound = values.rounding_bound(op, x, length, depth, expected, worst_case=False)
        verdict = values.compare(cases.ours(op, x.dtype, dim)(x), expected, bound)
        assert not verdict.wrong
        if name == "float32":
            assert verdict.bound < 2e-4 * float(expected.abs().max())
    assert set(wants) == set(cases.FLOAT_OPS)


def test_the_reference_orders_large_unsigned_integers_and_nan() -> None:
    x = torch.tensor([7, 2**63 + 5, 2**63 + 5], dtype=torch.uint64)
    assert values.reference("amax", x).view(torch.uint64).item() == 2**63 + 5
    assert values.reference("argmax", x).item() == 1
    assert values.reference("mean", x).item() == pytest.approx((2**64 + 17) / 3)
    assert values.reference("argmax", torch.tensor([1.0, math.nan, math.inf])).item() == 1


def test_pieces_make_up_the_tensor() -> None:
    x = torch.arange(7 * 33 * 5).view(7, 33, 5).transpose(0, 1)
    parts = list(values.pieces(x, limit=40))
    assert all(part.numel() <= 40 for part in parts)
    assert sorted(i for part in parts for i in part.flatten().tolist()) == list(range(x.numel()))


@pytest.mark.parametrize(
    ("value", "dtype", "expected", "bound", "wrong"),
    [
        (1.0, torch.float32, 1.0, 0.0, False),
        (1.0 + 2**-23, torch.float32, 1.0, 0.0, True),
        (1.0 + 2**-23, torch.float32, 1.0, 1.5e-7, False),
        (1024.0, torch.bfloat16, 1025.9, 0.0, False),  # the nearest bfloat16
        (1032.0, torch.bfloat16, 1025.9, 0.0, True),
        (math.inf, torch.float16, 1e6, 1.0, False),  # overflows
        (65504.0, torch.float16, 1e6, 1.0, True),
        (math.nan, torch.float8_e4m3fn, 1e6, 1.0, False),  # has no infinity
        (3.0, torch.float32, math.nan, 0.0, True),
        (math.nan, torch.float32, 3.0, 1.0, True),
        (math.nan, torch.float32, math.nan, 0.0, False),
        (math.inf, torch.float32, math.inf, 0.0, False),
        (-math.inf, torch.float32, math.inf, 0.0, True),
    ],
)
def test_right_and_wrong(
    value: float, dtype: torch.dtype, expected: float, bound: float, wrong: bool
) -> None:
    result = torch.tensor(value).to(dtype)
    verdict = values.compare(result, torch.tensor(expected, dtype=torch.float64), bound)
    assert verdict.wrong == wrong


def test_one_element_too_few_is_noticed() -> None:
    x = torch.randn(2**20, generator=torch.Generator().manual_seed(0))
    expected = values.reference("sum", x)
    depth = values.order_depth(x.numel(), 4)
    bound = values.rounding_bound("sum", x, x.numel(), depth, expected, worst_case=False)
    largest = x.abs().argmax()
    assert not values.compare(torch_reduce.sum(x), expected, bound).wrong
    x[largest] = 0
    assert values.compare(torch_reduce.sum(x), expected, bound).wrong


# ---- times


def steady(us: float, spread: float = 0.01) -> Timing:
    return Timing(us, us * (1 - spread / 2), us * (1 + spread / 2), 20)


def test_quartiles() -> None:
    t = Timing.of([4.0, 1.0, 2.0, 3.0, 5.0])
    assert (t.median_us, t.low_us, t.high_us, t.samples) == (3.0, 2.0, 4.0, 5)
    assert Timing.from_dict(t.as_dict()) == t
    assert Timing.of([2.0]).spread == 0


@pytest.mark.parametrize(
    ("ours", "theirs", "outcome"),
    [
        (steady(10), steady(20), "won"),
        (steady(20), steady(10), "lost"),
        (steady(10), steady(10.2), "tied"),  # within 3 %
        (steady(10, spread=0.5), steady(12, spread=0.5), "tied"),  # quartiles overlap
        (steady(12, spread=0.1), steady(10, spread=0.1), "lost"),
    ],
)
def test_won_tied_lost(ours: Timing, theirs: Timing, outcome: str) -> None:
    assert timing.compare_times(ours, theirs) == outcome


def test_samplers_take_turns() -> None:
    seen: list[str] = []

    def sampler(name: str, us: float) -> timing.Sampler:
        def sample() -> float:
            seen.append(name)
            return us

        return sample

    times = timing.interleave(
        {"a": sampler("a", 1.0), "b": sampler("b", 2.0)}, Budget(60, max_samples=9)
    )
    assert seen == ["a", "b"] * 9
    assert (times["a"].median_us, times["b"].median_us) == (1.0, 2.0)


def test_buffers_are_many_enough_to_be_cold() -> None:
    for num_bytes in (2**20, 3 * 2**20, 2**28, 2**29):
        assert timing.buffers_needed(num_bytes, "cuda") * num_bytes >= 2**28
    assert timing.buffers_needed(4096, "cuda") == 1
    x = torch.arange(12.0).view(3, 4).t()
    for copy in timing.copies(x, 3):
        assert torch.equal(copy, x)
        assert copy.stride() == x.stride()


def test_no_case_is_faster_than_the_ceiling() -> None:
    entries = []
    for us in (100.0, 10.0):
        case = cases.Case("sizes", "sum", (2**20,), "float32")
        entry = bench.Entry(case, timings={"gpureduce": steady(us), "torch": steady(us)})
        entry.verdict = values.Verdict(False, 0.0, 0.0)
        entries.append(entry)
    fastest = entries[1].gb_per_s
    ceiling = bench.fill_shares(entries, {None: {"torch.sum": 1.0}})["GPU"]
    assert ceiling["gb_per_s"] == fastest
    assert ceiling["way"] == f"gpureduce {entries[1].name}"
    assert entries[1].share == 1.0
    assert entries[0].share == pytest.approx(0.1)


# ---- the program


def test_names_of_cases_are_unique_and_quick_is_a_part() -> None:
    for device in ("cpu", "cuda"):
        chosen = cases.all_cases(device)
        assert len({case.name for case in chosen}) == len(chosen)
        quick = [case for case in chosen if case.quick]
        assert 20 <= len(quick) < len(chosen) / 3
        assert {case.op for case in quick} == {*cases.OPS, *cases.FLOAT_OPS}
        assert {case.group for case in quick} == {"sizes", "dtypes", "rows", "columns"}


def test_bench_writes_json_markdown_and_a_picture(device: str, tmp_path: Path) -> None:
    done = run(
        *("-m", "benchmarks.bench", "--quick", "--device", device, "--output", str(tmp_path)),
        *("--select", r"^(sum|argmax)( dim=-?\d)? (1024|65536|\d+x64) float32"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.glob("*.json")
    data = json.loads(path.read_text())
    assert data["environment"]["torch"] == torch.__version__
    assert data["environment"]["device"]
    assert data["environment"]["date"][:4].isdigit()
    summary, found = data["summary"], data["cases"]
    outcomes = ("won", "tied", "lost", "torch cannot", "failed")
    assert sum(summary[name] for name in outcomes) == summary["cases"] == len(found) > 0
    for name in outcomes:
        assert summary[name] == sum(case["outcome"] == name for case in found)
    for case in found:
        for who in ("gpureduce", "torch"):
            t = case["timings"][who]
            assert 0 < t["low_us"] <= t["median_us"] <= t["high_us"]
        assert case["share"] is None or 0 < case["share"] <= 1
    assert any(case["share"] for case in found)
    assert bool(data["host"]) == (device == "cuda")
    markdown = path.with_suffix(".md").read_text()
    assert bench.summary_text(summary) in markdown
    assert bench.summary_text(summary) in done.stdout
    for case in found:
        assert f"| {case['name']} |" in markdown
    assert path.with_suffix(".png").is_file() == HAS_MATPLOTLIB
    assert compare.main([str(path), str(path)]) == 0


def test_a_wrong_value_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cases, "ours", lambda op, dtype, dim=None: lambda x: x.sum() + 0.5)
    monkeypatch.setattr(bench, "ceilings", lambda device, quick: {1: {"none": 1.0}})
    select = ["--select", "^sum 1024 float32", "--quick", "--device", "cpu"]
    assert bench.main([*select, "--output", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "FAILED sum 1024 float32" in said
    assert "wrong by 0.5" in said
    (path,) = tmp_path.glob("*.json")
    data = json.loads(path.read_text())
    assert data["summary"]["failed"] == 1
    assert data["cases"][0]["timings"] == {}  # what is wrong is not timed


def test_no_such_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--select", "nothing like it", "--device", "cpu"]) == 2
    assert "nothing like it" in capsys.readouterr().err


# ---- --tensor


@pytest.fixture(scope="module")
def tensor_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tensors")
    x = torch.randn(50, 21, generator=torch.Generator().manual_seed(0))
    np.save(directory / "plain.npy", x.numpy())
    np.save(directory / "fortran.npy", np.asfortranarray(x.numpy()))
    np.save(directory / "text.npy", np.array(["a", "b"]))
    state = {"weight": x, "inner": [torch.arange(9), torch.ones(5, dtype=torch.bool)], "step": 3}
    torch.save(state, directory / "state.pt")
    torch.save(x, directory / "old_format.pt", _use_new_zipfile_serialization=False)
    torch.save({"step": 3}, directory / "number.pt")
    save_file({"a": x.half(), "b": x.to(torch.float8_e4m3fn)}, directory / "two.safetensors")
    for suffix in ("pt", "npy", "safetensors", "txt"):
        (directory / f"hello.{suffix}").write_text("hello")
    return directory


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("plain.npy", {"plain"}),
        ("fortran.npy", {"fortran"}),
        ("state.pt", {"weight", "inner.0", "inner.1"}),
        ("old_format.pt", {"tensor"}),
        ("two.safetensors", {"a", "b"}),
    ],
)
def test_own_tensors(
    tensor_files: Path, file: str, names: set[str], device: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tensors = own_tensor.load_tensors(tensor_files / file)
    assert set(tensors) == names
    args = ["--tensor", str(tensor_files / file), "--quick", "--device", device]
    assert bench.main(args) == 0
    said = capsys.readouterr().out
    for name, x in tensors.items():
        for op in cases.OPS:
            line = re.search(rf"^{re.escape(name)} \(.*\) \S+ +{op} +(\S+) .*$", said, re.MULTILINE)
            assert line, (name, op, said)
            if op == "argmax":
                assert int(line[1]) == int(values.reference("argmax", x))
    assert "float64 reference" in said


def test_only_tensors_with_such_a_name(
    tensor_files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["--tensor", str(tensor_files / "state.pt"), "--quick", "--device", "cpu", "--select"]
    assert bench.main([*args, "weight"]) == 0
    assert "inner" not in capsys.readouterr().out
    assert bench.main([*args, "bias"]) == 2


@pytest.mark.parametrize(
    "file",
    [
        *("hello.pt", "hello.npy", "hello.safetensors", "hello.txt"),
        *("number.pt", "text.npy", "missing.npy"),
    ],
)
def test_a_file_that_is_no_tensor(tensor_files: Path, file: str) -> None:
    done = run("-m", "benchmarks.bench", "--tensor", str(tensor_files / file))
    assert done.returncode == 2
    assert done.stdout == ""
    (sentence,) = done.stderr.strip().splitlines()
    assert sentence.startswith("bench: ")
    assert file in sentence


# ---- compare


def result(times: dict[str, Timing | None]) -> dict[str, Any]:
    return {
        "benchmark": "bench",
        "environment": {
            **{"device": "a card", "kind": "cpu", "threads": 1, "torch": "2", "gpureduce": "1"},
            **{"python": "3", "commit": None, "date": "today"},
        },
        "cases": [
            {"name": name, "timings": {"gpureduce": t.as_dict(), "torch": t.as_dict()} if t else {}}
            for name, t in times.items()
        ],
    }


def compared(tmp_path: Path, old: dict[str, Timing | None], new: dict[str, Timing | None]) -> int:
    paths = tmp_path / "old.json", tmp_path / "new.json"
    for path, times in zip(paths, (old, new), strict=True):
        path.write_text(json.dumps(result(times)))
    return compare.main([str(path) for path in paths])


def test_compare_finds_a_regression(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = {"a": steady(10), "b": steady(10), "c": steady(10), "gone": steady(1)}
    new = {"a": steady(11), "b": steady(10), "c": steady(8), "fresh": steady(1)}
    assert compared(tmp_path, old, new) == 1
    said = capsys.readouterr().out
    assert re.search(r"^a .* REGRESSION$", said, re.MULTILINE)
    assert re.search(r"^c .* improved$", said, re.MULTILINE)
    assert "3 timings: 1 regressions, 1 improved, 1 the same." in said


def test_compare_lets_noise_pass(tmp_path: Path) -> None:
    assert compared(tmp_path, {"a": steady(10)}, {"a": steady(10.25)}) == 0  # under 3 %
    noisy = steady(10, spread=0.1), steady(11.5, spread=0.1)
    assert compared(tmp_path, {"a": noisy[0]}, {"a": noisy[1]}) == 0
    assert compared(tmp_path, {"a": noisy[0]}, {"a": steady(12.5, spread=0.1)}) == 1


def test_compare_counts_a_case_that_failed(tmp_path: Path) -> None:
    assert compared(tmp_path, {"a": steady(10)}, {"a": None}) == 1


def test_compare_wants_results(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[1, 2]")
    for path in (tmp_path / "x.json", tmp_path / "missing.json"):
        with pytest.raises(SystemExit, match=path.name):
            compare.main([str(path), str(path)])


# ---- ladder


@pytest.mark.parametrize("how", [("-m", "benchmarks.ladder"), ("benchmarks/ladder.py",)])
def test_ladder(how: tuple[str, ...], device: str, tmp_path: Path) -> None:
    done = run(
        *how, *("--max-log2", "12", "--quick", "--device", device, "--output", str(tmp_path))
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("No GPU" in done.stdout) == (device == "cpu")
    (path,) = tmp_path.glob("*.json")
    data = json.loads(path.read_text())
    assert [case["name"] for case in data["cases"]] == ["2^10", "2^12"]
    rungs = ["serial", "sum", "torch"] if device == "cpu" else [*ladder.RUNGS, "torch"]
    for case in data["cases"]:
        assert list(case["timings"]) == rungs
        assert not case["wrong"]
    assert path.with_suffix(".png").is_file() == HAS_MATPLOTLIB
    assert compare.main([str(path), str(path)]) == 0

    docs = tmp_path / "ladder.md"
    docs.write_text((ROOT / "docs" / "ladder.md").read_text())
    for _ in range(2):  # a page that is filled can be filled again
        assert ladder.main(["--write-docs", str(path), "--docs", str(docs)]) == 0
        text = docs.read_text()
        assert text.count("| 2^12 | serial |") == 1
        assert text.count("## How to repeat it") == 1


def test_counters_without_ncu_are_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert ladder.counters() == ({}, "ncu (Nsight Compute) is not in PATH")


NCU = """\
==PROF== Connected to process 7 (python)
==PROF== Profiling "v1_kernel" - 0: 0%....100% - 9 passes
"ID","Process ID","Kernel Name","dram__bytes_read.sum.per_second",\
"dram__throughput.avg.pct_of_peak_sustained_elapsed",\
"l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",\
"smsp__thread_inst_executed_per_inst_executed.ratio"
"","","","byte/second","%","",""
"0","7","void gpureduce::<unnamed>::v1_kernel<float>(const float *)","1,500,000,000,000.5","31.5",\
"1,234","17.25"
"1","7","void gpureduce::<unnamed>::v1_kernel<float>(const float *)","1","1","1","1"
"2","7","void gpureduce::<unnamed>::v3_warp_kernel<float>(const float *)","2","2","n/a","2"
"3","7","void gpureduce::cuda::rows_block_kernel<...>(T1)","4,500,000,000,000","93","0","31.9"
"4","7","void at::native::reduce_kernel<512, 1, at::native::ReduceOp<...>>(T3)","4","4","4","4"
"""


def test_counters_of_the_first_launch_of_each_rung() -> None:
    counts = ladder.parse_counters(NCU)
    assert list(counts) == ["v1", "v3_warp", "sum", "torch"]
    assert counts["v1"] == {
        "active threads / instruction": 17.25,
        "bank conflicts": 1234.0,
        "DRAM read GB/s": pytest.approx(1500.0),
        "DRAM % of peak": 31.5,
    }
    assert "bank conflicts" not in counts["v3_warp"]
    assert counts["sum"]["DRAM read GB/s"] == 4500.0
    header, rows = ladder.counters_table(counts)
    assert len(header) == 5
    assert [row[0] for row in rows] == ["v1", "v3_warp", "sum", "torch"]
    with pytest.raises(ValueError, match="no table"):
        ladder.parse_counters("==ERROR== no permission")


# ---- sweep


def test_shapes_of_a_sweep() -> None:
    chosen = sweep.all_cases("sum", sweep.DTYPES, 26)
    names = [case.name for case in chosen]
    assert len(set(names)) == len(names)
    powers = [case for case in chosen if case.group in ("rows", "columns")]
    assert {case.shape for case in powers} == {(2**i, 2 ** (26 - i)) for i in range(27)}
    odd = [case for case in chosen if case.group.startswith("odd")]
    assert {sweep.length(case) for case in odd} == {
        3 * 2**i + d for i in range(1, 25) for d in (-1, 1)
    }
    assert all(2**24 <= math.prod(case.shape) <= 2**26 for case in odd if case.dim is not None)
    assert all(case.input_bytes <= 2**28 for case in chosen)


def test_the_read_curve() -> None:
    curve = sweep.Curve(((2**10, 2.0), (2**12, 4.0), (2**20, 100.0), (2**22, 800.0)))
    assert curve.us(1) == curve.us(2**10) == 2.0
    assert curve.us(2**12) == 4.0
    assert curve.us(2**11) == pytest.approx(math.sqrt(2.0 * 4.0))
    assert curve.bytes_per_us == 2**20 / 100.0
    assert curve.us(2**24) == 1600.0  # at the fastest speed, not the last


def test_buffers_of_a_sweep_are_cold_and_aligned() -> None:
    buffers = sweep.Buffers("int8", 2**21, "cpu", seed=0)
    for elements in (5, 1023, 2**20 - 1, 2**20 + 1):
        views = buffers.views((elements,))
        wanted = timing.buffers_needed(elements, "cpu")
        assert 1 <= len(views) <= wanted
        assert len(views) == min(wanted, 2) if elements < 2**20 else views
        starts = [view.storage_offset() for view in views]
        assert all(start % 512 == 0 for start in starts)
        assert all(b - a >= elements for a, b in itertools.pairwise(starts))


def test_a_miss_is_a_quarter_more_than_the_curve() -> None:
    case = cases.Case("rows", "sum", (2, 8), "float32", -1)
    results = [sweep.Result(case, steady(us), 10.0) for us in (9.0, 12.4, 12.6, 40.0)]
    assert [r.missed for r in results] == [False, False, True, True]
    _, rows = sweep.misses_table(results)
    assert [row[-1] for row in rows] == ["4.00", "1.26"], "the worst first"
    text = sweep.summary_text(sweep.summarize(results))
    assert "4 cases: 2 take more than 1.25 times" in text
    assert "worst 4.00 times: sum dim=-1 2x8 float32" in text


def test_sweep_writes_json_markdown_and_a_picture(device: str, tmp_path: Path) -> None:
    options = ["--device", device, "--output", str(tmp_path), "--log2-elements", "8"]
    done = run("-m", "benchmarks.sweep", "--op", "argmax", "--dtypes", "float32,int8", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.glob("*-sweep-argmax.json")
    data = json.loads(path.read_text())
    found = data["cases"]
    assert {case["dtype"] for case in found} == {"float32", "int8"}
    assert len(found) == data["summary"]["cases"] == 2 * (2 * 9 + 3 * 2 * 6)
    for case in found:
        share = case["curve_us"] / case["timings"]["gpureduce"]["median_us"]
        assert case["share"] == pytest.approx(share) and share > 0
    assert data["summary"]["misses"] == sum(case["share"] < 1 / 1.25 for case in found)
    markdown = path.with_suffix(".md").read_text()
    assert sweep.summary_text(data["summary"]) in markdown
    assert sweep.summary_text(data["summary"]) in done.stdout
    assert path.with_suffix(".png").is_file() == HAS_MATPLOTLIB
    assert compare.main([str(path), str(path)]) == 0


def test_a_sweep_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep.main(["--select", "nothing like it", "--device", "cpu"]) == 2
    assert "nothing like it" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        sweep.main(["--dtypes", "float33", "--device", "cpu"])
    assert "float33" in capsys.readouterr().err


# ---- the report


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0.0, "0"), (1.23456, "1.23"), (123456.0, "123456"), (0.01234, "0.0123")],
)
def test_numbers(value: float | None, text: str) -> None:
    assert report.number(value) == text


def test_json_has_no_nan(tmp_path: Path) -> None:
    report.write_json(tmp_path / "x.json", {"a": [math.inf, {"b": math.nan}], "c": 1.5})
    assert json.loads((tmp_path / "x.json").read_text()) == {"a": [None, {"b": None}], "c": 1.5}


# ---- the example


@pytest.mark.parametrize(
    "options", [[], pytest.param(["--compile"], marks=pytest.mark.slow)], ids=["eager", "compile"]
)
def test_training(device: str, options: list[str]) -> None:
    done = run("examples/training.py", "--device", device, "--epochs", "2", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert "agree" in lines[-1]
    numbers = [line.split()[3:] for line in lines if line.startswith("    2  test")]
    assert len(numbers) == 2
    assert all(len(line) == 7 for line in numbers)
    accuracy = [float(line[-1]) for line in numbers]
    assert accuracy[0] == accuracy[1] > 0.5
