"""A pipeline of 50 views in three layers, after the shape of ivm-bench: one large batch, then small ones; every view in every batch.

A broker delivers changes of customers, accounts, companies and securities, and trades, cash, holdings, prices and watches (`raw.sql`).
*Bronze* cleans, *silver* gives versions their time by windows and joins facts to the version of their time, *gold* has dimensions, facts
and reports. The whole pipeline exists three times: stream tables in mode AUTO, stream tables in mode FULL, and tables that are overwritten.
The first batch is two years and loads them; a day that warms up is not counted; batches 2 and 3 are a day each, 1 / 730 of the first. The size
is the number of trades. Views are brought up to date one after the other in all three ways, so that their times can be compared and added up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import runnel
from benchmarks.bench import FEED, Bench
from benchmarks.contest import facts_of
from benchmarks.measure import Spent, Work
from benchmarks.part import Options, Part
from benchmarks.plot import Columns, Rows, figure
from benchmarks.results import Measured, pick, values
from runnel.observe.record import RefreshRecord

DAYS = 730
LAYERS = ("bronze", "silver", "gold")
MODES = {"auto": "AUTO", "full": "FULL"}
WAYS = (*MODES, "overwrite")
COUNTED = (2, 3)


def _statements(name: str) -> dict[str, str]:
    """A file of queries, each under a comment that begins with its name."""
    parts = re.split(r"^-- ([a-z_]+)(?:: .*)?$", (Path(__file__).parent / f"{name}.sql").read_text(), flags=re.M)
    return {title: text.strip().rstrip(";") for title, text in zip(parts[1::2], parts[2::2], strict=True)}


VIEWS = {name: text for layer in LAYERS for name, text in _statements(layer).items()}
"""In an order in which each reads only those before it."""


def needed(names: Iterable[str]) -> dict[str, str]:
    """The views of these names and all that they read, in order; without names every view.

    >>> list(needed(["silver_companies"]))
    ['bronze_companies', 'bronze_industries', 'silver_company_versions', 'silver_companies']
    """
    wanted = set(names) or set(VIEWS)
    for name in reversed(VIEWS):
        if name in wanted:
            wanted |= VIEWS.keys() & set(re.findall(r"\w+", VIEWS[name]))
    return {name: text for name, text in VIEWS.items() if name in wanted}


def measure(bench: Bench, options: Options) -> Iterator[Measured]:
    for size in map(int, options.sizes):
        with ExitStack() as stack:
            raw = stack.enter_context(bench.schema(f"raw_{size}"))
            schemas = {way: stack.enter_context(bench.schema(f"{way}_{size}")) for way in WAYS}
            views = needed(options.queries)
            one = stack.enter_context(closing(runnel.connect(bench.rn.spark, warehouse=bench.rn.folder, settings={"workers": 1})))
            yield from _batches(bench, one, Deliveries(bench, raw, size), schemas, views)
            if size <= options.verify_up_to:
                for name in views:
                    for way in MODES:
                        bench.check(f"{schemas[way]}.{name}")


def _batches(bench: Bench, one: runnel.Runnel, deliveries: Deliveries, schemas: dict[str, str], views: dict[str, str]) -> Iterator[Measured]:
    size = deliveries.counts["trades"]
    deliveries.first()
    for name, sql in views.items():
        for way, schema in schemas.items():
            bench.rn.sql(f"USE {schema}")
            spent = bench.meter.run(_load(bench, way, name, sql.format(raw=deliveries.schema)))
            yield Measured.of({"view": name, "rows": size, "batch": 1, "way": way}, spent, [spent.ms])
    bench.say(f"batch 1 of {size:,} trades loaded")
    bench.rn.sql(f"USE {schemas['overwrite']}")
    for day, batch in enumerate((None, *COUNTED)):
        deliveries.next(day)
        for way in (*WAYS[day % len(WAYS) :], *WAYS[: day % len(WAYS)]):
            for name, spent in _brought(bench, one, way, schemas[way], {n: sql.format(raw=deliveries.schema) for n, sql in views.items()}):
                if batch:
                    yield Measured.of({"view": name, "rows": size, "batch": batch, "way": way}, spent, [spent.ms], facts_of([spent.result]))
        bench.say(f"batch {batch} refreshed" if batch else "warmed up")


def _load(bench: Bench, way: str, name: str, sql: str) -> Work:
    if way in MODES:
        return lambda: bench.rn.create(name, sql, mode=MODES[way])
    return lambda: bench.rn.sql(f"CREATE TABLE {name} USING delta AS {sql}")


def _brought(bench: Bench, one: runnel.Runnel, way: str, schema: str, views: dict[str, str]) -> Iterator[tuple[str, Spent]]:
    """The whole pipeline of one way brought up to date: what each view took. Stream tables that belong together move at one cut, so that
    they tell themselves what they took; `one` has a single worker."""
    if way not in MODES:
        for name, sql in views.items():
            yield name, bench.meter.run(lambda name=name, sql=sql: bench.rn.spark.sql(f"INSERT OVERWRITE {schema}.{name} {sql}"))  # type: ignore[misc]
        return
    for record in one.refresh_all(names=[f"{schema}.{name}" for name in views]):
        assert isinstance(record, RefreshRecord), record
        spent = Spent(record.ms, record.jobs or 0, record.bytes_read or 0, record.bytes_written or 0, record)
        yield record.stream_table.rsplit(".", 1)[-1], spent


class Deliveries:
    """The raw tables of one size, and what arrives in them."""

    def __init__(self, bench: Bench, schema: str, trades: int) -> None:
        self.bench, self.schema = bench, schema
        symbols = max(2, trades // (2 * DAYS))
        self.counts = {
            "customers": trades // 50,
            "accounts": trades // 30,
            "companies": symbols * 4,
            "securities": symbols * 6,
            "financials": symbols * 20,
            "trades": trades,
            "trade_events": 2 * trades,
            "cash": trades,
            "holdings": trades // 2,
            "market": symbols * DAYS,
            "watches": trades // 2,
            "prospects": trades // 50,
        }
        """Rows of the first batch; each customer, account, company and security has a few versions among them."""
        self.sizes = {"customers": max(1, trades // 150), "accounts": max(1, trades // 100), "symbols": symbols, "days": DAYS}
        self.texts = _statements("raw")

    def first(self) -> None:
        for table in self.texts:
            self.bench.rn.sql(f"CREATE TABLE {self.schema}.{table} {FEED} AS {self._rows(table, 0, self.counts.get(table, 0))}")

    def next(self, day: int) -> None:
        """One more day; tables that stay get nothing."""
        for table, count in self.counts.items():
            each = max(1, count // DAYS)
            self.bench.rn.sql(f"INSERT INTO {self.schema}.{table} {self._rows(table, count + day * each, count + (day + 1) * each)}")

    def _rows(self, table: str, first: int, last: int) -> str:
        count = max(1, self.counts.get(table, 1))
        at = f"timestamp_seconds(1704067200 + id * {DAYS * 86400} DIV {count})"
        return self.texts[table].format(first=first, last=last, all=count, at=at, **self.sizes)


def ratio(found: Iterable[Measured], view: str) -> float | None:
    """The counted batches of a view, maintained by overwritten."""
    spent = {w: sum(m.ms for m in found if m.labels["view"] == view and m.labels["way"] == w and m.labels["batch"] in COUNTED) for w in WAYS}
    return round(spent["auto"] / spent["overwrite"], 3) if spent["overwrite"] else None


def totals(found: list[Measured]) -> list[Measured]:
    """The sums over all views, batch by batch; and the counted batches together."""
    lines = []
    for size in values(found, "rows"):
        for batch, numbers in {**{str(b): (b,) for b in values(found, "batch")}, "2 and 3": COUNTED}.items():
            for way in WAYS:
                chosen = [m for m in pick(found, rows=size, way=way) if m.labels["batch"] in numbers]
                sums = (sum(getattr(m, k) for m in chosen) for k in ("ms", "jobs", "read", "written"))
                lines.append(Measured({"rows": size, "batch": batch, "way": way}, *sums))
    return lines


def figures(found: list[Measured], note: str) -> dict[str, str]:
    """Totals of each batch, and every view against its overwritten twin."""
    drawn = {}
    for size in values(found, "rows"):
        chosen = pick(found, rows=size)
        batches = values(totals(chosen), "batch")
        sums = {w: [next(m.ms for m in totals(chosen) if m.labels["batch"] == b and m.labels["way"] == w) / 1000 for b in batches] for w in WAYS}
        columns = Columns("all views together", "seconds, log scale", [f"batch {b}" for b in batches], sums)
        views = values(chosen, "view")
        title = "batches 2 and 3, time of AUTO by time of overwriting (dashed: as long)"
        ratios = Rows(title, "ratio", views, {"ratio": [ratio(chosen, v) for v in views]}, mark=1.0, label=190)
        drawn[f"-{size}"] = figure(f"A pipeline of {len(views)} views in three layers, {size:,} trades", note, [columns, ratios], 1, 860)
    return drawn


PART = Part(
    name="medallion",
    title="a pipeline of 50 views in three layers",
    quick=Options(sizes=(20_000,), queries=("gold_trades_by_broker", "gold_cash_balance"), verify_up_to=0),
    full=Options(sizes=(100_000, 1_000_000), verify_up_to=100_000),
    measure=measure,
    figures=figures,
    shown=totals,
)
