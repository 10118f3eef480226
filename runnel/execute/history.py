"""What past refreshes of one stream table say about the next: measured times, robust against a slow afternoon.

Only executed refreshes count. One that failed is no sample, and one that ran as FULL is a sample of FULL whatever was
planned. Everything is medians: one outlier moves nothing, and after a change of pace the median follows within five samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from statistics import median, median_low

from runnel.observe.record import Action, RefreshRecord

WINDOW = 50
"""Records looked at: what lies further back was another table."""
RECENT = 5
"""Samples of one kind that make up a median, so that half of them carry a change of pace."""
ENOUGH = 5
"""Samples before a prediction is made from them."""
SETTLED_SECONDS = 60.0
"""Age of a stream table before its times count: caches and compilers are cold at first."""
BOUNDS = (0.5, 4.0)
"""No prediction strays further from the last FULL than this."""
FAR = 3.5
"""Deviations from the median, in units of a robust standard deviation, that make an outlier."""
ALIKE = 2.0
"""Changes whose sizes differ by less than this factor are compared with each other."""
SLOWER, SLACK_MS = 1.1, 100.0
"""What counts as slower: a tenth, and more than a busy machine adds to anything."""
COLD_MS = 2000.0
"""The same where the first load stands in for FULL: it subtracts nothing, so it says little about moments."""
WARMER = 2.0
"""A first load often runs cold: what it did may take half of its time when it is done again."""
WORTH_ASKING_MS = 1000.0
"""A refresh that takes as long as this is worth one FULL to compare with."""
NEARLY = 0.7
"""The share of what FULL takes at most from which on asking costs little: one refresh that is half as long again."""
RETRY_COST, RETRY_AFTER = 0.1, 10
"""What measuring the slower way again may cost, as a share of all refreshes, and how many of them pass at least."""
DOUBTFUL = 3.0
"""A single sample this far above its estimate may be an accident and is asked again after `RECENT` refreshes."""
CEILINGS = (0.01, 0.8)
"""Between these the ceiling is tuned."""


@dataclass(frozen=True)
class Sample:
    """One executed refresh: what it took, what the model said, and how large the change was."""

    action: Action
    ms: float
    modelled: float | None = None
    rows: int | None = None
    ratio: float | None = None


@dataclass(frozen=True)
class Prediction:
    """Milliseconds, and on what they rest. `measured` tells a median of samples from a model."""

    ms: float
    basis: str
    measured: bool = False

    def __str__(self) -> str:
        return f"{self.ms:.0f} ms ({self.basis})"


@dataclass(frozen=True)
class Loss:
    """DIFFERENTIAL took longer than FULL for a change like this one."""

    ms: float
    full_ms: float
    rows: int | None
    retry_in: int


@dataclass(frozen=True)
class Untried:
    """DIFFERENTIAL took `ms`, and nobody knows whether FULL takes as little as `full_ms`, or less."""

    ms: float
    full_ms: float


@dataclass(frozen=True)
class Past:
    """Samples from old to new. The first load is apart: it subtracts nothing, and it often runs cold."""

    samples: tuple[Sample, ...] = ()
    first_load: Sample | None = None
    age_seconds: float = 0.0

    def of(self, action: Action) -> list[Sample]:
        return [s for s in self.samples if s.action is action]

    @property
    def last(self) -> Action | None:
        """The way taken last."""
        return self.samples[-1].action if self.samples else None

    @property
    def settled(self) -> bool:
        return self.age_seconds >= SETTLED_SECONDS


def past_of(records: Iterable[RefreshRecord], created_at: str, now: datetime) -> Past:
    """The samples in a stream table's records, which come newest first."""
    samples: list[Sample] = []
    first = None
    for record in reversed(list(records)):
        sample = _sample(record)
        if sample is None:
            continue
        if record.epoch <= 1:
            first = sample
        else:
            samples.append(sample)
    return Past(tuple(samples), first, _age(created_at, now))


def _sample(record: RefreshRecord) -> Sample | None:
    """A record as a sample; compaction and waiting are no part of what the action cost."""
    took = record.work_ms
    if record.status != "COMPLETED" or took <= 0 or record.action not in (Action.DIFFERENTIAL, Action.FULL, Action.REINITIALIZE):
        return None
    action = Action.DIFFERENTIAL if record.action is Action.DIFFERENTIAL else Action.FULL
    return Sample(action, took, record.estimated_ms, record.rows_in, record.ratio)


def _age(created_at: str, now: datetime) -> float:
    try:
        return (now - datetime.fromisoformat(created_at)).total_seconds()
    except (TypeError, ValueError):
        return 0.0


