"""Tree + facts -> change plan.

The root decides what is kept. Over an additive aggregate or a DISTINCT, projections and filters are finished at read,
and a refresh appends partial sums: it reads neither the state nor the sources. Anything else is kept as rows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from textwrap import indent

from sqlglot import exp
from sqlglot.generator import Generator

from runnel.algebra import WEIGHT, Aggregate, Column, Distinct, Face, Facts, Filter, Limit, Node, Project, Recursive, Steps, Window
from runnel.algebra.node import col, named, nodes, select, table
from runnel.algebra.want import Want
from runnel.bind.faithful import SparkText
from runnel.differentiate.layout import CONTENT, Layout


@dataclass(frozen=True)
class InputFace:
    """A relation the executor provides under a name: one face of one source, and what is known of the rows that matter."""

    want: Want
    name: str
    uses: int = 1
    """How often it is read when the plan runs: a step that two others read is computed for each, unless it is a part of its own."""

    @property
    def source(self) -> str:
        return self.want.source

    @property
    def face(self) -> Face:
        return self.want.face


@dataclass(frozen=True)
class Part:
    """One statement of a plan: what it makes is read by later parts under `name`, which the last one has not."""

    name: str
    sql: str
    reads: tuple[tuple[str, int], ...]
    """The inputs and earlier parts that it reads, and how often when it runs."""


@dataclass(frozen=True)
class ChangePlan:
    """One SQL statement whose rows are appended to the backing table: the stored columns and a weight.

    `parts` is the same statement taken apart, in order: steps that several others read, each worth computing once, and
    last the rows to append. Each part is complete but for the parts before it, which it reads by name.
    """

    sql: str
    inputs: tuple[InputFace, ...]
    facts: Facts
    parts: tuple[Part, ...] = ()
    wide: frozenset[str] = frozenset()
    """The parts whose size follows the tables and not the change."""

    def __str__(self) -> str:
        return self.sql


@dataclass(frozen=True)
class Root:
    """A tree split into what is maintained and what is finished at read."""

    maintained: Node
    layout: Layout
    replaces: bool = False
    """The maintained node replaces rows of its own, and reads them from what is stored."""

    @property
    def sources(self) -> frozenset[str]:
        return self.maintained.sources


def root_of(tree: Node, output: tuple[Column, ...]) -> Root:
    """Split a tree; `output` are the names and types that users see."""
    finishing: list[Node] = []
    node = tree
    while isinstance(node, Project | Filter | Limit) and not getattr(node, "keys", ()):
        finishing.append(node)
        node = node.child
    match node:
        case Aggregate() if node.additive:
            stored = (*node.key_columns, *node.state)
            finished = select((*(col(k) for k in node.keys), *node.finished())).from_(table(CONTENT))
            return Root(node, _layout("groups", node, stored, node.keys, node.state, finished, finishing, tree, output))
        case Distinct():
            finished = exp.select(*(col(n) for n in node.names)).from_(table(CONTENT))
            return Root(node, _layout("groups", node, node.columns, node.names, (), finished, finishing, tree, output))
        case Aggregate() if not any(n.title == "Limit" for n in finishing) or node.keys:
            return _kept_rows(node, finishing, tree, output)
        case Recursive():
            return _kept_rows(node, finishing, tree, output)
        case Window() if all(isinstance(n, Project) for n in finishing):
            return _kept_rows(node, finishing, tree, output)
        case _:
            last = max((i for i, n in enumerate(finishing) if isinstance(n, Limit)), default=-1)
            if last < 0:
                return Root(tree, rows_layout(tree.columns, output))
            below = finishing[last].children[0]
            return _kept_rows(below, finishing[: last + 1], tree, output, replaces=False)


def _kept_rows(node: Node, finishing: list[Node], tree: Node, output: tuple[Column, ...], replaces: bool = True) -> Root:
    """Rows of an inner node, kept as they are; what stands above is finished at read.

    With `replaces`, its law asks for its own rows before the refresh, which are the stored ones.
    """
    finished = select(col(n) for n in node.names).from_(table(CONTENT))
    layout = _layout("rows", node, node.columns, (), (), finished, finishing, tree, output)
    return Root(node, layout, replaces)


def rows_layout(stored: tuple[Column, ...], output: tuple[Column, ...]) -> Layout:
    """The layout of a table kept row by row."""
    finish = _renamed(exp.select(), stored, output).from_(table(CONTENT))
    return Layout("rows", stored, (), (), finish.sql("spark"), output, finish_change=finish.select(col(WEIGHT)).sql("spark"))


def _layout(
    kind: str,
    node: Node,
    stored: tuple[Column, ...],
    keys: tuple[str, ...],
    partials: tuple[Column, ...],
    finished: exp.Select,
    finishing: list[Node],
    tree: Node,
    output: tuple[Column, ...],
) -> Layout:
    by_row = all(operator.linear for operator in finishing)
    finish = _finish(finished, finishing, tree, output, ())
    finish_change = _finish(finished, finishing, tree, output, (col(WEIGHT),)) if by_row else ""
    return Layout(kind, stored, keys, tuple(p.name for p in partials), finish, output, finish_change=finish_change)


def _finish(finished: exp.Select, finishing: list[Node], tree: Node, output: tuple[Column, ...], weight: tuple[exp.Column, ...]) -> str:
    """The operators above the maintained node as SQL over its content; with a weight, they pass it on."""
    steps = Steps()
    name = steps.define("finished", finished.select(*weight))
    for operator in reversed(finishing):
        query = operator.select(name)
        name = steps.define(operator.slug, query if query.is_star else query.select(*weight))
    return steps.build(_renamed(exp.select(), tree.columns, output).select(*weight).from_(table(name))).sql("spark")


def _renamed(query: exp.Select, inner: tuple[Column, ...], output: tuple[Column, ...]) -> exp.Select:
    """Inner columns under the names and types that users see."""
    for i, o in zip(inner, output, strict=True):
        value = col(i.name) if i.type == o.type else exp.cast(col(i.name), exp.DataType.build(o.type, dialect="spark"))
        query = query.select(exp.alias_(value, exp.to_identifier(o.name, quoted=True)))
    return query


def differentiate(root: Root, facts: Facts, laws: bool = True, off: frozenset[str] = frozenset()) -> ChangePlan:
    """The plan that turns the sources' changes into the rows to append; `off` are ways to a smaller one that it shall not take."""
    steps = Steps(facts, laws, off, kept=root.maintained if root.replaces else None)
    query = _change(root, steps)
    whole = frozenset(node for node, faces in steps.asked.items() if len(faces) > 1 and faces != {Face.CHANGE})
    if whole:  # only a plan shows what is read whole
        steps = Steps(facts, laws, off, kept=steps.kept, whole=whole)
        query = _change(root, steps)
    return _plan(steps, query)


