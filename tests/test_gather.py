"""Rows gathered once for several steps: the same content as when every step reads for itself, and fewer passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from runnel.execute import gather, make
from tests.support.fixture import fixtures, name_of
from tests.support.shop import Shop
from tests.test_fixtures_spark import follow

pytestmark = pytest.mark.spark

ALONE = """SELECT o.customer, COUNT(*) AS n FROM orders o JOIN customers c ON c.id = o.customer
    WHERE EXISTS (SELECT 1 FROM orders p WHERE p.id = o.id AND p.customer <> o.customer)
    AND NOT EXISTS (SELECT 1 FROM orders p WHERE p.id = o.id AND p.customer <> o.customer AND p.amount > 50)
    GROUP BY o.customer"""


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> list:
    """Gathers wherever two steps read one face, and notes what was gathered."""
    monkeypatch.setattr(gather, "SPARED", 0)
    monkeypatch.setattr(gather, "SHARE", 10.0)
    seen: list = []
    monkeypatch.setattr(make, "gather", lambda *args: seen.append(args[3]) or gather.gather(*args))
    return seen


@pytest.mark.parametrize(
    ("few", "both"),
    [
        pytest.param(0, False, id="files of each face", marks=pytest.mark.slow),
        pytest.param(gather.FEW, False, id="rows of each face", marks=pytest.mark.slow),
        pytest.param(gather.FEW, True, id="both faces"),
    ],
)
def test_gathered_rows_give_the_same_result(rn, eager: list, monkeypatch: pytest.MonkeyPatch, few: int, both: bool) -> None:
    monkeypatch.setattr(gather, "FEW", few)
    monkeypatch.setattr(gather, "ROWS", gather.ROWS if both else -1)
    shop = Shop(rn, "(1, 1, 10), (1, 1, 10), (1, 2, 20), (2, 1, 5), (2, 2, 70), (3, 1, 7), (NULL, 1, 9)").with_customers()
    rn.create("alone", ALONE, mode="DIFFERENTIAL")
    for sql in (
        "INSERT INTO orders VALUES (3, 2, 8), (NULL, 2, 9)",
        "UPDATE orders SET amount = 60 WHERE id = 1 AND customer = 2",
        "DELETE FROM orders WHERE id = 2 AND amount > 50",
        "UPDATE orders SET id = 2 WHERE id = 3 AND customer = 2",
        "UPDATE orders SET amount = 11 WHERE id = 1 AND customer = 1",
    ):
        rn.sql(sql)
        shop.refresh("alone", "DIFFERENTIAL")
    assert {g.face for g in eager} == {"before", "after"}
    assert {g.face for g in eager if g.others} == ({"after"} if both else set())


@pytest.mark.slow
@pytest.mark.parametrize("path", [p for folder in ("joins", "subqueries") for p in fixtures(folder)], ids=name_of)
def test_fixtures_with_gathered_rows(path: Path, rn, there, eager: list) -> None:
    follow(path, rn, there, f"gathered_{name_of(path).replace('/', '_')}")