def predict_full(past: Past, modelled: float, modelled_difference: float = 0.0) -> Prediction:
    """The median of the last FULLs, each grown as the model says the tables grew; before the first of them, the model, at the pace of
    measured DIFFERENTIALs: on a busy machine a FULL takes longer too.

    The first load bounds the model from above: it read all that a FULL reads. It also bounds a pace that makes FULL look cheap: small
    refreshes that start their jobs fast say little about what it takes to read and group whole tables.
    """
    measured = _regular(past.of(Action.FULL))[-RECENT:]
    if measured:
        return Prediction(median(_grown(s, modelled) for s in measured), f"measured, {len(measured)} of them", measured=True)
    changes = _enough(past)
    estimate = modelled * (_pace(changes) if changes else 1.0)
    if past.first_load is not None and estimate < modelled:
        warm = _grown(past.first_load, modelled - modelled_difference) / WARMER + modelled_difference
        estimate = max(estimate, min(modelled, warm))
    if past.first_load is not None and (bound := _grown(past.first_load, modelled)) < estimate:
        return Prediction(bound, "as the first load")
    return Prediction(estimate, "estimated")


def predict_differential(past: Past, modelled: float) -> Prediction:
    """What DIFFERENTIAL will take, from its own samples where there are enough, else from the model at the pace of the FULLs.

    Samples of different sizes give a line from modelled to measured time. Samples of one size say nothing about another,
    so there is no line through them: the model is scaled to their median.
    """
    samples = _enough(past)
    if not samples:
        return Prediction(modelled * _pace(_regular(past.of(Action.FULL))), "estimated")
    line = _line([(s.modelled or 0.0, s.ms) for s in samples])
    if line is None:
        factor = median(s.ms / (s.modelled or 1.0) for s in samples[-RECENT:])
        return Prediction(_bounded(past, modelled * factor), f"measured, {len(samples)} of one size", measured=True)
    slope, rest = line
    return Prediction(_bounded(past, slope * modelled + rest), f"measured, {len(samples)} of several sizes", measured=True)


def lost(past: Past, changed_rows: int | None, modelled_full: float, modelled_differential: float = 0.0) -> Loss | None:
    """Whether DIFFERENTIAL was slower than FULL for changes like this one, or for smaller ones.

    Against a FULL that was measured one sample is enough. The first load, which is no FULL of the usual kind, needs a second
    witness: another sample, the model, or a factor that leaves no doubt; a time far above its estimate is doubtful itself.

    Its cost follows the change, so a change of less than half the size is a new question. So is the same change once
    enough refreshes went by that one slow answer costs less than a tenth of them.
    """
    reference = _measured_full(past, modelled_full)
    samples = _evidence(_regular(past.of(Action.DIFFERENTIAL)), changed_rows)
    if reference is None or not samples:
        return None
    took = median_low(s.ms for s in samples)  # of two, one slow and one fast, the fast one stands
    seconded = modelled_differential > SLOWER * modelled_full or took > ALIKE * reference.ms
    certain = reference.measured or len(samples) > 1 or (seconded and not _doubtful(samples))
    if not certain or took <= SLOWER * reference.ms + (SLACK_MS if reference.measured else COLD_MS):
        return None
    left = _patience(samples, took / reference.ms) - _fulls_since(past, samples[-1])
    return Loss(took, reference.ms, samples[-1].rows, left) if left > 0 else None


def untried(past: Past, changed_rows: int | None, modelled_full: float, modelled_difference: float = 0.0) -> Untried | None:
    """Whether FULL was never measured although it may well be the faster way: by the model, which knows no pace, or by the first load; but not
    faster than half of the first load and the difference to what is stored, which that did not make. Or DIFFERENTIAL takes nearly as long as
    the whole first load and the difference, so that asking costs next to nothing.

    A model that takes both ways for faster than they are, and a first load that ran cold, hide that for good; one FULL settles it. A first
    DIFFERENTIAL far above its estimate may have run cold too and says nothing yet.
    """
    samples = _evidence(_regular(past.of(Action.DIFFERENTIAL)), changed_rows)
    if past.of(Action.FULL) or not samples or not past.settled or _doubtful(samples):
        return None
    took = median_low(s.ms for s in samples)
    likely = modelled_full
    if past.first_load is not None:
        cold = _grown(past.first_load, modelled_full - modelled_difference)
        likely = max(min(modelled_full, cold), cold / WARMER + modelled_difference)
        if took > max(WORTH_ASKING_MS, NEARLY * (cold + modelled_difference)):
            return Untried(took, min(likely, cold + modelled_difference))
    return Untried(took, likely) if took > WORTH_ASKING_MS and took > SLOWER * likely + SLACK_MS else None


