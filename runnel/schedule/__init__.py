"""WHEN: the graph of stream tables, their schedules, and the decision what runs now.

`graph.py` knows who reads whom, `schedules.py` when a table wants to run, `tick.py` decides, `run_state.py` is what is remembered between two
runs, `daemon.py` the loop. `tier.py`, `fuse.py`, `watermarks.py`, `pulse.py`, `duration.py` and `cut.py` are what they speak of. Nothing here
imports Spark.
"""
