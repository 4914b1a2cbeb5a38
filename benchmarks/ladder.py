"""The ladder: one sum of float32, rung by rung from a serial loop to gpureduce, beside torch.sum.

    python -m benchmarks.ladder                    2^10 elements to what the card holds
    python -m benchmarks.ladder --quick --counters with what Nsight Compute counts
    python -m benchmarks.ladder --write-docs benchmarks/results/….json   fills docs/ladder.md

Each rung is checked against a float64 reference, then timed: as calls in a CUDA graph that walks
over cold buffers, the serial rung on the CPU, on one thread. The read ceiling is what the fastest
of torch.sum, torch.amax and gpureduce.sum reads of 1 GiB in this run, or the fastest rung, should
that be faster. `gain` is the time of the rung before over the time of this one.

Without a GPU there are only the serial rung and gpureduce's CPU kernel.
"""

from __future__ import annotations

import argparse
import csv
import functools
import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

if not __package__:  # run as a file: its folder, and not the one above, is where Python looks
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import torch

from benchmarks import cases, report, timing, values
from benchmarks.timing import Budget, Timing

SERIAL, SUM, TORCH = "serial", "sum", "torch"
KERNELS = ["v1", "v2", "v3_warp", "v3"]
RUNGS = [SERIAL, *KERNELS, SUM]

GIB = 2**30
MAX_LOG2_SERIAL = 28  # a quarter of a second for each sample
COUNTERS_LOG2 = 24
DOCS = report.ROOT / "docs" / "ladder.md"

# Of Nsight Compute, with the unit that they are shown in and how many of ncu's units make one.
METRICS = {
    "smsp__thread_inst_executed_per_inst_executed.ratio": ("active threads / instruction", 1.0),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": ("bank conflicts", 1.0),
    "dram__bytes_read.sum.per_second": ("DRAM read GB/s", 1e9),
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": ("DRAM % of peak", 1.0),
}


def function_of(rung: str) -> Callable[[torch.Tensor], torch.Tensor]:
    if rung == TORCH:
        return torch.sum
    if rung == SUM:  # the op itself: what a user calls
        return cases.ours("sum", torch.float32)
    return lambda x: torch.ops.gpureduce.sum_rung(x, rung)


def depth(rung: str, length: int) -> int:
    """The most additions that an element goes through."""
    if rung == SERIAL:
        return length
    if rung == "v3":  # a thread's own elements, then two passes of folds
        return length // (1024 * 256) + 8 + 2 * 16
    if rung in (SUM, TORCH):
        return values.order_depth(length, 4)
    return 2 * length.bit_length() + 4


# ---- measuring


def check(rung: str, x: torch.Tensor, expected: torch.Tensor) -> values.Verdict:
    result = function_of(rung)(x)
    bound = values.rounding_bound(
        "sum", x, x.numel(), depth(rung, x.numel()), expected, worst_case=False
    )
    return values.compare(result, expected.to(result.device), bound)


def measure_size(
    log2: int, device: str, budget: Budget, generator: torch.Generator
) -> dict[str, Any]:
    """The timings of all rungs on 2^log2 elements, as one case of the result."""
    x = cases.random_tensor((2**log2,), torch.float32, device, generator)
    num_bytes = x.numel() * 4
    expected = values.reference("sum", x)
    rungs = [SUM, TORCH] if device == "cpu" else [*KERNELS, SUM, TORCH]
    wrong = {}

    def right(rung: str, tensor: torch.Tensor) -> bool:
        verdict = check(rung, tensor, expected)
        if verdict.wrong and rung != TORCH:
            wrong[rung] = {"error": verdict.error, "bound": verdict.bound}
        return rung not in wrong

    samplers: dict[str, timing.Sampler] = {}
    buffers = timing.copies(x, timing.buffers_needed(num_bytes, device))
    for rung in rungs:
        if right(rung, x):
            calls = [functools.partial(function_of(rung), b) for b in buffers]
            samplers[rung] = timing.device_sampler(calls, device)
    timings = timing.interleave(samplers, budget)
    if log2 <= MAX_LOG2_SERIAL:
        # Not in turn with the others: during its samples a GPU would be idle and lower its clock.
        on_cpu = x.cpu()
        if right(SERIAL, on_cpu):
            calls = [functools.partial(function_of(SERIAL), on_cpu)]
            serial = {SERIAL: timing.cpu_sampler(calls, 1)}
            timings |= timing.interleave(serial, budget)
    return {
        "name": f"2^{log2}",
        "log2": log2,
        "bytes": num_bytes,
        "cold": timing.is_cold(num_bytes),
        "timings": {rung: timings[rung].as_dict() for rung in [*RUNGS, TORCH] if rung in timings},
        "wrong": wrong,
    }


