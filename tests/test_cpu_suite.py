"""The CPU suite: its list, its verdicts, its files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

sys.path.append(str(Path(__file__).resolve().parent.parent))  # benchmarks/ is not installed

from benchmarks import cpu_suite, report
from benchmarks.cases import Case
from benchmarks.timing import Timing


def entry(ours: float, torch: float | None, share: float, log2: int = 22) -> cpu_suite.Entry:
    times = {"gpureduce": ours} | ({} if torch is None else {"torch": torch})
    timings = {who: Timing(us, us, us, 9) for who, us in times.items()}
    case = Case("full", "sum", (2**log2,), "float32")
    return cpu_suite.Entry(case, 1, timings, share)


def test_the_suite_has_every_op_dtype_and_kind_once() -> None:
    found = cpu_suite.suite()
    assert len({case.name for case in found}) == len(found)
    assert {case.dtype for case in found} == set(cpu_suite.DTYPES)
    assert {case.op for case in found} == {"sum", "mean", "amax", "argmax"}
    kinds = {"full", "rows", "columns", "narrow rows", "narrow columns"}
    assert {case.group for case in found} == kinds


def test_summary_counts_losses_and_cases_far_from_the_ceiling() -> None:
    entries = [entry(1, 8, 1.0), entry(1, 0.5, 0.5), entry(1, None, 0.8), entry(1, 2, 0.1, 10)]
    summary = cpu_suite.summarise(entries)
    assert summary["outcomes"] == {"won": 2, "lost": 1, "torch cannot": 1}
    assert summary["slower_than_torch"] == 1
    assert summary["geometric_mean"] == pytest.approx(2)
    assert (summary["large"], summary["large_near_ceiling"]) == (3, 2)
    assert cpu_suite.worst_of(entries, 1) == [entries[1]]


def test_those_who_are_compared_start_at_buffers_of_their_own() -> None:
    buffers = [torch.tensor(i) for i in range(9)]
    starts = [int(cpu_suite.turned(buffers, turn)[0]) for turn in range(3)]
    assert starts == [0, 3, 6]
    assert [int(x) for x in cpu_suite.turned(buffers, 1)] == [3, 4, 5, 6, 7, 8, 0, 1, 2]


def test_files_and_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    select = ["--select", "^(sum|amax|argmax) 1024 (bool|bfloat16|float32)", "--seconds", "0.001"]
    assert cpu_suite.main([*select, "--output", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    data = json.loads((tmp_path / "cpu_suite.json").read_text())
    names = [case["name"] for case in data["cases"]]
    assert "sum 1024 bool [1 thread]" in names
    markdown = (tmp_path / "cpu_suite.md").read_text()
    for name in names:
        assert f"| {name} |" in markdown
        assert name in said
    numpy = {case["name"] for case in data["cases"] if "NumPy" in case["timings"]}
    assert numpy == {name for name in names if "bfloat16" not in name}
    cannot = next(c for c in data["cases"] if c["name"] == "argmax 1024 bool [1 thread]")
    assert cannot["outcome"] == "torch cannot"
    assert cannot["ratio"] is None
    assert data["environment"]["torch"]
    assert report.describe(data["environment"]) in markdown


def test_a_selection_of_nothing_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert cpu_suite.main(["--select", "nothing like it"]) == 2
    assert "nothing like it" in capsys.readouterr().err
