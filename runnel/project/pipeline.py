"""A run in the words of Spark Declarative Pipelines: which tables are refreshed, which are computed anew, in which order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from runnel.definition import Definition
from runnel.errors import DefinitionError, RunnelError
from runnel.observe.record import Action, RefreshRecord
from runnel.project.names import Home
from runnel.schedule.graph import Graph

Result = RefreshRecord | dict[str, Any]


@dataclass(frozen=True)
class Selection:
    """What `--refresh`, `--full-refresh` and `--full-refresh-all` ask for; nothing means all, incrementally.

    >>> Selection.of(["a, b"], ["c"], False)
    Selection(refresh=('a', 'b'), full_refresh=('c',), full_refresh_all=False)
    """

    refresh: tuple[str, ...] = ()
    full_refresh: tuple[str, ...] = ()
    full_refresh_all: bool = False

    def __post_init__(self) -> None:
        for option, names in (("--refresh", self.refresh), ("--full-refresh", self.full_refresh)):
            if self.full_refresh_all and names:
                raise DefinitionError(f"--full-refresh-all and {option} exclude each other", code="SELECTION", hint="Keep one of the two.")
        if twice := sorted(set(self.refresh) & set(self.full_refresh)):
            raise DefinitionError(f"{', '.join(twice)} cannot be refreshed both ways", code="SELECTION", hint="Name it in one list.")

    @classmethod
    def of(cls, refresh: Collection[str], full_refresh: Collection[str], full_refresh_all: bool) -> Selection:
        """From options that may be repeated and hold several names with commas between."""
        return cls(_names(refresh), _names(full_refresh), full_refresh_all)

    def chosen(self, existing: Collection[str], home: Home) -> dict[str, bool]:
        """Name -> whether it is computed anew."""
        if self.full_refresh_all or not (self.refresh or self.full_refresh):
            return dict.fromkeys(existing, self.full_refresh_all)
        found: dict[str, bool] = {}
        for names, anew in ((self.refresh, False), (self.full_refresh, True)):
            for name in names:
                full = home.full(name.replace("`", "").split("."))
                if full not in existing:
                    raise DefinitionError(
                        f'"{name}" is not a table of the pipeline',
                        code="STREAM_TABLE_NOT_FOUND",
                        detail=f"Its tables are {', '.join(home.short(n) for n in sorted(existing))}." if existing else "It has no tables.",
                        hint="Use one of the names above.",
                    )
                found[full] = anew
        return found


def refresh_in_order(
    refresh: Callable[[str, bool], RefreshRecord],
    definitions: Mapping[str, Definition],
    anew: Collection[str] = (),
    say: Callable[[str], None] = lambda name: None,
) -> list[Result]:
    """One result for each stream table, sources before readers: its record or its error. A reader of one that failed is left as it is."""
    results: list[Result] = []
    broken: set[str] = set()
    for name in Graph({n: d.source_keys for n, d in definitions.items()}).order:
        say(name)
        if below := sorted(broken & set(definitions[name].source_keys)):
            broken.add(name)
            reason = f"{', '.join(below)} could not be refreshed"
            error = {"code": "SKIPPED", "message": reason, "detail": "", "hint": ""}
            results.append({"stream_table": name, "action": str(Action.SKIP), "error": error})
            continue
        try:
            results.append(refresh(name, name in anew))
        except RunnelError as error:
            if len(definitions) == 1:
                raise
            broken.add(name)
            results.append({"stream_table": name, "error": error.as_dict()})
    return results


def _names(options: Collection[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for option in options for name in option.split(",") if name.strip()))
