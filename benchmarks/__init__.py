"""Benchmarks of gpureduce: `python -m benchmarks.bench`, `.ladder` and `.compare`."""
