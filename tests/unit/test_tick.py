"""The decision of a tick, every rule with a clock that the test moves."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from runnel.schedule.fuse import Blown
from runnel.schedule.graph import Graph
from runnel.schedule.run_state import RunState, Trouble, failed, looked, resumed, started, succeeded
from runnel.schedule.schedules import Calculated, Cron, Every, Manual, OnUpdate, TargetLag
from runnel.schedule.tick import Moment, Run, Table, Tick, decide, effective_periods
from runnel.schedule.tier import Tier
from runnel.schedule.watermarks import WatermarkGroup, held_back

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp()


class World:
    """Stream tables over sources, with a clock; a run reads everything and takes no time unless told."""

    def __init__(self, reads: dict[str, str], **tables: Table) -> None:
        self.graph = Graph({name: tuple(sources.split()) for name, sources in reads.items()})
        self.tables = {name: tables.get(name, Table(Calculated())) for name in reads}
        self.now = NOON
        self.versions = dict.fromkeys(self.graph.plain, 0)
        self.changed_at: dict[str, float] = {}
        for name in reads:
            self.tables[name] = replace(self.tables[name], frontier=self.reached(name), created=NOON)

    def reached(self, name: str) -> dict[str, int]:
        return {s: self.tables[s].version if s in self.tables else self.versions[s] for s in self.graph.reads[name]}

    def commit(self, *sources: str) -> None:
        for source in sources:
            self.versions[source] += 1
            self.changed_at[source] = self.now

    def decide(self, **moment: Any) -> Tick:
        return decide(self.graph, self.tables, Moment(self.now, self.versions, self.changed_at, **moment))

    def tick(self, seconds: float = 0.0, **moment: Any) -> list[str]:
        """The stream tables that run, in order; after it they have run."""
        found = self.decide(**moment)
        for name in found.fresh:
            self.tables[name] = replace(self.tables[name], state=looked(self.tables[name].state, self.now, self.tables[name].period))
        for run in found.runs:
            for name in run.unit.members:
                table = self.tables[name]
                state = succeeded(started(table.state, self.now, table.period), seconds * 1000, table.schedule.period)
                self.tables[name] = replace(table, frontier=self.reached(name), version=table.version + 1, state=state)
        return [m for run in found.runs for m in run.unit.members]

    def state(self, name: str, **changes: Any) -> None:
        self.tables[name] = replace(self.tables[name], state=replace(self.tables[name].state, **changes))

    def why(self, name: str, **moment: Any) -> str:
        found = self.decide(**moment)
        assert all(name not in r.unit.members for r in found.runs)
        return found.waiting.get(name, "")


def one(schedule: Any, **table: Any) -> World:
    return World({"t": "a"}, t=Table(schedule, **table))


# -- schedules -------------------------------------------------------------------------------------------------------------


def test_nothing_changed_nothing_runs() -> None:
    world = World({"t": "a", "u": "t"}, t=Table(Every(60)), u=Table(OnUpdate()))
    assert world.tick() == [] and world.decide().waiting == {}


def test_every() -> None:
    world = one(Every(60))
    world.commit("a")
    assert world.tick() == ["t"]
    world.commit("a")
    world.now += 59
    assert world.tick() == [] and world.decide().wake_at == NOON + 60
    world.now += 1.5
    assert world.decide().runs[0].reasons == {"t": "every 1m"}
    assert world.tick() == ["t"]
    world.commit("a")
    world.now = NOON + 120
    assert world.tick() == ["t"], "a little late does not move the rhythm"


def test_a_look_without_change_counts_as_a_run() -> None:
    world = one(Every(60))
    assert world.tick() == []
    world.commit("a")
    world.now += 30
    assert world.tick() == []
    world.now += 30
    assert world.tick() == ["t"]


def test_missed_runs_are_made_up_for_once() -> None:
    world = one(Every(60))
    world.commit("a")
    world.tick()
    world.now += 10_000
    world.commit("a")
    assert world.tick() == ["t"]
    world.commit("a")
    assert world.tick() == []
    world.now += 60
    assert world.tick() == ["t"]


@pytest.mark.parametrize("schedule", [Every(60), Cron("* * * * *"), OnUpdate(60), TargetLag(60)], ids=str)
def test_a_clock_put_back_does_not_stop_anything(schedule: Any) -> None:
    world = one(schedule)
    world.now += 61
    world.commit("a")
    world.now += 61
    assert world.tick() == ["t"]
    world.now -= 7200
    world.commit("a")
    world.now += 61
    assert world.tick() == ["t"]


def test_a_pause_set_by_a_clock_put_back_is_over() -> None:
    world = one(Every(60))
    world.commit("a")
    world.state("t", retry_at=NOON + 86_400)
    assert world.tick() == ["t"]


def test_cron() -> None:
    world = one(Cron("0 * * * *"))
    world.commit("a")
    assert world.tick() == [] and world.decide().wake_at == NOON + 3600
    world.now = NOON + 3600
    assert world.tick() == ["t"]
    world.commit("a")
    world.now += 3599
    assert world.tick() == []
    world.now += 3 * 3600
    assert world.tick() == ["t"] and world.tick() == [], "three missed ones are one"


def test_on_update() -> None:
    world = one(OnUpdate(30))
    assert world.tick() == []
    world.commit("a")
    assert world.decide().runs[0].reasons == {"t": "update of a"} and world.tick() == ["t"]
    world.now += 10
    world.commit("a")
    assert world.tick() == [] and world.decide().wake_at == NOON + 30
    world.now += 20
    assert world.tick() == ["t"]


def test_target_lag_gathers_changes_and_leaves_time_for_the_refresh() -> None:
    world = one(TargetLag(100), state=RunState(last_ms=30_000))
    world.now += 1000
    world.commit("a")
    since = world.now
    assert world.tick() == [] and world.decide().wake_at == since + 60
    world.now += 50
    world.changed_at["a"] = since  # a later commit does not renew the wait of the first
    assert world.tick() == []
    world.now += 10
    assert world.tick() == ["t"]


def test_manual_runs_when_asked_for_only() -> None:
    world = World({"t": "a", "u": "t"}, t=Table(Manual()), u=Table(OnUpdate()))
    world.commit("a")
    assert world.tick() == []
    assert world.tick(everything=True) == ["t", "u"]


def test_a_query_that_reads_the_clock_runs_without_commits() -> None:
    world = one(Every(60), clocked=True)
    assert world.tick() == ["t"] and world.tick() == []
    assert one(OnUpdate(), clocked=True).tick() == [], "time is no update"
    below = World({"s": "a", "t": "s"}, s=Table(Calculated(), clocked=True), t=Table(Every(60)))
    assert below.tick() == ["s", "t"]


# -- the graph -------------------------------------------------------------------------------------------------------------


def test_calculated_runs_as_often_as_its_readers_need() -> None:
    world = World({"bronze": "a", "silver": "bronze", "gold": "silver", "side": "bronze"}, gold=Table(Every(60)), side=Table(Every(300)))
    world.commit("a")
    assert sorted(world.tick()) == ["bronze", "gold", "side", "silver"]
    world.commit("a")
    world.now += 60
    found = world.decide()
    assert [r.unit.members for r in found.runs] == [("bronze",), ("silver",), ("gold",)]
    assert found.runs[0].reasons == {"bronze": "needed by silver"} and found.runs[2].after == (found.runs[1].unit,)
    assert effective_periods(world.graph, world.tables) == {"gold": 60, "silver": 60, "side": 300, "bronze": 60}


def test_without_scheduled_readers_nothing_runs_by_itself() -> None:
    world = World({"s": "a", "t": "s"})
    world.commit("a")
    assert world.tick() == [] and effective_periods(world.graph, world.tables) == {"s": None, "t": None}


def test_a_reader_of_a_slower_table_waits_for_it() -> None:
    world = World({"s": "a", "t": "s"}, s=Table(Every(3600)), t=Table(OnUpdate()))
    world.commit("a")
    assert world.tick() == ["s", "t"]
    world.commit("a")
    world.now += 60
    assert world.tick() == [], "s is not due, so t has nothing to read"


def test_an_update_travels_through_calculated_tables_in_one_tick() -> None:
    world = World({"s": "a", "t": "s"}, t=Table(OnUpdate()))
    world.commit("a")
    assert world.tick() == ["s", "t"]


def test_a_unit_runs_with_its_fastest_member_or_with_its_slowest() -> None:
    reads = {"b": "a", "c": "a", "d": "b c"}
    fast = World(reads, b=Table(Every(60)), c=Table(Every(600)), d=Table(Calculated()))
    fast.commit("a")
    assert fast.tick() == ["b", "c", "d"]
    fast.commit("a")
    fast.now += 60
    assert fast.tick() == ["b", "c", "d"]
    slow = World(reads, b=Table(Every(60)), c=Table(Every(600)), d=Table(Calculated(), slowest=True))
    slow.commit("a")
    assert slow.tick() == ["b", "c", "d"]
    slow.commit("a")
    slow.now += 60
    assert slow.tick() == [] and slow.why("b") == "waits until all of its group are due"
    slow.now += 540
    assert slow.tick() == ["b", "c", "d"]


def test_a_member_that_is_held_holds_its_unit() -> None:
    world = World({"b": "a", "c": "a", "d": "b c"}, b=Table(Every(60)), c=Table(Every(60)), d=Table(Every(60)))
    world.state("c", suspended=Trouble("broken", ""))
    world.commit("a")
    assert world.tick() == [] and world.why("b") == "c is suspended: broken"


def test_what_is_at_work_is_left_alone_and_its_readers_wait() -> None:
    world = World({"s": "a", "t": "s", "u": "b"}, s=Table(OnUpdate()), t=Table(OnUpdate()), u=Table(OnUpdate()))
    world.commit("a", "b")
    world.tables["t"] = replace(world.tables["t"], frontier={"s": -1})
    found = world.decide(busy={"s"})
    assert [r.unit.members for r in found.runs] == [("u",)]
    assert found.waiting == {"s": "is being refreshed", "t": "waits for s, which is being refreshed"}


def test_order_is_by_priority_and_tier_and_what_an_urgent_table_needs_is_urgent() -> None:
    world = World(
        {"low": "a", "cold": "a2", "s": "a3", "high": "s"},
        low=Table(OnUpdate()),
        cold=Table(OnUpdate(), tier=Tier.COLD),
        high=Table(OnUpdate(), priority=5),
    )
    world.commit("a", "a2", "a3")
    runs: list[Run] = sorted(world.decide().runs, key=lambda r: r.rank)
    assert [r.unit.members[0] for r in runs] == ["s", "high", "low", "cold"]


# -- holds -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tier", "factor"), [(Tier.HOT, 1), (Tier.WARM, 2), (Tier.COLD, 4)])
@pytest.mark.parametrize("schedule", [Every(60), OnUpdate(60)], ids=str)
def test_tiers_stretch_periods(tier: Tier, factor: int, schedule: Any) -> None:
    world = one(schedule, tier=tier)
    world.commit("a")
    assert world.tick() == ["t"]
    world.commit("a")
    world.now += 60 * factor - 1
    assert world.tick() == []
    world.now += 1
    assert world.tick() == ["t"]


def test_frozen_tables_do_not_run() -> None:
    world = one(Every(60), tier=Tier.FROZEN)
    world.commit("a")
    assert world.tick() == [] and world.why("t") == "is frozen"


def test_paused() -> None:
    world = one(Every(60))
    world.commit("a")
    assert world.tick(paused=True) == [] and world.why("t", paused=True) == "paused"
    assert world.tick() == ["t"]


def test_a_gated_source_is_not_read() -> None:
    world = World({"t": "a b"}, t=Table(OnUpdate()))
    world.commit("a")
    assert world.tick(gated={"a"}) == [] and world.why("t", gated={"a"}) == "a is gated"
    world.commit("b")
    assert world.tick(gated={"a"}) == ["t"], "other sources go on; the cut keeps the gated one where it is"


def test_watermarks_that_are_apart_hold_those_who_read_both() -> None:
    world = World({"o": "orders", "both": "o payments"}, o=Table(OnUpdate()), both=Table(OnUpdate()))
    world.commit("orders", "payments")
    group = WatermarkGroup("load", ("orders", "payments"), tolerance=60)
    marks = {"orders": datetime(2026, 1, 1, 12, 5), "payments": datetime(2026, 1, 1, 12)}
    held = held_back(world.graph, [group], marks)
    assert world.why("both", held_back=held) == "watermark group load is apart: payments is 5m behind orders"
    assert world.tick(held_back=held) == ["o"]
    marks["payments"] = datetime(2026, 1, 1, 12, 4)
    assert held_back(world.graph, [group], marks) == {} and world.tick() == ["both"]
    assert "no watermark of payments" in held_back(world.graph, [group], {"orders": marks["orders"]})["both"]
    assert held_back(world.graph, [group], {}) == {}, "a group that nobody reports to holds nobody"


def test_a_blown_fuse_waits_for_a_verdict() -> None:
    world = one(OnUpdate())
    world.commit("a")
    blown = Blown(5_000_000, 1000, "", {"a": 1})
    world.state("t", blown=blown)
    assert world.why("t") == "has a blown fuse: 5,000,000 changed rows wait, more than 1,000"
    world.state("t", blown=replace(blown, verdict="skip"))
    assert world.tick() == []
    world.commit("a")
    assert [r.full for r in world.decide().runs] == [()]
    world.state("t", blown=replace(blown, verdict="reinitialise"))
    assert [r.full for r in world.decide().runs] == [("t",)]
    world.state("t", blown=replace(blown, verdict="apply"))
    assert world.tick() == ["t"] and world.tables["t"].state.blown is None


# -- trouble ---------------------------------------------------------------------------------------------------------------

TIMEOUT = Trouble("timed out", "", "TIMEOUT", "Transient")


def test_a_transient_failure_is_tried_again_later_each_time_and_then_suspends() -> None:
    world = one(Every(60))
    world.commit("a")
    for failures, pause in ((1, 1.0), (2, 2.0)):
        world.tables["t"] = replace(world.tables["t"], state=failed(world.tables["t"].state, TIMEOUT, world.now, 3, 0.5))
        assert world.tables["t"].state.failures == failures
        assert world.why("t").startswith(f"tries again in {pause:g}s: [TIMEOUT] timed out")
        assert world.decide().wake_at == world.now + pause
        world.now += pause
        assert [r.unit.members for r in world.decide().runs] == [("t",)]
    world.tables["t"] = replace(world.tables["t"], state=failed(world.tables["t"].state, TIMEOUT, world.now, 3, 0.5))
    world.now += 86_400
    assert world.why("t") == "is suspended: [TIMEOUT] timed out"
    world.tables["t"] = replace(world.tables["t"], state=resumed(world.tables["t"].state))
    assert world.tick() == ["t"] and world.tables["t"].state.failures == 0


def test_pauses_are_spread_and_bounded() -> None:
    pauses = [failed(RunState(failures=n), TIMEOUT, 0.0, 100, chance).retry_at for n in (0, 3, 20) for chance in (0.0, 1.0)]
    assert pauses == [0.75, 1.25, 6.0, 10.0, 45.0, 75.0]


@pytest.mark.parametrize(
    ("branch", "code", "suspends"),
    [
        ("DefinitionError", "DIVIDE", True),
        ("SourceChanged", "SCHEMA_CHANGED", True),
        ("Internal", "INTERNAL", True),
        ("SourceChanged", "SOURCE_UNREADABLE", False),
        ("Transient", "CONFLICT", False),
        ("", "Py4JError", False),
    ],
)
def test_the_branch_decides_whether_to_try_again(branch: str, code: str, suspends: bool) -> None:
    state = failed(RunState(), Trouble("m", "", code, branch), 0.0, 3, 0.5)
    assert (state.suspended is not None) is suspends and (state.retry_at is None) is suspends


def test_backoff_when_a_refresh_takes_longer_than_its_period() -> None:
    world = one(Every(60))
    factors = []
    for seconds in (70, 130, 250, 500, 500, 10):
        world.commit("a")
        world.now += 100_000
        assert world.tick(seconds) == ["t"]
        factors.append(world.tables["t"].state.backoff)
    assert factors == [2, 4, 8, 8, 8, 1]
    world.commit("a")
    world.tick(70)
    world.now += 100_000
    world.tick(70)
    last = world.now
    world.commit("a")
    assert world.decide().wake_at == last + 120 and world.tables["t"].state.backoff == 2
    assert succeeded(RunState(), 70_000, 60.0, adaptive=False).backoff == 1


def test_state_survives_being_stored() -> None:
    state = RunState(1.0, 2.0, 3.0, 2, 4.0, TIMEOUT, TIMEOUT, 4, Blown(1, 2.0, "x", {"a": 1}, "skip"))
    assert RunState.from_dict(json.loads(json.dumps(state.as_dict()))) == state
