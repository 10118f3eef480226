"""The graph of stream tables: order, units, paths; and that a copy does not change what it was copied from."""

from __future__ import annotations

from random import Random

import pytest

from runnel.schedule.graph import Graph, components


def graph(**reads: str) -> Graph:
    return Graph({name: tuple(sources.split()) for name, sources in reads.items()})


def members(found: Graph) -> list[tuple[str, ...]]:
    return [u.members for u in found.units]


def test_a_change_makes_a_new_graph() -> None:
    old = graph(b="a")
    new = old.with_table("c", ["b"])
    assert old.order == ("b",) and new.order == ("b", "c")
    assert new.without_table("b").order == ("c",) and new.order == ("b", "c")


@pytest.mark.parametrize(
    ("reads", "expected"),
    [
        ({"b": "a", "c": "b"}, [("b",), ("c",)]),
        ({"b": "a", "c": "a", "d": "b c"}, [("b", "c", "d")]),
        ({"b": "a", "c": "a b"}, [("b", "c")]),
        ({"x": "a", "b": "x", "c": "x", "d": "b c"}, [("x",), ("b", "c", "d")]),
        ({"b": "a1", "c": "a2", "d": "b c"}, [("b",), ("c",), ("d",)]),
        ({"b": "a", "m": "b", "c": "a", "d": "m c", "e": "d"}, [("b", "c", "m", "d"), ("e",)]),
    ],
    ids=["chain", "diamond", "a source and its reader", "what both ways share stays out", "two sources", "a longer way"],
)
def test_units(reads: dict[str, str], expected: list[tuple[str, ...]]) -> None:
    found = members(graph(**reads))
    assert [set(u) for u in found] == [set(u) for u in expected]
    assert found[-1][-1] == expected[-1][-1]


def test_a_declared_group_takes_what_lies_between_along() -> None:
    found = graph(b="a1", m="b", d="m", other="a2").with_group("pair", ["b", "d"])
    assert [set(u) for u in members(found)] == [{"b", "m", "d"}, {"other"}] or [set(u) for u in members(found)] == [{"other"}, {"b", "m", "d"}]


def test_cycles_and_their_path() -> None:
    found = graph(b="a c", c="b", d="c")
    assert found.cycles == (("b", "c"),) and found.path("b", "b") == ("b", "c", "b")
    assert found.unit_of["b"].cyclic and not found.unit_of["d"].cyclic
    assert graph(b="a", c="b").path("b", "b") is None and graph(b="b").cycles == (("b",),)


def test_a_long_chain_needs_no_recursion() -> None:
    deep = Graph({f"t{i:05d}": (f"t{i - 1:05d}",) if i else ("a",) for i in range(5000)})
    assert deep.order[0] == "t00000" and len(deep.units) == 5000 and len(deep.upstream("t04999")) == 5000


@pytest.mark.parametrize("seed", range(40))
def test_units_are_ordered_and_convex(seed: int) -> None:
    """Every unit comes after what it reads, and no way out of a unit leads back into it."""
    random = Random(seed)
    names = [f"t{i:02d}" for i in range(25)]
    reads = {n: tuple({random.choice([f"s{random.randint(0, 4)}", *names[:i]]) for _ in range(random.randint(1, 3))}) for i, n in enumerate(names)}
    found = Graph(reads)
    done: set[str] = set()
    for unit in found.units:
        inside = set()
        for member in unit.members:
            assert {s for s in reads[member] if s in reads} <= done | inside
            inside.add(member)
        done |= inside
    assert done == set(names)
    for diamond in found.diamonds:
        assert len({found.unit_of[m] for m in diamond}) == 1


def test_components_come_after_what_they_read() -> None:
    assert list(components({"a": [], "b": ["a"], "c": ["d"], "d": ["c", "b"]})) == [("a",), ("b",), ("c", "d")]


@pytest.mark.parametrize("seed", range(30))
def test_a_changed_graph_knows_what_one_made_from_scratch_knows(seed: int) -> None:
    random = Random(seed)
    names = [f"t{i:02d}" for i in range(20)]
    kept = Graph()
    reads: dict[str, tuple[str, ...]] = {}
    for _ in range(40):
        name = random.choice(names)
        place = names.index(name)
        if name in reads and random.random() < 0.3:
            del reads[name]
        else:
            back = names[place + 1] if random.random() < 0.05 and place < 19 else f"s{random.randint(0, 3)}"
            reads[name] = tuple(dict.fromkeys(random.choice([back, *names[:place]]) for _ in range(random.randint(1, 3))))
        kept = kept.changed_to(reads, {})
        fresh = Graph(dict(reads))
        assert set(kept.order) == set(fresh.order) and kept.plain == fresh.plain and set(kept.cycles) == set(fresh.cycles)
        if not fresh.cycles:  # what meets in a cycle depends on where one begins to look
            assert set(kept.diamonds) == set(fresh.diamonds)
        assert {(frozenset(u.members), u.cyclic) for u in kept.units} == {(frozenset(u.members), u.cyclic) for u in fresh.units}
        done: set[str] = set()
        for unit in kept.units:
            assert {s for m in unit.members for s in reads[m] if s in reads} <= done | set(unit.members)
            done |= set(unit.members)


def test_groups_come_from_the_definitions() -> None:
    from runnel.execute.engine import graph_of

    class Defined:
        def __init__(self, group: str, *sources: str) -> None:
            self.group, self.source_keys = group, sources

    found = graph_of({"b": Defined("money", "a1"), "c": Defined("money", "a2"), "d": Defined("", "a3")})  # type: ignore[dict-item]
    assert sorted(map(sorted, members(found))) == [["b", "c"], ["d"]] and found.groups == {"money": ("b", "c")}
