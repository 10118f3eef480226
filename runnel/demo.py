"""`runnel demo`: a small shop, three stream tables, and a handful of live changes that a daemon lets them follow.

Everything lives in the schema `demo`; what an earlier demo left there goes first, and nothing else is touched.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from runnel.observe.record import Action, RefreshRecord

if TYPE_CHECKING:
    from runnel.api import Runnel

HERE = "spark_catalog.demo."
FED = "USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"

TABLES = {
    "customers": f"""CREATE TABLE demo.customers {FED} AS
        SELECT CAST(id AS INT) AS id, concat('customer ', id) AS name, element_at(array('Rome', 'Oslo', 'Lima', 'Kyoto'), CAST(id % 4 + 1 AS INT)) AS city
        FROM range(1, 201, 1, 1)""",
    "orders": f"""CREATE TABLE demo.orders {FED} AS
        SELECT CAST(id AS INT) AS id, CAST(id * 7 % 200 + 1 AS INT) AS customer_id,
               CASE WHEN id % 10 < 3 THEN 'open' WHEN id % 10 = 3 THEN 'cancelled' ELSE 'shipped' END AS status
        FROM range(1, 5001, 1, 1)""",
    "order_lines": f"""CREATE TABLE demo.order_lines {FED} AS
        SELECT CAST(id AS INT) AS id, CAST(id % 5000 + 1 AS INT) AS order_id, CAST(id % 5 + 1 AS INT) AS quantity,
               CAST(id * 37 % 9000 / 100 + 1 AS DECIMAL(8,2)) AS price
        FROM range(1, 20001, 1, 1)""",
}

STREAM_TABLES = {
    "order_totals": """SELECT o.id AS order_id, o.customer_id, COUNT(*) AS lines, CAST(SUM(l.quantity * l.price) AS DECIMAL(12,2)) AS total
FROM demo.orders o JOIN demo.order_lines l ON l.order_id = o.id
GROUP BY o.id, o.customer_id""",
    "customer_spend": """SELECT c.name, c.city, COUNT(*) AS orders, SUM(t.total) AS spent
FROM demo.order_totals t JOIN demo.customers c ON c.id = t.customer_id
GROUP BY c.name, c.city""",
    "open_orders": "SELECT id, customer_id FROM demo.orders WHERE status = 'open'",
}
"""Each after those that it reads. All are refreshed when a source commits."""
SETTLED = 120.0
"""Seconds that the daemon may take to follow one change."""

CHANGES: tuple[tuple[str, ...], ...] = (
    ("INSERT INTO demo.orders VALUES (5001, 17, 'open')", "INSERT INTO demo.order_lines VALUES (20001, 5001, 2, 19.90), (20002, 5001, 1, 4.50)"),
    ("UPDATE demo.order_lines SET quantity = quantity + 1 WHERE order_id = 42",),
    ("UPDATE demo.orders SET status = 'shipped' WHERE status = 'open' AND id <= 100",),
    ("DELETE FROM demo.orders WHERE status = 'cancelled' AND id > 4900",),
    (
        "MERGE INTO demo.order_lines t USING (SELECT 7 AS id, 9.99 AS price UNION ALL SELECT 30000, 5.00) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET price = s.price WHEN NOT MATCHED THEN INSERT (id, order_id, quantity, price) VALUES (s.id, 5001, 3, s.price)",
    ),
    ("UPDATE demo.customers SET city = 'Lima' WHERE id = 17",),
    ("OPTIMIZE demo.order_lines",),
)


def run(rn: Runnel, say: Callable[[str], None], out: Console | None, flags: str = "") -> dict[str, Any]:
    """Play the demo; `say("")` clears the progress line before something is printed to `out`."""
    started = time.perf_counter()
    show = _Printer(out, say)
    _clear(rn, say)
    _build(rn, say, show)
    steps: list[dict[str, Any]] = []
    heard: list[RefreshRecord] = []
    with rn.start(tell=lambda event: heard.append(event.record) if event.record is not None else None) as daemon:
        for number, statements in enumerate(CHANGES, 1):
            say(f"change {number} of {len(CHANGES)}")
            for statement in statements:
                rn.sql(statement)
            daemon.settle(SETTLED)
            records = [r for r in heard if r.stream_table.startswith(HERE)]
            heard.clear()
            show.change(number, statements, records)
            steps.append({"change": list(statements), "refreshes": [r.as_dict() for r in records]})
    verified = []
    for name in STREAM_TABLES:
        say(f"verifying {name}: running its query from scratch")
        verified.append(rn.verify(f"demo.{name}"))
    seconds = time.perf_counter() - started
    show.end(verified, [r for step in steps for r in step["refreshes"]], seconds, flags)
    return {
        "ok": all(v.ok for v in verified),
        "changes": steps,
        "verified": [{"stream_table": v.stream_table, "ok": v.ok, "rows": v.rows} for v in verified],
        "seconds": round(seconds, 1),
    }


def _clear(rn: Runnel, say: Callable[[str], None]) -> None:
    """Remove what an earlier demo left. A table of the user's that reads one of these stops it, with the name of the reader."""
    say("making room in the schema demo")
    for name in reversed(STREAM_TABLES):
        rn.drop(f"demo.{name}", if_exists=True)
    rn.sql("CREATE SCHEMA IF NOT EXISTS demo")
    for name in TABLES:
        rn.sql(f"DROP TABLE IF EXISTS demo.{name}")


