"""Stream tables for Apache Spark: write a query once, and its result is kept fresh incrementally.

import runnel
rn = runnel.connect()
rn.sql("CREATE STREAM TABLE totals AS SELECT customer_id, SUM(amount) AS total FROM orders GROUP BY customer_id")
rn.refresh("totals")
rn.table("totals").show()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runnel.errors import DefinitionError, Internal, RunnelError, SourceChanged, Transient, Unsupported
from runnel.observe.record import Action, Mode, RefreshRecord
from runnel.schedule.cut import Cut
from runnel.schedule.failure import Failure
from runnel.settings import Settings

if TYPE_CHECKING:
    from runnel.api import Runnel, connect

__version__ = "0.1.0"
__all__ = [
    "Action",
    "Cut",
    "DefinitionError",
    "Failure",
    "Internal",
    "Mode",
    "RefreshRecord",
    "Runnel",
    "RunnelError",
    "Settings",
    "SourceChanged",
    "Transient",
    "Unsupported",
    "connect",
]


def __getattr__(name: str) -> Any:
    """`connect` and `Runnel` import pyspark, so they are loaded when first asked for: planning works without it."""
    if name in ("connect", "Runnel"):
        from runnel import api

        return getattr(api, name)
    raise AttributeError(f"module 'runnel' has no attribute {name!r}")
