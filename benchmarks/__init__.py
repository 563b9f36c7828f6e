"""Measurements of the hub beside the floor and the naive way: `python -m benchmarks`.

How to read the figures is in `docs/performance.md`. Never part of the package.
"""
