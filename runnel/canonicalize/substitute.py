"""Put expressions in the place of columns."""

from __future__ import annotations

from sqlglot import exp

from runnel.algebra import Project


def below(expression: exp.Expr, project: Project) -> exp.Expr:
    """An expression over a projection's outputs, written over the projection's inputs."""
    defined = dict(zip(project.names, project.expressions, strict=True))

    def swap(e: exp.Expr) -> exp.Expr:
        if not isinstance(e, exp.Column):
            return e
        found = defined[e.name]
        closed = isinstance(found, exp.Column | exp.Literal | exp.Paren) or isinstance(e.parent, exp.Paren)
        return found.copy() if closed else exp.paren(found.copy())

    return expression.copy().transform(swap)
