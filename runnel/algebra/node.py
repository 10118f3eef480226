"""The base of all operators: columns, children, the two faces as SQL, and the law of change.

change = after - before                                     (right for every node, by definition)

An operator overrides `law` with something faster that must equal it; `Steps(laws=False)` ignores every override, and
the tests run both ways. Weights are integers: +1 a row came, -1 a row went; duplicates are larger weights, never a key.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from sqlglot import exp

if TYPE_CHECKING:
    from runnel.algebra.steps import Steps
    from runnel.algebra.want import Within

OWN = "__runnel_"
"""How columns begin that a step has beside those of users, who may call theirs anything else."""
WEIGHT = f"{OWN}weight"
WAS = f"{OWN}was"
"""Where rows of both faces are together: what a row weighs before, beside what it weighs after."""


class Face(StrEnum):
    """The three faces of a relation between two versions."""

    BEFORE = "before"
    AFTER = "after"
    CHANGE = "change"


@dataclass(frozen=True)
class Column:
    """A column of a node: a name unique below its node, and a Spark type in lower case."""

    name: str
    type: str

    def __str__(self) -> str:
        return f"{self.name} {self.type}"


@dataclass(frozen=True)
class Node:
    """An operator of the algebra. Subclasses are frozen dataclasses whose Node-typed fields are their children."""

    title: ClassVar[str]
    law_text: ClassVar[str]
    supports: ClassVar[str]
    cost: ClassVar[str]
    linear: ClassVar[bool] = False
    """The change of the output is the operator applied to the change of its input, row by row."""

    @cached_property
    def children(self) -> tuple[Node, ...]:
        found: list[Node] = []
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, Node):
                found.append(value)
            elif isinstance(value, tuple):
                found.extend(v for v in value if isinstance(v, Node))
        return tuple(found)

    @property
    def columns(self) -> tuple[Column, ...]:
        raise NotImplementedError

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)

    @cached_property
    def sources(self) -> frozenset[str]:
        """Every table this node reads."""
        return frozenset().union(*(c.sources for c in self.children))

    @cached_property
    def grows_with_inserts(self) -> bool:
        """True when insert-only inputs can only add rows to the output."""
        return all(c.grows_with_inserts for c in self.children)

    @property
    def slug(self) -> str:
        """The word that names this node's steps in the generated SQL."""
        return type(self).__name__.lower()

    def select(self, *inputs: str) -> exp.Select:
        """This operator as SQL over its children's relations, without weights."""
        raise NotImplementedError

    def law(self, steps: Steps) -> str:
        """The name of a step holding this node's change; asked only when a source below changed."""
        return steps.difference(self, steps.face(self, Face.AFTER), steps.face(self, Face.BEFORE))

    def origins(self, column: str, changed: frozenset[str]) -> frozenset[tuple[str, str]] | None:
        """Columns of changed sources among whose changed values are all values that `column` has in this node's change.

        None when that is not known: rows of a table that did not change may be in it.
        """
        return None

    def sieves(self, column: str) -> Iterator[Sieve]:
        """Filtered tables that have every value that `column` has here, face by face."""
        yield from ()

    def sifted(self, steps: Steps, sieves: Mapping[str, Sieve]) -> str | None:
        """This node's change, of which only rows matter whose columns have values that the sieves have; None when leaving others out saves nothing."""
        return None

    def identified(self, by: Collection[str]) -> bool:
        """Whether no two rows agree in all of these columns, NULL agreeing with NULL. False when that is not known."""
        return False

    @property
    def linear_over(self) -> frozenset[str]:
        """The one source whose rows this node only filters and renames; of any other node all its sources and one that no table is called."""
        below = self
        while len(below.children) == 1 and below.linear:
            below = below.children[0]
        return below.sources if not below.children else below.sources | {""}

    def near(self, steps: Steps, face: Face, bounds: Sequence[Within]) -> str:
        """A face of which only rows within these bounds of its columns matter; any superset of them will do."""
        return steps.face(self, face)

    def restricted(self, steps: Steps, face: Face, keys: Sequence[str], touched: str) -> str:
        """The rows of a face whose `keys` are among those of the step `touched`.

        An operator overrides it to hand the keys down, so that the scans below read touched keys only.
        """
        return steps.semi(self, steps.face(self, face), keys, touched)

    def both(self, steps: Steps, keys: Sequence[str], touched: str) -> str:
        """The rows of both faces whose `keys` are touched, each with what it weighs after and before; equal rows add up to their weights.

        An operator overrides it where one pass over a table serves both faces. A row that weighs nothing on either is as good as none.
        """
        now, was = (steps.restrict(self, face, keys, touched) for face in (Face.AFTER, Face.BEFORE))
        return steps.define(f"{self.slug}_both_faces", exp.union(weighing(self, now, 1, 0), weighing(self, was, 0, 1), distinct=False, copy=False))

    def at_once(self, changed: frozenset[str]) -> bool:
        """Whether one pass over each changed table gives the rows of both faces."""
        return not self.sources & changed

    def arguments(self) -> str:
        """What the node prints beside its title in `explain`."""
        return ""

    def map_children(self, change: Callable[[Node], Node]) -> Node:
        """The same node over changed children."""
        updates: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, Node):
                updates[f.name] = change(value)
            elif isinstance(value, tuple) and any(isinstance(v, Node) for v in value):
                updates[f.name] = tuple(change(v) if isinstance(v, Node) else v for v in value)
        return replace(self, **updates) if updates else self

    def walk(self) -> Iterator[Node]:
        yield self
        for child in self.children:
            yield from child.walk()

    def require(self, names: set[str] | frozenset[str], available: tuple[str, ...], what: str) -> None:
        """Refuse to be built over columns that the child does not have."""
        missing = sorted(names - set(available))
        assert not missing, f"{self.title}: {what} uses {missing}, available are {list(available)}"

    def tree(self, depth: int = 0) -> str:
        """The readable form that `explain` and the fixtures share."""
        head = f"{'  ' * depth}{self.title} {self.arguments()}".rstrip()
        return "\n".join([head, *(c.tree(depth + 1) for c in self.children)])

    def __str__(self) -> str:
        return self.tree()


