"""What the next refresh would cost either way, what past ones took, and which way AUTO takes: the decision with its numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from runnel.algebra import Facts
from runnel.differentiate import differentiate
from runnel.execute.cost import Estimate
from runnel.execute.engine import Engine
from runnel.execute.refresh import Work, decision, probe
from runnel.execute.weigh import Weighing, weigh
from runnel.observe.record import Action, RefreshRecord
from runnel.sources.facts import Kind, SourceFacts

SHOWN = 10
"""Past refreshes to show."""
ASSUMED = 0.01
"""The share of each source that is taken for changed when nothing is."""


@dataclass(frozen=True)
class CostExplanation:
    """Both estimates with their terms, the measured past, the ceiling, and the decision."""

    stream_table: str
    decision: str
    assumed: str
    ceiling: str
    ratio: float | None
    differential: Estimate | None
    full: Estimate | None
    predicted: dict[str, str]
    measured: tuple[RefreshRecord, ...]

    def as_dict(self) -> dict[str, Any]:
        shown = ("epoch", "action", "status", "rows_in", "ratio", "estimated_ms", "recompute_ms", "started_at")
        past = [{**{k: getattr(r, k) for k in shown}, "ms": round(r.work_ms, 1)} for r in self.measured]
        ways = {way: _terms(estimate) for way, estimate in (("differential", self.differential), ("full", self.full))}
        plain = {k: getattr(self, k) for k in ("stream_table", "decision", "assumed", "ceiling", "ratio", "predicted")}
        return {**plain, **ways, "measured": past}

    def __str__(self) -> str:
        lines = [f"{self.stream_table}: {self.decision}", f"ceiling: {self.ceiling}"]
        lines += [f"changed: {self.ratio:.2%} of the changed sources"] if self.ratio is not None else []
        lines += [self.assumed] if self.assumed else []
        for estimate in (self.differential, self.full):
            lines += _lines(estimate, self.predicted.get(str(estimate.action), "")) if estimate else []
        return "\n".join([*lines, "", "measured:", *map(_past, self.measured)])

    __repr__ = __str__


def explain_cost(engine: Engine, name: str) -> CostExplanation:
    """Walk the stages of a refresh up to the decision, without running or writing anything."""
    work = Work(engine, engine.backing(name), False, engine.jobs(name))
    probe(work)
    decision(work)
    assumed = ""
    weighing = work.weighing
    if work.decision.action is Action.NO_DATA:
        assumed = f"nothing changed; the costs are those of a change of {ASSUMED:.0%} in every source"
        weighing = _supposed(work)
    choice = weighing.choice if weighing else None
    return CostExplanation(
        stream_table=name,
        decision=str(work.decision),
        assumed=assumed,
        ceiling=str(weighing.ceiling) if weighing and weighing.ceiling else "none: there is one way only",
        ratio=weighing.weighed.ratio if weighing else None,
        differential=weighing.weighed.differential if weighing else None,
        full=weighing.weighed.full if weighing else None,
        predicted={str(Action.DIFFERENTIAL): str(choice.differential), str(Action.FULL): str(choice.full)} if choice else {},
        measured=tuple(engine.catalog.history(name, SHOWN)),
    )


def _supposed(work: Work) -> Weighing:
    """The costs of a small mixed change in every source, for a moment in which nothing changed."""
    definition, engine = work.backing.definition, work.engine
    facts: list[SourceFacts] = [
        replace(f, kind=Kind.MIXED, rows=None if (rows := work.sources[f.key].rows()) is None else int(rows * ASSUMED)) for f in work.facts
    ]
    every = Facts(frozenset((*definition.source_keys, *definition.clocks)), small=True)
    plan = differentiate(engine.root(definition), every, engine.settings.laws, engine.settings.off) if definition.incremental else None
    return weigh(engine, work.backing, work.note, facts, work.sources, plan)


def _terms(estimate: Estimate | None) -> dict[str, Any] | None:
    if estimate is None:
        return None
    return {"ms": round(estimate.ms, 1), "bytes": estimate.bytes, "rows": estimate.rows, "terms": [asdict(t) for t in estimate.terms]}


def _lines(estimate: Estimate, predicted: str) -> list[str]:
    rows = [f"  {t.ms:>9.0f} ms  {_bytes(t.bytes):>9}  {t.what}" for t in estimate.terms]
    total = f"{estimate.action}: model {estimate.ms:.0f} ms, {_bytes(estimate.bytes) or '0 B'}"
    return ["", total + (f"; predicted {predicted}" if predicted else ""), *rows]


def _past(record: RefreshRecord) -> str:
    size = "" if record.rows_in is None else f", {record.rows_in} changed rows"
    model = "" if record.estimated_ms is None else f", model {record.estimated_ms:.0f} ms"
    failed = "" if record.status == "COMPLETED" else f" {record.status}"
    return f"  epoch {record.epoch}: {record.action}{failed}, {record.work_ms:.0f} ms{model}{size}"


def _bytes(count: int) -> str:
    """Bytes as people read them.

    >>> _bytes(0), _bytes(900), _bytes(5 << 20)
    ('', '900 B', '5.0 MB')
    """
    if not count:
        return ""
    size = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TB"
