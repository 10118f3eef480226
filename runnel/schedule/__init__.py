"""WHEN: the graph of stream tables, which the order of refreshes follows.

`graph.py` knows who reads whom. Nothing here imports Spark.
"""
