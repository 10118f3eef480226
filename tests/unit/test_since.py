"""Which windows only look back, and how far."""

from __future__ import annotations

import pytest
import sqlglot

from runnel.algebra.since import looks_back

TYPES = {"t": "int", "u": "int", "x": "double"}


@pytest.mark.parametrize(
    ("calls", "rows"),
    [
        ("SUM(x) OVER (PARTITION BY k ORDER BY t)", None),
        ("ROW_NUMBER() OVER (PARTITION BY k ORDER BY t, u)", None),
        ("MAX(x) OVER (PARTITION BY k ORDER BY t ROWS BETWEEN 30 PRECEDING AND CURRENT ROW)", 30),
        ("MAX(x) OVER (PARTITION BY k ORDER BY t ROWS 30 PRECEDING)", 30),
        ("MAX(x) OVER (PARTITION BY k ORDER BY t ROWS UNBOUNDED PRECEDING)", None),
        ("LAG(x, 3) OVER (PARTITION BY k ORDER BY t)", 3),
        ("LAG(x) IGNORE NULLS OVER (PARTITION BY k ORDER BY t)", None),
        ("LAG(x) OVER (PARTITION BY k ORDER BY t), MIN(x) OVER (PARTITION BY k ORDER BY t ROWS BETWEEN 9 PRECEDING AND 2 PRECEDING)", 9),
        ("LAG(x) OVER (PARTITION BY k ORDER BY t), MIN(x) OVER (PARTITION BY k ORDER BY t, u ROWS 9 PRECEDING)", None),
        ("SUM(x) FILTER (WHERE u > 1) OVER (PARTITION BY k ORDER BY t RANGE BETWEEN 5 PRECEDING AND CURRENT ROW)", None),
    ],
)
def test_windows_that_look_back(calls: str, rows: int | None) -> None:
    found = looks_back(sqlglot.parse_one(f"SELECT {calls}", dialect="spark").expressions, TYPES)
    assert found is not None
    assert (found.column, found.rows) == ("t", rows)


@pytest.mark.parametrize(
    "calls",
    [
        "SUM(x) OVER (PARTITION BY k)",
        "LEAD(x) OVER (PARTITION BY k ORDER BY t)",
        "NTILE(4) OVER (PARTITION BY k ORDER BY t)",
        "CUME_DIST() OVER (PARTITION BY k ORDER BY t)",
        "PERCENT_RANK() OVER (PARTITION BY k ORDER BY t)",
        "SUM(x) OVER (PARTITION BY k ORDER BY t DESC)",
        "SUM(x) OVER (PARTITION BY k ORDER BY t NULLS LAST)",
        "SUM(x) OVER (PARTITION BY k ORDER BY t + 1)",
        "SUM(u) OVER (PARTITION BY k ORDER BY x)",
        "SUM(x) OVER (PARTITION BY k ORDER BY t ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
        "SUM(x) OVER (PARTITION BY k ORDER BY t ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
        "SUM(x) OVER (PARTITION BY k ORDER BY t), SUM(x) OVER (PARTITION BY k ORDER BY u)",
        "SUM(x) OVER (PARTITION BY k ORDER BY t), SUM(x) OVER (PARTITION BY k)",
    ],
)
def test_windows_that_see_more(calls: str) -> None:
    assert looks_back(sqlglot.parse_one(f"SELECT {calls}", dialect="spark").expressions, TYPES) is None
