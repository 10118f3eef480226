"""A plan is carried out, step by step; what was done stays done when a later step fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from runnel.errors import DefinitionError, RunnelError
from runnel.observe.record import RefreshRecord
from runnel.project.declare import at
from runnel.project.plan import Plan, Step, Verb


class Verbs(Protocol):
    """What `apply` asks of a connection. `create` and `alter` take the options of `clauses.py` by name."""

    @property
    def sql(self) -> Callable[[str], Any]: ...
    @property
    def create(self) -> Callable[..., RefreshRecord | None]: ...
    @property
    def alter(self) -> Callable[..., Any]: ...
    @property
    def drop(self) -> Callable[..., Any]: ...


@dataclass(frozen=True)
class Done:
    """One step that was carried out, with the record of the load where there was one."""

    step: Step
    record: RefreshRecord | None = None

    def as_dict(self) -> dict[str, Any]:
        return {**self.step.as_dict(), "record": self.record.as_dict() if self.record else None}


def apply(verbs: Verbs, plan: Plan, tell: Callable[[Step], None] = lambda step: None) -> list[Done]:
    """Carry out a plan; `tell` hears of each step before it begins. An error names the place in the file, and has in `values["done"]` what was carried out before."""
    done: list[Done] = []
    for step in plan.steps:
        if not step.acts:
            continue
        tell(step)
        try:
            done.append(Done(step, _run(verbs, step)))
        except RunnelError as error:
            error.values["done"] = done
            raise
    return done


def _run(verbs: Verbs, step: Step) -> RefreshRecord | None:
    if step.verb is Verb.PRUNE:
        verbs.drop(step.name)
        return None
    if step.source is not None:
        with at(step.source.place):
            verbs.sql(step.source.text)
        return None
    declared = step.declared
    assert declared is not None, step
    if step.verb is Verb.ALTER:
        with at(declared.place):
            verbs.alter(step.name, **_altered(step))
        return None
    with at(declared.query_place):
        try:
            return verbs.create(step.name, declared.statement.query, replace=step.verb is Verb.REPLACE, **step.options)
        except RunnelError:
            raise
        except Exception as error:  # Spark's own, about a row that it met
            said = " ".join(str(error).split())[:400] or type(error).__name__
            raise DefinitionError(
                f'"{step.name}" could not be loaded', code="LOAD_FAILED", detail=f"{said}.", hint="Correct the query, or the data that it reads."
            ) from error


def _altered(step: Step) -> dict[str, Any]:
    """The options to change. Properties are altered one by one, so those that shall go are named."""
    altered = {option: wanted for option, (_, wanted) in step.changed.items()}
    if "properties" in altered:
        was, wanted = step.changed["properties"]
        altered["unset"] = sorted(was.keys() - wanted.keys())
    return altered