def largest_log2(device: str) -> int:
    """As large as one tensor may be: a bit under half of the card's free memory, 1 GiB on a CPU."""
    free = int(0.45 * torch.cuda.mem_get_info()[0]) if device == "cuda" else GIB
    return (free // 4).bit_length() - 1


def sizes(args: argparse.Namespace, device: str) -> list[int]:
    top = largest_log2(device)
    if args.quick:
        top = min(top, 26 if device == "cuda" else 22)
    if args.max_log2 is not None:
        top = min(top, args.max_log2)
    return [k for k in range(10, top + 1) if k % 2 == 0 or k == top]


def speed(case: dict[str, Any], rung: str) -> float | None:
    """GB/s of a rung, or of torch."""
    t = case["timings"].get(rung)
    return case["bytes"] / (t["median_us"] * 1e3) if t else None


def read_ceiling(device: str, results: list[dict[str, Any]], budget: Budget) -> dict[str, Any]:
    ways = {
        "torch.sum": function_of(TORCH),
        "torch.amax": cases.theirs("amax", torch.float32),
        "gpureduce.sum": function_of(SUM),
    }
    num_bytes = GIB if device == "cuda" else GIB // 4
    speeds = timing.read_ceiling(device, ways, num_bytes, budget)
    candidates = dict(speeds)
    for case in results:
        if case["cold"]:
            for rung in case["timings"]:
                candidates[f"{rung} {case['name']}"] = speed(case, rung) or 0.0
    way = max(candidates, key=lambda name: candidates[name])
    return {"gb_per_s": candidates[way], "way": way, "ways": speeds}


# ---- what Nsight Compute counts


def count_child() -> None:
    """What ncu watches: one call of each rung between start and stop."""
    import torch_reduce  # noqa: F401  registers the ops

    x = torch.randn(2**COUNTERS_LOG2, device="cuda")
    functions = [function_of(rung) for rung in [*KERNELS, SUM, TORCH]]
    for function in functions:  # loads the kernels
        function(x)
    torch.cuda.synchronize()
    torch.cuda.profiler.start()  # type: ignore[no-untyped-call]
    for function in functions:
        function(x)
        torch.cuda.synchronize()
    torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]


def rung_of_kernel(name: str) -> str:
    """Whose kernel it is."""
    match = re.search(r"\b(v1|v2|v3_warp|v3)_kernel\b", name)
    if match:
        return match[1]
    return TORCH if "at::native" in name or name.startswith("reduce_kernel") else SUM


def parse_counters(text: str) -> dict[str, dict[str, float]]:
    """The metrics of each rung's first, and largest, launch in what `ncu --csv --page raw` printed.

    The table has a line of names, one of units, then one for each launch.
    """
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise ValueError("ncu printed no table")
    result: dict[str, dict[str, float]] = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines[start:]))):
        if not row["ID"]:
            continue  # the units
        counts = {}
        for metric, (label, per) in METRICS.items():
            with_commas = row.get(metric) or ""
            try:
                counts[label] = float(with_commas.replace(",", "")) / per
            except ValueError:  # n/a: this card does not count it
                continue
        result.setdefault(rung_of_kernel(row["Kernel Name"]), counts)
    return result


def counters() -> tuple[dict[str, dict[str, float]], str | None]:
    """The counters of each rung, or why there are none."""
    ncu = shutil.which("ncu")
    if ncu is None:
        return {}, "ncu (Nsight Compute) is not in PATH"
    command = [ncu, "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none"]
    command += ["--profile-from-start", "off", "--metrics", ",".join(METRICS)]
    command += [sys.executable, "-m", "benchmarks.ladder", "--count-child"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=report.ROOT, timeout=300, check=False
        )
        return parse_counters(done.stdout), None
    except subprocess.TimeoutExpired:
        return {}, "ncu was not done after 300 s"
    except ValueError as error:
        said = [line for line in done.stdout.splitlines() if line.startswith("==ERROR==")]
        said += done.stderr.strip().splitlines()[-1:]
        return {}, f"{error}: {' '.join(said)[:300] or f'it ended with status {done.returncode}'}"


# ---- what is said


def timing_table(
    results: list[dict[str, Any]], ceiling: float
) -> tuple[list[str], list[list[str]]]:
    header = ["elements", "rung", "µs", "spread", "GB/s", "of ceiling", "gain"]
    rows = []
    for case in results:
        before: float | None = None
        for rung in [*RUNGS, TORCH]:
            if rung not in case["timings"]:
                continue
            t = Timing.from_dict(case["timings"][rung])
            gb_per_s = speed(case, rung) or 0.0
            share = report.percent(gb_per_s / ceiling) if case["cold"] else "–"
            gain = f"{before / t.median_us:.2f}" if before and rung != TORCH else "–"
            name = {SUM: "sum (gpureduce)", TORCH: "torch.sum"}.get(rung, rung)
            rows.append(
                [
                    case["name"],
                    name,
                    report.number(t.median_us),
                    f"{100 * t.spread:.1f} %",
                    report.number(gb_per_s),
                    share,
                    gain,
                ]
            )
            before = t.median_us
    return header, rows


def counters_table(counts: dict[str, dict[str, float]]) -> tuple[list[str], list[list[str]]]:
    labels = [label for label, _ in METRICS.values()]
    rows = [
        [rung, *(report.number(counts[rung].get(label)) for label in labels)]
        for rung in [*KERNELS, SUM, TORCH]
        if rung in counts
    ]
    return ["rung", *labels], rows


