"""The words of an operator: gates, watermarks, suspending and resuming, the pause, fuses. A running daemon hears them within a moment.

None of them needs Spark; all are kept in the catalog, so they hold for every daemon and outlive each.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from runnel.errors import DefinitionError, Transient
from runnel.execute.engine import Engine
from runnel.execute.standing import leader
from runnel.schedule.duration import parse_duration
from runnel.schedule.fuse import VERDICTS
from runnel.schedule.run_state import RunState, Trouble, resumed
from runnel.schedule.watermarks import WatermarkGroup
from runnel.state.schedules import Gate, Watermark


def gate_source(engine: Engine, source: str, note: str = "") -> None:
    """Let scheduled refreshes read nothing new of a source, as while it is being loaded."""
    _check_source(engine, source)
    engine.catalog.schedules.close_gate(Gate(source, _now(), note))


def ungate_source(engine: Engine, source: str) -> bool:
    """Whether it was gated."""
    return engine.catalog.schedules.open_gate(source)


def gates(engine: Engine) -> list[dict[str, Any]]:
    """The gated sources, with the stream tables that wait for each."""
    graph = engine.graph()
    return [
        {"source": g.source, "since": g.since, "note": g.note, "readers": sorted(graph.downstream(g.source))}
        for g in engine.catalog.schedules.gates().values()
    ]


def advance_watermark(engine: Engine, source: str, moment: datetime | str) -> bool:
    """Say up to which moment of its data a source is loaded; False when that was known. A time without a zone is UTC."""
    _check_source(engine, source)
    try:
        given = moment if isinstance(moment, datetime) else datetime.fromisoformat(moment)
    except ValueError:
        raise DefinitionError(f'"{moment}" is no time', code="WATERMARK", hint="Write it as 2026-01-31T12:00:00+00:00.") from None
    zoned = given if given.tzinfo is not None else given.replace(tzinfo=UTC)
    return engine.catalog.schedules.advance(Watermark(source, zoned, _now()))


def create_watermark_group(engine: Engine, name: str, sources: Iterable[str], tolerance: float | str = 0.0) -> WatermarkGroup:
    """Let stream tables wait that read two or more of these sources, while their watermarks are further apart than `tolerance`."""
    chosen = tuple(dict.fromkeys(sources))
    if len(chosen) < 2:
        raise DefinitionError(f'watermark group "{name}" needs two sources or more', code="WATERMARK", hint="Name the sources to keep together.")
    for source in chosen:
        _check_source(engine, source)
    seconds = parse_duration(tolerance) if isinstance(tolerance, str) else float(tolerance)
    if seconds is None or seconds < 0:
        raise DefinitionError(f'"{tolerance}" is no tolerance', code="WATERMARK", hint="Give seconds, or a duration such as 5m.")
    group = WatermarkGroup(name, chosen, seconds)
    engine.catalog.schedules.put_group(group)
    return group


def drop_watermark_group(engine: Engine, name: str) -> None:
    if not engine.catalog.schedules.drop_group(name):
        known = ", ".join(engine.catalog.schedules.groups())
        raise DefinitionError(
            f'watermark group "{name}" does not exist',
            code="WATERMARK",
            detail=f"Groups are {known}." if known else "There are none.",
            hint="Check the name.",
        )


def watermarks(engine: Engine) -> dict[str, Any]:
    """The watermarks, and the groups with the reason why their readers wait, if they do."""
    schedules = engine.catalog.schedules
    marks = schedules.watermarks()
    moments = {s: m.moment for s, m in marks.items()}
    return {
        "watermarks": [{"source": m.source, "moment": m.moment.isoformat(), "advanced_at": m.advanced_at} for m in marks.values()],
        "groups": [
            {"name": g.name, "sources": list(g.sources), "tolerance_seconds": g.tolerance, "aligned": not (why := g.apart(moments)), "reason": why}
            for g in schedules.groups().values()
        ],
    }


def suspend(engine: Engine, name: str, reason: str = "") -> None:
    """Keep the scheduler from refreshing a stream table until it is resumed; asking for a refresh still works."""
    engine.backing(name)
    trouble = Trouble(reason or "suspended by an operator", _now(), hint=f"Run `runnel resume {name}`.", by="user")
    engine.catalog.schedules.change(name, lambda state: replace(state, suspended=state.suspended or trouble))


def resume(engine: Engine, name: str) -> bool:
    """Let the scheduler try a stream table again; whether it was suspended or in trouble."""
    engine.backing(name)
    before = engine.catalog.schedules.state(name)
    engine.catalog.schedules.change(name, resumed)
    return before.suspended is not None or before.failures > 0


def pause(engine: Engine) -> None:
    """Let no daemon start anything; what runs is finished."""
    engine.catalog.schedules.pause(_now())


def unpause(engine: Engine) -> bool:
    """Whether it was paused."""
    return engine.catalog.schedules.unpause()


def drain(engine: Engine, timeout: float) -> None:
    """Pause, and wait until nothing runs any more, as before maintenance."""
    pause(engine)
    asked = engine.catalog.schedules.revision()
    give_up_at = time.monotonic() + timeout
    while (found := leader(engine)) is not None and not (found.get("revision", -1) >= asked and not found.get("running")):
        if time.monotonic() >= give_up_at:
            raise Transient(
                f"not drained within {timeout:g} s",
                code="NOT_DRAINED",
                detail=f"Still running: {', '.join(found.get('running', ())) or 'the daemon has not answered'}. Nothing new is started.",
                hint="Wait and call drain again, or resume.",
            )
        time.sleep(0.1)


def reset_fuse(engine: Engine, name: str, verdict: str) -> None:
    """Decide about a change that blew a fuse: apply it, compute the table anew, or skip it until a source commits again."""
    chosen = {"reinitialize": "reinitialise"}.get(verdict, verdict)
    if chosen not in VERDICTS:
        raise DefinitionError(f'"{verdict}" is no verdict on a fuse', code="FUSE", hint=f"Use one of {', '.join(VERDICTS)}.")
    engine.backing(name)

    def decided(state: RunState) -> RunState:
        if state.blown is None:
            raise DefinitionError(f'the fuse of "{name}" has not blown', code="FUSE", hint="See `runnel status` for those that have.")
        return replace(state, blown=replace(state.blown, verdict=chosen))

    engine.catalog.schedules.change(name, decided)


def fuses(engine: Engine) -> list[dict[str, Any]]:
    """The fuses that blew."""
    return [
        {"stream_table": n, "rows": s.blown.rows, "ceiling": s.blown.ceiling, "at": s.blown.at, "verdict": s.blown.verdict}
        for n, s in sorted(engine.catalog.schedules.states().items())
        if s.blown is not None
    ]


def _check_source(engine: Engine, source: str) -> None:
    graph = engine.graph()
    if source in graph.plain:
        return
    if source in graph.reads:
        raise DefinitionError(
            f'"{source}" is a stream table', code="SOURCE", hint=f"Suspend it instead, with ALTER STREAM TABLE {source} SUSPEND, or name its sources."
        )
    raise DefinitionError(
        f'no stream table reads "{source}"',
        code="SOURCE",
        detail=f"Sources are {', '.join(graph.plain)}." if graph.plain else "There are no stream tables yet.",
        hint="Check the name.",
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
