"""What to do so that the catalog has what the files say: a pure comparison, which `--dry-run` prints and `apply` follows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from runnel.definition import Definition
from runnel.errors import DefinitionError
from runnel.project.clauses import changes, said
from runnel.project.declare import Declarations, Declared, Source, at
from runnel.project.names import same_query
from runnel.schedule.graph import Graph


class Verb(StrEnum):
    """What happens to one table."""

    ENSURE = "ensure"
    """A source is made if it is not there."""
    CREATE = "create"
    ALTER = "alter options"
    REPLACE = "replace query"
    UNCHANGED = "unchanged"
    PRUNE = "prune"


@dataclass(frozen=True)
class Step:
    """One thing to do. `options` are all that are wanted, `changed` those that an existing table has otherwise."""

    verb: Verb
    name: str
    why: str = ""
    declared: Declared | None = None
    source: Source | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    changed: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)

    @property
    def acts(self) -> bool:
        return self.verb is not Verb.UNCHANGED

    def as_dict(self) -> dict[str, Any]:
        place = (self.declared or self.source).place if self.declared or self.source else None  # type: ignore[union-attr]
        found = {
            "step": str(self.verb),
            "name": self.name,
            "why": self.why,
            "file": place.file if place else None,
            "line": place.line if place else None,
        }
        return {**found, "changed": {k: [_plain(a), _plain(b)] for k, (a, b) in self.changed.items()}}

    def __str__(self) -> str:
        return f"{self.verb:13} {self.name}{f' ({self.why})' if self.why else ''}"


@dataclass(frozen=True)
class Plan:
    """The steps in the order in which they run."""

    steps: tuple[Step, ...]

    @property
    def empty(self) -> bool:
        """Nothing to do: a schema comes into being with its first table."""
        return not any(s.acts for s in self.steps if not (s.source and s.source.kind == "schema"))

    def of(self, *verbs: Verb) -> tuple[Step, ...]:
        return tuple(s for s in self.steps if s.verb in verbs)

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps)) or "nothing is defined"


def plan(
    wanted: Declarations,
    existing: Mapping[str, Definition],
    prune: bool = False,
    present: Collection[str] = (),
    defaults: Mapping[str, Any] | None = None,
) -> Plan:
    """`existing` are the stream tables of the catalog, `present` the keys of source tables that are known to be there."""
    steps = [_ensure(source, present) for source in wanted.sources]
    steps += [_step(declared, existing.get(declared.name), wanted, defaults or {}) for declared in wanted.stream_tables]
    return Plan((*steps, *(_pruned(wanted, existing) if prune else ())))


def _ensure(source: Source, present: Collection[str]) -> Step:
    there = source.kind == "table" and source.name in present
    return Step(Verb.UNCHANGED if there else Verb.ENSURE, source.name, f"{source.kind}", source=source)


def _step(declared: Declared, old: Definition | None, wanted: Declarations, defaults: Mapping[str, Any]) -> Step:
    options = said(declared.statement, defaults)
    if old is None:
        return Step(Verb.CREATE, declared.name, declared=declared, options=options)
    changed = changes(options, old)
    with at(declared.query_place):
        same = same_query(declared.statement.query, wanted.home, old)
    verb = Verb.REPLACE if not same else Verb.ALTER if changed else Verb.UNCHANGED
    why = "; ".join(f"{option} {_shown(was)} -> {_shown(shall)}" for option, (was, shall) in changed.items())
    return Step(verb, declared.name, why, declared=declared, options=options, changed=changed)


def _pruned(wanted: Declarations, existing: Mapping[str, Definition]) -> list[Step]:
    """Readers go before what they read."""
    kept = {d.name: d for d in wanted.stream_tables}
    gone = [name for name in existing if name not in kept]
    for name in gone:
        for reader in (d for d in kept.values() if name in d.reads):
            with at(reader.place):
                raise DefinitionError(
                    f'"{wanted.home.short(reader.name)}" reads "{wanted.home.short(name)}", which would be pruned',
                    code="HAS_READERS",
                    detail=f"{name} is a stream table that no file of the project defines.",
                    hint="Define it in the project (`runnel export` writes its definition), or leave --prune out.",
                )
    order = Graph({name: existing[name].source_keys for name in gone}).order
    return [Step(Verb.PRUNE, name, "no file defines it") for name in reversed(order)]


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k} = {v}" for k, v in sorted(value.items())) + "}"
    return f"{value}" if str(value) else "none"


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else None if value is None else str(value)
