"""The SQL of a change plan as it grows: named steps (CTEs), each defined once and shared by all who need it.

Who sets what: `facts`, `laws` and `off` are fixed by the caller before the first step; `inputs` and `definitions` are only
ever added to, by `input` and `define`. A node never sets anything that another node reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from sqlglot import exp

from runnel.algebra.condition import same
from runnel.algebra.facts import Facts
from runnel.algebra.node import WEIGHT, Column, Face, Node, Sieve, col, joined, named, select, table, weighing
from runnel.algebra.want import PRUNABLE, Origin, Side, Want, Within


@dataclass
class Steps:
    """Collects the steps of one plan. `face` and `change` are memoised by node, so equal subtrees are computed once."""

    facts: Facts = field(default_factory=Facts)
    laws: bool = True
    off: frozenset[str] = frozenset()
    """Ways to a smaller plan that are switched off by name."""
    kept: Node | None = None
    """The node whose rows are what the backing table stores, so that its before face need not be computed."""
    inputs: dict[Want, str] = field(default_factory=dict)
    definitions: dict[str, exp.Query] = field(default_factory=dict)
    small: set[str] = field(default_factory=set)
    """Steps whose size follows the change and not the tables: worth computing once when several others read them."""
    wide: set[str] = field(default_factory=set)
    """Steps worth computing once although their size follows the tables."""
    whole: frozenset[Node] = frozenset()
    """Nodes of which several faces are read whole, as a plan made before showed: the others are derived from one."""
    asked: dict[Node, set[Face]] = field(default_factory=dict)
    """What was read whole of nodes that could derive it, and whether their change was."""
    _netted: set[str] = field(default_factory=set)
    _memo: dict[tuple[Node, str], str | None] = field(default_factory=dict)
    _columns: dict[tuple[str, tuple[tuple[str, str], ...]], str] = field(default_factory=dict)
    """Columns of a step as a step of their own: the same are asked for once."""
    _changes: dict[str, Node] = field(default_factory=dict)
    """The node whose change a step holds."""
    _at_hand: dict[str, tuple[Want, dict[str, str]]] = field(default_factory=dict)
    _keys: dict[str, tuple[str, dict[str, str]]] = field(default_factory=dict)
    """For steps that take columns from another one as they are: that one, and its name for each; `_at_hand` the same for changes at hand."""
    _among: dict[str, tuple[str, dict[str, str]]] = field(default_factory=dict)
    """For steps whose columns have only values that columns of another one have: that one, and its name for each."""

    def uses(self, way: str) -> bool:
        """Whether a way to a smaller plan may be taken. Each has a name; the plain law of an operator has none."""
        return self.laws and way not in self.off

    def input(self, source: str, face: Face) -> str:
        """The name under which the executor must provide one face of one source."""
        return self.provided(Want(source, face))

    def provided(self, want: Want) -> str:
        """The name under which the executor must provide what is wanted."""
        if want not in self.inputs:
            self.inputs[want] = self._free(f"{slug(want.source)}__{want.label}", set(self.inputs.values()))
        return self.inputs[want]

    def face(self, node: Node, face: Face) -> str:
        """The step with the rows of a node before or after. A relation that did not change has one face."""
        if face is Face.BEFORE and not node.sources & self.facts.changed:
            face = Face.AFTER
        if face is Face.BEFORE and self.stores(node):
            return self._content()
        key = (node, str(face))
        if key not in self._memo:
            self._memo[key] = node.relation(self, face) if hasattr(node, "relation") else self._face(node, face)
        name = self._memo[key]
        assert name is not None
        return name

    def _face(self, node: Node, face: Face) -> str:
        return self.define(f"{node.slug}_{face}", node.select(*(self.face(c, face) for c in node.children)))

    def change(self, node: Node) -> str | None:
        """The step with the weighted rows by which a node changes, or None when no source below it changed."""
        if not node.sources & self.facts.changed:
            return None
        key = (node, "change")
        if key not in self._memo:
            keeps_law = self.laws or not node.children
            self._memo[key] = name = node.law(self) if keeps_law else Node.law(node, self)
            self.small.add(name)
            self._changes.setdefault(name, node)
        return self._memo[key]

    def net(self, node: Node) -> str | None:
        """The change of a node without rows that cancel: an UPDATE of columns that nobody reads leaves nothing."""
        change = self.change(node)
        return change if change is None or self.grows(node) else self._net(node, change)

    def _net(self, node: Node, change: str) -> str:
        if change in self._netted:
            return change
        key = (node, f"net {change}")
        if key not in self._memo:
            self._memo[key] = name = self.consolidate(f"{node.slug}_net", change, node.columns)
            self._changes[name] = node
            self.takes(name, change, {n: n for n in node.names})
        found = self._memo[key]
        assert found is not None
        return found

    def net_meeting(self, node: Node, other: Node, partners: Mapping[str, str], sieves: Mapping[str, Sieve] | None = None) -> str | None:
        """The net change of a node of which only rows matter that meet the other one, now or before; `partners` are the other's columns that
        equal the node's then, and `sieves` are of such columns.

        There may be more rows. A filtered table that stands still tells which keys matter before their groups are computed.
        """
        change = self.sifted(node, self.sieves(node, other, partners, sieves))
        return self.net(node) if change is None else self._net(node, change)

    def sieves(self, node: Node, other: Node, partners: Mapping[str, str], sieves: Mapping[str, Sieve] | None = None) -> dict[str, Sieve]:
        """For columns of a node that have a partner among another one's, the sieve that tells which values matter, where there is one."""
        types = {c.name: c.type for c in (*node.columns, *other.columns)}
        alike = {own: theirs for own, theirs in partners.items() if types[own] == types[theirs]}
        found = {own: (sieves or {}).get(theirs) or self._sieve(other, theirs) for own, theirs in alike.items()}
        return {own: sieve for own, sieve in found.items() if sieve is not None and self.uses("sieves")}

    def sifted(self, node: Node, sieves: Mapping[str, Sieve]) -> str | None:
        """The change of a node but for rows whose columns have values that the sieves do not have; None when leaving them out saves nothing."""
        if not self.uses("sieves") or not sieves or not node.sources & self.facts.changed:
            return None
        key = (node, f"sifted {sorted((column, str(sieve)) for column, sieve in sieves.items())}")
        if key not in self._memo:
            self._memo[key] = name = node.sifted(self, sieves)
            if name is not None:
                self.small.add(name)
                self._changes.setdefault(name, node)
        return self._memo[key]

    def _sieve(self, node: Node, column: str) -> Sieve | None:
        """A filtered table that stands still and has every value that a node's column has; several joined only where all are light."""
        moving, light = self.facts.changed | self.facts.heavy, self.facts.light
        return next((s for s in node.sieves(column) if not s.node.sources & moving and (len(s.node.sources) == 1 or s.node.sources <= light)), None)

    def sift(self, keys: Sequence[Column], touched: str, sieves: Mapping[str, Sieve]) -> str:
        """Of touched keys those that the sieves have too."""
        query = select((col(k.name, "t") for k in keys), table(touched, "t"))
        for number, key in enumerate(k for k in keys if k.name in sieves):
            sieve = sieves[key.name]
            near = self.near(sieve.node, Face.AFTER, Within.each({sieve.column: self.origins(touched, key.name)}))
            query = joined(query, table(near, f"s{number}"), "left semi", same(key.type, col(key.name, "t"), col(sieve.column, f"s{number}")))
        return self.takes(self.define(f"{touched}_sifted", query, small=True), touched, {k.name: k.name for k in keys})

    def comes_net(self, step: str) -> str:
        """Note that a step holds each row once; the same name."""
        self._netted.add(step)
        return step

    def at_hand(self, step: str, want: Want, names: Mapping[str, str]) -> str:
        """Note that a step holds a change that is at hand, its columns under these names; the step's name."""
        self._at_hand[step] = (want, dict(names))
        return step

    def renamed(self, label: str, step: str, columns: Mapping[str, str]) -> str:
        """A step's columns under other names."""
        key = (f"{label} {step}", tuple(columns.items()))
        if key not in self._columns:
            query = select((named(col(c), name) for name, c in columns.items()), table(step))
            self._columns[key] = self.takes(self.define(label, query, small=True), step, columns)
        return self._columns[key]

    def distinct(self, label: str, step: str, columns: Mapping[str, str]) -> str:
        """The distinct values of a step's columns, under other names. Of a change at hand they are at hand too."""
        key = (step, tuple(columns.items()))
        if key not in self._columns:
            self._columns[key] = self._distinct_values(label, step, columns)
        return self._columns[key]

    def _distinct_values(self, label: str, step: str, columns: Mapping[str, str]) -> str:
        found = self._held_columns(step, columns)
        if found is not None:
            want, origins = found
            relation = self.provided(replace(want, keys=tuple(sorted(set(origins.values())))))
            query = select((named(col(o), name) for name, o in origins.items()), table(relation))
        else:
            query = select((named(col(c), name) for name, c in columns.items()), table(step)).distinct(copy=False)
        return self.takes(self.define(label, query, small=True), step, columns)

    def _held_columns(self, step: str, columns: Mapping[str, str]) -> tuple[Want, dict[str, str]] | None:
        """The change at hand that a step takes columns from as they are, and its names for them."""
        if step in self._at_hand:
            want, names = self._at_hand[step]
            return want, {name: names[c] for name, c in columns.items()}
        if step not in self._keys:
            return None
        other, names = self._keys[step]
        return self._held_columns(other, {n: names[c] for n, c in columns.items()}) if all(c in names for c in columns.values()) else None

    def takes(self, step: str, other: str, names: Mapping[str, str]) -> str:
        """Note that a step takes columns from another one as they are, under these names; the step's name."""
        self._keys[step] = (other, dict(names))
        return step

    def among(self, step: str, other: str, names: Mapping[str, str]) -> str:
        """Note that columns of a step have only values that those of another one have; the step's name."""
        self._among.setdefault(step, (other, dict(names)))
        return step

    def origins(self, step: str, column: str) -> frozenset[Origin] | None:
        """The source columns among whose changed values a step's column has all of its own, if that is known."""
        if step in self._changes:
            return self._changes[step].origins(column, self.facts.changed)
        for other, names in (found[step] for found in (self._keys, self._among) if step in found):
            if column in names:
                return self.origins(other, names[column])
        return None

    def near(self, node: Node, face: Face, bounds: Sequence[Within]) -> str:
        """A face of which only rows within the bounds matter. Bounds that the executor cannot know are left out."""
        if face is Face.BEFORE and not node.sources & self.facts.changed:
            face = Face.AFTER
        known = [b for b in bounds if {source for source, _ in b.among} <= self.facts.held]
        if not known or not self.uses("key_bounds"):
            return self.face(node, face)
        key = (node, f"{face} near {sorted(known)}")
        if key not in self._memo:
            self._memo[key] = node.near(self, face, known)
        name = self._memo[key]
        assert name is not None
        return name

    def derives(self, node: Node, face: Face) -> bool:
        """Whether a face of a node, or its change, shall be derived from what it was before; notes that it was asked for."""
        if not self.uses("sums_once") or self.stores(node) or not node.sources & self.facts.changed:
            return False
        self.asked.setdefault(node, set()).add(face)
        return node in self.whole

    def once(self, node: Node, word: str, query: Callable[[], exp.Query]) -> str:
        """A step of a node beside its faces, of the size of its tables, defined when first asked for."""
        key = (node, word)
        if key not in self._memo:
            self._memo[key] = name = self.define(f"{node.slug}_{word}", query())
            self.wide.add(name)
        found = self._memo[key]
        assert found is not None
        return found

    def _content(self) -> str:
        """The rows of the kept node before the refresh, each as often as it weighs: the log summed up by the executor.

        The log itself, weights and all, is the face before of `STORED`.
        """
        return self.input(STORED, Face.AFTER)

    def _log(self, node: Node, keys: Sequence[str], touched: str | None, since: tuple[str, str] | None = None) -> str:
        """The log of the kept node, of which only rows with touched keys matter, and from some value on."""
        types = {c.name: c.type for c in node.columns}
        origins = {k: self.origins(touched, k) for k in keys if types[k] in PRUNABLE} if touched is not None else {}
        bounds = Within.each(origins)
        if since is not None and touched is not None and types[since[0]] in PRUNABLE:
            bounds += Within.each({since[0]: self.origins(touched, since[1])}, Side.SINCE)
        known = tuple(sorted(w for w in bounds if {source for source, _ in w.among} <= self.facts.held))
        return self.provided(Want(STORED, Face.BEFORE, within=known if self.uses("key_bounds") else ()))

    def replaced(self, node: Node, now: str, keys: Sequence[str] = (), touched: str | None = None, since: tuple[str, str] | None = None) -> str:
        """The change of the kept node: its touched rows now, minus what the log holds for the same keys, weights and all; with `since`, a column
        of the node and one of the touched keys, only from that value on."""
        minus = exp.Neg(this=col(WEIGHT, "c"))
        kept = select((*(col(n, "c") for n in node.names), named(minus, WEIGHT)), table(self._log(node, keys, touched, since), "c"))
        if touched is not None:
            same_keys = self.on(node.columns, keys)
            if since is not None:
                value, least = col(since[0], "c"), col(since[1], "t")
                later = exp.or_(exp.Is(this=least, expression=exp.null()), exp.GTE(this=value, expression=least.copy()))
                same_keys = exp.and_(same_keys, later)
            kept = self.broadcast(joined(kept, table(touched, "t"), "left semi", same_keys), "t")
        both = exp.union(self._weighted(node, now, 1), kept, distinct=False, copy=False)
        return self.consolidate(f"{node.slug}_change", self.define(f"{node.slug}_both", both), node.columns)

    def stored_rows(self, node: Node, keys: Sequence[str] = (), touched: str | None = None) -> str:
        """The rows of the kept node, those with touched keys if any, from the log: each once, for a node that has no row twice."""
        kept = select((*(col(n, "c") for n in node.names), col(WEIGHT, "c")), table(self._log(node, keys, touched), "c"))
        if touched is not None:
            kept = self.broadcast(joined(kept, table(touched, "t"), "left semi", self.on(node.columns, keys)), "t")
        return self.consolidate("stored_touched", self.define("stored_near", kept), node.columns)

    def stores(self, node: Node) -> bool:
        """Whether the rows of this node before the refresh can be read from the backing table."""
        return node is self.kept

    def define(self, label: str, query: exp.Query, small: bool = False) -> str:
        """Add a step; its name is the label, numbered when taken."""
        name = self._free(label, self.definitions.keys())
        self.definitions[name] = query
        if small:
            self.small.add(name)
        return name

    def grows(self, node: Node) -> bool:
        """True when this refresh can only add rows to the node."""
        return self.uses("insert_only") and node.grows_with_inserts and node.sources & self.facts.changed <= self.facts.insert_only

    def difference(self, node: Node, after: str, before: str) -> str:
        """after - before, consolidated: rows present on both sides cancel."""
        both = exp.union(self._weighted(node, after, 1), self._weighted(node, before, -1), distinct=False, copy=False)
        return self.consolidate(f"{node.slug}_change", self.define(f"{node.slug}_both", both), node.columns)

    def consolidate(self, label: str, change: str, columns: Sequence[Column]) -> str:
        """Sum the weights of equal rows and drop those that cancel."""
        name = self.define(label, consolidation(change, columns), small=True)
        self._netted.add(name)
        return name

    def netted(self, step: str) -> bool:
        """Whether a step holds each row once, with its whole weight."""
        return step in self._netted

    def touched(self, node: Node, keys: Sequence[str]) -> str:
        """The distinct keys in the change of `node`, and maybe others; rows whose weights cancel touch nothing.

        Where the values of a key come from changes at hand, and the change of the node would have to be computed, they are taken
        from there.
        """
        if origins := self.touched_at_hand(node, keys):
            return self._touched_values(node, keys[0], origins)
        change = self.net(node)
        assert change is not None
        return self.distinct(f"{node.slug}_touched", change, {k: k for k in keys})

    def touched_at_hand(self, node: Node, keys: Sequence[str]) -> frozenset[Origin] | None:
        """The changes at hand that hold all values of a single key in a change that would have to be computed."""
        if not self.uses("keys_at_hand") or len(keys) != 1 or len(node.linear_over) <= 1:
            return None
        origins = node.origins(keys[0], self.facts.changed)
        return origins if origins and {source for source, _ in origins} <= self.facts.held else None

    def _touched_values(self, node: Node, key: str, origins: frozenset[Origin]) -> str:
        values = []
        for source, column in sorted(origins):
            read = {c for n in node.walk() if n.sources == {source} and not n.children for c in n.origin}  # type: ignore[attr-defined]
            want = Want(source, Face.CHANGE, columns=tuple(sorted(read)), keys=(column,))
            values.append(select([named(col(column), key)], table(self.provided(want))))
        every = reduce(lambda one, other: exp.union(one, other, copy=False), values[1:], values[0])  # type: ignore[arg-type, return-value]
        name = self.define(f"{node.slug}_touched", every, small=True)
        self._changes[name] = node
        return name

    def weighted(self, query: exp.Select, weight: exp.Expr | None = None) -> exp.Select:
        """A query with a weight beside its columns: the one its input has, unless another is given."""
        return query.select(col(WEIGHT) if weight is None else named(exp.cast(weight, "bigint"), WEIGHT))

    def restrict(self, node: Node, face: Face, keys: Sequence[str], touched: str) -> str:
        """The rows of a node's face whose keys are touched; NULL equals NULL. The keys travel down as far as operators let them."""
        if face is Face.BEFORE and not node.sources & self.facts.changed:
            face = Face.AFTER
        key = (node, f"{face} {' '.join(keys)} {touched}")
        if key not in self._memo:
            self._memo[key] = name = node.restricted(self, face, keys, touched)
            self.small.add(name)
            self.among(name, touched, {k: k for k in keys})
        found = self._memo[key]
        assert found is not None
        return found

    def both(self, node: Node, keys: Sequence[str], touched: str) -> str:
        """The rows of both faces of a node whose keys are touched, with what they weigh after and before."""
        key = (node, f"both {' '.join(keys)} {touched}")
        if key not in self._memo:
            self._memo[key] = name = node.both(self, keys, touched) if node.sources & self.facts.changed else self._unmoved(node, keys, touched)
            self.small.add(name)
            self.among(name, touched, {k: k for k in keys})
        found = self._memo[key]
        assert found is not None
        return found

    def _unmoved(self, node: Node, keys: Sequence[str], touched: str) -> str:
        return self.define(f"{node.slug}_both_faces", weighing(node, self.restrict(node, Face.AFTER, keys, touched), 1, 1))

    def semi(self, node: Node, relation: str, keys: Sequence[str], touched: str) -> str:
        """The rows of a relation whose keys are touched."""
        return self.among_keys(relation, node.columns, keys, touched)

    def among_keys(self, relation: str, columns: Sequence[Column], keys: Sequence[str], touched: str) -> str:
        """The same of a relation with other columns than a node has, such as a weight."""
        rows = select((col(c.name, "c") for c in columns), table(relation, "c"))
        query = joined(rows, table(touched, "t"), "left semi", self.on(columns, keys))
        return self.define(f"{relation}_touched", self.broadcast(query, "t"), small=True)

    def on(self, columns: Sequence[Column], keys: Sequence[str]) -> exp.Expr:
        """The condition that rows `c` have the keys of `t`."""
        types = {c.name: c.type for c in columns}
        return exp.and_(*(same(types[k], col(k, "c"), col(k, "t")) for k in keys))

    def broadcast(self, query: exp.Select, alias: str) -> exp.Select:
        """A query whose side `alias` is the small one, if the facts say so. An engine cannot guess the size of a join's result."""
        return (
            query.hint(exp.Anonymous(this="BROADCAST", expressions=[exp.to_identifier(alias)]), copy=False)
            if self.facts.small and "broadcasts" not in self.off
            else query
        )

    def build(self, query: exp.Select) -> exp.Select:
        """`query` with every step it needs as a WITH clause in the order of definition."""
        for name, definition in self.definitions.items():
            query = query.with_(exp.to_identifier(name, quoted=True), as_=definition, copy=False)
        return query

    def inlined(self, query: exp.Select) -> exp.Select:
        """`query` with every step it needs as a subquery in its place."""

        def put(e: exp.Expr) -> exp.Expr:
            if not isinstance(e, exp.Table) or e.name not in self.definitions:
                return e
            return self.inlined(self.definitions[e.name]).subquery(e.alias or e.name)  # type: ignore[arg-type]

        return query.copy().transform(put)  # type: ignore[return-value]

    def _weighted(self, node: Node, relation: str, weight: int) -> exp.Select:
        literal = exp.cast(exp.Literal.number(weight), "bigint")
        return select((*(col(n) for n in node.names), named(literal, WEIGHT)), table(relation))

    @staticmethod
    def _free(label: str, taken: object) -> str:
        name, n = label, 1
        while name in taken:  # type: ignore[operator]
            n += 1
            name = f"{label}_{n}"
        return name


