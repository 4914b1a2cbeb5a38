"""gpureduce, torch and NumPy on the CPU: sizes, rows, columns, narrow ones; one thread and all.

    python -m benchmarks.cpu_suite                     some minutes
    python -m benchmarks.cpu_suite --select 'bfloat16' cases whose name matches

Each call walks over as many buffers as make 256 MiB (inputs under 1 MiB stay in the cache), and the
three are sampled in turn, a third of the buffers apart: else one would find in the last-level cache
what another has just read. The table has medians. The read ceiling is what the fastest of
torch.sum, gpureduce.sum and gpureduce.amax reach on 256 MiB of float32 with as many threads. NumPy
has no bfloat16, uses one thread, and takes part where the input is below 64 MiB.

The values are not checked here: benchmarks/bench.py and the tests do that.
"""

from __future__ import annotations

import argparse
import functools
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import cases, report, timing
from benchmarks.cases import OURS, TORCH, Case
from benchmarks.timing import MIB, Budget, Timing

NUMPY = "NumPy"
DTYPES = ("float32", "float64", "bfloat16", "float16", "int8", "bool", "int64")
LOG2_SIZES = (10, 14, 18, 20, 22, 26)
MATRICES = [
    ("rows", (4096, 4096), -1),
    ("columns", (4096, 4096), 0),
    ("rows", (512, 512), -1),
    ("columns", (512, 512), 0),
    ("narrow rows", (2**20, 16), -1),
    ("narrow columns", (2**20, 16), 0),
    ("narrow rows", (2**22, 3), -1),
    ("narrow columns", (2**22, 3), 0),
]
LARGE_BYTES = 4 * MIB
LOSS = 0.95
"""torch / ours below which a case counts as slower than torch."""
NEAR_CEILING = 1.3


def suite() -> list[Case]:
    found = []
    for dtype in DTYPES:
        for op in cases.OPS:
            found += [Case("full", op, (2**k,), dtype) for k in LOG2_SIZES]
            found += [Case(group, op, shape, dtype, dim) for group, shape, dim in MATRICES]
    return found


@dataclass
class Entry:
    """What came out of one case with one number of threads."""

    case: Case
    threads: int
    timings: dict[str, Timing] = field(default_factory=dict)
    share: float | None = None
    """GB/s of ours over the read ceiling."""

    @property
    def name(self) -> str:
        return f"{self.case.name} [{self.threads} thread{'s' * (self.threads > 1)}]"

    def speed(self, who: str) -> float | None:
        t = self.timings.get(who)
        return self.case.bytes_moved / (t.median_us * 1e3) if t else None

    def ratio(self, who: str = TORCH) -> float | None:
        """Their time over ours."""
        t = self.timings.get(who)
        return t.median_us / self.timings[OURS].median_us if t else None

    @property
    def outcome(self) -> str:
        if TORCH not in self.timings:
            return "torch cannot"
        return timing.compare_times(self.timings[OURS], self.timings[TORCH])

    @property
    def is_large(self) -> bool:
        return self.case.input_bytes >= LARGE_BYTES

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "group": self.case.group,
            "threads": self.threads,
            "bytes": self.case.bytes_moved,
            "timings": {who: t.as_dict() for who, t in self.timings.items()},
            "gb_per_s": self.speed(OURS),
            "share": self.share,
            "ratio": self.ratio(),
            "outcome": self.outcome,
        }


def numpy_call(case: Case, x: torch.Tensor) -> timing.Call | None:
    if x.dtype == torch.bfloat16 or case.input_bytes >= 64 * MIB:
        return None
    return functools.partial(getattr(np, case.op), x.numpy(), case.dim)


def turned(buffers: list[torch.Tensor], turn: int) -> list[torch.Tensor]:
    """The buffers, from `turn` thirds on and around."""
    start = turn * len(buffers) // 3
    return buffers[start:] + buffers[:start]


def run_case(
    case: Case, threads: Sequence[int], budget: Budget, generator: torch.Generator
) -> list[Entry]:
    x = cases.random_tensor(case.shape, case.torch_dtype, "cpu", generator)
    buffers = timing.copies(x, timing.buffers_needed(case.input_bytes, "cpu"))
    entries = []
    for count in threads:
        samplers: dict[str, timing.Sampler] = {}
        for turn, (who, make) in enumerate(((OURS, cases.ours), (TORCH, cases.theirs))):
            function = make(case.op, x.dtype, case.dim)
            try:
                function(x)
            except (RuntimeError, NotImplementedError):
                if who == OURS:
                    raise
                continue  # torch has no argmax of bool
            calls = [functools.partial(function, buffer) for buffer in turned(buffers, turn)]
            samplers[who] = timing.cpu_sampler(calls, count)
        numpy = [call for buffer in turned(buffers, 2) if (call := numpy_call(case, buffer))]
        if numpy:
            samplers[NUMPY] = timing.cpu_sampler(numpy, count)
        entries.append(Entry(case, count, timing.interleave(samplers, budget)))
    return entries