def _change(root: Root, steps: Steps) -> exp.Select:
    """The rows to append, of steps that are defined on the way."""
    node, layout = root.maintained, root.layout
    if layout.kind == "rows":
        change = steps.change(node)
        assert change is not None, "a plan is made only when a source changed"
        if not steps.grows(node) and not steps.netted(change):
            change = steps.consolidate("net", change, node.columns)
        return exp.select(*(col(n) for n in (*node.names, WEIGHT))).from_(table(change))
    change = steps.change(node.children[0])
    assert change is not None, "a plan is made only when a source changed"
    return _nonzero(layout, steps.define("sums", _state(node, change, col(WEIGHT))))


def recompute(root: Root, stored: str | None) -> ChangePlan:
    """query(after) - stored content, in the stored shape. `stored` names the relation with the content kept so far
    (stored columns and weight); None on the first load."""
    node, layout = root.maintained, root.layout
    steps = Steps(kept=node if root.replaces else None)
    names = [c.name for c in layout.stored]
    if layout.kind == "rows":
        now = exp.select(*(col(n) for n in names), named(exp.cast(exp.Literal.number(1), "bigint"), WEIGHT)).from_(
            table(steps.face(node, Face.AFTER))
        )
    else:
        now = _state(node, steps.face(node.children[0], Face.AFTER), exp.Literal.number(1))
    after = steps.define("now", now)
    if stored is None:
        query = exp.select(*(col(n) for n in (*names, WEIGHT))).from_(table(after))
        return _plan(steps, query if layout.keys or layout.kind == "rows" else query.where(f"{WEIGHT} <> 0"))
    return _plan(steps, subtract(steps, layout, after, stored))


def subtract(steps: Steps, layout: Layout, after: str, stored: str) -> exp.Select:
    """The change that turns the stored relation into `after`, both in the stored shape."""
    plain = [c.name for c in layout.key_columns]
    numbers = [*layout.partials, WEIGHT]
    minus = exp.select(*(col(n) for n in plain), *(named(exp.Neg(this=col(n)), n) for n in numbers)).from_(table(stored))
    plus = exp.select(*(col(n) for n in (*plain, *numbers))).from_(table(after))
    both = steps.define("both", exp.union(plus, minus, distinct=False))
    if layout.kind == "rows":
        return exp.select("*").from_(table(steps.consolidate("net", both, layout.stored)))
    return summed(steps, layout, both)


def summed(steps: Steps, layout: Layout, relation: str) -> exp.Select:
    """Stored rows of groups, one per group; those that sum up to nothing are gone."""
    types = {c.name: c.type for c in layout.stored} | {WEIGHT: "bigint"}
    sums = [named(exp.cast(exp.Sum(this=col(n)), types[n]), n) for n in (*layout.partials, WEIGHT)]
    keys = [c.name for c in layout.key_columns]
    query = exp.select(*(col(n) for n in keys), *sums).from_(table(relation))
    return _nonzero(layout, steps.define("sums", query.group_by(*(col(n) for n in keys)) if keys else query))


