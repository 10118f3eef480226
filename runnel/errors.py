"""Every error Runnel raises on purpose: four branches, and the branch is the retry policy.

| branch            | whose fault              | what the caller does                 |
|-------------------|--------------------------|--------------------------------------|
| `DefinitionError` | the user's text          | never retries; shows message + hint  |
| `SourceChanged`   | a source moved under us  | re-initialises, or tells the user    |
| `Transient`       | a conflict or a time-out | backs off and tries again            |
| `Internal`        | ours                     | stops and attaches the plan          |

A message is short, lower case and without a full stop; a detail is a sentence; a hint starts with a verb.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def where(file: str, position: Sequence[int] | None) -> str:
    """The place of an error as messages end with it.

    >>> where("sql/totals.sql", (2, 5)), where("", None)
    (' (sql/totals.sql, line 2, column 5)', '')
    """
    parts = ([file] if file else []) + ([f"line {position[0]}, column {position[1]}"] if position else [])
    return f" ({', '.join(parts)})" if parts else ""


class RunnelError(Exception):
    """Base of all errors: a stable `code`, a `message`, an optional `detail`, `hint` and text `position`."""

    code = "RUNNEL"
    stream_table: str | None = None
    """The stream table whose refresh failed, where several are refreshed together."""
    refreshed: tuple[Any, ...] = ()
    """The records of those that did not fail and show their new content."""

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        detail: str = "",
        hint: str = "",
        position: tuple[int, int] | None = None,
        **values: Any,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.detail = detail
        self.hint = hint
        self.position = position
        self.file = ""
        """The file that `position` is in, where the text came from one."""
        self.values = values

    def __str__(self) -> str:
        lines = [f"[{self.code}] {self.message}{where(self.file, self.position)}"]
        if self.detail:
            lines.append(f"  detail: {self.detail}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """The same facts for `--json` and for stored records."""
        return {
            "branch": self.branch,
            "code": self.code,
            "message": self.message,
            "detail": self.detail,
            "hint": self.hint,
            "position": list(self.position) if self.position else None,
            **({"file": self.file} if self.file else {}),
        }

    @property
    def branch(self) -> str:
        for cls in (DefinitionError, SourceChanged, Transient, Internal):
            if isinstance(self, cls):
                return cls.__name__
        return "RunnelError"


class DefinitionError(RunnelError):
    """The user's text or request is wrong; trying again cannot help."""

    code = "DEFINITION"


class Unsupported(DefinitionError):
    """Right SQL that cannot be maintained incrementally; AUTO runs it as FULL and shows this text."""

    code = "NOT_INCREMENTAL"


class SourceChanged(RunnelError):
    """A source was dropped, replaced, altered or lost history that a refresh needs."""

    code = "SOURCE_CHANGED"


class Transient(RunnelError):
    """Somebody else won, or something timed out; the same call may succeed later."""

    code = "TRANSIENT"


class Internal(RunnelError):
    """A broken invariant of ours; the content is left as it was."""

    code = "INTERNAL"


class EnvironmentProblem(DefinitionError):
    """The machine or the session lacks something Runnel needs (Java, Delta Lake, a writable folder)."""

    code = "ENVIRONMENT"
