"""`runnel.lock`: how each definition of a project is maintained, so that a change that makes one slower is seen in review."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from runnel.algebra.aggregate import Aggregate
from runnel.algebra.functions import function_name
from runnel.definition import Definition
from runnel.differentiate import Root
from runnel.errors import DefinitionError


@dataclass(frozen=True)
class Classification:
    """How one definition is maintained. `reason` says why it is not incremental; `aggregates` how each function is kept."""

    incremental: bool
    reason: str = ""
    mode: str = "AUTO"
    layout: str = "rows"
    aggregates: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    @property
    def silently_full(self) -> bool:
        """It would be recomputed at each refresh although nobody asked for that."""
        return not self.incremental and self.mode != "FULL"

    @classmethod
    def of(cls, definition: Definition, root: Root | None = None) -> Classification:
        nodes = root.maintained.walk() if root is not None else ()
        kept = {
            f"{function_name(call.expression).upper()}: {rule.kind}"
            for node in nodes
            if isinstance(node, Aggregate)
            for call, rule in zip(node.calls, node.rules, strict=True)
        }
        sources = (*definition.source_keys, *definition.clocks)
        return cls(definition.incremental, definition.refused, str(definition.mode), definition.layout.kind, tuple(sorted(kept)), sources)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Classification:
        values: dict[str, Any] = {f.name: data[f.name] for f in fields(cls) if f.name in data}
        values.update({key: tuple(value) for key, value in values.items() if isinstance(value, list)})
        return cls(**values)


def write(classes: Mapping[str, Classification]) -> str:
    """The text of the lockfile."""
    return json.dumps({"version": 1, "definitions": {name: asdict(classes[name]) for name in sorted(classes)}}, indent=2) + "\n"


def read(file: Path) -> dict[str, Classification] | None:
    """What the lockfile says, or None when there is none."""
    if not file.is_file():
        return None
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        return {name: Classification.from_dict(found) for name, found in data["definitions"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DefinitionError(
            f"cannot read {file.name}", code="LOCK", detail=f"{file}: {error}.", hint="Write it anew with `runnel check --update`."
        ) from error


def difference(locked: Mapping[str, Classification], found: Mapping[str, Classification]) -> list[str]:
    """What changed, one line for each fact.

    >>> difference({"a": Classification(True), "b": Classification(True)}, {"a": Classification(False, "a sample"), "c": Classification(True)})
    ['a: incremental yes -> no', 'a: reason none -> a sample', 'b: no longer defined', 'c: not in the lockfile']
    """
    lines: list[str] = []
    for name in sorted({*locked, *found}):
        if name not in found:
            lines.append(f"{name}: no longer defined")
        elif name not in locked:
            lines.append(f"{name}: not in the lockfile")
        else:
            was, now = asdict(locked[name]), asdict(found[name])
            lines += [f"{name}: {key} {_shown(was[key])} -> {_shown(now[key])}" for key in was if was[key] != now[key]]
    return lines


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) or "none" if isinstance(value, tuple) else str(value) or "none"
