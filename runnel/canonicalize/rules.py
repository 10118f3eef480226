"""The rules in their order, and the runner that wraps each: verify, note whether it changed anything, honour switches."""

from __future__ import annotations

from collections.abc import Callable, Collection

from runnel.algebra import Domain, Node
from runnel.canonicalize.decorrelate import decorrelate
from runnel.canonicalize.filter_below_project import filter_below_project
from runnel.canonicalize.filter_into_join import filter_into_join
from runnel.canonicalize.merge_filters import merge_filters
from runnel.canonicalize.merge_projects import merge_projects
from runnel.canonicalize.merge_windows import merge_windows
from runnel.canonicalize.prune_columns import prune_columns
from runnel.canonicalize.pull_up_correlation import pull_up_correlation
from runnel.passes import Pass

Rule = Callable[[Node], Node]

RULES: tuple[Rule, ...] = (
    merge_projects,  # first: the binder leaves one projection per query level, and fewer levels let filters travel
    filter_below_project,  # before the filters are merged, so that they meet
    merge_projects,  # again: filters that stood between projections are below them now
    merge_filters,  # before joins take filters in: one conjunction instead of a stack
    filter_into_join,  # comma joins become what their WHERE says
    pull_up_correlation,  # after the conditions reached the joins with domains, where it looks for them
    decorrelate,  # after that: what is left are subqueries that group, which look their rows up by equality
    merge_filters,  # again: both leave filters behind
    filter_into_join,  # again, for the same reason
    filter_below_project,  # again: a join hands filters to sides that are projections
    merge_windows,  # after projections between them are merged; before columns are pruned, so that a call nobody reads goes alone
    prune_columns,  # late: it asks what is still used
    merge_projects,  # again: a window that nobody reads is gone from between two projections
)


def canonicalize(node: Node, disabled: Collection[str] = (), trace: list[Pass] | None = None) -> Node:
    """Apply `RULES` from first to last; again where subqueries were correlated, since removing a domain makes room for earlier rules."""
    correlated = any(isinstance(n, Domain) for n in node.walk())
    for turn in range(TURNS):
        start = node
        for rule in RULES:
            name = rule.__name__
            if name in disabled:
                continue
            after = rule(node)
            assert after.names == node.names, f"{name} changed the columns from {node.names} to {after.names}"
            if trace is not None and (turn == 0 or after != node):
                trace.append(Pass(name, after != node, str(after)))
            node = after
        if not correlated or node == start:
            break
    return node


TURNS = 5
"""Two are usual. The rules only move things down or remove them, so they end; this is a bound for our mistakes."""
