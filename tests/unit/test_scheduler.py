"""The scheduler in a world of the test's making: workers finish when the test says so, and the clock moves by hand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from runnel.observe.record import Action, RefreshRecord
from runnel.schedule.daemon import Event, Job, Limits, Outcome, Reached, Scheduler, View
from runnel.schedule.fuse import Blown
from runnel.schedule.graph import Graph, Unit
from runnel.schedule.run_state import RunState, Trouble
from runnel.schedule.schedules import Calculated, Every, OnUpdate, TargetLag
from runnel.schedule.tick import Table

NOON = 1_767_268_800.0


class World:
    """Effects that note what they were asked for. `finish` lets a worker report."""

    def __init__(self, reads: dict[str, str], **tables: Table) -> None:
        graph = Graph({n: tuple(s.split()) for n, s in reads.items()})
        self.time = NOON
        self.versions = dict.fromkeys(graph.plain, 0)
        made = {n: replace(tables.get(n, Table(Calculated())), frontier=dict.fromkeys(graph.reads[n], 0), created=NOON) for n in reads}
        self.current = View((0,), graph, made)
        self.probed: list[str] = []
        self.started: dict[str, tuple[Job, Callable[[Outcome], None]]] = {}
        self.order: list[str] = []
        self.kept: dict[str, RunState] = {}
        self.told: list[Event] = []
        self.untidy: list[str] = []
        self.tidied: Callable[[], None] = lambda: None
        self.content = dict.fromkeys(reads, 0)

    def now(self) -> float:
        return self.time

    def view(self, known: View | None) -> View:
        return self.current if known is None or known.revision != self.current.revision else known

    def probe(self, sources: Collection[str]) -> Mapping[str, int]:
        self.probed += sources
        return {s: self.versions[s] for s in sources}

    def cut(self, units: Iterable[Unit], gated: Collection[str]) -> tuple[Any, Mapping[str, int]]:
        return object(), dict(self.versions)

    def start(self, job: Job, done: Callable[[Outcome], None]) -> None:
        self.order += job.members
        self.started[job.members[0]] = (job, done)

    def tidy(self, done: Callable[[], None]) -> str | None:
        self.tidied = done
        return self.untidy.pop() if self.untidy else None

    def remember(self, states: Mapping[str, RunState]) -> None:
        self.kept.update(states)

    def tell(self, event: Event) -> None:
        self.told.append(event)

    # -- by the test -------------------------------------------------------------------------------------------------------

    def change(self, **changes: Any) -> None:
        self.current = replace(self.current, revision=(self.current.revision[0] + 1,), **changes)

    def finish(self, name: str, rows: int = 1, ms: float = 10.0, **outcome: Any) -> None:
        job, done = self.started.pop(name)
        records, reached = [], {}
        for member in job.members:
            self.content[member] += 1 if rows else 0
            reads = self.current.graph.reads[member]
            reached[member] = Reached({s: self.content.get(s, job.versions.get(s, 0)) for s in reads}, self.content[member])
            records.append(RefreshRecord(member, 1, Action.DIFFERENTIAL, "", rows_out=rows, ms=ms))
        done(Outcome(**outcome) if outcome else Outcome(tuple(records), reached))


def scheduler(world: World, **limits: Any) -> Scheduler:
    return Scheduler(world, Limits(**limits), chance=lambda: 0.5)


def test_a_unit_starts_when_those_it_reads_are_done() -> None:
    world = World({"s": "a", "t": "s", "u": "a"}, t=Table(OnUpdate()), u=Table(OnUpdate()))
    made = scheduler(world)
    made.step()
    assert world.order == []
    world.versions["a"] = 1
    made.hurry()
    made.step()
    assert sorted(world.order) == ["s", "u"] and made.running == ("s", "u") and not made.idle
    world.finish("s")
    made.step()
    assert world.order[-1] == "t"
    world.finish("t")
    world.finish("u")
    made.step()
    assert made.idle and [e.stream_table for e in world.told] == ["s", "t", "u"]


def test_a_reader_is_left_out_when_what_it_reads_did_not_move() -> None:
    world = World({"s": "a", "t": "s"}, t=Table(OnUpdate()))
    made = scheduler(world)
    made.step()
    world.versions["a"] = 1
    made.hurry()
    made.step()
    world.finish("s", rows=0)
    made.step()
    assert world.order == ["s"] and made.idle
    made.step()
    assert world.order == ["s"], "a commit that brought no rows is not looked at twice"


def test_a_commit_that_is_passed_over_is_not_looked_at_again() -> None:
    world = World({"t": "a"}, t=Table(OnUpdate()))
    made = scheduler(world)
    made.step()
    world.versions["a"] = 1
    made.hurry()
    made.step()
    record = RefreshRecord("t", 1, Action.NO_DATA, "", rows_out=0)
    world.finish("t", records=(record,), reached={"t": Reached({"a": 0}, 0)})
    made.step()
    made.step()
    assert world.order == ["t"] and made.idle


def test_everything_and_a_clock_put_back_look_at_all_sources() -> None:
    world = World({"t": "a"}, t=Table(Every(3600)))
    made = scheduler(world)
    made.step()
    world.time -= 7200
    world.probed.clear()
    made.step()
    assert world.probed == ["a"]
    world.probed.clear()
    made.step(everything=True)
    assert world.probed == ["a"]


def test_a_slow_table_does_not_hold_up_others() -> None:
    world = World({"slow": "a", "quick": "a", "above": "slow"}, slow=Table(OnUpdate()), quick=Table(OnUpdate()), above=Table(OnUpdate()))
    made = scheduler(world)
    made.step()
    for version in (1, 2, 3):
        world.versions["a"] = version
        made.hurry()
        made.step()
        world.finish("quick")
        made.step()
    assert world.order == ["quick", "slow", "quick", "quick"] or world.order == ["slow", "quick", "quick", "quick"]
    world.finish("slow")
    made.step()
    assert world.order[-1] == "above"


def test_what_an_earlier_tick_is_about_to_read_does_not_move() -> None:
    world = World({"s": "a", "slow": "b", "t": "s slow c"}, s=Table(OnUpdate()), slow=Table(OnUpdate()), t=Table(OnUpdate()))
    made = scheduler(world)
    made.step()
    world.versions.update(a=1, b=1)
    made.hurry()
    made.step()
    world.finish("s")
    made.step()
    world.versions["a"] = 2
    made.hurry()
    made.step()
    assert sorted(world.order) == ["s", "slow"] and "earlier tick" in made.last_tick.waiting["s"]
    world.finish("slow")
    made.step()
    made.step()
    assert world.order[2:] == ["t", "s"], "once t has begun, s goes on"


def test_workers_and_schemas_are_bounded_and_urgent_ones_go_first() -> None:
    reads = {f"c.one.t{i}": f"a{i}" for i in range(4)} | {"c.two.t": "b"}
    world = World(reads, **{n: Table(OnUpdate(), priority=9 if n == "c.one.t3" else 0) for n in reads})
    made = scheduler(world, workers=3, per_schema=2)
    made.step()
    world.versions = dict.fromkeys(world.versions, 1)
    made.hurry()
    made.step()
    assert world.order == ["c.one.t3", "c.one.t0", "c.two.t"]
    world.finish("c.one.t0")
    made.step()
    assert world.order[3:] == ["c.one.t1"]


def test_draining_finishes_what_runs_and_starts_nothing() -> None:
    world = World({"s": "a", "t": "s"}, t=Table(OnUpdate()))
    made = scheduler(world)
    made.step()
    world.versions["a"] = 1
    made.hurry()
    made.step()
    made.draining = True
    world.finish("s")
    made.step()
    assert made.idle and world.order == ["s"] and world.kept["s"].last_run == NOON


def test_paused_until_resumed() -> None:
    world = World({"t": "a"}, t=Table(OnUpdate()))
    made = scheduler(world)
    world.change(paused=True)
    world.versions["a"] = 1
    made.step()
    assert made.paused and world.order == []
    world.change(paused=False)
    made.step()
    assert world.order == ["t"]


def test_failures_wait_then_suspend_and_readers_stay() -> None:
    world = World({"s": "a", "t": "s"}, t=Table(OnUpdate()))
    made = scheduler(world, failures=2)
    made.step()
    world.versions["a"] = 1
    made.hurry()
    made.step()
    timeout = Trouble("timed out", "", "TIMEOUT", "Transient")
    world.finish("s", trouble=timeout, culprit="s")
    made.step()
    assert [e.kind for e in world.told] == ["failed", "skipped"] and world.kept["s"].retry_at == NOON + 1
    made.step()
    assert world.order == ["s"]
    world.time += 1
    made.step()
    assert world.order == ["s", "s"]
    world.finish("s", trouble=timeout, culprit="s")
    made.step()
    assert world.told[-2].kind == "suspended" and world.kept["s"].suspended == timeout
    world.time += 1000
    made.step()
    assert world.order == ["s", "s"]


def test_a_failed_run_of_a_period_is_tried_again_before_the_next_one() -> None:
    world = World({"t": "a"}, t=Table(Every(3600)))
    world.versions["a"] = 1
    made = scheduler(world)
    made.step()
    world.finish("t", trouble=Trouble("timed out", "", "TIMEOUT", "Transient"), culprit="t")
    made.step()
    assert world.order == ["t"] and world.kept["t"].last_run is None
    world.time += 1
    made.step()
    assert world.order == ["t", "t"]
    world.finish("t")
    made.step()
    world.versions["a"] = 2
    world.time += 3598
    made.hurry()
    made.step()
    assert world.order == ["t", "t"]


def test_what_waits_for_a_worker_does_not_start_during_a_pause_or_when_it_is_no_longer_a_unit() -> None:
    world = World({"s": "a", "t": "s", "u": "a"}, t=Table(OnUpdate()), u=Table(OnUpdate()))
    made = scheduler(world, workers=1)
    made.step()
    world.versions["a"] = 1
    made.hurry()
    made.step()
    assert world.order == ["s"]
    reads = {**world.current.graph.reads, "d": ("t", "u")}
    tables = {**world.current.tables, "d": Table(Calculated(), {"t": 0, "u": 0})}
    world.change(graph=Graph(reads), tables=tables, paused=True)
    world.finish("s")
    made.step()
    assert world.order == ["s"] and made.idle
    world.change(paused=False)
    made.step()
    assert sorted(world.order[1:]) == ["d", "s", "t", "u"], "they are one unit now"


def test_a_reader_that_read_a_later_version_without_rows_has_nothing_to_do() -> None:
    world = World({"s": "a", "t": "s"}, t=Table(OnUpdate()))
    tables = world.current.tables
    world.change(tables={"s": replace(tables["s"], version=5), "t": replace(tables["t"], frontier={"s": 7})})
    made = scheduler(world)
    made.step()
    world.versions["a"] = 1
    world.content["s"] = 5
    made.hurry()
    made.step()
    world.finish("s", rows=0)
    made.step()
    assert world.order == ["s"] and made.idle


def test_a_blown_fuse_is_remembered_and_an_applied_one_is_not_looked_at_again() -> None:
    world = World({"t": "a"}, t=Table(OnUpdate()))
    made = scheduler(world)
    made.step()
    world.versions["a"] = 1
    made.hurry()
    made.step()
    assert world.started["t"][0].fused
    world.finish("t", blown={"t": Blown(10, 5, "", {"a": 1})})
    made.step()
    assert world.order == ["t"] and world.told[-1].kind == "blown" and world.kept["t"].blown is not None
    state = replace(world.kept["t"], blown=replace(world.kept["t"].blown, verdict="apply"))
    world.change(tables={"t": replace(world.current.tables["t"], state=state)})
    made.step()
    assert world.order == ["t", "t"] and not world.started["t"][0].fused
    world.finish("t")
    made.step()
    assert world.kept["t"].blown is None


def test_sources_are_looked_at_less_often_while_nothing_happens() -> None:
    world = World({"t": "a b"}, t=Table(OnUpdate()))
    made = scheduler(world)
    pauses = []
    for _ in range(20):
        pauses.append(made.step())
        world.time += pauses[-1]
    assert pauses[0] == pytest.approx(0.1, abs=1e-3) and pauses[-1] == pytest.approx(5.0, abs=1e-3)
    assert [round(p, 3) for p in pauses] == sorted(round(p, 3) for p in pauses)
    world.versions["a"] = 1
    assert made.step() == pytest.approx(0.1, abs=1e-3) and world.order == ["t"]
    looks = len(world.probed)
    made.step()
    assert len(world.probed) == looks, "nothing is due yet"


def test_a_table_that_comes_due_by_time_sees_the_latest_versions() -> None:
    world = World({"t": "a"}, t=Table(Every(60)))
    made = scheduler(world)
    made.step()
    for _ in range(30):
        made.step()
    world.time = NOON + 60
    world.versions["a"] = 1
    made._pulse.looked("a", False, world.time)  # its turn is in some seconds only
    made.step()
    assert world.order == ["t"]


def test_a_target_lag_counts_from_the_commit_and_what_waited_before_is_due_at_once() -> None:
    world = World({"t": "a"}, t=Table(TargetLag(100)))
    world.versions["a"] = 1
    made = scheduler(world)
    made.step()
    assert world.order == ["t"], "nobody knows how long it has waited"
    world.finish("t")
    world.time += 1000
    made.step()
    world.versions["a"] = 2
    made.hurry()
    made.step()
    assert world.order == ["t"]
    world.time += 90
    made.step()
    assert world.order == ["t", "t"]


def test_housekeeping_waits_for_rest() -> None:
    world = World({"t": "a"}, t=Table(OnUpdate()))
    made = scheduler(world)
    world.untidy = ["t"]
    made.step()
    assert made.idle
    world.time += 5
    made.step()
    assert not made.idle
    world.versions["a"] = 1
    world.time += 5
    made.step()
    assert world.order == [], "a table is not refreshed while it is folded"
    world.tidied()
    made.step()
    assert world.order == ["t"]


def test_a_changed_catalog_is_taken_up_and_dropped_tables_are_forgotten() -> None:
    world = World({"s": "a", "t": "a"}, s=Table(OnUpdate()), t=Table(OnUpdate()))
    made = scheduler(world)
    made.step()
    world.versions["a"] = 1
    made.hurry()
    made.step()
    world.change(graph=Graph({"t": ("a",)}), tables={"t": world.current.tables["t"]})
    world.finish("t")
    _, done = world.started.pop("s")
    done(Outcome((RefreshRecord("s", 1, Action.DIFFERENTIAL, ""),), {"s": Reached({"a": 1}, 1)}))
    made.step()
    assert made.idle and "s" not in world.kept


def test_a_source_made_anew_or_gone_is_read_again() -> None:
    for version in (0, -2):
        world = World({"t": "a"}, t=Table(OnUpdate()))
        world.change(tables={"t": replace(world.current.tables["t"], frontier={"a": 50})})
        world.versions["a"] = 50
        made = scheduler(world)
        made.step()
        assert world.order == []
        world.versions["a"] = version
        made.hurry()
        made.step()
        assert world.order == ["t"]


def test_once_plans_once() -> None:
    world = World({"s": "a", "t": "s"})
    made = scheduler(world)
    world.versions["a"] = 1
    made.step(everything=True)
    world.versions["a"] = 2
    world.finish("s")
    made.step(plan=False)
    world.finish("t")
    made.step(plan=False)
    assert made.idle and world.order == ["s", "t"]
