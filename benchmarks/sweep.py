"""One op over all shapes of the same size, to find the ones that are slower than memory.

    python -m benchmarks.sweep                                   sum, under a minute on a GPU
    python -m benchmarks.sweep --op argmax --dtypes bfloat16
    python -m benchmarks.sweep --device cpu                      small

A planner chooses between kernels, and where it chooses badly, or where a kernel ends and the next
begins, there is a cliff. Two families of shapes look for them:

* powers: (2^i, 2^(K-i)) for every i, along either dim, K = 26 (20 on a CPU);
* odd lengths: 3·2^i - 1 and 3·2^i + 1 from 5 on, of a whole tensor and as rows and columns of a
  matrix of about 2^K elements. No vector, warp or tile divides these.

A case is judged by the read curve: what gpureduce.sum needs for one contiguous float32 tensor of as
many bytes, measured in this run, interpolated between powers of two; beyond the last of them the
fastest read of the curve. A case's share is curve(bytes read and written) / time. A miss takes more
than 1.25 times the curve. The curve has a launch and its end in it, so that small cases are judged
fairly.

The times are those of benchmarks.bench: the replay of CUDA graphs over cold buffers on a GPU, all
threads on a CPU. Values are not checked here; the tests and benchmarks.bench do that.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
import re
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks import cases, report, timing
from benchmarks.cases import FLOAT_OPS, FLOATS, OPS, OURS, Case
from benchmarks.timing import Budget, Timing

DTYPES = ("float32", "bfloat16", "int8")
MISS = 1.25
PRINTED_MISSES = 40
LOG2_ELEMENTS = {"cuda": 26, "cpu": 20}
LOG2_CURVE_BYTES = {"cuda": (10, 28), "cpu": (10, 22)}
# A case is a few replays of 0.1 to 2 ms each: the quartiles of five lie within 1 %.
BUDGET = Budget(0.02, min_samples=5, max_samples=20)


# ---- shapes


def powers(op: str, dtype: str, log2_elements: int) -> list[Case]:
    return [
        Case(name, op, (2**i, 2 ** (log2_elements - i)), dtype, dim)
        for name, dim in (("rows", -1), ("columns", 0))
        for i in range(log2_elements + 1)
    ]


def odd_lengths(op: str, dtype: str, log2_elements: int) -> list[Case]:
    elements = 2**log2_elements
    lengths = [3 * 2**i + d for i in range(1, log2_elements - 1) for d in (-1, 1)]
    found = [Case("odd full", op, (n,), dtype) for n in lengths]
    for n in lengths:
        count = max(1, elements // n)
        found.append(Case("odd rows", op, (count, n), dtype, -1))
        found.append(Case("odd columns", op, (n, count), dtype, 0))
    return found


def all_cases(op: str, dtypes: Sequence[str], log2_elements: int) -> list[Case]:
    return [
        case
        for dtype in dtypes
        for make in (powers, odd_lengths)
        for case in make(op, dtype, log2_elements)
    ]


def length(case: Case) -> int:
    """Elements of one reduction."""
    return math.prod(case.shape) if case.dim is None else case.shape[case.dim]


# ---- the read curve


@dataclass(frozen=True)
class Curve:
    """Bytes, growing, and the µs in which a whole float32 tensor of so many is summed."""

    points: tuple[tuple[int, float], ...]

    def us(self, num_bytes: int) -> float:
        """Interpolated in the logarithms; beyond the last point at the fastest speed."""
        first, last = self.points[0], self.points[-1]
        if num_bytes <= first[0]:
            return first[1]
        if num_bytes >= last[0]:
            return num_bytes / self.bytes_per_us
        (x0, y0), (x1, y1) = next(
            pair for pair in itertools.pairwise(self.points) if num_bytes <= pair[1][0]
        )
        share = math.log(num_bytes / x0) / math.log(x1 / x0)
        return y0 * math.exp(math.log(y1 / y0) * share)

    @property
    def bytes_per_us(self) -> float:
        return max(num_bytes / us for num_bytes, us in self.points)


class Buffers:
    """Random values of a dtype, of which every case takes its buffers as views: drawn once."""

    def __init__(self, dtype: str, num_bytes: int, device: str, seed: int) -> None:
        self.device = device
        self.dtype: torch.dtype = getattr(torch, dtype)
        generator = torch.Generator(device).manual_seed(seed)
        count = num_bytes // self.dtype.itemsize
        self.flat = cases.random_tensor((count,), self.dtype, device, generator)

    def views(self, shape: tuple[int, ...]) -> list[torch.Tensor]:
        """As many as make each read a cold one, aligned to 512 bytes as an allocation is."""
        elements, align = math.prod(shape), 512 // self.dtype.itemsize
        step = -(-elements // align) * align
        wanted = timing.buffers_needed(elements * self.dtype.itemsize, self.device)
        count = min(wanted, (self.flat.numel() - elements) // step + 1)
        return [self.flat[i * step : i * step + elements].view(shape) for i in range(count)]


def measure(
    function: Callable[[torch.Tensor], torch.Tensor], buffers: list[torch.Tensor]
) -> Timing:
    calls = [functools.partial(function, x) for x in buffers]
    sampler = timing.device_sampler(calls, buffers[0].device.type)
    return timing.interleave({OURS: sampler}, BUDGET)[OURS]


def measure_curve(device: str, buffers: Buffers) -> Curve:
    total = cases.ours("sum", buffers.dtype)
    low, high = LOG2_CURVE_BYTES[device]
    points = []
    for k in report.progress(range(low, high + 1), "read curve"):
        views = buffers.views((2**k // buffers.dtype.itemsize,))
        points.append((2**k, measure(total, views).median_us))
    return Curve(tuple(points))


# ---- what came out


@dataclass(frozen=True)
class Result:
    case: Case
    time: Timing
    curve_us: float

    @property
    def share(self) -> float:
        """Of the speed of the curve."""
        return self.curve_us / self.time.median_us

    @property
    def missed(self) -> bool:
        return self.share < 1 / MISS

    def as_dict(self) -> dict[str, Any]:
        case = self.case
        return {
            "name": case.name,
            "group": case.group,
            "op": case.op,
            "shape": list(case.shape),
            "dtype": case.dtype,
            "dim": case.dim,
            "bytes": case.bytes_moved,
            "timings": {OURS: self.time.as_dict()},
            "curve_us": self.curve_us,
            "share": self.share,
        }


def summarize(results: list[Result]) -> dict[str, Any]:
    worst = min(results, key=lambda r: r.share)
    return {
        "cases": len(results),
        "misses": sum(r.missed for r in results),
        "median_share": statistics.median(r.share for r in results),
        "worst": {"name": worst.case.name, "share": worst.share},
    }


def summary_text(summary: dict[str, Any]) -> str:
    worst = summary["worst"]
    return (
        f"{summary['cases']} cases: {summary['misses']} take more than {MISS:g} times the read "
        f"curve; median share {report.percent(summary['median_share'])}; worst "
        f"{1 / worst['share']:.2f} times: {worst['name']}."
    )


def groups_table(results: list[Result]) -> tuple[list[str], list[list[str]]]:
    rows = []
    for key in dict.fromkeys((r.case.group, r.case.dtype) for r in results):
        shares = [r.share for r in results if (r.case.group, r.case.dtype) == key]
        misses = sum(share < 1 / MISS for share in shares)
        row = [" ".join(key), str(len(shares)), str(misses)]
        row += [report.percent(x) for x in (min(shares), statistics.median(shares), max(shares))]
        rows.append(row)
    return ["shapes", "cases", "misses", "worst", "median", "best"], rows


def misses_table(results: list[Result]) -> tuple[list[str], list[list[str]]]:
    missed = sorted((r for r in results if r.missed), key=lambda r: r.share)
    rows = [
        [
            r.case.name,
            report.number(r.time.median_us),
            f"{100 * r.time.spread:.1f} %",
            report.number(r.curve_us),
            f"{1 / r.share:.2f}",
        ]
        for r in missed
    ]
    return ["miss", "µs", "spread", "curve µs", "times"], rows


def curve_table(curve: Curve) -> tuple[list[str], list[list[str]]]:
    rows = [
        [str(num_bytes), report.number(us), report.number(num_bytes / us / 1e3)]
        for num_bytes, us in curve.points
    ]
    return ["bytes", "µs", "GB/s"], rows


def markdown(
    env: dict[str, Any], op: str, results: list[Result], curve: Curve, picture: str | None
) -> str:
    parts = [f"# {op} over all shapes", report.describe(env) + "."]
    parts.append(summary_text(summarize(results)))
    if picture:
        parts.append(f"![share of the read curve over the length of a reduction]({picture})")
    parts.append(report.markdown_table(*groups_table(results)))
    header, rows = misses_table(results)
    if rows:
        parts += ["## Misses", report.markdown_table(header, rows)]
    parts += ["## The read curve", report.markdown_table(*curve_table(curve))]
    return "\n\n".join(parts) + "\n"


def draw(path: Path, env: dict[str, Any], op: str, results: list[Result]) -> bool:
    """A row for each dtype, powers left, odd lengths right; False without matplotlib."""
    plt = report.pyplot()
    if plt is None:
        return False
    dtypes = list(dict.fromkeys(r.case.dtype for r in results))
    figure, axes = plt.subplots(
        len(dtypes), 2, figsize=(13, 3.2 * len(dtypes)), sharex=True, sharey=True, squeeze=False,
        layout="constrained",
    )  # fmt: skip
    panels = (("rows", "columns"), ("odd full", "odd rows", "odd columns"))
    for row, dtype in zip(axes, dtypes, strict=True):
        for axis, groups in zip(row, panels, strict=True):
            axis.axhspan(0, 1 / MISS, color="tab:red", alpha=0.08, linewidth=0)
            for group in groups:
                found = [r for r in results if (r.case.group, r.case.dtype) == (group, dtype)]
                line = sorted((length(r.case), r.share) for r in found)
                if line:
                    axis.plot(*zip(*line, strict=True), "o-", markersize=3, label=group)
            axis.axhline(1, color="black", linewidth=0.8)
            axis.set_xscale("log", base=2)
            axis.set_title(f"{op} {dtype}", loc="left")
            axis.grid(alpha=0.3)
        row[0].set_ylabel("share of the read curve")
    for axis in axes[0]:  # above the curves, where it hides none
        axis.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False)
    axes[0][0].set_ylim(0, 1.05 * max(1.0, *(r.share for r in results)))
    for axis in axes[-1]:
        axis.set_xlabel("elements of one reduction")
    figure.suptitle(f"{report.describe(env)}\nbelow 1/{MISS:g} is a miss", fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return True


# ---- the program


def dtype_names(text: str) -> list[str]:
    names, known = text.split(","), (*cases.FLOATS, *cases.INTEGERS)
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"expected some of {', '.join(known)}, got {name!r}")
    return names


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sweep",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--op", choices=[*OPS, *FLOAT_OPS], default="sum")
    parser.add_argument(
        "--dtypes",
        type=dtype_names,
        default=list(DTYPES),
        metavar="A,B",
        help=f"default: {','.join(DTYPES)}; of {', '.join(FLOAT_OPS)} the floats among them",
    )
    parser.add_argument(
        "--log2-elements", type=int, metavar="K", help="elements of a matrix; default: 26, CPU 20"
    )
    report.add_arguments(parser)
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    args = parse(argv)
    import torch_reduce  # noqa: F401  registers the ops; raises with the cure if it is not built

    device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    log2_elements = args.log2_elements or LOG2_ELEMENTS[device]
    chosen = [
        case
        for case in all_cases(args.op, args.dtypes, log2_elements)
        if re.search(args.select, case.name) and (args.op in OPS or case.dtype in FLOATS)
    ]
    if not chosen:
        print(f"sweep: no case has a name like {args.select!r}", file=sys.stderr)
        return 2
    env = report.environment(device)
    print(report.describe(env))

    longest = max(case.input_bytes for case in chosen)
    room = 2 * max(longest, 2 ** LOG2_CURVE_BYTES[device][1])
    buffers = Buffers("float32", room, device, args.seed)
    curve = measure_curve(device, buffers)
    results = []
    for case in report.progress(chosen, "cases"):
        if case.torch_dtype != buffers.dtype:
            del buffers  # before the next ones are allocated
            buffers = Buffers(case.dtype, room, device, args.seed)
        function = cases.ours(case.op, case.torch_dtype, case.dim)
        time = measure(function, buffers.views(case.shape))
        results.append(Result(case, time, curve.us(case.bytes_moved)))

    header, rows = misses_table(results)
    if rows:
        print(report.text_table(header, rows[:PRINTED_MISSES]))
        more = len(rows) - PRINTED_MISSES
        print(f"and {more} more, in the file\n" if more > 0 else "")
    print(report.text_table(*groups_table(results)) + "\n")
    summary = summarize(results)
    print(summary_text(summary))

    stem = report.result_stem(env, f"sweep-{args.op}", args.output)
    data = {
        "benchmark": "sweep",
        "environment": env,
        "seed": args.seed,
        "op": args.op,
        "curve": [list(point) for point in curve.points],
        "summary": summary,
        "cases": [r.as_dict() for r in results],
    }
    report.write_json(stem.with_suffix(".json"), data)
    picture = stem.with_suffix(".png")
    drawn = draw(picture, env, args.op, results)
    text = markdown(env, args.op, results, curve, picture.name if drawn else None)
    stem.with_suffix(".md").write_text(text)
    print(
        f"Written to {stem}.json, .md" + (" and .png." if drawn else "; no matplotlib, no picture.")
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
