"""Text to syntax tree, with positions in every complaint."""

from __future__ import annotations

import re
from collections.abc import Iterator

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.optimizer.scope import traverse_scope

from runnel.bind.faithful import SparkText
from runnel.errors import DefinitionError

MAX_TEXT = 1_000_000
MAX_DEPTH = 500
"""Nesting that the parser's recursion still takes with room to spare."""
MAX_CTES = 1_000
MAX_COLUMNS = 2_000


def parse_query(text: str) -> exp.Query:
    """One SELECT (or set operation), or a `DefinitionError` that says where the text goes wrong."""
    _check_size(text)
    try:
        statements = [s for s in sqlglot.parse(text, dialect=SparkText) if s is not None]
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        near = (first.get("highlight") or "").strip()
        raise DefinitionError(
            f"syntax error{f' near {near!r}' if near else ''}",
            code="SYNTAX",
            detail=f"{_without_tokens(first.get('description', str(error)))}.".replace("..", "."),
            hint="Correct the query; it must be one SELECT that Spark understands.",
            position=(first.get("line") or 1, first.get("col") or 1),
        ) from error
    except RecursionError as error:
        raise too_deep() from error
    except SqlglotError as error:
        raise DefinitionError("syntax error", code="SYNTAX", detail=str(error)[:300], hint="Correct the query.") from error
    if len(statements) != 1:
        raise DefinitionError(f"expected one query, found {len(statements)}", code="SYNTAX", hint="Give one SELECT without further statements.")
    tree = statements[0]
    while isinstance(tree, exp.Subquery | exp.Paren) and isinstance(tree.this, exp.Query):
        tree = tree.this
    _check_tree(tree)
    if "|>" in text and isinstance(tree, exp.Query):
        tree = sqlglot.parse_one(tree.sql("spark"), dialect=SparkText)  # the parser spells pipes as WITH queries whose parts it knows only now
    if isinstance(tree, exp.Values):
        tree = exp.select("*").from_(tree)
    if not isinstance(tree, exp.Query):
        raise DefinitionError(
            "a stream table is defined by a query", code="SYNTAX", detail=f"The statement is {_kind(tree)}.", hint="Begin with SELECT or WITH."
        )
    return tree


def tables_of(tree: exp.Expr) -> Iterator[exp.Table]:
    """The references to real tables: CTE names and table functions are left out."""
    seen: set[int] = set()
    for scope in traverse_scope(tree):
        for source in scope.sources.values():
            if isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier) and id(source) not in seen:
                seen.add(id(source))
                yield source


def position(node: exp.Expr) -> tuple[int, int] | None:
    """Line and column where a construct begins, from the first of its parts that knows."""
    for part in node.walk():
        if "line" in part.meta:
            width = int(part.meta["end"]) - int(part.meta["start"])
            return int(part.meta["line"]), max(1, int(part.meta["col"]) - width)
    return None


def parts_of(reference: exp.Table) -> tuple[str, ...]:
    """The parts of a table's name as written."""
    return tuple(p.name for p in reference.parts)


def _check_size(text: str) -> None:
    if len(text) > MAX_TEXT:
        raise DefinitionError(
            f"the query has {len(text):,} characters, more than {MAX_TEXT:,}", code="TOO_LARGE", hint="Split it into several stream tables."
        )
    depth = deepest = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        deepest = max(deepest, depth)
    if deepest > MAX_DEPTH:
        raise DefinitionError(
            f"the query nests {deepest:,} parentheses, more than {MAX_DEPTH}", code="TOO_LARGE", hint="Split it into several stream tables."
        )


def _check_tree(tree: exp.Expr) -> None:
    """Bounds on what later passes walk over, checked without recursion."""
    open_: list[tuple[exp.Expr, int]] = [(tree, 0)]
    while open_:
        node, depth = open_.pop()
        if depth > MAX_DEPTH:
            raise too_deep()
        for what, many, most in _parts(node):
            if many > most:
                raise DefinitionError(
                    f"the query has {many:,} {what}, more than {most:,}", code="TOO_LARGE", hint="Split it into several stream tables."
                )
        open_ += [(child, depth + 1) for child in node.iter_expressions()]


def _parts(node: exp.Expr) -> list[tuple[str, int, int]]:
    match node:
        case exp.With():
            return [("WITH queries", len(node.expressions), MAX_CTES)]
        case exp.Select():
            return [("columns in one SELECT", len(node.expressions), MAX_COLUMNS)]
        case _:
            return []


def _kind(tree: exp.Expr) -> str:
    return tree.name.upper() if isinstance(tree, exp.Command) else type(tree).__name__.upper()


def _without_tokens(description: str) -> str:
    """The parser's words, with its token objects printed as the text they stand for.

    >>> _without_tokens("Expected ) but got <Token token_type: TokenType.VAR, text: x, line: 1, col: 9>")
    'Expected ) but got x'
    """
    description = re.sub(r"<Token token_type: TokenType.SENTINEL.*?>", "the end", description)
    return re.sub(r"<Token .*?text: (.*?), line: .*?>", r"\1", description)


def too_deep() -> DefinitionError:
    """What the recursion of a parser or a pass cannot follow."""
    return DefinitionError("the query nests too deeply", code="TOO_LARGE", hint="Split it into several stream tables.")
