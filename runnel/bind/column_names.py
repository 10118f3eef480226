"""The names of columns that a query leaves to Spark, written down: those that a generator makes, and the fields of a struct.

LATERAL VIEW explode(a) t   ->   LATERAL VIEW explode(a) t AS col
SELECT s.*                  ->   SELECT s.a AS a, s.b AS b

They follow from the function, and for maps and structs from the type of the argument, as far as a table shows it.
"""

from __future__ import annotations

from sqlglot import exp

from runnel.bind.lookup import Relation
from runnel.bind.refuse import function_name
from runnel.bind.scope import aliases


def name_columns(tree: exp.Query, relations: dict[str, Relation]) -> exp.Query:
    """The query in which generators and stars of structs have names for their columns, where these are known.

    >>> import sqlglot
    >>> from runnel.algebra import Column
    >>> text = "SELECT id, col FROM t, LATERAL explode(a)"
    >>> name_columns(sqlglot.parse_one(text, dialect="spark"), {"t": Relation("t", (Column("a", "array<int>"),))}).sql("spark")
    'SELECT id, col FROM t CROSS JOIN LATERAL EXPLODE(a) AS generated(col)'
    >>> table = Relation("t", (Column("s", "struct<a:int,b:string>"),))
    >>> name_columns(sqlglot.parse_one("SELECT s.* FROM t", dialect="spark"), {"t": table}).sql("spark")
    'SELECT s.`a` AS `a`, s.`b` AS `b` FROM t'
    """
    root = tree.copy()
    types = {c.name.lower(): c.type for r in relations.values() for c in r.columns}
    for lateral in root.find_all(exp.Lateral):
        alias = lateral.args.get("alias")
        names = _names(lateral.this, types)
        if names and not (alias is not None and alias.args.get("columns")):
            table = alias.this.copy() if alias is not None and alias.this else exp.to_identifier("generated")
            lateral.set("alias", exp.TableAlias(this=table, columns=[exp.to_identifier(n) for n in names]))
    for select in root.find_all(exp.Select):
        for item in list(select.expressions):
            if (spelled := _spelled(item, aliases(select), types)) is not None:
                item.replace(spelled)
                continue
            names = _names(item, types)
            if len(names) == 1:
                item.replace(exp.alias_(item.copy(), names[0]))
    return root


def _spelled(item: exp.Expr, tables: set[str], types: dict[str, str]) -> list[exp.Expr] | None:
    """The fields of a column whose star is selected."""
    if not isinstance(item, exp.Column) or not isinstance(item.this, exp.Star) or not item.table or item.table.lower() in tables:
        return None
    struct = exp.Column(this=item.args["table"].copy(), table=item.args["db"].copy() if item.args.get("db") else None)
    names = fields(types.get(item.table.lower(), ""))
    return [exp.alias_(exp.Dot(this=struct.copy(), expression=exp.to_identifier(n, quoted=True)), n, quoted=True) for n in names] or None


def _names(call: exp.Expr, types: dict[str, str]) -> list[str]:
    """The columns of a generator, or nothing when they cannot be told."""
    if not isinstance(call, exp.Func):
        return []
    argument = call.this if isinstance(call.this, exp.Expr) else next(iter(call.expressions), None)
    of_column = isinstance(argument, exp.Column)
    type_ = types.get(argument.name.lower(), "") if isinstance(argument, exp.Column) else ""
    values = ["key", "value"] if type_.startswith("map<") or isinstance(argument, exp.Map | exp.VarMap) else ["col"]
    match function_name(call).removesuffix("_outer"):
        case "explode" if type_ or not of_column:
            return values
        case "posexplode" if type_ or not of_column:
            return ["pos", *values]
        case "inline" if type_.startswith("array<struct<"):
            return fields(type_.removeprefix("array<").removesuffix(">"))
        case _:
            return []


def fields(type_: str) -> list[str]:
    """The names of a struct's fields.

    >>> fields("struct<a:int,b:struct<c:string>>")
    ['a', 'b']
    """
    return [f.name for f in exp.DataType.build(type_, dialect="spark").expressions] if type_.startswith("struct<") else []
