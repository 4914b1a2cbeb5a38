"""gpureduce beside torch, over sizes, dtypes, rows and columns, or on a tensor of your own.

    python -m benchmarks.bench --quick              under a minute
    python -m benchmarks.bench --select 'argmax'    cases whose name matches
    python -m benchmarks.bench --tensor x.npy       a .pt, .npy or .safetensors file

Values are checked before anything is timed: against a reference in float64 (int64 for integers)
and the rounding that a sum may cost; a wrong value is reported and the exit status is 1.

Time on a GPU is that of one call in a CUDA graph that walks over several input buffers, 256 MiB
together or more, so that each read comes from memory and not from the L2 cache (inputs under
1 MiB stay warm); the host's time of a call is measured apart. On a CPU the calls walk over such
buffers too, with one thread and with all. gpureduce and torch are sampled in turn; the table has
medians, and as spread the distance between the quartiles.

The read ceiling, of which each case's GB/s are a share, is what the fastest of torch.sum,
torch.amax, gpureduce.sum and gpureduce.amax reach in this run on 1 GiB of float32 (256 MiB on a
CPU), or the fastest case on cold data, whosever it is, should one be faster. GB/s count the bytes
that have to be read and written.

A case is tied when the medians are within 3 % of each other or the ranges between the quartiles
overlap; else it is won or lost.
"""

from __future__ import annotations

import argparse
import functools
import math
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from benchmarks import cases, own_tensor, report, timing, values
from benchmarks.cases import OURS, TORCH, Case
from benchmarks.peers import Peer, installed
from benchmarks.timing import Budget, Timing, compare_times

GIB = 2**30


@dataclass
class Entry:
    """What came out of one case, with one number of threads if on a CPU."""

    case: Case
    threads: int | None = None
    timings: dict[str, Timing] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    """Who could not do the case, and why."""
    footing: dict[str, str] = field(default_factory=dict)
    """How each peer was timed."""
    verdict: values.Verdict | None = None
    torch_verdict: values.Verdict | None = None
    share: float | None = None

    @property
    def name(self) -> str:
        threads = "" if self.threads is None else f" [{self.threads} threads]"
        return self.case.name + threads.replace("[1 threads]", "[1 thread]")

    @property
    def failed(self) -> bool:
        return OURS in self.missing or self.verdict is None or self.verdict.wrong

    def speed(self, who: str) -> float | None:
        """GB/s."""
        t = self.timings.get(who)
        return self.case.bytes_moved / (t.median_us * 1e3) if t else None

    @property
    def gb_per_s(self) -> float | None:
        return self.speed(OURS)

    @property
    def ratio(self) -> float | None:
        """torch's time over ours."""
        if OURS not in self.timings or TORCH not in self.timings:
            return None
        return self.timings[TORCH].median_us / self.timings[OURS].median_us

    @property
    def outcome(self) -> str:
        if self.failed:
            return "failed"
        if TORCH not in self.timings:
            return "torch cannot"
        return compare_times(self.timings[OURS], self.timings[TORCH])

    def as_dict(self) -> dict[str, Any]:
        case = self.case
        return {
            "name": self.name,
            "group": case.group,
            "op": case.op,
            "shape": list(case.shape),
            "dtype": case.dtype,
            "dim": case.dim,
            "threads": self.threads,
            "bytes": case.bytes_moved,
            "cold": timing.is_cold(case.input_bytes),
            "timings": {who: t.as_dict() for who, t in self.timings.items()},
            "footing": self.footing,
            "missing": self.missing,
            "gb_per_s": self.gb_per_s,
            "share": self.share,
            "ratio": self.ratio,
            "outcome": self.outcome,
            "error": self.verdict and self.verdict.error,
            "bound": self.verdict and self.verdict.bound,
            "torch_error": self.torch_verdict and self.torch_verdict.error,
        }


# ---- one case