@dataclass(frozen=True)
class Sieve:
    """A column of a filtered table: other values do not matter."""

    node: Node
    column: str

    def __str__(self) -> str:
        return f"{self.column} of {self.node}"


def col(name: str, table: str | None = None) -> exp.Column:
    """A quoted column reference."""
    found = exp.Column(this=exp.Identifier(this=name, quoted=True))
    if table is not None:
        found.set("table", exp.to_identifier(table))
    return found


def table(name: str, alias: str | None = None) -> exp.Table:
    """A quoted reference to a step or an input."""
    return exp.Table(
        this=exp.Identifier(this=name, quoted=True), alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=False)) if alias else None
    )


def select(expressions: Iterable[exp.Expr], source: exp.Table | None = None) -> exp.Select:
    """SELECT expressions FROM source. When none is left, because nobody above reads any (COUNT(*)), the rows still count."""
    query = exp.Select(expressions=list(expressions) or [exp.Literal.number(1)])
    if source is not None:
        query.set("from_", exp.From(this=source))
    return query


def weighing(node: Node, relation: str, now: int, was: int) -> exp.Select:
    """Rows of a node with what they weigh after and before."""
    weights = (named(exp.cast(exp.Literal.number(w), "bigint"), name) for name, w in ((WEIGHT, now), (WAS, was)))
    return select((*(col(n) for n in node.names), *weights), table(relation))


def joined(query: exp.Select, right: exp.Expr, kind: str, on: exp.Expr | None = None) -> exp.Select:
    """The query with one more join, in place. Built of nodes: the library's own method reads the kind by parsing a statement.

    >>> joined(select([col("a")], table("x", "l")), table("y", "r"), "left semi", exp.condition("l.k = r.k")).sql("spark")
    'SELECT `a` FROM `x` AS l LEFT SEMI JOIN `y` AS r ON l.k = r.k'
    """
    words = kind.upper().split()
    side = words.pop(0) if words[0] in ("LEFT", "RIGHT", "FULL") else None
    query.append("joins", exp.Join(this=right, side=side, kind=words[0] if words else None, on=on))
    return query


def each(values: Iterable[exp.Expr], name: str) -> exp.Expr:
    """An output that repeats every row with each of the values: no join with them, which would be a job of its own to broadcast them.

    >>> each([exp.true(), exp.false()], "new").sql("spark")
    'EXPLODE(ARRAY(TRUE, FALSE)) AS `new`'
    """
    return named(exp.Explode(this=exp.Array(expressions=list(values))), name)


def named(expression: exp.Expr, name: str) -> exp.Expr:
    """`expression AS name`, or the bare column when it is already called that. The expression is used as it is, not copied."""
    if isinstance(expression, exp.Column) and not expression.table and expression.name == name:
        return expression
    return exp.Alias(this=expression, alias=exp.to_identifier(name, quoted=True))


def references(expression: exp.Expr) -> frozenset[str]:
    """The columns an expression reads."""
    return frozenset(n.name for n in nodes(expression) if isinstance(n, exp.Column))


def nodes(tree: exp.Expr) -> list[exp.Expr]:
    """The nodes of a tree from the top down, level by level. Columns are its leaves, since nobody asks what is in one.

    >>> [type(n).__name__ for n in nodes(exp.condition("a + 1 > b"))]
    ['GT', 'Add', 'Column', 'Column', 'Literal']
    """
    found = [tree]
    for node in found:  # which grows on the way
        if not isinstance(node, exp.Column):
            found.extend(node.iter_expressions())
    return found
