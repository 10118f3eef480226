"""What DIFFERENTIAL refuses, each with its name, its place in the text and what to do about it."""

from __future__ import annotations

from sqlglot import exp

from runnel.bind.parse import position
from runnel.errors import DefinitionError, Unsupported

NONDETERMINISTIC = frozenset(
    "rand randn random uuid uniform randstr shuffle monotonically_increasing_id spark_partition_id input_file_name "
    "input_file_block_start input_file_block_length current_user session_user user current_catalog current_database "
    "current_schema version current_timezone current_time reflect java_method try_reflect".split()
)

_CONSTRUCTS: tuple[tuple[type[exp.Expr], str, str], ...] = ((exp.TableSample, "TABLESAMPLE", "a sample differs each time it is taken"),)


def nondeterministic(tree: exp.Expr) -> None:
    """Refuse functions whose result differs between two evaluations over the same rows."""
    for node in tree.find_all(exp.Func):
        name = function_name(node)
        if name in NONDETERMINISTIC or isinstance(node, exp.Rand | exp.Randn):
            raise DefinitionError(
                f"{name}() is not deterministic",
                code="EXPRESSION_NOT_DETERMINISTIC",
                detail="Its value differs between two evaluations over the same rows, so the result cannot be kept or checked.",
                hint="Compute the value when the source row is written, or use REFRESH MODE FULL.",
                position=position(node),
            )


def constructs(tree: exp.Expr) -> None:
    """Refuse what the algebra has no operator for, wherever it stands."""
    for node in tree.walk():
        for kind, title, because in _CONSTRUCTS:
            if isinstance(node, kind):
                raise unsupported(title, node, because)


def unsupported(construct: str, node: exp.Expr, because: str = "") -> Unsupported:
    """The one shape of refusal."""
    return Unsupported(
        f"{construct} is not maintained incrementally",
        detail=f"{because[:1].upper()}{because[1:]}." if because else "",
        hint="Use REFRESH MODE AUTO or FULL to recompute it at each refresh, or rewrite the query without it.",
        position=position(node),
        construct=construct,
    )


def function_name(node: exp.Expr) -> str:
    """The name of a function as a Spark user writes it."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else type(node).__name__.lower()