def reason(error: Exception) -> str:
    """The first line of an exception."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:100]}" if lines else type(error).__name__


def check_values(entry: Entry, x: torch.Tensor) -> None:
    """Fills the verdicts; who cannot do the case is missing."""
    case = entry.case
    results: dict[str, torch.Tensor] = {}
    for who, make in ((OURS, cases.ours), (TORCH, cases.theirs)):
        try:
            results[who] = make(case.op, x.dtype, case.dim)(x)
        except Exception as error:  # whatever it raises is what is reported
            entry.missing[who] = reason(error)
    expected = values.reference(case.op, x, case.dim)
    length = x.numel() if case.dim is None else x.size(case.dim)
    depth = values.order_depth(length, x.element_size())
    bound = values.rounding_bound(case.op, x, length, depth, expected, worst_case=False)
    if OURS in results:
        entry.verdict = values.compare(results[OURS], expected, bound)
        want = cases.result_dtype(case.op, x.dtype)
        if results[OURS].dtype != want:
            entry.missing[OURS] = f"result is {results[OURS].dtype}, not {want}"
    if TORCH in results:
        entry.torch_verdict = values.compare(results[TORCH], expected, bound)


def samplers_of(entry: Entry, buffers: list[torch.Tensor], peers: list[Peer]) -> dict[str, Any]:
    case, dtype = entry.case, buffers[0].dtype
    samplers: dict[str, timing.Sampler] = {}
    for who, make in ((OURS, cases.ours), (TORCH, cases.theirs)):
        if who in entry.missing:
            continue
        function = make(case.op, dtype, case.dim)
        calls = [functools.partial(function, x) for x in buffers]
        if entry.threads is None:
            samplers[who] = timing.graph_sampler(calls)
        else:
            samplers[who] = timing.cpu_sampler(calls, entry.threads)
    for peer in peers:
        try:
            samplers[peer.name], entry.footing[peer.name] = peer.sampler(case.op, buffers, case.dim)
        except Exception as error:  # a peer may fail in its own ways
            entry.missing[peer.name] = reason(error)
    return samplers


def memory_needed(case: Case, device: str) -> int:
    """Bytes of the buffers and, roughly, of the reference's intermediate results."""
    copies = timing.buffers_needed(case.input_bytes, device)
    return copies * case.input_bytes + 10 * math.prod(case.shape) + GIB // 4


def run_case(
    case: Case, device: str, peers: list[Peer], budget: Budget, generator: torch.Generator
) -> list[Entry]:
    """One entry; on a CPU of several cores one with one thread and one with all."""
    if device == "cuda":
        torch.cuda.empty_cache()
        free, needed = torch.cuda.mem_get_info()[0], memory_needed(case, device)
        if needed > free:
            print(f"skipped, needs {needed / GIB:.1f} GiB: {case.name}", file=sys.stderr)
            return []
    x = cases.random_tensor(case.shape, case.torch_dtype, device, generator)
    entries = [Entry(case)]
    if device == "cpu":
        entries = [Entry(case, threads) for threads in sorted({1, torch.get_num_threads()})]
    check_values(entries[0], x)
    if entries[0].failed:
        return entries[:1]
    buffers = timing.copies(x, timing.buffers_needed(case.input_bytes, device))
    for entry in entries:
        entry.verdict, entry.torch_verdict = entries[0].verdict, entries[0].torch_verdict
        entry.missing = dict(entries[0].missing)
        # Peers choose their threads themselves: they stand beside our run with all threads.
        joined = peers if entry is entries[-1] else []
        entry.timings = timing.interleave(samplers_of(entry, buffers, joined), budget)
    return entries


# ---- ceiling and host time


