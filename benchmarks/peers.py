"""Other libraries that reduce the same tensors, where they are installed.

A peer binds an op to a tensor and returns a call; it raises an exception for what it cannot do.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks import cases, timing
from benchmarks.values import is_inexact

Bind = Callable[[str, torch.Tensor, "int | None"], timing.Call]


class UnsupportedError(Exception):
    """The peer has no such reduction."""


@dataclass(frozen=True)
class Peer:
    """A library, and how to call and to time it."""

    name: str
    version: str
    bind: Bind
    wait: timing.Call
    """Returns when all its calls are done."""
    capturable: bool
    """Whether its calls can go into a CUDA graph of torch's."""

    def sampler(
        self, op: str, buffers: list[torch.Tensor], dim: int | None
    ) -> tuple[timing.Sampler, str]:
        """Samples one call on `buffers`, and says how: as a graph, as queued calls, on the CPU."""
        calls = [self.bind(op, x, dim) for x in buffers]
        if buffers[0].device.type == "cpu":
            return timing.cpu_sampler(calls, torch.get_num_threads()), "cpu"
        if self.capturable:
            try:
                return timing.graph_sampler(calls, capture_mode="relaxed"), "graph"
            except RuntimeError:
                torch.cuda.synchronize()
        return timing.queue_sampler(calls, self.wait), "queue"


def _torch_compile(device: str) -> Peer:
    def bind(op: str, x: torch.Tensor, dim: int | None) -> timing.Call:
        # Each case is compiled for itself: one compiled function would turn to dynamic shapes.
        torch.compiler.reset()
        compiled = torch.compile(cases.theirs(op, x.dtype, dim), fullgraph=True, dynamic=False)
        return lambda: compiled(x)

    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    return Peer("torch.compile", torch.__version__, bind, wait, capturable=True)


def _cupy(name: str, accelerators: list[str]) -> Peer:
    cupy: Any = importlib.import_module("cupy")
    core: Any = cupy._core  # the switch for CUB has no public name

    def stream() -> AbstractContextManager[object]:
        current: AbstractContextManager[object] = cupy.cuda.ExternalStream(
            torch.cuda.current_stream().cuda_stream
        )
        return current

    def allocate(size: int, device: int) -> int:
        pointer: int = torch.cuda.caching_allocator_alloc(size, device)
        return pointer

    # torch's allocator knows what a graph that is being captured needs to keep.
    release: Any = torch.cuda.caching_allocator_delete
    allocator = cupy.cuda.PythonFunctionAllocator(allocate, lambda pointer, _: release(pointer))
    cupy.cuda.set_allocator(allocator.malloc)

    def bind(op: str, x: torch.Tensor, dim: int | None) -> timing.Call:
        if accelerators and dim not in (None, -1):
            raise UnsupportedError("CUB has no reduction of columns")
        array = cupy.from_dlpack(x)
        function = getattr(cupy, op)
        keywords = {key: value for key, value in (("axis", dim),) if value is not None}
        if op == "mean" and not is_inexact(x.dtype):
            keywords["dtype"] = cupy.float32

        def call() -> object:
            core.set_routine_accelerators(accelerators)
            core.set_reduction_accelerators(accelerators)
            with stream():
                return function(array, **keywords)

        return call

    version = f"CuPy {cupy.__version__}" if accelerators else cupy.__version__
    return Peer(name, version, bind, torch.cuda.synchronize, capturable=True)


def _jax(device: str) -> Peer:
    # JAX would take three quarters of the card for itself.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax: Any = importlib.import_module("jax")
    jnp: Any = importlib.import_module("jax.numpy")

    jax.config.update("jax_enable_x64", True)
    if device == "cuda" and jax.default_backend() != "gpu":
        raise UnsupportedError("this JAX does not see the GPU")
    last: list[Any] = [None]

    def bind(op: str, x: torch.Tensor, dim: int | None) -> timing.Call:
        array = jax.dlpack.from_dlpack(x)
        function = getattr(jnp, op)
        reduce = jax.jit(lambda a: function(a, axis=dim))

        def call() -> object:
            last[0] = reduce(array)
            return last[0] if device == "cuda" else last[0].block_until_ready()

        return call

    def wait() -> object:  # calls run in order
        return last[0].block_until_ready()

    return Peer("JAX", jax.__version__, bind, wait, capturable=False)


def installed(device: str) -> tuple[list[Peer], dict[str, str]]:
    """The peers that work here, and why the others do not."""
    makers: dict[str, tuple[str, Callable[[], Peer]]] = {
        "torch.compile": ("torch", lambda: _torch_compile(device)),
        "JAX": ("jax", lambda: _jax(device)),
    }
    if device == "cuda":
        makers["CuPy"] = ("cupy", lambda: _cupy("CuPy", []))
        makers["CUB"] = ("cupy", lambda: _cupy("CUB", ["cub"]))
    found, missing = [], {}
    for name, (module, make) in makers.items():
        if importlib.util.find_spec(module) is None:
            missing[name] = f"{module} is not installed"
            continue
        try:
            found.append(make())
        except Exception as error:  # a peer that does not work must not stop the benchmark
            missing[name] = f"{type(error).__name__}: {error}".splitlines()[0]
    return found, missing