def draw(path: Path, data: dict[str, Any]) -> bool:
    """GB/s over sizes; False without matplotlib."""
    plt = report.pyplot()
    if plt is None:
        return False
    figure, axes = plt.subplots(figsize=(9, 6), layout="constrained")
    for rung in [*RUNGS, TORCH]:
        line = [
            (2 ** case["log2"], gb_per_s)
            for case in data["cases"]
            if (gb_per_s := speed(case, rung)) is not None
        ]
        if line:
            style = {SUM: "o-", TORCH: "s--"}.get(rung, ".-")
            axes.plot(*zip(*line, strict=True), style, label="torch.sum" if rung == TORCH else rung)
    axes.axhline(data["ceiling"]["gb_per_s"], color="black", linestyle=":", label="read ceiling")
    axes.set_xscale("log", base=2)
    axes.set(yscale="log", xlabel="elements of float32", ylabel="GB/s", title="the ladder")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.suptitle(report.describe(data["environment"]), fontsize=7)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return True


def fill(text: str, marker: str, content: str) -> str:
    """Replaces what stands between <!-- marker --> and <!-- end of marker -->."""
    begin, end = f"<!-- {marker} -->", f"<!-- end of {marker} -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"no lines {begin} and {end}")
    return pattern.sub(lambda _: f"{begin}\n{content.strip()}\n{end}", text)


def write_docs(result: Path, docs: Path) -> None:
    """Puts the figures of a result into the page."""
    data = json.loads(result.read_text())
    shown = [case for case in data["cases"] if case["log2"] in (16, 20, 24, 28, 32)]
    header, rows = timing_table(shown or data["cases"], data["ceiling"]["gb_per_s"])
    table = f"{report.describe(data['environment'])}. {ceiling_text(data['ceiling'])}\n\n"
    table += report.markdown_table(header, rows)
    text = fill(docs.read_text(), "ladder table", table)
    if data["counters"]:
        text = fill(
            text, "ladder counters", report.markdown_table(*counters_table(data["counters"]))
        )
    docs.write_text(text)


def ceiling_text(ceiling: dict[str, Any]) -> str:
    return f"Read ceiling: {report.number(ceiling['gb_per_s'])} GB/s ({ceiling['way']})."


# ---- the program


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ladder",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="up to 2^26 elements, 2^22 on a CPU")
    parser.add_argument("--max-log2", type=int, metavar="K", help="no more than 2^K elements")
    parser.add_argument("--counters", action="store_true", help="ask Nsight Compute (ncu), too")
    parser.add_argument("--device", choices=["cuda", "cpu"], help="default: a GPU if there is one")
    parser.add_argument(
        "--output", type=Path, default=report.RESULTS, metavar="DIR", help="default: %(default)s"
    )
    parser.add_argument("--write-docs", type=Path, metavar="JSON", help="fill docs/ladder.md")
    parser.add_argument("--docs", type=Path, default=DOCS, help=argparse.SUPPRESS)
    parser.add_argument("--count-child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    args = parse(argv)
    if args.write_docs:
        write_docs(args.write_docs, args.docs)
        return 0
    if args.count_child:
        count_child()
        return 0
    import torch_reduce  # noqa: F401  registers the ops; raises with the cure if it is not built

    device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    env = report.environment(device)
    print(report.describe(env))
    if device == "cpu":
        print("No GPU: only the serial rung and gpureduce's and torch's CPU kernels are measured.")
    budget = Budget(0.04 if args.quick else 0.2, max_samples=40 if args.quick else 200)
    generator = torch.Generator(device).manual_seed(0)
    results = []
    for log2 in report.progress(sizes(args, device), "sizes"):
        if device == "cuda":
            torch.cuda.empty_cache()
        results.append(measure_size(log2, device, budget, generator))
    if device == "cuda":
        torch.cuda.empty_cache()
    ceiling = read_ceiling(device, results, budget)
    counts: dict[str, dict[str, float]] = {}
    why_not = None
    if args.counters:
        counts, why_not = counters() if device == "cuda" else ({}, "there is no GPU")

    print(report.text_table(*timing_table(results, ceiling["gb_per_s"])))
    print(ceiling_text(ceiling))
    if counts:
        print(f"\nCounters of the first launch of each rung at 2^{COUNTERS_LOG2} elements:")
        print(report.text_table(*counters_table(counts)))
    elif why_not:
        print(f"No counters: {why_not}.")
    wrong = [(case["name"], rung, w) for case in results for rung, w in case["wrong"].items()]
    for name, rung, w in wrong:
        print(f"FAILED {rung} {name}: wrong by {w['error']:g}, rounding allows {w['bound']:g}")

    kind = "ladder-quick" if args.quick else "ladder"
    stem = report.result_stem(env, kind, args.output)
    data = {
        "benchmark": "ladder",
        "environment": env,
        "ceiling": ceiling,
        "cases": results,
        "counters": counts,
        "no_counters": why_not,
    }
    report.write_json(stem.with_suffix(".json"), data)
    drawn = draw(stem.with_suffix(".png"), data)
    print(f"Written to {stem}.json{', .png' if drawn else '; without matplotlib no picture'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
