"""Reductions for PyTorch tensors at the speed of memory, with one fixed order of combination.

Importing this package loads ``libgpureduce.so`` and with it ``torch.ops.gpureduce.*``. The
functions here are those operators, with types and documentation.

>>> import torch, torch_reduce
>>> torch_reduce.sum(torch.ones(3, 4), dim=1)
tensor([4., 4., 4.])
"""

from torch_reduce._library import PACKAGE_DIR, BuildInfo, build_info, load
from torch_reduce.cards import Card
from torch_reduce.explanation import Explanation, explain
from torch_reduce.functions import (
    AlongDim,
    Ends,
    Stats,
    all,
    amax,
    amin,
    aminmax,
    any,
    argmax,
    argmin,
    count_nonzero,
    logsumexp,
    max,
    mean,
    min,
    nanmean,
    nansum,
    norm,
    prod,
    stats,
    std,
    std_mean,
    sum,
    var,
    var_mean,
)

load()

__version__ = build_info()["gpureduce"]

cmake_prefix_path = str(PACKAGE_DIR / "share" / "cmake")
"""Where CMake finds gpureduce, for CMAKE_PREFIX_PATH, as ``torch.utils.cmake_prefix_path``."""

__all__ = [
    "AlongDim",
    "BuildInfo",
    "Card",
    "Ends",
    "Explanation",
    "Stats",
    "__version__",
    "all",
    "amax",
    "amin",
    "aminmax",
    "any",
    "argmax",
    "argmin",
    "build_info",
    "cmake_prefix_path",
    "count_nonzero",
    "explain",
    "logsumexp",
    "max",
    "mean",
    "min",
    "nanmean",
    "nansum",
    "norm",
    "prod",
    "stats",
    "std",
    "std_mean",
    "sum",
    "var",
    "var_mean",
]
