"""What a benchmark says: where it ran, progress, tables, JSON, Markdown, pictures."""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"

Item = TypeVar("Item")


# ---- where it ran


def _output_of(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip() or None


def _driver() -> str | None:
    query = _output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return query.splitlines()[0] if query else None


def _cpu_name() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1] if match else platform.processor() or platform.machine()


def _commit() -> str | None:
    """The commit in short, with a + behind it when files differ from it.

    Where there is no git checkout to ask, the variable COMMIT may name it.
    """
    commit = _output_of("git", "rev-parse", "--short=12", "HEAD")
    if commit is None:
        return os.environ.get("COMMIT")
    return commit + ("+" if _output_of("git", "status", "--porcelain") else "")


def environment(device: str) -> dict[str, Any]:
    """What a result has to be read with: machine, versions, commit, date."""
    import torch_reduce

    cuda = device == "cuda"
    return {
        "device": torch.cuda.get_device_name() if cuda else _cpu_name(),
        "kind": device,
        "driver": _driver() if cuda else None,
        "cuda": torch.version.cuda if cuda else None,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "gpureduce": torch_reduce.__version__,
        "python": platform.python_version(),
        "commit": _commit(),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What a benchmark of many cases may be told."""
    parser.add_argument(
        "--select", default="", metavar="REGEX", help="only cases (or tensors) with such a name"
    )
    parser.add_argument(
        "--device", choices=["cuda", "cpu"], help="default: the GPU if there is one"
    )
    parser.add_argument(
        "--output", type=Path, default=RESULTS, metavar="DIR", help="default: %(default)s"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random data")


def describe(env: dict[str, Any]) -> str:
    """The environment in one line."""
    where = env["device"]
    if env["kind"] == "cuda":
        where += f", driver {env['driver'] or 'unknown'}, CUDA {env['cuda']}"
    else:
        where += f", {env['threads']} threads"
    return (
        f"{where}; gpureduce {env['gpureduce']} (commit {env['commit'] or 'unknown'}), "
        f"torch {env['torch']}, Python {env['python']}; {env['date']}"
    )


def result_stem(env: dict[str, Any], kind: str, directory: Path) -> Path:
    """Where results go, without the suffix: <device>-<date>-<kind> in `directory`."""
    device = re.sub(r"[^a-z0-9]+", "-", env["device"].lower().replace("nvidia", "")).strip("-")
    date = re.sub(r"[^0-9]", "", env["date"])
    directory.mkdir(parents=True, exist_ok=True)
    return directory / f"{device}-{date[:8]}-{date[8:12]}-{kind}"


# ---- progress


def progress(items: Sequence[Item], label: str) -> Iterator[Item]:
    """A bar on stderr, if that is a terminal, while `items` are walked: tqdm's, or a plain one."""
    if not sys.stderr.isatty():
        yield from items
        return
    try:
        from tqdm import tqdm  # type: ignore[import-untyped]
    except ImportError:
        yield from _plain_progress(items, label)
    else:
        yield from tqdm(items, desc=label, unit="case", leave=False)


def _plain_progress(items: Sequence[Item], label: str, width: int = 30) -> Iterator[Item]:
    for i, item in enumerate(items):
        done = width * i // len(items)
        bar = "#" * done + " " * (width - done)
        print(f"\r{label} [{bar}] {i}/{len(items)}", end="", file=sys.stderr, flush=True)
        yield item
    print("\r" + " " * (len(label) + width + 20) + "\r", end="", file=sys.stderr, flush=True)


# ---- tables


def text_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns padded to one width; the first is aligned to the left, numbers to the right."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]

    def padded(line: list[str]) -> str:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        return "  ".join(cells).rstrip()

    return "\n".join([padded(lines[0]), *(padded(line) for line in lines[1:])])


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [list(header), ["---", *["---:"] * (len(header) - 1)], *(list(row) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def number(value: float | None, digits: int = 3) -> str:
    """`digits` significant digits, without an exponent; a dash for what is not there."""
    if value is None:
        return "–"
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(decimals, 4)}f}"


def percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"


# ---- files


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has neither infinity nor NaN
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value


def write_json(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(_finite(data), indent=1, allow_nan=False) + "\n")


def pyplot() -> Any | None:
    """matplotlib.pyplot on a canvas without a screen; None where it is not installed."""
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("Agg")
    import matplotlib.pyplot

    return matplotlib.pyplot
