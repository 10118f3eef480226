"""Measurements, side by side in one run on the same data: `python -m benchmarks`, or `make bench`.

`parts` says what is measured, one module each. The rest is shared: `bench` opens a warehouse and checks content, `measure` takes
times, jobs and bytes, `contest` keeps one query by every way at once, `floor` is the least that a refresh can cost, `machine` says
where a run was made, `results` writes JSON and prints tables, `plot` draws.
"""