def consolidation(relation: str, columns: Sequence[Column]) -> exp.Select:
    """SELECT columns, SUM(weight) ... GROUP BY columns HAVING SUM(weight) <> 0.

    Types that cannot be grouped are compared by their JSON text.
    """
    weight = exp.Sum(this=col(WEIGHT))
    outputs = [named(exp.AnyValue(this=col(c.name)), c.name) if c.type in UNGROUPABLE else col(c.name) for c in columns]
    groups = [exp.func("to_json", col(c.name)) if c.type in UNGROUPABLE else col(c.name) for c in columns]
    query = exp.select(*outputs, named(weight, WEIGHT)).from_(table(relation)).having(exp.NEQ(this=weight.copy(), expression=exp.Literal.number(0)))
    return query.group_by(*groups) if groups else query


UNGROUPABLE = frozenset({"variant"})
STORED = "stored"
"""The source name under which the executor provides what the backing table holds before the refresh: as face before its
log with weights, as face after its content row by row."""


def slug(name: str) -> str:
    """A word for generated names: the last two parts of a table name.

    >>> slug("spark_catalog.default.orders"), slug("spark_catalog.sales.Order Lines")
    ('orders', 'sales_order_lines')
    """
    parts = [p for p in name.lower().replace("`", "").split(".") if p]
    kept = [p for p in parts[-2:] if p not in ("default", "spark_catalog", "delta")]
    return re.sub(r"\W+", "_", "_".join(kept)).strip("_")[-40:] or "source"
