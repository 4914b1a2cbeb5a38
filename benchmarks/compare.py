"""Compares two results of bench, sweep or ladder, and fails if something became slower beyond
the noise.

    python -m benchmarks.compare OLD.json NEW.json

Cases are matched by name, and in each the times of gpureduce (of a ladder: of each rung). The noise
of a case is the sum of the two recorded spreads, (third quartile - first quartile) / median, and at
least 3 %: a median that moved by less than that moved within what single samples do. A regression
is a time that grew, an improvement one that shrank, by more. A case of the old result that failed
in the new one is a regression too.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.timing import Timing

PEERS_OF_LADDER = {"torch"}


@dataclass(frozen=True)
class Change:
    """What became of one timing."""

    name: str
    old: Timing
    new: Timing | None
    floor: float

    @property
    def noise(self) -> float:
        return max(self.floor, self.old.spread + (self.new.spread if self.new else 0.0))

    @property
    def ratio(self) -> float | None:
        """New time over old time."""
        return self.new.median_us / self.old.median_us if self.new else None

    @property
    def outcome(self) -> str:
        if self.ratio is None:
            return "REGRESSION (failed)"
        if self.ratio > 1 + self.noise:
            return "REGRESSION"
        return "improved" if 1 / self.ratio > 1 + self.noise else "same"


def timings(data: dict[str, Any]) -> dict[str, Timing]:
    """Our own timings in a result, by name."""
    found = {}
    for case in data["cases"]:
        for who, t in case["timings"].items():
            if data["benchmark"] == "ladder" and who not in PEERS_OF_LADDER:
                found[f"{case['name']} {who}"] = Timing.from_dict(t)
            elif who == "gpureduce":
                found[case["name"]] = Timing.from_dict(t)
    for form, times in data.get("host", {}).items():
        found[f"host {form}"] = Timing.from_dict(times["gpureduce"])
    return found


def compare(old: dict[str, Any], new: dict[str, Any], floor: float) -> list[Change]:
    """The changes of all timings that both results should have.

    A case that the new result did not measure (another selection, a smaller card) is left out; one
    that it has without a time has failed.
    """
    before, after = timings(old), timings(new)
    measured = {case["name"] for case in new["cases"]}
    return [
        Change(name, t, after.get(name), floor)
        for name, t in before.items()
        if name in after or name in measured
    ]


def load(path: Path) -> dict[str, Any]:
    try:
        data: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise SystemExit(f"compare: {path} cannot be read: {error}") from error
    if not isinstance(data, dict) or data.get("benchmark") not in ("bench", "sweep", "ladder"):
        raise SystemExit(f"compare: {path} is no result of bench, sweep or ladder")
    return data


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument(
        "--floor", type=float, default=0.03, help="the least noise of a case (default: %(default)s)"
    )
    args = parser.parse_args(argv)
    old, new = load(args.old), load(args.new)
    if old["benchmark"] != new["benchmark"]:
        raise SystemExit("compare: one is a result of bench, the other of ladder")
    for label, data in (("old", old), ("new", new)):
        print(f"{label}: {report.describe(data['environment'])}")
    if old["environment"]["device"] != new["environment"]["device"]:
        print("These are different devices: what follows compares them, and not two versions.")
    changes = compare(old, new, args.floor)
    if not changes:
        raise SystemExit("compare: the two results have no case in common")
    rows = [
        [
            change.name,
            report.number(change.old.median_us),
            report.number(change.new.median_us if change.new else None),
            report.number(change.ratio),
            f"{100 * change.noise:.1f} %",
            change.outcome,
        ]
        for change in changes
    ]
    print(report.text_table(["case", "old µs", "new µs", "new/old", "noise", ""], rows))
    counts = Counter(change.outcome.split()[0] for change in changes)
    print(
        f"{len(changes)} timings: {counts['REGRESSION']} regressions, "
        f"{counts['improved']} improved, {counts['same']} the same."
    )
    return 1 if counts["REGRESSION"] else 0


if __name__ == "__main__":
    sys.exit(main())
