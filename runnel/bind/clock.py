"""The clock as a source: a table of one row whose value is fixed for a whole refresh and moves between refreshes."""

from __future__ import annotations

from sqlglot import exp

from runnel.algebra import Column
from runnel.bind.refuse import function_name

TODAY, NOW, LOCAL = "clock.today", "clock.now", "clock.local"
COLUMN = "moment"
TYPES = {TODAY: "date", NOW: "timestamp", LOCAL: "timestamp_ntz"}
_FUNCTIONS = {
    "current_date": TODAY,
    "curdate": TODAY,
    "current_timestamp": NOW,
    "now": NOW,
    "localtimestamp": LOCAL,
    "unix_timestamp": NOW,
}


def reading(node: exp.Expr) -> str | None:
    """Which clock a function reads, or None when it reads none."""
    if not isinstance(node, exp.Func):
        return None
    name = function_name(node)
    if name == "unix_timestamp" and (node.args.get("this") is not None or node.expressions):
        return None
    return _FUNCTIONS.get(name)


def value(node: exp.Expr, moment: exp.Expr) -> exp.Expr:
    """What the function gives at a moment."""
    return exp.Anonymous(this="unix_timestamp", expressions=[moment]) if function_name(node) == "unix_timestamp" else moment


def columns(clock: str) -> tuple[Column, ...]:
    return (Column(COLUMN, TYPES[clock]),)
