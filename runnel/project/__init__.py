"""DEFINITIONS IN FILES: a folder of SQL in, stream tables that are as the folder says out; and back again.

`folder.py` finds `runnel.toml` (or a `spark-pipeline.yml`, read by `pipeline_spec.py`) and reads it. `names.py` says which
table a name in a text means. `declare.py` reads SQL files into definitions with their places, `plan.py` compares them with
what the catalog has, `apply.py` does what the plan says. `export.py` writes definitions as SQL again; `clauses.py` is the
list of options that both directions know. `check.py` binds all definitions over tables without rows and compares what it finds with
`lock.py`. `pipeline.py` runs a project in the words of Spark Declarative Pipelines.

Everything up to the plan is pure and starts no Spark.
"""
