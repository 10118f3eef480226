"""Every setting of Runnel: type, default and one reason to change it. `docs/settings.md` is generated from here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from runnel.errors import DefinitionError


def setting(default: Any, reason: str) -> Any:
    """Declare a setting together with the one reason a user would change it."""
    return field(default=default, metadata={"reason": reason})


OF_PLANS = (
    "both_faces",
    "broadcasts",
    "insert_only",
    "key_bounds",
    "keys_at_hand",
    "later_rows",
    "light_first",
    "merged_results",
    "met_groups",
    "one_partner",
    "sieves",
    "sums_once",
)
"""Ways to a smaller change plan."""
OPTIMISATIONS = (
    "clustered_base",
    "gathered_rows",
    "held_changes",
    "near_files",
    "noted_forms",
    "replaced_content",
    "rows_here",
    "shared_reads",
    "shared_steps",
    "sized_jobs",
    *OF_PLANS,
)
"""What may be switched off by name without changing any result."""


@dataclass(frozen=True)
class Settings:
    """Values for one connection, from keyword arguments or `RUNNEL_<NAME>` environment variables.

    >>> Settings().kernel_reads
    True
    """

    kernel_reads: bool = setting(True, "Turn off when a source needs a Delta feature that the kernel connector cannot read yet.")
    direct_commits: bool = setting(True, "Turn off when only Spark holds the storage credentials; Delta's own writer then makes the commits.")
    direct_change_files: bool = setting(
        True, "Turn off to read every source change through Delta's change feed reader instead of the files that its commits name."
    )
    enable_change_feed: bool = setting(
        True, "Turn off when Runnel must not alter source tables; changes are then the difference of the rewritten files."
    )
    compact_tail_ratio: float = setting(
        0.2, "Raise to compact less often, lower for faster reads: compaction starts when the tail exceeds this share of the base."
    )
    compact_tail_files: int = setting(50, "Raise to compact less often when refreshes are tiny and frequent.")
    vacuum_hours: float = setting(168.0, "Lower to free storage sooner; queries that run longer than this may lose their files to `vacuum`.")
    history_days: float = setting(90.0, "Lower when the history of very many refreshes takes too much room; older records are forgotten.")
    differential_ceiling: float = setting(
        0.15,
        "Raise when changes are large and still faster to apply: above this changed share of the sources, AUTO presumes that recompute is faster.",
    )
    lock_wait_seconds: float = setting(60.0, "Raise when refreshes of one stream table from several processes queue up longer than this.")
    lock_lease_seconds: float = setting(30.0, "Lower for a faster takeover after a killed process, raise when the catalog is slow to reach.")
    workers: int = setting(4, "Raise when many stream tables wait for a worker while Spark has cores to spare.")
    workers_per_schema: int = setting(0, "Set it when the stream tables of one schema keep all workers busy; 0 sets no bound.")
    suspend_after_failures: int = setting(3, "Raise when sources or storage are often away for longer than a few tries.")
    auto_backoff: bool = setting(True, "Turn off when a stream table must keep its period even though its refreshes take longer.")
    probe_idle_seconds: float = setting(5.0, "Lower to notice commits of other processes to quiet sources sooner.")
    leader_lease_seconds: float = setting(
        10.0, "Lower for a faster takeover by a standby daemon on another machine, raise when the catalog is slow to reach."
    )
    allow_circular: bool = setting(
        False, "Turn on when stream tables shall read each other in a cycle, such as reachability: they are computed until nothing changes."
    )
    circular_rounds: int = setting(100, "Raise when a cycle needs more rounds to settle, such as a graph with longer paths.")
    disabled_rules: tuple[str, ...] = setting(
        (), "Name rules or rewrites, as `explain --trace` shows them, to switch off when bisecting an unexpected plan."
    )
    disabled_optimisations: tuple[str, ...] = setting(
        (),
        f"Name optimisations to switch off when one is under suspicion: {', '.join(OPTIMISATIONS)}.",
    )
    laws: bool = setting(True, "Turn off to compute every change as after - before, the slow definition, when a law is under suspicion.")

    def uses(self, optimisation: str) -> bool:
        """Whether an optimisation is on."""
        assert optimisation in OPTIMISATIONS, optimisation
        return optimisation not in self.disabled_optimisations

    @property
    def off(self) -> frozenset[str]:
        """The optimisations that are switched off."""
        return frozenset(self.disabled_optimisations)

    def __post_init__(self) -> None:
        for name in self.disabled_optimisations:
            if name not in OPTIMISATIONS:
                raise DefinitionError(
                    f'optimisation "{name}" does not exist',
                    detail=f"Optimisations are {', '.join(OPTIMISATIONS)}.",
                    hint="Use one of the names above.",
                )


def load(overrides: dict[str, Any] | None = None, environ: dict[str, str] | None = None, project: Mapping[str, Any] | None = None) -> Settings:
    """Settings from defaults, then the project's file, then the environment, then explicit overrides.

    >>> load({"kernel_reads": False}).kernel_reads
    False
    >>> load(environ={"RUNNEL_COMPACT_TAIL_FILES": "7"}).compact_tail_files
    7
    """
    known = {f.name: f for f in fields(Settings)}
    values: dict[str, Any] = {key: _given(key, value, known) for key, value in (project or {}).items()}
    for name, text in (os.environ if environ is None else environ).items():
        key = name.removeprefix("RUNNEL_").lower()
        if name.startswith("RUNNEL_") and key in known:
            values[key] = _parse(key, text, known[key].default)
    values.update({key: _given(key, value, known) for key, value in (overrides or {}).items()})
    return Settings(**values)


def _given(key: str, value: Any, known: Mapping[str, Any]) -> Any:
    """A value that somebody wrote for a setting: as text, or in the setting's own type."""
    if key not in known:
        raise DefinitionError(
            f'setting "{key}" does not exist', detail=f"Settings are {', '.join(sorted(known))}.", hint="Use one of the names above."
        )
    default = known[key].default
    if isinstance(value, str) and not isinstance(default, str):
        return _parse(key, value, default)
    if isinstance(default, tuple) and isinstance(value, list):
        return tuple(value)
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not type(default):
        raise _wrong(key, value, default)
    return value


def _parse(key: str, text: str, default: Any) -> Any:
    try:
        if isinstance(default, bool):
            return {"true": True, "1": True, "on": True, "false": False, "0": False, "off": False}[text.lower()]
        if isinstance(default, tuple):
            return tuple(part.strip() for part in text.split(",") if part.strip())
        return type(default)(text)
    except (KeyError, ValueError) as error:
        raise _wrong(key, text, default) from error


def _wrong(key: str, value: Any, default: Any) -> DefinitionError:
    return DefinitionError(
        f'setting "{key}" cannot be "{value}"', detail=f"It takes a {type(default).__name__}.", hint=f"Use for example {key}={default}."
    )


def markdown() -> str:
    """The page `docs/settings.md`."""
    lines = [
        "# Settings",
        "",
        "Generated from `runnel/settings.py` by `make docs`. Give them to `runnel.connect(settings={...})`, to the shell as",
        "`--set name=value`, as environment variables `RUNNEL_<NAME>`, or under `[settings]` in a project's `runnel.toml`.",
        "",
        "| setting | type | default | change it when |",
        "|---|---|---|---|",
    ]
    for f in fields(Settings):
        lines.append(f"| `{f.name}` | {type(f.default).__name__} | `{f.default}` | {f.metadata['reason']} |")
    return "\n".join(lines) + "\n"