def ceilings(threads: Sequence[int], budget: Budget) -> dict[int, dict[str, float]]:
    ways: dict[str, Callable[[torch.Tensor], object]] = {
        "torch.sum": torch.sum,
        "gpureduce.sum": torch.ops.gpureduce.sum,
        "gpureduce.amax": torch.ops.gpureduce.amax,
    }
    found = {}
    for count in threads:
        with timing.num_threads(count):
            found[count] = timing.read_ceiling("cpu", ways, 256 * MIB, budget)
    return found


def summarise(entries: Sequence[Entry]) -> dict[str, Any]:
    ratios = [ratio for entry in entries if (ratio := entry.ratio()) is not None]
    large = [entry for entry in entries if entry.is_large]
    numpy = [ratio for entry in entries if (ratio := entry.ratio(NUMPY)) is not None]
    return {
        "cases": len(entries),
        "outcomes": dict(Counter(entry.outcome for entry in entries)),
        "slower_than_torch": sum(ratio < LOSS for ratio in ratios),
        "geometric_mean": timing.geometric_mean(ratios),
        "geometric_mean_numpy": timing.geometric_mean(numpy),
        "large": len(large),
        "large_near_ceiling": sum((entry.share or 0) * NEAR_CEILING >= 1 for entry in large),
    }


def summary_text(summary: dict[str, Any]) -> str:
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in summary["outcomes"].items())
    ratio, numpy = summary["geometric_mean"], summary["geometric_mean_numpy"]
    return (
        f"{summary['cases']} cases: {outcomes}; {summary['slower_than_torch']} more than 5 % "
        f"slower than torch. Geometric mean torch / ours {report.number(ratio)}, "
        f"NumPy / ours {report.number(numpy)}. Of {summary['large']} cases of 4 MiB and more, "
        f"{summary['large_near_ceiling']} within {NEAR_CEILING} of the ceiling."
    )


HEADER = ("case", "ours µs", "GB/s", "of ceiling", "torch µs", "torch / ours", "NumPy / ours", "")


def row_of(entry: Entry) -> list[str]:
    theirs = entry.timings.get(TORCH)
    return [
        entry.name,
        report.number(entry.timings[OURS].median_us),
        report.number(entry.speed(OURS)),
        report.percent(entry.share),
        report.number(theirs.median_us if theirs else None),
        report.number(entry.ratio()),
        report.number(entry.ratio(NUMPY)),
        entry.outcome,
    ]


def worst_of(entries: Sequence[Entry], count: int = 12) -> list[Entry]:
    """The cases that are furthest behind torch, then those of 4 MiB furthest from the ceiling."""
    behind = sorted(entries, key=lambda e: e.ratio() or math.inf)[:count]
    slow = sorted((e for e in entries if e.is_large), key=lambda e: e.share or 0)[:count]
    return [*behind, *(e for e in slow if e not in behind)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="cpu_suite", description=__doc__.split("\n")[0])
    parser.add_argument("--select", default="", help="regular expression on the case's name")
    parser.add_argument("--seconds", type=float, default=0.02, help="for each call of a case")
    parser.add_argument("--output", type=Path, default=report.RESULTS, help="folder of the files")
    options = parser.parse_args(arguments)
    chosen = [case for case in suite() if re.search(options.select, case.name)]
    if not chosen:
        print(f"cpu_suite: no case matches {options.select!r}", file=sys.stderr)
        return 2

    env = report.environment("cpu")
    print(report.describe(env))
    threads = sorted({1, torch.get_num_threads()})
    budget = Budget(options.seconds, min_samples=3)
    ceiling = ceilings(threads, budget)
    generator = torch.Generator().manual_seed(0)
    entries = []
    for case in report.progress(chosen, "cpu_suite"):
        entries += run_case(case, threads, budget, generator)
    for entry in entries:
        speed = entry.speed(OURS)
        entry.share = speed and speed / max(ceiling[entry.threads].values())

    summary = summarise(entries)
    reads = "; ".join(
        f"{count} thread{'s' * (count > 1)}: "
        + ", ".join(f"{way} {report.number(v)}" for way, v in ways.items())
        for count, ways in ceiling.items()
    )
    texts = [report.describe(env), f"Read ceiling, GB/s: {reads}.", summary_text(summary)]
    rows, worst = [row_of(e) for e in entries], [row_of(e) for e in worst_of(entries)]
    print(report.text_table(HEADER, rows))
    print("\nWorst:\n" + report.text_table(HEADER, worst))
    print("\n" + "\n".join(texts[1:]))
    options.output.mkdir(parents=True, exist_ok=True)
    stem = options.output / "cpu_suite"
    data = {
        "benchmark": "cpu_suite",
        "environment": env,
        "ceiling": ceiling,
        "summary": summary,
        "cases": [entry.as_dict() for entry in entries],
    }
    report.write_json(stem.with_suffix(".json"), data)
    markdown = ["# CPU suite", *texts, "## Worst cases", report.markdown_table(HEADER, worst)]
    markdown += ["## All cases", report.markdown_table(HEADER, rows)]
    stem.with_suffix(".md").write_text("\n\n".join(markdown) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
