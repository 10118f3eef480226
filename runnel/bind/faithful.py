"""Text that means in Spark what the user wrote: the dialect to read with, and repairs before printing.

The product keeps the printed text of a query, so a function that the parser or the printer mistakes would change a
result without a word. Every function of Spark 4.1 was printed again and run against its own example; what differed is
here. `SparkText` keeps what the parser would lose, `faithful` replaces nodes that would be printed as something else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import sqlglot.parser
from sqlglot import exp, transforms
from sqlglot.dialects.spark import Spark
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokens import Token, TokenType

from runnel.algebra.node import nodes
from runnel.bind import pipes
from runnel.bind.tokens import UNSIGNED_SHIFT, respelled
from runnel.errors import EnvironmentProblem

T = TypeVar("T", bound=exp.Expr)

PLAIN = {
    exp.DType.BIGINT: "BIGINT",
    exp.DType.BOOLEAN: "BOOLEAN",
    exp.DType.DATE: "DATE",
    exp.DType.DOUBLE: "DOUBLE",
    exp.DType.INT: "INT",
    exp.DType.SMALLINT: "SMALLINT",
    exp.DType.TINYINT: "TINYINT",
}
"""Types that have no parameters, in Spark's words."""

_DATE_UNITS = frozenset("YEAR YYYY YY QUARTER MONTH MM MON WEEK".split())
_TIME_UNITS = _DATE_UNITS | frozenset("DAY DD HOUR MINUTE SECOND MILLISECOND MICROSECOND".split())


def _when(name: str, fits: Callable[[list[exp.Expr]], bool]) -> Callable[[list[exp.Expr]], exp.Expr]:
    """The parser's own node where it keeps all there is, else the plain call."""
    build = SparkParser.FUNCTIONS[name]

    def build_or_call(args: list[exp.Expr]) -> exp.Expr:
        return build(args) if fits(args) else exp.Anonymous(this=name, expressions=args)

    return build_or_call


def _names(unit: exp.Expr, units: frozenset[str]) -> bool:
    return isinstance(unit, exp.Literal) and unit.name.upper() in units


class _Percentile:
    """PERCENTILE(x, p, frequency) has a third argument that the parser's node has no room for."""

    @classmethod
    def from_arg_list(cls, args: list[exp.Expr]) -> exp.Expr:
        return exp.Quantile.from_arg_list(args) if len(args) == 2 else exp.Anonymous(this="PERCENTILE", expressions=args)


def _any_to_exists(query: exp.Expr) -> exp.Expr:
    """The library's step, for queries that have an ANY: it looks through all of a query for one, and again through what is in it."""
    return transforms.any_to_exists(query) if any(isinstance(n, exp.Any) for n in nodes(query)) else query


