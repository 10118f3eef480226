"""Predictions from measured refreshes: medians that one slow afternoon cannot move. Synthetic histories, no Spark, no clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from runnel.execute import noting
from runnel.execute.history import Past, Prediction, Sample, lost, past_of, predict_differential, predict_full, tuned_ceiling, untried
from runnel.observe.record import Action, RefreshRecord, Stage

CREATED = datetime(2026, 1, 1, tzinfo=UTC)
DAY = 86_400.0
DIFFERENTIAL, FULL = Action.DIFFERENTIAL, Action.FULL


def differential(*times: float, modelled: float = 1000.0, rows: int = 1000) -> list[Sample]:
    return [Sample(DIFFERENTIAL, ms, modelled, rows, 0.01) for ms in times]


def full(*times: float, modelled: float = 2000.0) -> list[Sample]:
    return [Sample(FULL, ms, modelled) for ms in times]


def past(*samples: Sample, first: float | None = 2000.0, age: float = DAY) -> Past:
    return Past(samples, Sample(FULL, first, 2000.0) if first else None, age)


def record(action: Action, ms: float, epoch: int = 2, status: str = "COMPLETED", **more) -> RefreshRecord:
    return RefreshRecord("t", epoch, action, "", status, stages=(Stage("write", ms),), estimated_ms=1000.0, **more)


# -- samples -----------------------------------------------------------------------------------------------------------


def test_only_executed_actions_are_samples() -> None:
    records = [
        record(Action.NO_DATA, 5.0, 7),
        record(DIFFERENTIAL, 900.0, 6, "FAILED"),
        record(Action.REINITIALIZE, 3000.0, 5),
        record(FULL, 2500.0, 4),
        record(DIFFERENTIAL, 400.0, 3),
        record(FULL, 9000.0, 1),
    ]
    found = past_of(records, CREATED.isoformat(), CREATED + timedelta(minutes=5))
    assert [(s.action, s.ms) for s in found.samples] == [(DIFFERENTIAL, 400.0), (FULL, 2500.0), (FULL, 3000.0)]
    assert found.first_load is not None and found.first_load.ms == 9000.0
    assert found.age_seconds == 300 and found.last is FULL


def test_compaction_and_waiting_are_no_part_of_a_sample() -> None:
    waited = RefreshRecord("t", 2, DIFFERENTIAL, "", stages=(Stage("write", 300.0), Stage("compaction", 5000.0)), ms=60_000.0)
    assert past_of([waited], "", CREATED).samples[0].ms == 300.0


def test_a_history_rebuilt_from_the_log_has_no_times_and_gives_no_samples() -> None:
    assert past_of([RefreshRecord("t", 2, DIFFERENTIAL, "")], CREATED.isoformat(), CREATED).samples == ()


# -- predictions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "why"),
    [
        (past(*differential(900, 900, 900, 900)), "fewer than five"),
        (past(*differential(900, 900, 900, 900, 900, 900), age=59.0), "within a minute of creation"),
        (past(), "none"),
    ],
)
def test_samples_that_say_too_little_leave_the_model(known: Past, why: str) -> None:
    assert predict_differential(known, 500.0) == Prediction(500.0, "estimated"), why


def test_the_model_runs_at_the_pace_of_the_fulls() -> None:
    assert predict_differential(past(*full(6000, modelled=2000.0)), 500.0).ms == 1500.0
    assert predict_differential(past(*full(60_000, modelled=2000.0)), 500.0).ms == 2000.0


def test_an_unmeasured_full_is_modelled_at_the_pace_of_measured_differentials() -> None:
    """On a busy machine everything is slow: a model at its own pace would make FULL look cheap."""
    slow = differential(3000, 3000, 3000, 3000, 3000)
    assert predict_full(past(*slow, first=60_000.0), 2000.0).ms == 6000.0
    assert predict_full(past(*slow, first=4000.0), 2000.0) == Prediction(4000.0, "as the first load")
    assert predict_full(past(*slow[:4], first=60_000.0), 2000.0).ms == 2000.0, "too few to tell the pace"
    assert predict_full(past(*slow, first=60_000.0, age=10.0), 2000.0).ms == 2000.0, "too young"


def test_fast_small_refreshes_do_not_make_an_unmeasured_full_cheap() -> None:
    """They start one job fast; FULL also reads and groups whole tables, of which the first load knows the reading."""
    fast = differential(*(400.0,) * 5)
    assert predict_full(past(*fast, first=None), 2000.0, 1500.0).ms == 1000.0, "the pace, bounded"
    assert predict_full(past(*fast, first=4000.0), 2000.0, 1500.0).ms == 2000.0, "half of the first load and the difference, at most the model"
    assert predict_full(past(*fast, first=1000.0), 2000.0, 1500.0).ms == 1000.0, "never more than the first load"
    assert predict_full(past(*fast, first=400.0), 2000.0).ms == 400.0


def test_samples_of_one_size_give_no_line() -> None:
    found = predict_differential(past(*differential(1500, 1400, 1600, 1500, 1500)), 1000.0)
    assert found.measured and found.ms == 1500.0 and "one size" in found.basis


def test_samples_of_several_sizes_give_a_line() -> None:
    sizes = (500.0, 1000.0, 1500.0, 2000.0, 3000.0)
    samples = [Sample(DIFFERENTIAL, 2 * m + 100, m, int(m)) for m in sizes]
    assert predict_differential(past(*samples, first=10_000.0), 2500.0).ms == pytest.approx(5100.0)


def test_predictions_stay_near_the_last_full() -> None:
    slow = differential(9000, 9100, 9000, 9050, 9000)
    fast = differential(10, 11, 10, 10, 10)
    assert predict_differential(past(*slow, *full(1000)), 1000.0).ms == 4000.0
    assert predict_differential(past(*fast, *full(1000)), 1000.0).ms == 500.0


def test_a_cold_first_load_bounds_from_above_only() -> None:
    fast = differential(100, 110, 100, 100, 100)
    assert predict_differential(past(*fast, first=60_000.0), 1000.0).ms == pytest.approx(100.0)
    assert predict_full(past(first=500.0), 2000.0) == Prediction(500.0, "as the first load")
    assert predict_full(past(first=60_000.0), 2000.0) == Prediction(2000.0, "estimated")


def test_full_is_measured_from_the_first_one_and_grows_with_its_tables() -> None:
    assert predict_full(past(*full(3000)), 2000.0).ms == 3000.0
    assert predict_full(past(*full(3000)), 4000.0).ms == 6000.0


def test_an_outlier_moves_no_prediction() -> None:
    steady = differential(1000, 1010, 990, 1005, 1000)
    before = predict_differential(past(*steady, first=100_000.0), 1000.0).ms
    after = predict_differential(past(*steady, *differential(20_000), first=100_000.0), 1000.0).ms
    assert after == pytest.approx(before, rel=0.02)


def test_a_new_pace_is_followed_within_five_samples() -> None:
    samples = [*differential(*[1000] * 10), *differential(*[1600] * 5)]
    found = predict_differential(past(*samples, first=100_000.0), 1000.0)
    assert found.ms == pytest.approx(1600, rel=0.05)


def test_a_sawtooth_is_its_middle() -> None:
    teeth = differential(*[800, 1200] * 6)
    predictions = [predict_differential(past(*teeth[:n], first=100_000.0), 1000.0).ms for n in range(5, 13)]
    assert max(predictions) - min(predictions) <= 400 and all(800 <= p <= 1200 for p in predictions)


# -- losses ------------------------------------------------------------------------------------------------------------


def test_one_loss_against_a_measured_full_is_enough() -> None:
    found = lost(past(*full(1000), *differential(1900)), 1000, 2000.0)
    assert found is not None and (found.ms, found.full_ms, found.retry_in) == (1900.0, 1000.0, 10)


def test_one_loss_against_the_first_load_is_not() -> None:
    assert lost(past(*differential(18_000), first=10_000.0), 1000, 2000.0) is None
    assert lost(past(*differential(18_000, 18_000), first=10_000.0), 1000, 2000.0) is not None
    assert lost(past(*differential(18_000, modelled=9000.0), first=10_000.0), 1000, 2000.0, modelled_differential=2500.0) is not None, (
        "the model agrees"
    )
    assert lost(past(*differential(21_000, modelled=9000.0), first=10_000.0), 1000, 2000.0) is not None, "more than twice is"
    assert lost(past(*differential(21_000, modelled=900.0), first=10_000.0), 1000, 2000.0) is None, "unless it may be an accident"
    assert lost(past(*differential(1900, 1900), first=200.0), 1000, 2000.0) is None, "a moment"


def test_noise_is_no_loss() -> None:
    assert lost(past(*full(1000), *differential(1190)), 1000, 2000.0) is None


def test_a_much_smaller_change_is_a_new_question_and_a_larger_one_is_not() -> None:
    known = past(*full(1000), *differential(1900, rows=1000))
    assert lost(known, 400, 2000.0) is None
    assert lost(known, 600, 2000.0) is not None
    assert lost(known, 50_000, 2000.0) is not None


def test_the_slower_way_is_measured_again_once_that_is_cheap() -> None:
    for times, wait in ((1.5, 10), (3.0, 20)):
        slow = [*full(1000), *differential(1000 * times, modelled=1000 * times)]
        assert lost(past(*slow, *full(*[1000] * (wait - 1))), 1000, 2000.0) is not None
        assert lost(past(*slow, *full(*[1000] * wait)), 1000, 2000.0) is None


def test_a_loss_is_forgotten_when_full_became_slower_than_it() -> None:
    assert lost(past(*full(1000), *differential(1900), *full(3000, 3000)), 1000, 2000.0) is None


def test_a_single_accident_is_asked_again_after_five() -> None:
    known = [*full(1000), *differential(11_000, modelled=1000.0)]
    found = lost(past(*known), 1000, 2000.0)
    assert found is not None and found.retry_in == 5
    assert lost(past(*known, *full(*[1000] * 5)), 1000, 2000.0) is None


def test_a_slow_one_among_many_fast_ones_is_no_loss() -> None:
    assert lost(past(*full(1000), *differential(400, 410, 400, 9000)), 1000, 2000.0) is None


# -- the ceiling -------------------------------------------------------------------------------------------------------


def with_ratio(ratio: float, ms: float) -> Sample:
    return Sample(DIFFERENTIAL, ms, 1000.0, int(ratio * 1e6), ratio)


def test_the_ceiling_follows_what_was_measured() -> None:
    measured = predict_full(past(*full(1000)), 2000.0)
    assert tuned_ceiling(past(with_ratio(0.3, 500)), 0.15, measured) == 0.3
    assert tuned_ceiling(past(with_ratio(0.1, 2000)), 0.15, measured) == 0.05
    assert tuned_ceiling(past(with_ratio(0.04, 500), with_ratio(0.1, 2000)), 0.15, measured) == pytest.approx(0.07)
    assert tuned_ceiling(past(with_ratio(0.05, 500)), 0.15, measured) == 0.15
    assert tuned_ceiling(past(with_ratio(5.0, 500)), 0.15, measured) == 0.15, "a win above a whole table tells nothing"
    assert tuned_ceiling(past(with_ratio(0.95, 500)), 0.15, measured) == 0.8
    assert tuned_ceiling(past(with_ratio(0.001, 2000)), 0.15, measured) == 0.01


def test_the_ceiling_stays_while_full_is_only_estimated() -> None:
    assert tuned_ceiling(past(with_ratio(0.3, 500)), 0.15, Prediction(1000.0, "estimated")) == 0.15


def test_a_full_that_was_never_measured_makes_a_difference_that_the_first_load_did_not_make() -> None:
    load = Sample(Action.FULL, 3900.0, modelled=350.0)
    changes = (Sample(Action.DIFFERENTIAL, 4900.0, 508.0, rows=1271), Sample(Action.DIFFERENTIAL, 2350.0, 508.0, rows=1291))
    past = Past(changes, load, age_seconds=600.0)
    assert untried(past, 1276, 850.0, 500.0) is None
    assert untried(Past(changes, Sample(Action.FULL, 1200.0, modelled=350.0), 600.0), 1276, 850.0, 500.0) is not None


@pytest.mark.parametrize(
    ("anew", "own", "before", "part"),
    [(False, 100, 0, 400.0), (False, 100, 300, 100.0), (False, 0, 300, 0.0), (True, 100, 0, 0.0)],
    ids=["the whole tail", "a quarter of it", "nothing", "a base that nobody folds"],
)
def test_of_a_compaction_a_refresh_pays_for_its_own_rows(anew: bool, own: int, before: int, part: float) -> None:
    stages = (Stage("write", 50.0), Stage("compaction", 400.0))
    work: Any = SimpleNamespace(anew=anew, written=SimpleNamespace(rows=own), note=SimpleNamespace(tail_rows=before))
    assert noting._folding(work, stages) == part
    assert RefreshRecord("t", 2, Action.DIFFERENTIAL, "", stages=stages, fold_ms=part).work_ms == 50.0 + part
