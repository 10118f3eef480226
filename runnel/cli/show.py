"""Printing: tables for people, one JSON document for programs, failures for both."""

from __future__ import annotations

import json
import math
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from runnel.cli.names import short
from runnel.errors import RunnelError, where
from runnel.observe.record import RefreshRecord


def stdout() -> Console:
    """Rich measures a terminal; a file or a pipe gets lines as long as they are."""
    console = Console(file=sys.stdout)
    return console if console.is_terminal else Console(file=sys.stdout, width=max(200, console.width))


def _stderr() -> Console:
    return Console(file=sys.stderr)


def print_json(value: Any) -> None:
    print(json.dumps(plain(value), indent=2))


def plain(value: Any) -> Any:
    """A value that JSON can hold: exact decimals and times as text, NaN and infinities as text."""
    match value:
        case Mapping():
            return {str(k): plain(v) for k, v in value.items()}
        case list() | tuple() | set():
            return [plain(v) for v in value]
        case float() if not math.isfinite(value):
            return str(value)
        case datetime() | date():
            return value.isoformat()
        case bytes() | bytearray():
            return bytes(value).hex()
        case None | bool() | int() | float():
            return value
        case Decimal() | str():
            return str(value)
        case _:
            return plain(value.asDict(recursive=True)) if hasattr(value, "asDict") else str(value)


def as_record(row: Any) -> dict[str, Any]:
    return dict(zip(row.__fields__, row, strict=True))


def grid(head: Sequence[str], rows: Sequence[Sequence[Any]], header: bool = True) -> Table:
    """Numbers to the right, NULL told apart from text."""
    table = Table(show_header=header, header_style="bold", border_style="dim")
    for index, title in enumerate(head):
        numeric = any(isinstance(r[index], int | float | Decimal) for r in rows) and header
        table.add_column(Text(title), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    return table


def _cell(value: Any) -> Text:
    if value is None:
        return Text("NULL", style="dim")
    if isinstance(value, str | Decimal) or not hasattr(value, "asDict"):
        return Text(str(value))
    return Text(json.dumps(plain(value)))


def print_records(records: Sequence[RefreshRecord], started: bool = False) -> None:
    head = ["stream table", "epoch", "action", "reason", "rows in", "rows out", "jobs", "ms"]
    rows = []
    for r in records:
        told = (r.error or {}).get("message", "") if r.status in ("FAILED", "SUSPENDED") else r.reason
        failure = r.reason if r.status == "COMPLETED" else f"{r.status}: {told}"
        row = [short(r.stream_table), r.epoch, str(r.action), failure, _count(r.rows_in), _count(r.rows_out), _count(r.jobs), round(r.ms)]
        rows.append([r.started_at[:19].replace("T", " "), *row] if started else row)
    stdout().print(grid(["started (UTC)", *head] if started else head, rows))


def print_runs(times: Sequence[datetime]) -> None:
    """The next runs of a schedule that knows them."""
    if times:
        stdout().print(f"next runs: {', '.join(f'{t:%Y-%m-%d %H:%M:%S %Z}' for t in times)}", highlight=False, soft_wrap=True)


def _count(number: int | None) -> int | str:
    return "" if number is None else number


def failed(error: Exception, as_json: bool, debug: bool) -> int:
    """Print a failure; the exit code: 2 when the command line is wrong, else 1."""
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nobody reads any more
        return 1
    if debug:
        traceback.print_exception(error)
    usage = hasattr(error, "exit_code") and hasattr(error, "format_message")
    if usage and not as_json:
        error.show()  # type: ignore[attr-defined]
        return int(error.exit_code)  # type: ignore[attr-defined]
    described = {"branch": "Usage", "code": "USAGE", "message": error.format_message()} if usage else describe(error)  # type: ignore[attr-defined]
    if as_json:
        print_json({"error": described})
    else:
        show_error(described)
    return int(error.exit_code) if usage else 1  # type: ignore[attr-defined]


def describe(error: Exception) -> dict[str, Any]:
    """Any failure in the shape of ours."""
    if isinstance(error, RunnelError):
        return error.as_dict()
    if type(error).__module__.startswith("pyspark"):
        from pyspark.errors import PySparkException

        from runnel.execute.lookup import translated

        if isinstance(error, PySparkException):
            return translated(error).as_dict() | {
                "branch": "Spark",
                "message": "Spark could not run it",
                "hint": "Correct the statement or the data it reads.",
            }
    message = str(error).strip().splitlines() or [type(error).__name__]
    return {
        "branch": "Internal",
        "code": type(error).__name__,
        "message": message[0][:300],
        "detail": "",
        "hint": "Run it again with --debug to see where.",
        "position": None,
    }


def show_error(error: Mapping[str, Any], about: str = "") -> None:
    place = where(error.get("file", ""), error.get("position"))
    console = _stderr()
    code = f" [{error['code']}]" if error["code"] else ""
    text = Text.assemble(("error", "bold red"), f"{code} {f'{short(about)}: ' if about else ''}{error['message']}{place}")
    console.print(text, soft_wrap=True)
    for part in ("detail", "hint"):
        if error.get(part):
            console.print(Text.assemble((f"  {part}: ", "dim"), str(error[part])), soft_wrap=True)