class SparkText(Spark):
    """Spark SQL as Spark 4.1 reads it.

    A doubled quote inside a string is a quote, the unit of DATE_TRUNC may be a column, ARRAY_SIZE is not SIZE, which
    gives -1 for NULL outside ANSI mode, and `v:a` takes a part of a variant.

    >>> import sqlglot
    >>> sqlglot.parse_one("SELECT 'it''s', DATE_TRUNC(unit, t), ARRAY_SIZE(a)", dialect=SparkText).sql("spark")
    "SELECT 'it\\\\'s', DATE_TRUNC(unit, t), ARRAY_SIZE(a)"
    """

    def parser(self, **options: Any) -> Any:
        if not str(sqlglot.parser.__file__).endswith(".py"):
            raise EnvironmentProblem(
                "sqlglot is installed in its compiled form",
                code="SQLGLOT_COMPILED",
                detail="Its parser cannot be extended there, and Runnel reads Spark SQL more closely than it does by itself.",
                hint="Run `pip uninstall sqlglotc`.",
            )
        return super().parser(**options)

    class Generator(SparkGenerator):
        EXPRESSIONS_WITHOUT_NESTED_CTES: ClassVar[set[type[exp.Expr]]] = set()
        """None: unlike Hive, Spark has WITH queries inside others, and nothing has to be searched for them."""

        TRANSFORMS: ClassVar[dict[type[exp.Expr], Callable[..., str]]] = {
            **SparkGenerator.TRANSFORMS,
            exp.Select: transforms.preprocess(
                [transforms.eliminate_qualify, transforms.eliminate_distinct_on, transforms.unnest_to_explode, _any_to_exists]
            ),
        }

        def identifier_sql(self, expression: exp.Identifier) -> str:
            """Names as plans have them: quoted, and plain enough to be written as they are."""
            name = expression.this
            return f"`{name}`" if expression.quoted and name.isidentifier() else super().identifier_sql(expression)

        def column_sql(self, expression: exp.Column) -> str:
            """Columns as plans have most of them: a name alone."""
            name, *others = expression.args.values()
            return self.identifier_sql(name) if isinstance(name, exp.Identifier) and not any(others) else super().column_sql(expression)

        def datatype_sql(self, expression: exp.DataType) -> str:
            """Types without parameters by their names: the library would parse the word "float" to compare each of them with it."""
            return PLAIN.get(expression.this) or super().datatype_sql(expression)

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']

    class Parser(SparkParser):
        COLON_IS_VARIANT_EXTRACT: ClassVar[bool] = True
        FUNCTIONS: ClassVar[dict[str, Any]] = {
            **{k: v for k, v in SparkParser.FUNCTIONS.items() if k != "ARRAY_SIZE"},
            "DATE_TRUNC": _when("DATE_TRUNC", lambda args: len(args) == 2 and _names(args[0], _TIME_UNITS)),
            "TRUNC": _when("TRUNC", lambda args: len(args) == 2 and _names(args[1], _DATE_UNITS)),
        }
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            **SparkParser.FUNCTION_PARSERS,
            "PERCENTILE": lambda self: self._parse_distinct_arg_function(_Percentile),
        }

        PIPE_SYNTAX_TRANSFORM_PARSERS: ClassVar[dict[str, Any]] = pipes.steps(SparkParser.PIPE_SYNTAX_TRANSFORM_PARSERS)

        def _parse_pipe_syntax_join(self, query: exp.Query) -> exp.Query | None:
            return super()._parse_pipe_syntax_join(pipes.closed(query))

        def parse(self, raw_tokens: list[Token], sql: str) -> list[exp.Expr | None]:
            return super().parse(respelled(raw_tokens), sql)

        def _parse_term(self, parse_mod: bool = True) -> exp.Expr | None:
            """Sums, and the shifts that bind them: `7 & 8 >> 1` is `7 & (8 >> 1)`."""
            this = super()._parse_term(parse_mod)
            while this is not None:
                if self._match(UNSIGNED_SHIFT):
                    this = exp.Anonymous(this="SHIFTRIGHTUNSIGNED", expressions=[this, super()._parse_term()])
                elif self._match_pair(TokenType.GT, TokenType.GT):
                    this = self.expression(exp.BitwiseRightShift(this=this, expression=super()._parse_term()))
                elif self._match_pair(TokenType.LT, TokenType.LT):
                    this = self.expression(exp.BitwiseLeftShift(this=this, expression=super()._parse_term()))
                else:
                    break
            return this


def faithful(tree: T) -> T:
    """The same tree, of nodes that are printed as they were meant. Apply it whenever a tree was parsed and will be printed.

    >>> import sqlglot
    >>> printed = lambda text: faithful(sqlglot.parse_one(text, dialect=SparkText)).sql("spark")
    >>> printed("SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x), LISTAGG(x), TO_CHAR(x, '99'), ANY(b) FROM t")
    "SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x), LISTAGG(x, ''), TO_CHAR(x, '99'), BOOL_OR(b) FROM t"
    """
    root = tree.copy()
    for node in reversed(list(root.walk())):
        new = _faithful(node)
        if new is node:
            continue
        if node is root:
            root = new  # type: ignore[assignment]
        else:
            node.replace(new)
    return root


def _faithful(node: exp.Expr) -> exp.Expr:
    match node:
        case exp.PercentileCont() | exp.PercentileDisc():
            return _call(node.sql_name(), node.this, node.args.get("expression"))
        case exp.GroupConcat() if node.args.get("separator") is None:
            node.set("separator", exp.Literal.string(""))
            return node
        case exp.JSONExtract() if node.args.get("variant_extract"):
            return _call("VARIANT_GET", node.this, exp.Literal.string(_path(node.expression)), exp.Literal.string("variant"))
        case exp.ToChar():
            return _call("TO_CHAR", node.this, node.args.get("format"))
        case exp.ParseJSON():
            return _call("PARSE_JSON", node.this)
        case exp.UnixDate():
            return _call("UNIX_DATE", node.this)
        case exp.CurrentCatalog():
            return _call("CURRENT_CATALOG")
        case exp.DataType() if node.this == exp.DType.TIME:
            return exp.DataType(this=exp.DType.USERDEFINED, kind="TIME")
        case exp.Any() if isinstance(node.this, exp.Paren) and not (isinstance(node.parent, exp.Binary) and node.arg_key == "expression"):
            return exp.LogicalOr(this=node.this.this)
        case _:
            return node


def _call(name: str, *arguments: exp.Expr | None) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=[a for a in arguments if a is not None])


def _path(path: exp.Expr) -> str:
    """A JSON path as text.

    >>> _path(exp.JSONPath(expressions=[exp.JSONPathRoot(), exp.JSONPathKey(this="a"), exp.JSONPathSubscript(this=0), exp.JSONPathKey(this="b c")]))
    "$.a[0]['b c']"
    """
    text = "$"
    for part in path.expressions[1:]:
        name = str(part.this)
        text += f"[{name}]" if isinstance(part, exp.JSONPathSubscript) else f".{name}" if name.isidentifier() else f"['{name}']"
    return text
