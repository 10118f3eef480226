"""CHANGE PLAN -> ROWS -> COMMIT: gather facts, decide, run one Spark job, make one commit; compact and verify.

Comes in: a definition and the sources' logs. Goes out: a commit on the backing table and a `RefreshRecord`.
"""