def _state(node: Node, relation: str, weight: exp.Expr) -> exp.Select:
    """Partial sums per group of an additive aggregate; a DISTINCT is one without partials."""
    match node:
        case Aggregate():
            return node.sums(relation, weight)
        case Distinct():
            total = named(exp.cast(exp.Sum(this=weight), "bigint"), WEIGHT)
            return exp.select(*(col(n) for n in node.names), total).from_(table(relation)).group_by(*(col(n) for n in node.names))
        case _:
            raise AssertionError(f"{node.title} is not kept as groups")


def _nonzero(layout: Layout, sums: str) -> exp.Select:
    """Groups that a change leaves as they were are not appended."""
    moved = exp.or_(*(exp.NEQ(this=col(n), expression=exp.Literal.number(0)) for n in (WEIGHT, *layout.partials)))
    return exp.select(*(col(c.name) for c in layout.stored), col(WEIGHT)).from_(table(sums)).where(moved)


def _plan(steps: Steps, query: exp.Select) -> ChangePlan:
    printer = SparkText().generator(pretty=True)
    texts = {name: _Text.of(definition, printer) for name, definition in steps.definitions.items()}
    last = _Text.of(query, printer)
    reads = {name: text.reads for name, text in texts.items()}
    needed = _needed(reads, last.reads)
    uses = Counter(t for name in needed for t in reads[name]) + Counter(last.reads)
    shared = _shared(steps, reads, uses, needed)
    open_reads = {n: r for n, r in reads.items() if n not in shared}

    def part(name: str, text: _Text) -> Part:
        own = _needed(open_reads, text.reads)
        runs = Counter(text.reads)
        for step in reversed([n for n in texts if n in own]):
            for read in reads[step]:
                runs[read] += runs[step]
        sql = _statement([(n, t) for n, t in texts.items() if n in own], text)
        return Part(name, sql, tuple((n, times) for n, times in runs.items() if n not in own))

    parts = (*(part(name, texts[name]) for name in shared), part("", last))
    runs = sum((Counter(dict(p.reads)) for p in parts), Counter[str]())
    inputs = tuple(InputFace(want, name, runs[name]) for want, name in steps.inputs.items())
    whole = _statement([(n, t) for n, t in texts.items() if n in needed], last) if shared else parts[-1].sql
    return ChangePlan(whole, inputs, steps.facts, parts, frozenset(steps.wide.intersection(shared)))


@dataclass(frozen=True)
class _Text:
    """A step printed once: WITH queries of its own, which only a recursion has, its body, and the relations it reads."""

    inner: tuple[tuple[str, str], ...]
    body: str
    reads: tuple[str, ...]

    @classmethod
    def of(cls, query: exp.Query, printer: Generator) -> _Text:
        """The query is used up: printing may change it."""
        reads = tuple(n.name for n in nodes(query) if isinstance(n, exp.Table))
        with_ = query.args.get("with_")
        inner = tuple((c.args["alias"].sql("spark"), printer.generate(c.this, copy=False)) for c in with_.expressions) if with_ is not None else ()
        query.set("with_", None)
        return cls(inner, printer.generate(query, copy=False), reads)


def _statement(steps: list[tuple[str, _Text]], last: _Text) -> str:
    """WITH the steps in their order, and the last one as what is selected."""
    ctes = [cte for name, text in steps for cte in (*text.inner, (f"`{name}`", text.body))] + list(last.inner)
    if not ctes:
        return last.body
    recursive = "RECURSIVE " if last.inner or any(text.inner for _, text in steps) else ""
    listed = ", ".join(f"{head} AS (\n{indent(body, '  ')}\n)" for head, body in ctes)
    return f"WITH {recursive}{listed}\n{last.body}"


CHANGE, LIGHT, FACE, HEAVY = 1, 1, 4, 8
"""What reading a change, or a face of a light, of any other and of a heavy source again costs, in units of reading a change."""
JOB = 4
"""What computing a step once by a job of its own costs in the same units: more than reading a light table twice, less than a heavy one."""


def _shared(steps: Steps, reads: dict[str, tuple[str, ...]], uses: Counter[str], needed: set[str]) -> list[str]:
    """The steps worth it that are cheaper to compute once than to compute again wherever they are read."""
    cost: dict[str, int] = {name: _reading(want, steps.facts) for want, name in steps.inputs.items()}
    found = []
    for name in steps.definitions:
        if name not in needed:
            continue
        cost[name] = sum(cost.get(r, 0) for r in reads[name])
        if name in steps.small | steps.wide and (uses[name] - 1) * cost[name] > JOB:
            found.append(name)
            cost[name] = 0
    return found


def _reading(want: Want, facts: Facts) -> int:
    if want.face is Face.CHANGE:
        return CHANGE
    return LIGHT if want.source in facts.light else HEAVY if want.source in facts.heavy else FACE


def _needed(reads: dict[str, tuple[str, ...]], roots: tuple[str, ...]) -> set[str]:
    found: set[str] = set()
    open_ = list(roots)
    while open_:
        name = open_.pop()
        if name in reads and name not in found:
            found.add(name)
            open_.extend(reads[name])
    return found
