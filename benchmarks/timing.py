"""How long a call takes: CUDA-graph replay over cold buffers, host time, CPU time.

A sampler measures once and returns the µs of one call. `interleave` takes samples of several in
turn, so that a change of the machine's clocks meets all of them alike, and keeps the medians.
"""

from __future__ import annotations

import contextlib
import functools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

MIB = 2**20

Call = Callable[[], object]
Sampler = Callable[[], float]


@dataclass(frozen=True)
class Timing:
    """The distribution of the samples of one call, in µs."""

    median_us: float
    low_us: float
    """The first quartile."""
    high_us: float
    """The third quartile."""
    samples: int

    @property
    def spread(self) -> float:
        """The distance between the quartiles as a share of the median."""
        return (self.high_us - self.low_us) / self.median_us

    @classmethod
    def of(cls, samples: Sequence[float]) -> Timing:
        if len(samples) == 1:
            return cls(samples[0], samples[0], samples[0], 1)
        low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
        return cls(median, low, high, len(samples))

    def as_dict(self) -> dict[str, float]:
        return {
            "median_us": self.median_us,
            "low_us": self.low_us,
            "high_us": self.high_us,
            "samples": self.samples,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Timing:
        return cls(data["median_us"], data["low_us"], data["high_us"], data["samples"])


@dataclass(frozen=True)
class Budget:
    """When `interleave` has enough samples of each call."""

    seconds: float
    min_samples: int = 7
    max_samples: int = 200

    def enough(self, samples: int, seconds: float) -> bool:
        if samples < self.min_samples:  # slow calls get by with fewer
            return samples >= 3 and seconds >= 5 * self.seconds
        return samples >= self.max_samples or seconds >= self.seconds


def interleave(samplers: Mapping[str, Sampler], budget: Budget) -> dict[str, Timing]:
    """Samples all of them in turn until the budget, which counts for each, is used up."""
    samples: dict[str, list[float]] = {name: [] for name in samplers}
    start, rounds = time.perf_counter(), 0
    while not budget.enough(rounds, (time.perf_counter() - start) / max(1, len(samplers))):
        for name, sampler in samplers.items():
            samples[name].append(sampler())
        rounds += 1
    return {name: Timing.of(values) for name, values in samples.items()}


TIE = 0.03


def compare_times(ours: Timing, theirs: Timing) -> str:
    """won, tied or lost, from our side.

    Tied are medians within 3 % of each other, and ranges between the quartiles that overlap.
    """
    fast, slow = sorted((ours, theirs), key=lambda t: t.median_us)
    if slow.median_us <= (1 + TIE) * fast.median_us or fast.high_us >= slow.low_us:
        return "tied"
    return "won" if fast is ours else "lost"


# ---- buffers


def geometric_mean(ratios: Sequence[float]) -> float | None:
    return statistics.geometric_mean(ratios) if ratios else None


def buffers_needed(num_bytes: int, device: str) -> int:
    """How many buffers of `num_bytes` a sampler should walk over for each read to be a cold one.

    256 MiB together are more than any cache of the cards and CPUs of today. A call on less than
    1 MiB takes its time for starting and finishing and not for reading: one warm buffer. A buffer
    that is larger than all caches evicts itself.
    """
    if num_bytes < MIB or num_bytes >= 1024 * MIB:
        return 1
    return max(2, math.ceil(256 * MIB / num_bytes))


def is_cold(num_bytes: int) -> bool:
    return num_bytes >= MIB


def copies(tensor: torch.Tensor, count: int) -> list[torch.Tensor]:
    """`tensor` and copies of it that have its strides."""
    return [tensor, *(torch.empty_like(tensor).copy_(tensor) for _ in range(count - 1))]


# ---- the read ceiling


def read_ceiling(
    device: str,
    ways: Mapping[str, Callable[[torch.Tensor], object]],
    num_bytes: int,
    budget: Budget,
) -> dict[str, float]:
    """GB/s of each of several ways to read a float32 tensor of `num_bytes` once, from memory.

    The fastest is what memory gives in this run, on this card, at this temperature. A datasheet's
    figure is never reached, and a copy or a write is another thing than a read.
    """
    x = torch.randn(num_bytes // 4, device=device)
    samplers = {}
    for name, function in ways.items():
        calls = [functools.partial(function, x)]
        samplers[name] = device_sampler(calls, device)
    times = interleave(samplers, budget)
    return {name: num_bytes / (t.median_us * 1e3) for name, t in times.items()}


# ---- GPU


def graph_sampler(calls: Sequence[Call], capture_mode: str = "global") -> Sampler:
    """Times the replay of a CUDA graph of at least 20 calls, or all of `calls` if they are more.

    A graph has no host time between its calls; each call reads its own buffer.
    """
    rounds = max(1, math.ceil(20 / len(calls)))
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for call in calls:  # compiles, allocates, sets attributes: none of that may be captured
            call()
        calls[0]()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    results = []  # alive while the graph is: it writes into them
    with torch.cuda.graph(graph, stream=side, capture_error_mode=capture_mode):
        for _ in range(rounds):
            results += [call() for call in calls]
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    for _ in range(2):
        graph.replay()
    torch.cuda.synchronize()

    def sample() -> float:
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        elapsed_ms: float = begin.elapsed_time(end)
        return elapsed_ms * 1e3 / len(results)

    return sample


def queue_sampler(calls: Sequence[Call], wait: Call) -> Sampler:
    """Wall time of calls that are queued back to back and waited for once, at the end."""
    rounds = max(1, math.ceil(20 / len(calls)))
    for call in calls:
        call()
    wait()

    def sample() -> float:
        start = time.perf_counter()
        for _ in range(rounds):
            for call in calls:
                call()
        wait()
        return (time.perf_counter() - start) * 1e6 / (rounds * len(calls))

    return sample


def host_sampler(call: Call, repeats: int = 500) -> Sampler:
    """Host time of one call: what the caller's thread spends until it may go on.

    The queue of a stream holds about 1000 launches, so that 500 calls never wait for the GPU.
    """
    for _ in range(50):
        call()
    torch.cuda.synchronize()

    def sample() -> float:
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        elapsed = time.perf_counter() - start
        torch.cuda.synchronize()
        return elapsed * 1e6 / repeats

    return sample


# ---- CPU


@contextlib.contextmanager
def num_threads(count: int) -> Iterator[None]:
    """torch's and gpureduce's CPU kernels use `count` threads meanwhile."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def cpu_sampler(calls: Sequence[Call], threads: int, at_least_us: float = 500.0) -> Sampler:
    """Times calls on the CPU that walk over their buffers; a sample lasts `at_least_us` or more."""
    position = 0

    def run(repeats: int) -> float:
        nonlocal position
        with num_threads(threads):
            start = time.perf_counter()
            for _ in range(repeats):
                calls[position]()
                position = (position + 1) % len(calls)
            return (time.perf_counter() - start) * 1e6 / repeats

    run(2)  # the first call starts threads
    repeats = max(1, math.ceil(at_least_us / max(run(1), 0.1)))
    return lambda: run(repeats)


def device_sampler(calls: Sequence[Call], device: str) -> Sampler:
    """GPU time of a call on a GPU, time with all of torch's threads on a CPU."""
    if device == "cuda":
        return graph_sampler(calls)
    return cpu_sampler(calls, torch.get_num_threads())
