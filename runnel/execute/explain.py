"""Why a refresh does what it does: every border of the journey printed, up to the decision for the refresh that would run now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runnel.algebra import Face, Facts
from runnel.bind import bind
from runnel.differentiate import differentiate, recompute
from runnel.errors import RunnelError
from runnel.execute.engine import Engine
from runnel.execute.prepare import rebind
from runnel.execute.refresh import STAGES, STORED, Work, changes, decision, plan, probe
from runnel.observe.record import Action
from runnel.passes import Pass
from runnel.sources.facts import SourceFacts

BORDERS = ("definition", "rewrites", "tree", "canonical", "layout", "facts", "decision", "plan", "reading", "stages")


@dataclass(frozen=True)
class Explanation:
    """Text per border, in the order of the journey."""

    stream_table: str
    borders: dict[str, str]

    def __str__(self) -> str:
        return "\n\n".join(f"== {title} ==\n{text}" for title, text in self.borders.items() if text)

    __repr__ = __str__

    def as_dict(self) -> dict[str, Any]:
        return {"stream_table": self.stream_table, **self.borders}


def explain(engine: Engine, name: str, trace: bool = False) -> Explanation:
    """Walk the stages of a refresh up to the plan, without running or writing anything."""
    backing = engine.backing(name)
    definition = backing.definition
    work = Work(engine, backing, False, engine.jobs(name))
    borders = {"definition": str(definition), "layout": str(definition.layout)}
    try:
        if definition.incremental:
            passes: list[Pass] = []
            tree, root = rebind(definition, engine.lookup(), engine.settings, passes)
            borders |= {"tree": str(tree), "canonical": str(root.maintained) if root.layout.kind == "rows" else f"maintained:\n{root.maintained}"}
            if trace:
                rewrites: list[Pass] = []
                bind(definition.text, engine.lookup(), trace=rewrites)
                borders |= {"rewrites": "\n".join(map(str, rewrites)), "canonical": "\n".join(map(str, passes))}
        for stage in (probe, changes, decision, plan):
            stage(work)
        borders["facts"] = "\n".join(map(str, work.facts))
        borders["decision"] = str(work.decision)
        borders["plan"] = _plan(engine, work)
    except RunnelError as error:
        borders["decision"] = f"the next refresh fails: {error}"
    borders["reading"] = _reading(engine, work)
    borders["stages"] = " -> ".join(s.__name__ for s in STAGES)
    return Explanation(name, {b: borders[b] for b in BORDERS if b in borders})


def _plan(engine: Engine, work: Work) -> str:
    """The SQL that would run; when nothing changed, the one that a change in every source would run."""
    if work.plan is not None:
        return str(work.plan)
    definition = work.backing.definition
    if not definition.incremental:
        return f"query(after){'' if work.anew else ' - stored content'}, where the query is\n{definition.sql}"
    if work.decision.action is not Action.NO_DATA:
        return str(recompute(engine.root(definition), None if work.anew else STORED))
    every = Facts(frozenset((*definition.source_keys, *definition.clocks)))
    return f"-- nothing to do now; a mixed change in every source would run:\n{differentiate(engine.root(definition), every, engine.settings.laws, engine.settings.off)}"


def _reading(engine: Engine, work: Work) -> str:
    settings = engine.settings
    lines = [
        f"connector: {'kernel, in a session of its own' if settings.kernel_reads else 'default'}",
        f"commits: {'written by Spark as Parquet, committed by delta-rs' if work.direct else 'by the writer of Delta Lake'}",
    ]
    if work.replaces:
        lines.append("what is computed takes the place of what is stored: no stream table waits for the difference")
    if work.plan is not None and len(work.plan.parts) > 1:
        lines.append(f"steps computed once and shared: {', '.join(p.name for p in work.plan.parts[:-1])}")
    faces = {(i.source, i.face) for i in work.plan.inputs} if work.plan else set()
    for fact in work.facts:
        if fact.changed and (fact.key, Face.CHANGE) in faces:
            lines.append(f"change of {fact.key}: {_way(fact)}")
    for want in sorted({i.want for i in work.plan.inputs if i.want.within} if work.plan else set(), key=str):
        columns = ", ".join(w.column for w in want.within)
        lines.append(f"{want.face} of {want.source}: only files that may hold the changed values of {columns}")
    if work.decision.action is Action.DIFFERENTIAL:
        lines += [f"gathered once for several steps: {g}" for g in work.gatherings]
    return "\n".join(lines)


def _way(fact: SourceFacts) -> str:
    return f"read from its {fact.via}" if fact.net is None else f"at hand, {fact.net} rows in the columns that are read"