def tuned_ceiling(past: Past, ceiling: float, full: Prediction) -> float:
    """The ceiling moved to where this table's own DIFFERENTIALs won or lost against its measured FULL."""
    if not full.measured:
        return ceiling
    ratios = [(s.ratio, s.ms) for s in _regular(past.of(Action.DIFFERENTIAL)) if s.ratio is not None]
    losses = [r for r, ms in ratios if ms > SLOWER * full.ms + SLACK_MS]
    wins = [r for r, ms in ratios if ms < full.ms / SLOWER and r < min(losses, default=1.0)]
    low, high = CEILINGS
    if losses and min(losses) < ceiling:
        return max(low, (min(losses) + max(wins, default=0.0)) / 2)
    return min(high, max([ceiling, *wins]))


def _regular(samples: Sequence[Sample]) -> list[Sample]:
    """The last samples without outliers: measured by modelled time, judged by median and median absolute deviation.

    Nine of them, so that the five newest are the majority and a new pace is not taken for a row of outliers.
    """
    samples = samples[-(2 * RECENT - 1) :]
    if len(samples) < ENOUGH:
        return list(samples)
    paces = [s.ms / (s.modelled or 1.0) for s in samples]
    middle = median(paces)
    # The floor keeps a row of nearly equal samples from calling the next one an outlier.
    spread = max(1.4826 * median(abs(p - middle) for p in paces), 0.1 * middle)
    return [s for s, p in zip(samples, paces, strict=True) if abs(p - middle) <= FAR * spread]


def _line(points: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """Slope and rest by the medians of Theil and Sen, or None when all points lie at one place."""
    xs = [x for x, _ in points]
    if max(xs) - min(xs) < 0.1 * median(xs):
        return None
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for i, a in enumerate(points) for b in points[i + 1 :] if abs(b[0] - a[0]) > 1e-9]
    slope = max(0.0, median(slopes))
    return slope, median(y - slope * x for x, y in points)


def _enough(past: Past) -> list[Sample]:
    """The DIFFERENTIALs to predict from, or none while there are too few or the table is too young."""
    samples = [s for s in _regular(past.of(Action.DIFFERENTIAL)) if s.modelled]
    return samples if len(samples) >= ENOUGH and past.settled else []


def _pace(samples: Sequence[Sample]) -> float:
    """Measured by modelled time of one way: how fast this machine is, so that for the other a model is compared with a model."""
    paces = [s.ms / s.modelled for s in samples[-RECENT:] if s.modelled]
    low, high = BOUNDS
    return min(max(median(paces), low), high) if paces else 1.0


def _bounded(past: Past, ms: float) -> float:
    """Within the bounds around the last FULL. A first load, often cold, bounds from above only."""
    low, high = BOUNDS
    fulls = past.of(Action.FULL)
    if fulls:
        return min(max(ms, low * fulls[-1].ms), high * fulls[-1].ms)
    return min(ms, high * past.first_load.ms) if past.first_load is not None else max(ms, 0.0)


def _grown(sample: Sample, modelled: float) -> float:
    return sample.ms * modelled / sample.modelled if sample.modelled else sample.ms


def _measured_full(past: Past, modelled: float) -> Prediction | None:
    """What FULL took. Until there was one, the first load stands in for it."""
    if past.of(Action.FULL):
        return predict_full(past, modelled)
    return Prediction(_grown(past.first_load, modelled), "first load") if past.first_load is not None else None


def _evidence(samples: Sequence[Sample], rows: int | None) -> list[Sample]:
    """The last samples of changes of like size, else the last one of a smaller change."""
    if rows is None:
        return list(samples[-RECENT:])
    alike = [s for s in samples if s.rows is None or s.rows / ALIKE <= rows <= s.rows * ALIKE]
    return alike[-RECENT:] or [s for s in samples if s.rows is not None and s.rows < rows][-1:]


def _patience(samples: Sequence[Sample], times_slower: float) -> int:
    """FULLs to run before DIFFERENTIAL is tried again."""
    needed = max(RETRY_AFTER, ceil((times_slower - 1.0) / RETRY_COST))
    return RECENT if _doubtful(samples) else needed


def _doubtful(samples: Sequence[Sample]) -> bool:
    only = samples[0]
    return len(samples) == 1 and only.modelled is not None and only.ms > DOUBTFUL * only.modelled


def _fulls_since(past: Past, sample: Sample) -> int:
    found = max(i for i, s in enumerate(past.samples) if s is sample)
    return len(past.samples) - 1 - found
