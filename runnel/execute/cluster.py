"""Which columns the base of a log is clustered by: those by which refreshes look stored rows up, so that few touched keys lie in few files.

A window or an aggregate that keeps its result reads the stored rows of touched keys in each refresh. Rows that lie in the order of these keys
let the statistics of files leave most of them out; in any other order every file may have one. Sums of a root need no look-up, and no order.
"""

from __future__ import annotations

from runnel.algebra import STORED, Facts
from runnel.algebra.want import Side
from runnel.definition import Definition
from runnel.errors import RunnelError
from runnel.execute.engine import Engine


def clustering(engine: Engine, definition: Definition) -> tuple[str, ...]:
    """The stored columns to keep rows together by, none where no refresh looks rows up."""
    every = frozenset(definition.source_keys)
    if not every or not definition.incremental or not engine.settings.uses("clustered_base"):
        return ()
    try:
        plan = engine.plan(definition, Facts(every, small=True, held=every))
    except RunnelError:  # a source is gone, a function is unknown here: compaction needs neither
        return ()
    wants = [i.want for i in plan.inputs if i.source == STORED]
    return tuple(dict.fromkeys(w.column for want in wants for w in want.within if w.side is Side.EQUAL))
