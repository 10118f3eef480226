"""Spellings that Spark does not read, written as ones that it does: QUALIFY, DISTINCT ON, ANY and ALL over subqueries.

A query that uses none of them is returned as it is, so that Spark sees the user's own words.
"""

from __future__ import annotations

from sqlglot import exp, transforms

_NEGATED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
    exp.LT: exp.GTE,
    exp.LTE: exp.GT,
    exp.GT: exp.LTE,
    exp.GTE: exp.LT,
}


def spell(tree: exp.Query) -> exp.Query:
    """The same query in Spark's words.

    >>> import sqlglot
    >>> spell(sqlglot.parse_one("SELECT x FROM t WHERE x = ANY (SELECT y FROM u)", dialect="spark")).sql("spark")
    'SELECT x FROM t WHERE x IN (SELECT y FROM u)'
    >>> spell(sqlglot.parse_one("SELECT x FROM t WHERE x > ALL (SELECT y FROM u)", dialect="spark")).sql("spark")
    'SELECT x FROM t WHERE NOT EXISTS(SELECT 1 FROM (SELECT y FROM u) AS all_of(compared) WHERE x <= all_of.compared OR (x <= all_of.compared) IS NULL)'
    """
    if not foreign(tree):
        return tree
    tree = tree.copy()
    for select in reversed(list(tree.find_all(exp.Select))):  # inner ones first, since outer ones are copied
        if not _own_words(select):
            continue
        said = _with_columns(transforms.eliminate_distinct_on(transforms.eliminate_qualify(select.copy())))
        if select is tree:
            assert isinstance(said, exp.Query)
            tree = said
        else:
            select.replace(said)
    result = tree.transform(_quantified)
    assert isinstance(result, exp.Query)
    return result


def _with_columns(query: exp.Expr) -> exp.Expr:
    """The select list over columns, where the library leaves bare names that resolution would pass over."""
    for item in list(query.expressions):
        if isinstance(item, exp.Identifier):
            item.replace(exp.column(item.copy()))
    return query


def foreign(tree: exp.Expr) -> bool:
    """Whether a query uses any of these spellings."""
    for node in tree.walk():
        if isinstance(node, exp.Select) and _own_words(node):
            return True
        if isinstance(node, exp.Any | exp.All) and _query(node) is not None:
            return True
    return False


def _own_words(select: exp.Select) -> bool:
    distinct = select.args.get("distinct")
    return bool(select.args.get("qualify") or (distinct and distinct.args.get("on")))


def _quantified(node: exp.Expr) -> exp.Expr:
    if type(node) not in _NEGATED or not isinstance(node.expression, exp.Any | exp.All):
        return node
    query = _query(node.expression)
    if query is None:
        return node
    left, some = node.this, isinstance(node.expression, exp.Any)
    if isinstance(node, exp.EQ) and some:
        return exp.In(this=left, query=query.subquery())
    if isinstance(node, exp.NEQ) and not some:
        return exp.not_(exp.In(this=left, query=query.subquery()))
    name = "any_of" if some else "all_of"
    compared = exp.column("compared", table=name)
    rows = exp.select("1").from_(query.subquery(exp.TableAlias(this=exp.to_identifier(name), columns=[exp.to_identifier("compared")])))
    if some:
        return exp.Exists(this=rows.where(type(node)(this=left, expression=compared)))
    against = _NEGATED[type(node)](this=left, expression=compared)
    undecided = exp.Is(this=exp.paren(against.copy()), expression=exp.null())
    return exp.not_(exp.Exists(this=rows.where(exp.or_(against, undecided))))


def _query(node: exp.Expr) -> exp.Query | None:
    inner = node.this.unnest() if isinstance(node.this, exp.Subquery | exp.Paren) else node.this
    return inner.copy() if isinstance(inner, exp.Query) and not isinstance(inner, exp.Subquery) else None
