"""A schema of its own for each end-to-end test, with the tables most of them need."""

from __future__ import annotations

import itertools

_numbers = itertools.count(1)


class Shop:
    """Tables `orders(id, customer, amount)` and `customers(id, name)` in a fresh schema."""

    def __init__(self, rn, orders: str = "(1, 1, 10), (2, 1, 20), (3, 2, 5), (4, NULL, 7)") -> None:
        self.rn = rn
        self.schema = f"shop_{next(_numbers)}"
        rn.sql(f"CREATE SCHEMA {self.schema} LOCATION '{rn.folder}/{self.schema}.db'")
        rn.sql(f"USE {self.schema}")
        rn.sql("CREATE TABLE orders (id BIGINT, customer BIGINT, amount DECIMAL(10,2)) USING delta")
        rn.sql(f"INSERT INTO orders VALUES {orders}")

    def with_customers(self) -> Shop:
        self.rn.sql("CREATE TABLE customers (id BIGINT, name STRING) USING delta")
        self.rn.sql("INSERT INTO customers VALUES (1, 'ann'), (2, 'bob')")
        return self

    def name(self, table: str) -> str:
        return f"spark_catalog.{self.schema}.{table}"

    def path(self, table: str) -> str:
        return f"{self.rn.folder}/{self.schema}.db/{table}"

    def rows(self, table: str) -> list[tuple]:
        return sorted((tuple(r) for r in self.rn.table(table).collect()), key=repr)

    def check(self, table: str) -> None:
        """The oracle: both ways of reading equal the query from scratch."""
        found = self.rn.verify(table)
        assert found.ok, found
        view = sorted((tuple(r) for r in self.rn.spark.table(self.name(table)).collect()), key=repr)
        assert view == self.rows(table)

    def refresh(self, table: str, action: str, **options) -> object:
        """Refresh, and assert the executed action and the content."""
        record = self.rn.refresh(table, **options)
        assert record.action == action, record
        found = self.rn.verify(table)
        assert found.ok, found
        return record


TOTALS = "SELECT customer, SUM(amount) AS total, COUNT(*) AS n FROM orders GROUP BY customer"
LARGE = "SELECT id, customer, amount FROM orders WHERE amount > 6"
