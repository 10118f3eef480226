"""Errors that Spark raises while a refresh runs, as ours: whose fault it is, and what to do."""

from __future__ import annotations

from runnel.errors import DefinitionError, RunnelError

_KNOWN: tuple[tuple[str, str, str, str], ...] = (
    (
        "RECURSION_LEVEL_LIMIT_EXCEEDED",
        "RECURSION_LIMIT",
        "the recursion did not end within its bound",
        "Bound it by a depth column, avoid cycles by an array of the nodes seen, or raise spark.sql.cteRecursionLevelLimit.",
    ),
    (
        "RECURSION_ROW_LIMIT_EXCEEDED",
        "RECURSION_LIMIT",
        "the recursion made more rows than its bound",
        "Bound it by a depth column, or raise spark.sql.cteRecursionRowLimit.",
    ),
    (
        "more than one row returned by a subquery used as an expression",
        "SCALAR_SUBQUERY_TOO_MANY_ROWS",
        "more than one row returned by a subquery used as an expression",
        "Aggregate in the subquery, or add LIMIT 1; the content stays as it was.",
    ),
)


def runtime(error: Exception) -> RunnelError | None:
    """The error of ours that a Spark error stands for, if it is one that users can do something about."""
    text = str(error)
    for sign, code, message, hint in _KNOWN:
        if sign in text:
            return DefinitionError(message, code=code, hint=hint)
    return None
