"""Fixtures and options that every test file shares."""

from __future__ import annotations

import platform

import numpy as np
import pytest
import tensors
import torch
from hypothesis import settings

import torch_reduce  # noqa: F401  (importing it loads the ops that every test calls)

# `ci` runs the same examples every time, so that a red run can be repeated; `explore` looks for new
# ones and prints how to come back to what it finds. pytest's own --hypothesis-profile chooses.
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("explore", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile("ci")

GIB = 2**30


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--slow", action="store_true", help="run the slow tests on a machine without a GPU too"
    )
    parser.addoption(
        "--data-seed",
        type=int,
        default=tensors.SEED,
        help="seed of all test data (default: %(default)s)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "slow: takes many seconds on a CPU; runs where there is a GPU, or with --slow"
    )
    config.addinivalue_line("markers", "cuda: uses the GPU where there is one")
    config.addinivalue_line(
        "markers", "alone: measures time or fills the GPU; run nothing beside it"
    )
    config.addinivalue_line(
        "markers", "big_memory(gib): needs that many GiB of free memory on the GPU"
    )
    tensors.SEED = config.getoption("--data-seed")


def pytest_report_header(config: pytest.Config) -> str:
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    return (
        f"torch {torch.__version__}, numpy {np.__version__}, python {platform.python_version()}, "
        f"GPU: {gpu}, --data-seed={tensors.SEED}"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Before -m and -k select: tests get the marker `cuda` for what they ask for."""
    skip = pytest.mark.skip(reason="slow on a CPU: runs on machines with a GPU, or with --slow")
    for item in items:
        callspec = getattr(item, "callspec", None)
        if "cuda" in getattr(item, "fixturenames", ()) or (
            callspec is not None
            and "cuda" in (callspec.params.get("device"), callspec.params.get("on"))
        ):
            item.add_marker("cuda")
        slow = item.get_closest_marker("slow") and not config.getoption("--slow")
        if slow and not torch.cuda.is_available():
            item.add_marker(skip)


def pytest_runtest_setup(item: pytest.Item) -> None:
    marker = item.get_closest_marker("big_memory")
    if marker is None:
        return
    if not torch.cuda.is_available():
        pytest.skip(f"needs a GPU with {marker.args[0]} GiB of free memory: there is no GPU")
    torch.cuda.empty_cache()
    free = torch.cuda.mem_get_info()[0] / GIB
    if free < marker.args[0]:
        pytest.skip(
            f"needs a GPU with {marker.args[0]} GiB of free memory: {free:.0f} GiB are free"
        )


# Of the session, so that Hypothesis may repeat a test without them.
@pytest.fixture(params=tensors.DEVICES, scope="session")
def device(request: pytest.FixtureRequest) -> str:
    """Each device of this machine."""
    return str(request.param)


@pytest.fixture(scope="session")
def cuda() -> str:
    """The GPU, for tests of what only a GPU has (streams, graphs, its allocator)."""
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU: there is none")
    return "cuda"