def _build(rn: Runnel, say: Callable[[str], None], show: _Printer) -> None:
    for name, statement in TABLES.items():
        say(f"filling {name}")
        rn.sql(statement)
    show.head("A shop of 200 customers, 5,000 orders and 20,000 order lines, and three stream tables over it:")
    for name, query in STREAM_TABLES.items():
        say(f"creating {name}")
        record = rn.create(f"demo.{name}", query, schedule="on update")
        assert record is not None
        show.created(name, query, record)
    show.head("Now the shop changes. A daemon runs, sees each commit and refreshes what reads it:")
    show.columns()


def _command() -> str:
    """How this command is called from here: by its path when it is not on the PATH."""
    called = Path(sys.argv[0])
    if shutil.which("runnel") or called.name != "runnel":
        return "runnel"
    return str(called.relative_to(Path.cwd())) if called.is_relative_to(Path.cwd()) else str(called)


class _Printer:
    """Prints as the demo goes; silent without a console."""

    def __init__(self, out: Console | None, say: Callable[[str], None]) -> None:
        self.out = out
        self.say = say

    def head(self, text: str) -> None:
        self._print(Text(f"\n{text}", style="bold"))

    def created(self, name: str, query: str, record: RefreshRecord) -> None:
        sql = " ".join(query.split())
        self._print(
            Text.assemble(
                ("  CREATE STREAM TABLE ", "cyan"),
                (f"demo.{name}", "bold"),
                (" TRIGGER ON UPDATE AS ", "cyan"),
                sql,
                (f"   {record.rows_out:,} rows, {record.ms:.0f} ms", "dim"),
            )
        )

    def columns(self) -> None:
        self._print(self._grid([("stream table", "action", "rows in", "out", "jobs", "ms", "why")], style="dim"))

    def change(self, number: int, statements: tuple[str, ...], records: list[RefreshRecord]) -> None:
        for index, statement in enumerate(statements):
            self._print(Text.assemble((f"{number} " if index == 0 else "  ", "bold"), (statement, "cyan")))
        self._print(self._grid([_row(r) for r in records]))

    def end(self, verified: list[Any], refreshes: list[dict[str, Any]], seconds: float, flags: str) -> None:
        self.head("Every stream table against its query run from scratch:")
        for v in verified:
            state = (f"  equal    {v.stream_table.removeprefix(HERE)}, {v.rows:,} rows", "green") if v.ok else (f"  {v}", "red")
            self._print(Text.assemble(state))
        done = [r for r in refreshes if r["action"] != Action.NO_DATA]
        middle = sorted(r["ms"] for r in done)[len(done) // 2] if done else 0
        counts = ", ".join(f"{sum(1 for r in refreshes if r['action'] == a)} {a}" for a in Action if any(r["action"] == a for r in refreshes))
        self._print(
            Text(
                f"\n{len(CHANGES)} changes, {len(refreshes)} refreshes ({counts}); a refresh with work to do took {middle:.0f} ms in the median; {seconds:.0f} s in all"
            )
        )
        runnel = _command() + flags
        self.head("Try next:")
        for command in (
            f"{runnel} run",
            f"{runnel} status --watch",
            f"{runnel} history demo.customer_spend",
            f"{runnel} explain demo.order_totals",
            f'{runnel} query "SELECT * FROM demo.customer_spend ORDER BY spent DESC LIMIT 5"',
            f'{runnel} query "DELETE FROM demo.orders WHERE id = 1" && {runnel} run --once && {runnel} verify',
        ):
            self._print(Text(f"  {command}"))

    def _grid(self, rows: list[tuple[str, ...]], style: str = "") -> Table:
        grid = Table.grid(padding=(0, 2, 0, 0))
        for width, justify in ((16, "left"), (12, "left"), (7, "right"), (5, "right"), (4, "right"), (6, "right")):
            grid.add_column(width=width, justify=justify)  # type: ignore[arg-type]
        grid.add_column()
        for table, action, *rest in rows:
            grid.add_row(f"  {table}", Text(action, style=COLOURS.get(action, style)), *(Text(cell, style=style) for cell in rest), style=style)
        return grid

    def _print(self, shown: Text | Table) -> None:
        if self.out is not None:
            self.say("")
            self.out.print(shown, soft_wrap=isinstance(shown, Text))


COLOURS = {"NO_DATA": "dim", "DIFFERENTIAL": "green", "FULL": "yellow", "REINITIALIZE": "red"}


def _row(r: RefreshRecord) -> tuple[str, ...]:
    counts = ("" if n is None else f"{n:,}" for n in (r.rows_in, r.rows_out, r.jobs))
    return (r.stream_table.removeprefix(HERE), str(r.action), *counts, f"{r.ms:.0f}", r.reason.replace(HERE, ""))