def ceilings(device: str, quick: bool) -> dict[int | None, dict[str, float]]:
    """The ways to read, for each number of threads (None on a GPU)."""
    f32 = torch.float32
    ways = {f"torch.{op}": cases.theirs(op, f32) for op in ("sum", "amax")}
    ways |= {f"gpureduce.{op}": cases.ours(op, f32) for op in ("sum", "amax")}
    budget = Budget(0.1 if quick else 0.5)
    if device == "cuda":
        return {None: timing.read_ceiling(device, ways, GIB, budget)}
    result: dict[int | None, dict[str, float]] = {}
    for threads in sorted({1, torch.get_num_threads()}):
        with timing.num_threads(threads):
            result[threads] = timing.read_ceiling(device, ways, GIB // 4, budget)
    return result


def fill_shares(
    entries: list[Entry], ways: dict[int | None, dict[str, float]]
) -> dict[str, dict[str, Any]]:
    """Sets each cold entry's share of the ceiling, and returns the ceilings."""
    result = {}
    for threads, speeds in ways.items():
        cold = [
            e
            for e in entries
            if e.threads == threads and e.gb_per_s and timing.is_cold(e.case.input_bytes)
        ]
        candidates = speeds | {
            f"{who} {e.name}": e.speed(who) or 0.0 for e in cold for who in e.timings
        }
        way = max(candidates, key=lambda name: candidates[name])
        for entry in cold:
            entry.share = (entry.gb_per_s or 0.0) / candidates[way]
        label = "GPU" if threads is None else f"{threads} thread" + "s" * (threads > 1)
        result[label] = {"gb_per_s": candidates[way], "way": way, "ways": speeds}
    return result


def host_times(budget: Budget) -> dict[str, dict[str, Timing]]:
    """Host time of small calls, gpureduce and torch in turn."""
    result = {}
    with torch.no_grad():
        for form, (op, shape, arguments) in cases.HOST_CALLS.items():
            x = torch.randn(shape, device="cuda")
            samplers = {}
            for who, namespace in ((OURS, torch.ops.gpureduce), (TORCH, torch)):
                function = getattr(namespace, op)
                samplers[who] = timing.host_sampler(functools.partial(function, x, *arguments))
            result[form] = timing.interleave(samplers, budget)
    return result


# ---- what is said


def against(entries: list[Entry], peer: str) -> Counter[str]:
    """How many cases are won, tied and lost against a peer."""
    return Counter(
        compare_times(e.timings[OURS], e.timings[peer])
        for e in entries
        if OURS in e.timings and peer in e.timings
    )


def summarize(entries: list[Entry], peers: list[Peer]) -> dict[str, Any]:
    counts = Counter(entry.outcome for entry in entries)
    lost = [e for e in entries if e.outcome == "lost" and e.ratio]
    worst = min(lost, key=lambda e: e.ratio or 1.0, default=None)
    ratios = [e.ratio for e in entries if e.ratio and not e.failed]
    mean = timing.geometric_mean(ratios)
    return {
        "cases": len(entries),
        **{name: counts[name] for name in ("won", "tied", "lost", "torch cannot", "failed")},
        "worst_loss": worst and {"name": worst.name, "ratio": worst.ratio},
        "geometric_mean_ratio": mean,
        "peers": {peer.name: dict(against(entries, peer.name)) for peer in peers},
    }


def summary_text(summary: dict[str, Any]) -> str:
    text = (
        f"{summary['cases']} cases: won {summary['won']}, tied {summary['tied']}, "
        f"lost {summary['lost']}"
    )
    if summary["torch cannot"]:
        text += f", {summary['torch cannot']} that torch cannot do"
    if summary["failed"]:
        text += f", FAILED {summary['failed']}"
    if summary["geometric_mean_ratio"]:
        text += f"; geometric mean of torch's time over ours {summary['geometric_mean_ratio']:.2f}"
    if summary["worst_loss"]:
        worst = summary["worst_loss"]
        text += f"; worst loss {1 / worst['ratio']:.2f}x torch's time: {worst['name']}"
    for peer, won in summary["peers"].items():
        text += f"; {peer}: " + ", ".join(f"{k} {won.get(k, 0)}" for k in ("won", "tied", "lost"))
    return text + "."


def table(entries: list[Entry], peers: list[Peer]) -> tuple[list[str], list[list[str]]]:
    header = ["case", "ours µs", "spread", "torch µs", "spread", "GB/s", "of ceiling"]
    header += ["torch/ours", ""]
    header += [f"{peer.name} µs" for peer in peers]
    rows = []
    for e in entries:
        row = [e.name]
        for who in (OURS, TORCH):
            t = e.timings.get(who)
            row += [report.number(t.median_us), f"{100 * t.spread:.1f} %"] if t else ["–", "–"]
        row += [report.number(e.gb_per_s), report.percent(e.share)]
        row += [report.number(e.ratio), e.outcome]
        for peer in peers:
            t = e.timings.get(peer.name)
            mark = "*" if e.footing.get(peer.name) == "queue" else ""
            row.append(report.number(t.median_us) + mark if t else "–")
        rows.append(row)
    return header, rows


def failures_text(entries: list[Entry]) -> list[str]:
    lines = []
    for e in entries:
        if not e.failed:
            continue
        if OURS in e.missing:
            lines.append(f"FAILED {e.name}: {e.missing[OURS]}")
        elif e.verdict:
            lines.append(
                f"FAILED {e.name}: wrong by {e.verdict.error:g}, rounding allows "
                f"{e.verdict.bound:g}"
            )
    return lines


def ceilings_text(ceiling: dict[str, dict[str, Any]]) -> list[str]:
    return [
        f"Read ceiling, {label}: {report.number(c['gb_per_s'])} GB/s ({c['way']})."
        for label, c in ceiling.items()
    ]


def host_table(host: dict[str, dict[str, Timing]]) -> tuple[list[str], list[list[str]]]:
    rows = []
    for form, times in host.items():
        ours, theirs = times[OURS], times[TORCH]
        rows.append(
            [
                form,
                f"{ours.median_us:.2f}",
                f"{theirs.median_us:.2f}",
                f"{theirs.median_us / ours.median_us:.2f}",
                compare_times(ours, theirs),
            ]
        )
    return ["host time of a call", "ours µs", "torch µs", "torch/ours", ""], rows


def markdown(
    env: dict[str, Any],
    summary: dict[str, Any],
    ceiling: dict[str, dict[str, Any]],
    entries: list[Entry],
    host: dict[str, dict[str, Timing]],
    peers: list[Peer],
    picture: str | None,
) -> str:
    parts = ["# gpureduce beside torch", report.describe(env) + ".", summary_text(summary)]
    parts += [" ".join(ceilings_text(ceiling))]
    if peers:
        named = ", ".join(f"{peer.name} {peer.version}" for peer in peers)
        parts.append(
            f"Peers: {named}. * is the wall time of queued calls and not that of a CUDA graph."
        )
    if picture:
        parts.append(f"![torch's time over ours, and GB/s over sizes]({picture})")
    parts += [f"* {line}" for line in failures_text(entries)]
    lost = [e for e in entries if e.outcome == "lost"]
    if lost:
        parts += ["## Lost", report.markdown_table(*table(lost, peers))]
    parts += ["## All cases", report.markdown_table(*table(entries, peers))]
    if host:
        parts += ["## Host time", report.markdown_table(*host_table(host))]
    return "\n\n".join(parts) + "\n"


COLOURS = {"won": "tab:green", "tied": "tab:grey", "lost": "tab:red"}


def draw(path: Path, env: dict[str, Any], entries: list[Entry], ceiling: float) -> bool:
    """Two pictures in one; False without matplotlib."""
    plt = report.pyplot()
    if plt is None:
        return False
    shown = [e for e in entries if e.threads in (None, torch.get_num_threads())]
    compared = sorted((e for e in shown if e.outcome in COLOURS), key=lambda e: e.ratio or 0.0)
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 5.5), layout="constrained")
    for who, style in ((OURS, "o-"), (TORCH, "s--")):
        line = [
            (e.case.input_bytes, e.speed(who))
            for e in shown
            if (e.case.group, e.case.op, e.case.dtype) == ("sizes", "sum", "float32")
            and who in e.timings
        ]
        if line:
            left.plot(*zip(*line, strict=True), style, label=who)
    left.axhline(ceiling, color="black", linestyle=":", label="read ceiling")
    left.set(xscale="log", yscale="log", xlabel="bytes", ylabel="GB/s", title="sum of float32")
    left.legend()
    left.grid(alpha=0.3)
    right.bar(
        range(len(compared)),
        [(e.ratio or 1.0) - 1.0 for e in compared],
        bottom=1.0,
        color=[COLOURS[e.outcome] for e in compared],
        width=1.0,
    )
    right.axhline(1.0, color="black", linewidth=0.8)
    right.set(yscale="log", ylabel="torch's time / ours", xticks=[], xlabel="cases, sorted")
    right.set_title("above 1 gpureduce is faster; grey is tied")
    for axis in (right.yaxis.set_major_formatter, right.yaxis.set_minor_formatter):
        axis("{x:.3g}")
    right.grid(alpha=0.3, axis="y", which="both")
    figure.suptitle(report.describe(env), fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return True


# ---- the program


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="fewer cases, fewer samples")
    parser.add_argument("--peers", action="store_true", help="torch.compile, CuPy, CUB, JAX too")
    parser.add_argument("--tensor", type=Path, metavar="FILE", help="measure the tensors in FILE")
    report.add_arguments(parser)
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    args = parse(argv)
    import torch_reduce  # noqa: F401  registers the ops; raises with the cure if it is not built

    device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    budget = Budget(0.04 if args.quick else 0.2, max_samples=40 if args.quick else 200)
    if args.tensor:
        return own_tensor.run(args.tensor, device, args.select, budget)

    chosen = [
        case
        for case in cases.all_cases(device)
        if (case.quick or not args.quick) and re.search(args.select, case.name)
    ]
    if not chosen:
        print(f"bench: no case has a name like {args.select!r}", file=sys.stderr)
        return 2
    env = report.environment(device)
    print(report.describe(env))
    peers, missing = installed(device) if args.peers else ([], {})
    for name, why in missing.items():
        print(f"{name} does not join: {why}")

    ways = ceilings(device, args.quick)
    generator = torch.Generator(device).manual_seed(args.seed)
    entries: list[Entry] = []
    for case in report.progress(chosen, "cases"):
        entries += run_case(case, device, peers, budget, generator)
    host = host_times(budget) if device == "cuda" else {}
    ceiling = fill_shares(entries, ways)
    summary = summarize(entries, peers)

    print(report.text_table(*table(entries, peers)))
    if host:
        print("\n" + report.text_table(*host_table(host)))
    print()
    for line in (*ceilings_text(ceiling), *failures_text(entries), summary_text(summary)):
        print(line)

    kind = "bench-quick" if args.quick else "bench"
    stem = report.result_stem(env, kind, args.output)
    data = {
        "benchmark": "bench",
        "environment": env,
        "peers": {peer.name: peer.version for peer in peers},
        "seed": args.seed,
        "quick": args.quick,
        "ceiling": ceiling,
        "summary": summary,
        "cases": [entry.as_dict() for entry in entries],
        "host": {
            form: {who: t.as_dict() for who, t in times.items()} for form, times in host.items()
        },
    }
    report.write_json(stem.with_suffix(".json"), data)
    picture = stem.with_suffix(".png")
    all_threads = list(ceiling.values())[-1]["gb_per_s"]
    drawn = draw(picture, env, entries, all_threads)
    text = markdown(env, summary, ceiling, entries, host, peers, picture.name if drawn else None)
    stem.with_suffix(".md").write_text(text)
    print(
        f"Written to {stem}.json, .md" + (" and .png." if drawn else "; no matplotlib, no picture.")
    )
    return 1 if summary["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
