"""Who reads whom: the stream tables of a catalog as a graph that is copied when it changes, with what follows from it kept.

A *unit* is what is refreshed together: a stream table alone; the tables of a *diamond*, which meet again in one reader and
must show it the same moment; a group that a user declared; or a *cycle*, which is repeated until nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

Name = str


@dataclass(frozen=True)
class Unit:
    """Stream tables that are refreshed together, in an order in which each comes after those it reads."""

    members: tuple[Name, ...]
    cyclic: bool = False

    @property
    def alone(self) -> bool:
        return len(self.members) == 1 and not self.cyclic


@dataclass(frozen=True)
class Graph:
    """`reads` has the sources of every stream table: plain tables and other stream tables. `groups` are declared by users.

    >>> graph = Graph().with_table("b", ["a"]).with_table("c", ["a"]).with_table("d", ["b", "c"]).with_table("e", ["d"])
    >>> graph.order
    ('b', 'c', 'd', 'e')
    >>> [unit.members for unit in graph.units]
    [('b', 'c', 'd'), ('e',)]
    >>> sorted(graph.downstream("b")), sorted(graph.upstream("d")), graph.plain
    (['d', 'e'], ['a', 'b', 'c'], ('a',))
    """

    reads: Mapping[Name, tuple[Name, ...]] = field(default_factory=dict)
    groups: Mapping[str, tuple[Name, ...]] = field(default_factory=dict)

    # -- change: each gives a new graph, the old one goes on being right for whoever holds it ---------------------------

    def with_table(self, name: Name, sources: Iterable[Name]) -> Graph:
        return Graph({**self.reads, name: tuple(dict.fromkeys(sources))}, self.groups)

    def without_table(self, name: Name) -> Graph:
        return Graph({n: s for n, s in self.reads.items() if n != name}, self.groups)

    def changed_to(self, reads: Mapping[Name, tuple[Name, ...]], groups: Mapping[str, tuple[Name, ...]]) -> Graph:
        """The graph of other definitions, which takes over what is known of the tables that the difference does not touch.

        >>> Graph({"b": ("a",)}).changed_to({"b": ("a",), "c": ("b",)}, {}).order
        ('b', 'c')
        """
        new = Graph(dict(reads), dict(groups))
        changed = {n for n in self.reads.keys() | reads.keys() if self.reads.get(n) != reads.get(n)}
        if new.groups != self.groups or len(changed) > FEW:
            return new
        if not changed:
            return self
        if len(self._ways.names) > 2 * (len(reads) + len(self.plain)) + FEW:  # many bits of tables that are gone
            return new
        touched = frozenset(changed.union(*(new.downstream(n) for n in changed)))
        new.__dict__["_known"] = _Known(touched, self._ways, self.components, self.units)
        return new

    def with_group(self, group: str, members: Iterable[Name]) -> Graph:
        return Graph(self.reads, {**self.groups, group: tuple(members)})

    # -- ask -----------------------------------------------------------------------------------------------------------

    @cached_property
    def plain(self) -> tuple[Name, ...]:
        """The sources that are no stream tables."""
        return tuple(sorted({s for sources in self.reads.values() for s in sources} - self.reads.keys()))

    @cached_property
    def readers(self) -> dict[Name, tuple[Name, ...]]:
        """Who reads a table directly, by its name."""
        found: dict[Name, list[Name]] = {}
        for name, sources in self.reads.items():
            for source in sources:
                found.setdefault(source, []).append(name)
        return {source: tuple(sorted(names)) for source, names in found.items()}

    @cached_property
    def components(self) -> tuple[tuple[Name, ...], ...]:
        """The strongly connected stream tables, each component after those that it reads."""
        known = self._known
        if known is None:
            return tuple(components({n: [s for s in sources if s in self.reads] for n, sources in sorted(self.reads.items())}))
        # What is touched reads what is not, never the other way round: it comes last.
        names = sorted(n for n in known.touched if n in self.reads)
        last = components({n: [s for s in self.reads[n] if s in known.touched and s in self.reads] for n in names})
        return (*(c for c in known.components if c[0] not in known.touched), *last)

    @cached_property
    def order(self) -> tuple[Name, ...]:
        """Every stream table after those that it reads; the members of a cycle by name."""
        return tuple(name for component in self.components for name in component)

    @cached_property
    def cycles(self) -> tuple[tuple[Name, ...], ...]:
        return tuple(c for c in self.components if self._cyclic(c))

    def path(self, start: Name, end: Name) -> tuple[Name, ...] | None:
        """How `start` comes to read `end`, through as few tables as possible."""
        came: dict[Name, Name] = {}
        open_ = [start]
        for name in open_:
            for source in self.reads.get(name, ()):
                if source not in came:
                    came[source] = name
                    open_.append(source)
        if end not in came:
            return None
        back = [end]
        while back[-1] != start or len(back) == 1:
            back.append(came[back[-1]])
        return tuple(reversed(back))

    def upstream(self, name: Name) -> frozenset[Name]:
        """All that a stream table reads, directly or not, plain tables too."""
        return _closure(name, self.reads)

    def downstream(self, name: Name) -> frozenset[Name]:
        """All stream tables that read a table, directly or not."""
        return _closure(name, self.readers)

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """Everything in an order in which each unit comes after those that it reads."""
        known = self._known
        if known is not None and self._stay_alone(known):
            last = (Unit((n,), cyclic=n in self.reads[n]) for n in self.order if n in known.touched)
            return (*(u for u in known.units if u.members[0] not in known.touched), *last)
        owner = _Sets(self.reads)
        for component in self.components:
            if len(component) > 1:
                owner.join(component)
        if known is not None:
            for unit in known.units:
                if len(unit.members) > 1 and known.touched.isdisjoint(unit.members):
                    owner.join(unit.members)
        for members in (*self.diamonds, *self.groups.values()):
            owner.join([m for m in members if m in self.reads])
        while True:
            # Merged groups may have tables between them that belong to none: those have to come along.
            members_of = owner.all()
            root_of = {m: root for root, members in members_of.items() for m in members}
            between = {
                root: {root_of[s] for m in members for s in self.reads[m] if s in root_of and root_of[s] != root}
                for root, members in members_of.items()
            }
            found = list(components(between))
            if len(found) == len(between):
                break
            for component in found:
                owner.join(component)
        place = {name: i for i, name in enumerate(self.order)}
        cyclic = {name for cycle in self.cycles for name in cycle}
        return tuple(
            Unit(tuple(sorted(members, key=place.__getitem__)) if len(members) > 1 else tuple(members), cyclic=any(m in cyclic for m in members))
            for members in (members_of[root] for (root,) in found)
        )

    def _stay_alone(self, known: _Known) -> bool:
        """Whether no touched table was or is refreshed together with another one."""
        if self.groups or any(len(u.members) > 1 and not known.touched.isdisjoint(u.members) for u in known.units):
            return False
        return not any(self._ways.meets.get(n) for n in known.touched) and all(len(c) == 1 for c in self.components if c[0] in known.touched)

    @cached_property
    def unit_of(self) -> dict[Name, Unit]:
        return {member: unit for unit in self.units for member in unit.members}

    @cached_property
    def diamonds(self) -> tuple[frozenset[Name], ...]:
        """The tables between a source that is read in several ways and the reader where those ways meet, with that reader."""
        return tuple(dict.fromkeys(group for name in self.order for group in self._ways.meets.get(name, ())))

    @cached_property
    def _ways(self) -> _Ways:
        """What lies above each table, and where several ways from one source meet. Taken over for tables that a change does not touch."""
        known = self._known
        ways = known.ways.copy(self.reads) if known is not None else _Ways()
        for name in (*self.plain, *self.order):
            ways.add(name)
        looked_at = self.order if known is None else [n for n in self.order if n in known.touched]
        ways.above.update(dict.fromkeys(looked_at, 0))
        for name in looked_at:
            ways.look(name, self.reads[name])
        return ways

    @cached_property
    def _known(self) -> _Known | None:
        """What an earlier graph knew, when this one was made from it."""
        return None

    def _cyclic(self, component: tuple[Name, ...]) -> bool:
        return len(component) > 1 or component[0] in self.reads[component[0]]

    # -- show ----------------------------------------------------------------------------------------------------------

    def tree(self, name: Name, short: bool = True) -> str:
        """What a stream table reads, indented; a table that was shown already is not opened again.

        >>> print(Graph().with_table("b", ["a"]).with_table("c", ["b", "a"]).tree("c"))
        c
          b
            a
          a
        """
        lines: list[str] = []
        seen: set[Name] = set()

        def show(table: Name, depth: int) -> None:
            again = table in seen and bool(self.reads.get(table))
            seen.add(table)
            lines.append(f"{'  ' * depth}{_short(table) if short else table}{' (above)' if again else ''}")
            for source in () if again else self.reads.get(table, ()):
                show(source, depth + 1)

        show(name, 0)
        return "\n".join(lines)

    def mermaid(self) -> str:
        """
        >>> print(Graph().with_table("b", ["a"]).mermaid())
        flowchart LR
          t0[("a")]
          t1["b"]
          t0 --> t1
        """
        ids = {name: f"t{i}" for i, name in enumerate((*self.plain, *self.order))}
        plain = [f'  {ids[n]}[("{_escaped(_short(n))}")]' for n in self.plain]
        tables = [f'  {ids[n]}["{_escaped(_short(n))}"]' for n in self.order]
        edges = [f"  {ids[s]} --> {ids[n]}" for n in self.order for s in self.reads[n]]
        return "\n".join(["flowchart LR", *plain, *tables, *edges])

    def dot(self) -> str:
        """
        >>> print(Graph().with_table("b", ["a"]).dot())
        digraph runnel {
          rankdir=LR;
          "a" [shape=cylinder];
          "b" [shape=box];
          "a" -> "b";
        }
        """
        plain = [f'  "{_escaped(_short(n))}" [shape=cylinder];' for n in self.plain]
        tables = [f'  "{_escaped(_short(n))}" [shape=box];' for n in self.order]
        edges = [f'  "{_escaped(_short(s))}" -> "{_escaped(_short(n))}";' for n in self.order for s in self.reads[n]]
        return "\n".join(["digraph runnel {", "  rankdir=LR;", *plain, *tables, *edges, "}"])


def components(reads: Mapping[Name, Iterable[Name]]) -> Iterator[tuple[Name, ...]]:
    """Strongly connected components, each after those it reads (Tarjan's algorithm, without recursion).

    >>> list(components({"a": ["b"], "b": ["a"], "c": ["b"]}))
    [('a', 'b'), ('c',)]
    """
    index: dict[Name, int] = {}
    low: dict[Name, int] = {}
    waiting: list[Name] = []
    on_stack: set[Name] = set()
    for start in reads:
        if start in index:
            continue
        work = [(start, iter(reads[start]))]
        index[start] = low[start] = len(index)
        waiting.append(start)
        on_stack.add(start)
        while work:
            name, rest = work[-1]
            for source in rest:
                if source not in index:
                    index[source] = low[source] = len(index)
                    waiting.append(source)
                    on_stack.add(source)
                    work.append((source, iter(reads.get(source, ()))))
                    break
                if source in on_stack:
                    low[name] = min(low[name], index[source])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    found: list[Name] = []
                    while not found or found[-1] != name:
                        found.append(waiting.pop())
                        on_stack.discard(found[-1])
                    yield tuple(sorted(found))


FEW = 20
"""Changed tables up to which what is known of the others is taken over."""


@dataclass(frozen=True)
class _Known:
    """What an earlier graph knew, and the tables for which it no longer holds."""

    touched: frozenset[Name]
    ways: _Ways
    components: tuple[tuple[Name, ...], ...]
    units: tuple[Unit, ...]


class _Ways:
    """For each table, a bit for every table above it; and the groups that meet in it."""

    def __init__(self) -> None:
        self.names: list[Name] = []
        self.bits: dict[Name, int] = {}
        self.above: dict[Name, int] = {}
        self.meets: dict[Name, tuple[frozenset[Name], ...]] = {}

    def copy(self, kept: Mapping[Name, object]) -> _Ways:
        """The same for a graph of other tables: a table keeps its bit, also when it is gone."""
        new = _Ways()
        new.names, new.bits = list(self.names), dict(self.bits)
        new.above = {n: bits if n in kept else 0 for n, bits in self.above.items()}  # what is no stream table has nothing above it
        new.meets = {n: m for n, m in self.meets.items() if n in kept}
        return new

    def add(self, name: Name) -> None:
        if name not in self.bits:
            self.bits[name] = 1 << len(self.names)
            self.names.append(name)
            self.above.setdefault(name, 0)

    def look(self, name: Name, sources: Iterable[Name]) -> None:
        """Find what lies above a table and what meets in it; those that it reads were looked at before."""
        ways = [self.above.get(s, 0) | self.bits[s] for s in sources if s != name]
        self.above[name] = _any(ways)
        found = []
        for i, one in enumerate(ways):
            for other in ways[:i]:
                if shared := one & other:
                    between = (n for n in _named((one | other) & ~shared, self.names) if self.above[n] & shared)
                    found.append(frozenset((*between, name)))
        self.meets[name] = tuple(group for group in found if len(group) > 1)


class _Sets:
    """Names that belong together."""

    def __init__(self, names: Iterable[Name]) -> None:
        self._parent = {name: name for name in names}

    def root(self, name: Name) -> Name:
        while self._parent[name] != name:
            self._parent[name] = self._parent[self._parent[name]]
            name = self._parent[name]
        return name

    def join(self, names: Iterable[Name]) -> None:
        roots = sorted({self.root(n) for n in names})
        for other in roots[1:]:
            self._parent[other] = roots[0]

    def all(self) -> dict[Name, list[Name]]:
        found: dict[Name, list[Name]] = {}
        for name in self._parent:
            found.setdefault(self.root(name), []).append(name)
        return found


def _closure(start: Name, edges: Mapping[Name, Iterable[Name]]) -> frozenset[Name]:
    found: set[Name] = set()
    open_ = list(edges.get(start, ()))
    while open_:
        name = open_.pop()
        if name not in found:
            found.add(name)
            open_.extend(edges.get(name, ()))
    return frozenset(found)


def _any(bits: Iterable[int]) -> int:
    found = 0
    for b in bits:
        found |= b
    return found


def _named(bits: int, names: Sequence[Name]) -> Iterator[Name]:
    """The names whose bits are set."""
    while bits:
        lowest = bits & -bits
        yield names[lowest.bit_length() - 1]
        bits ^= lowest


def _short(name: Name) -> str:
    return name.removeprefix("spark_catalog.").removeprefix("default.")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', "'")
