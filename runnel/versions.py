"""The versions Runnel is built and tested with, in one place."""

from __future__ import annotations

SPARK = "4.1.4"
SCALA = "2.13"
DELTA = "4.4.0"
JAVA_MINIMUM = 17

# Delta Lake publishes one artifact per Spark line: 4.1 of 4.1.4.
SPARK_LINE = SPARK.rpartition(".")[0]
DELTA_COORDINATE = f"io.delta:delta-spark_{SPARK_LINE}_{SCALA}:{DELTA}"
