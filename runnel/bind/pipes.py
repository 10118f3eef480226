"""Pipes, FROM t |> WHERE ... |> LIMIT 3 |> WHERE ...: each step works on the rows that the one before it leaves.

The parser adds a step to the query that it has so far, and knows neither SET nor DROP. Where a clause that comes later in
the text would be applied earlier, because SQL has a fixed order of clauses, what is there so far becomes a subquery.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

Step = Callable[[Any, exp.Query], exp.Query]

_CUTS = ("limit", "offset", "distinct")
_BEFORE_JOIN = (*_CUTS, "where")


def steps(parsers: dict[str, Step]) -> dict[str, Step]:
    """The parser's own steps over closed queries, and those that it lacks."""
    return {**{name: _over_closed(name, step) for name, step in parsers.items()}, "SET": _set, "DROP": _drop}


def closed(query: exp.Query, clauses: tuple[str, ...] = _BEFORE_JOIN) -> exp.Query:
    """The query as it is, or as a subquery when it has clauses that must come first; its one table keeps its name.

    >>> import sqlglot
    >>> closed(sqlglot.parse_one("SELECT * FROM t LIMIT 3", dialect="spark")).sql("spark")
    'SELECT * FROM (SELECT * FROM t LIMIT 3) AS t'
    """
    if not any(query.args.get(c) for c in clauses):
        return query
    source = query.args.get("from_")
    alone = source is not None and not query.args.get("joins") and bool(source.this.alias_or_name)
    with_ = query.args.get("with_")
    if with_ is not None:
        query.set("with_", None)
    outer = exp.select("*").from_(query.subquery(source.this.alias_or_name if alone and source is not None else None, copy=False), copy=False)
    outer.set("with_", with_)
    return outer


def _over_closed(name: str, step: Step) -> Step:
    """ORDER BY and LIMIT may share a query, and ORDER BY with OFFSET; the rest begins anew after a cut."""
    return lambda parser, query: step(parser, query if name in ("AS", "LIMIT") else closed(query, _CUTS))


def _set(parser: Any, query: exp.Query) -> exp.Query:
    """SET x = e: x keeps its place and gets a new value."""
    parser._match_text_seq("SET")
    replaced = [exp.alias_(e.expression.copy(), e.this.name) for e in parser._parse_expressions()]
    return _restarred(parser, query, exp.Star(replace=replaced))


def _drop(parser: Any, query: exp.Query) -> exp.Query:
    parser._match_text_seq("DROP")
    return _restarred(parser, query, exp.Star(except_=parser._parse_expressions()))


def _restarred(parser: Any, query: exp.Query, star: exp.Expr) -> exp.Query:
    query = closed(query, _CUTS)
    assert isinstance(query, exp.Select)
    made: exp.Query = parser._build_pipe_cte(query=query.select(star, append=False, copy=False), expressions=[exp.Star()])
    return made
