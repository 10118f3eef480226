"""The decision: every action with its reason, modes, and that AUTO neither flaps nor takes a slower way twice. No Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from runnel.bind.statement import parse_statement
from runnel.definition import Definition, SourceRef
from runnel.differentiate import rows_layout
from runnel.errors import DefinitionError, SourceChanged
from runnel.execute.cost import Estimate, Term, Weighed
from runnel.execute.decide import Ceiling, Decision, ceiling_for, choose, decide, enforce
from runnel.execute.history import Past, Sample, past_of
from runnel.observe.record import Action, Mode, RefreshRecord, Stage, mode_of
from runnel.sources.facts import Kind, SourceFacts

DIFFERENTIAL, FULL = Action.DIFFERENTIAL, Action.FULL
CEILING = Ceiling(0.15, "setting differential_ceiling")
TABLE = Definition("id", "spark_catalog.default.t", "q", "q", Mode.AUTO, (SourceRef("orders", "delta", "/o"),), rows_layout((), ()))
CHANGED = SourceFacts("orders", Kind.MIXED, 1, 2, "x", rows=100)
BROKEN = SourceFacts("orders", Kind.LOST, 1, 2, "x", reason="file a was vacuumed")
STILL = SourceFacts("orders", Kind.UNCHANGED, 2, 2, "x")


def weighed(differential_ms: float = 500.0, full_ms: float = 2000.0, ratio: float = 0.01, change_only: bool = False) -> Weighed:
    return Weighed(
        Estimate(FULL, (Term("all", full_ms, 1 << 20),)),
        Estimate(DIFFERENTIAL, (Term("all", differential_ms),)),
        changed_rows=int(ratio * 1_000_000),
        source_rows=1_000_000,
        change_only=change_only,
    )


NOTHING = Past()


def chosen(past: Past = NOTHING, ceiling: Ceiling = CEILING, **costs) -> tuple[Action, str]:
    found = choose(weighed(**costs), past, ceiling)
    return found.action, found.why


# -- what forces an action ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "facts", "options", "action", "words"),
    [
        (Mode.AUTO, CHANGED, {"first": True}, FULL, "first load"),
        (Mode.AUTO, BROKEN, {}, Action.REINITIALIZE, "file a was vacuumed"),
        (Mode.AUTO, CHANGED, {"full": True}, FULL, "asked for"),
        (Mode.FULL, STILL, {}, Action.NO_DATA, "no source changed"),
        (Mode.FULL, CHANGED, {}, FULL, "refresh mode is FULL"),
        (Mode.DIFFERENTIAL, CHANGED, {}, DIFFERENTIAL, "orders mixed, 100 changed rows"),
        (Mode.STRICT, CHANGED, {}, DIFFERENTIAL, "orders mixed, 100 changed rows"),
    ],
)
def test_actions_and_reasons(mode, facts, options, action, words) -> None:
    found = decide(replace(TABLE, mode=mode), [facts], **{"first": False, "full": False, **options})
    assert found.action is action and words in found.reason


@pytest.mark.parametrize("mode", [Mode.DIFFERENTIAL, Mode.STRICT])
def test_costs_do_not_move_a_mode_that_applies_changes(mode) -> None:
    costly = choose(weighed(60_000, 1000, 0.9), Past(), CEILING)
    assert costly.action is FULL
    assert decide(replace(TABLE, mode=mode), [CHANGED], False, False, choice=costly).action is DIFFERENTIAL
    assert decide(TABLE, [CHANGED], False, False, choice=costly).action is FULL


def test_strict_fails_where_differential_falls_back() -> None:
    for mode in (Mode.DIFFERENTIAL, Mode.STRICT):
        table = replace(TABLE, mode=mode)
        assert decide(table, [BROKEN], False, False).forced
        assert not decide(table, [BROKEN], False, True).forced, "asked for"
        assert not decide(table, [CHANGED], True, False).forced, "first load"
        assert decide(replace(table, refused="no"), [CHANGED], False, False).forced
    forced = decide(replace(TABLE, mode=Mode.STRICT), [BROKEN], False, False)
    enforce(replace(TABLE, mode=Mode.DIFFERENTIAL), forced)
    enforce(replace(TABLE, mode=Mode.STRICT), Decision(FULL, "asked for"))
    with pytest.raises(SourceChanged) as caught:
        enforce(replace(TABLE, mode=Mode.STRICT), forced)
    assert caught.value.code == "STRICT" and "vacuumed" in caught.value.detail and "FULL" in caught.value.hint


# -- what the costs say ------------------------------------------------------------------------------------------------


def test_a_small_change_is_applied() -> None:
    assert chosen() == (DIFFERENTIAL, "DIFFERENTIAL 500 ms (estimated), FULL 2000 ms (estimated)")


def test_above_the_ceiling_recompute_is_presumed_faster() -> None:
    action, why = chosen(ratio=0.4, differential_ms=2100)
    assert action is FULL
    assert why.startswith("40.0% of 1000000 rows changed, above the ceiling of 15% (setting differential_ceiling), ")


def test_the_estimate_overrules_the_ceiling_only_clearly() -> None:
    assert chosen(ratio=0.4, differential_ms=1500)[0] is FULL
    action, why = chosen(ratio=0.4, differential_ms=500)
    assert action is DIFFERENTIAL and why.startswith("although 40.0% of")
    assert chosen(ratio=0.01, differential_ms=2500)[0] is DIFFERENTIAL
    assert chosen(ratio=0.01, differential_ms=4500)[0] is FULL


def test_a_plan_that_reads_changes_only_has_no_ceiling() -> None:
    assert chosen(ratio=0.9, differential_ms=1900, change_only=True)[0] is DIFFERENTIAL
    assert chosen(ratio=3.0, differential_ms=9000, change_only=True)[0] is FULL


def test_a_ceiling_of_one_is_none() -> None:
    assert chosen(ceiling=Ceiling(1.0, "set for this table"), ratio=2.0, differential_ms=2000)[0] is DIFFERENTIAL


def test_around_the_ceiling_the_last_way_is_kept() -> None:
    last = {way: Past((Sample(way, 2000.0, 2000.0, 150_000, 0.15),)) for way in (DIFFERENTIAL, FULL)}
    for ratio in (0.14, 0.155, 0.145, 0.16):
        assert chosen(last[DIFFERENTIAL], ratio=ratio, differential_ms=2000)[0] is DIFFERENTIAL
        assert chosen(last[FULL], ratio=ratio, differential_ms=2000)[0] is FULL


def test_the_ceiling_in_force_says_where_it_comes_from() -> None:
    own = replace(TABLE, properties={"runnel.differential_ceiling": "0.3"})
    assert str(ceiling_for(own, 0.15, Past(), weighed())) == "30% (set for this table)"
    assert str(ceiling_for(TABLE, 0.15, Past(), weighed())) == "15% (setting differential_ceiling)"
    won = Past((Sample(FULL, 2000.0, 2000.0), Sample(DIFFERENTIAL, 500.0, 500.0, 1, 0.4)))
    assert str(ceiling_for(TABLE, 0.15, won, weighed())) == "40% (raised from 15% by measured refreshes)"
    with pytest.raises(DefinitionError, match=r"runnel\.differential_ceiling = lots does not exist"):
        replace(TABLE, properties={"runnel.differential_ceiling": "lots"})


def test_measured_costs_beat_the_ceiling() -> None:
    fast = [Sample(DIFFERENTIAL, 500.0, 2000.0, 400_000, 0.4) for _ in range(5)]
    settled = Past((Sample(FULL, 2000.0, 2000.0), *fast), None, 1e6)
    assert chosen(settled, ratio=0.4, differential_ms=2000)[0] is DIFFERENTIAL


# -- ten refreshes and more --------------------------------------------------------------------------------------------


class World:
    """A stream table whose true costs are known; each step decides as AUTO does, runs, and is recorded."""

    def __init__(self, differential, full, first: float = 2000.0, model: float = 1.0, expected: float = 0.0, ratio: float = 0.01) -> None:
        """`model` is how far the estimate of DIFFERENTIAL is off, `expected` an estimate that does not follow the truth."""
        self.differential, self.full, self.model, self.expected, self.ratio, self.seconds = differential, full, model, expected, ratio, 30.0
        self.modelled_full = 0.0
        self.created = datetime(2026, 1, 1, tzinfo=UTC)
        self.now = self.created
        self.records = [self._record(1, FULL, first, first)]

    def _record(self, epoch: int, action: Action, ms: float, estimated: float) -> RefreshRecord:
        rows = int(self.ratio * 1e6)
        return RefreshRecord(
            "t", epoch, action, "", rows_in=rows, stages=(Stage("write", ms),), estimated_ms=estimated, ratio=self.ratio, recompute_ms=estimated
        )

    def run(self, refreshes: int) -> list[Action]:
        done = []
        for step in range(refreshes):
            self.now += timedelta(seconds=self.seconds)
            true = {DIFFERENTIAL: self.differential(step), FULL: self.full(step)}
            costs = weighed(self.expected or true[DIFFERENTIAL] * self.model, self.modelled_full or true[FULL], self.ratio)
            past = past_of(self.records, self.created.isoformat(), self.now)
            action = choose(costs, past, ceiling_for(TABLE, 0.15, past, costs)).action
            estimate = costs.of(action)
            assert estimate is not None
            self.records.insert(0, self._record(len(self.records) + 1, action, true[action], estimate.ms))
            done.append(action)
        return done

    @property
    def spent(self) -> float:
        return sum(r.work_ms for r in self.records[:-1])


@pytest.mark.parametrize("times", [0.05, 0.5, 0.9, 1.1, 1.3, 1.6, 2.0, 3.0, 8.0])
@pytest.mark.parametrize("ratio", [0.01, 0.5])
def test_ten_refreshes_cost_at_most_a_tenth_more_than_recompute(times: float, ratio: float) -> None:
    world = World(lambda _: 20_000.0 * times, lambda _: 20_000.0, first=20_000.0, ratio=ratio)
    world.run(10)
    assert world.spent <= 1.1 * 10 * 20_000.0


@pytest.mark.parametrize("times", [1.2, 1.5, 2.0])
def test_refreshes_of_a_moment_are_settled_by_the_sixth(times: float) -> None:
    """A first load of half a second says too little; five samples say enough to measure a FULL."""
    done = World(lambda _: 500.0 * times, lambda _: 500.0, first=500.0).run(30)
    assert done[:5] == [DIFFERENTIAL] * 5 and done[6:].count(DIFFERENTIAL) <= (2 if times > 1.25 else 24)


@pytest.mark.parametrize("times", [1.3, 1.6, 2.0])
def test_a_wrong_estimate_is_paid_once(times: float) -> None:
    """The model says a quarter of the truth; the FULL that follows the first slow refreshes settles it."""
    world = World(lambda _: 5000.0 * times, lambda _: 5000.0, first=5000.0, model=0.25)
    done = world.run(40)
    assert done.count(DIFFERENTIAL) <= 6
    assert world.spent <= 1.1 * 40 * 5000.0


@pytest.mark.parametrize("times", [1.3, 1.6, 2.0])
def test_a_cold_first_load_does_not_hide_the_faster_full(times: float) -> None:
    """The first load took three times what a FULL takes, and the model thinks little of DIFFERENTIAL: only a FULL can tell."""
    world = World(lambda _: 2700.0 * times, lambda _: 2700.0, first=8100.0, model=0.4)
    assert world.run(10) == [DIFFERENTIAL] + [FULL] * 9
    assert world.spent <= 1.1 * 10 * 2700.0


def test_a_cold_start_or_a_plan_that_reads_changes_only_is_no_reason_to_try() -> None:
    cold = World(lambda step: 7000.0 if step == 0 else 400.0, lambda _: 300.0, first=7000.0, expected=300.0)
    assert set(cold.run(4)) == {DIFFERENTIAL}
    slow = Past((Sample(DIFFERENTIAL, 4000.0, 2000.0, 10_000, 0.01),), None, 1e6)
    assert chosen(slow, differential_ms=2000)[0] is FULL
    assert chosen(slow, differential_ms=2000, change_only=True)[0] is DIFFERENTIAL


@pytest.mark.parametrize("times", [1.2, 1.3, 1.6])
def test_where_differential_takes_as_long_as_the_first_load_full_is_asked(times: float) -> None:
    """Neither the model nor the first load says that FULL is faster: it turns out to be, and asking costs little where it is not."""
    world = World(lambda _: 1150.0 * times, lambda _: 1150.0, first=1600.0)
    world.modelled_full = 1600.0
    done = world.run(10)
    assert done[:2] == [DIFFERENTIAL, FULL] and (times < 1.25 or done.count(DIFFERENTIAL) == 1)
    assert world.spent <= 1.1 * 10 * 1150.0 or times < 1.25
    slower = World(lambda _: 1500.0, lambda _: 2000.0, first=1900.0)
    assert slower.run(30).count(FULL) == 1
    assert set(World(lambda _: 1500.0, lambda _: 2400.0, first=2400.0).run(30)) == {DIFFERENTIAL}


def test_what_was_tried_once_is_not_tried_again() -> None:
    """DIFFERENTIAL is the faster way by far, and the model says the opposite: one FULL is the price."""
    world = World(lambda _: 2000.0, lambda _: 6000.0, first=20_000.0, model=0.5)
    world.modelled_full = 1000.0
    assert world.run(40).count(FULL) == 1


def test_the_faster_way_is_kept() -> None:
    assert set(World(lambda _: 500.0, lambda _: 5000.0, first=20_000.0).run(30)) == {DIFFERENTIAL}


@pytest.mark.parametrize("when", [0, 1, 3, 8])
def test_an_outlier_is_forgotten_within_five(when: int) -> None:
    world = World(lambda step: 60_000.0 if step == when else 800.0, lambda _: 5000.0, first=5000.0, expected=800.0)
    done = world.run(25)
    assert done[:when] == [DIFFERENTIAL] * when and done[when + 6 :] == [DIFFERENTIAL] * (19 - when)


def test_a_sawtooth_does_not_flap() -> None:
    """Times that swing around those of FULL: whichever way is taken, it is kept."""
    done = World(lambda step: 3000.0 if step % 2 else 7000.0, lambda _: 5000.0, first=5000.0, expected=5000.0).run(60)
    turns = sum(a is not b for a, b in pairwise(done[10:]))
    assert turns <= 6, done


def test_equal_ways_do_not_take_turns() -> None:
    done = World(lambda step: 5000.0 + 300 * (step % 3), lambda step: 5000.0 + 300 * (step % 2), first=5000.0).run(40)
    assert done[:2] == [DIFFERENTIAL, FULL], "asked once, since it costs nothing"
    assert len(set(done[2:])) == 1, done


def test_after_a_loss_a_much_smaller_change_is_applied() -> None:
    world = World(lambda _: 9000.0, lambda _: 5000.0, first=5000.0, model=0.25)
    assert world.run(8)[-1] is FULL
    world.differential, world.ratio = (lambda _: 600.0), 0.0005
    assert world.run(1) == [DIFFERENTIAL]


# -- words -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "mode"),
    [
        ("REFRESH MODE STRICT", Mode.STRICT),
        ("REFRESH POLICY AUTO", Mode.AUTO),
        ("REFRESH POLICY INCREMENTAL", Mode.DIFFERENTIAL),
        ("REFRESH POLICY INCREMENTAL STRICT", Mode.STRICT),
        ("REFRESH POLICY FULL", Mode.FULL),
    ],
)
def test_policies_are_modes_in_other_words(words: str, mode: Mode) -> None:
    created = parse_statement(f"CREATE MATERIALIZED VIEW v {words} AS SELECT 1")
    assert created is not None and (created.mode, created.query) == (mode, "SELECT 1")
    for set_ in ("", "SET "):
        altered = parse_statement(f"ALTER STREAM TABLE v {set_}{words};")
        assert altered is not None and (altered.verb, altered.name, altered.mode) == ("alter", ("v",), mode)
    assert mode_of(words.removeprefix("REFRESH MODE ").removeprefix("REFRESH POLICY ")) is mode


def test_alter_sets_properties_and_keeps_the_mode() -> None:
    found = parse_statement("ALTER STREAM TABLE a.b SET TBLPROPERTIES ('runnel.differential_ceiling' = '0.3')")
    assert found is not None and found.mode is None and found.properties == {"runnel.differential_ceiling": "0.3"}
    assert parse_statement("ALTER TABLE a SET TBLPROPERTIES ('a' = 'b')") is None


def test_a_query_is_altered() -> None:
    found = parse_statement("ALTER STREAM TABLE a.b AS SELECT 'x' AS as FROM t;")
    assert found is not None and (found.verb, found.name, found.query, found.mode) == ("alter", ("a", "b"), "SELECT 'x' AS as FROM t", None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("CREATE STREAM TABLE v REFRESH POLICY SOMETIMES AS SELECT 1", 'refresh policy "SOMETIMES" does not exist'),
        ("ALTER STREAM TABLE v RENAME TO w", 'unexpected "RENAME"'),
        ("ALTER STREAM TABLE v AS", "the query after AS is missing"),
    ],
)
def test_wrong_words_are_told(text: str, words: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        parse_statement(text)
    assert words in str(caught.value) and caught.value.hint
