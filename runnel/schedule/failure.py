"""What is left of a stream table that was not refreshed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runnel.errors import RunnelError


@dataclass(frozen=True)
class Failure:
    """A stream table that was not refreshed: with an error of its own, or because of another's."""

    stream_table: str
    error: Exception | None
    reason: str

    def as_dict(self) -> dict[str, Any]:
        """The facts for `--json`: an error of its own, or that it was skipped."""
        if self.error is None:
            skipped = {"code": "SKIPPED", "message": self.reason, "detail": "", "hint": ""}
            return {"stream_table": self.stream_table, "action": "SKIP", "error": skipped}
        if isinstance(self.error, RunnelError):
            error = self.error.as_dict()
        else:
            error = {"code": type(self.error).__name__, "message": str(self.error)[:500], "detail": "", "hint": ""}
        return {"stream_table": self.stream_table, "error": error}
