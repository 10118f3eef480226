"""WHEN: the graph of stream tables, which the order of refreshes follows.

`graph.py` knows who reads whom, `cut.py` which versions belong together. Nothing here imports Spark.
"""
