"""What Spark is told about the jobs of a refresh, and that it is told nothing where there are none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from runnel.execute.jobs import Jobs


class Context:
    """A context that writes down what it is asked."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, ...]] = []

    def setJobGroup(self, group: str, description: str) -> None:
        self.heard.append(("group", description))

    def setJobDescription(self, description: str) -> None:
        self.heard.append(("description", description))

    def setLocalProperty(self, key: str, value: str | None) -> None:
        self.heard.append((key, str(value)))

    def statusTracker(self) -> Any:
        return SimpleNamespace(getJobIdsForGroup=lambda group: [4, 5])


def jobs(pool: str | None = None) -> tuple[Jobs, Context]:
    context = Context()
    return Jobs(SimpleNamespace(sparkContext=context), "sums", pool), context  # type: ignore[arg-type]


def test_stages_that_are_never_said_cost_no_call() -> None:
    ours, context = jobs("runnel-1")
    with ours.stages():
        pass
    assert (ours.count, context.heard) == (0, [])


def test_jobs_are_named_from_the_first_stage_that_may_have_some() -> None:
    ours, context = jobs("runnel-1")
    with ours.stages():
        ours.now("write")
        ours.now("compaction")
    assert context.heard == [
        ("group", "sums: write"),
        ("spark.scheduler.pool", "runnel-1"),
        ("description", "sums: compaction"),
        ("spark.jobGroup.id", "None"),
        ("spark.job.description", "None"),
        ("spark.scheduler.pool", "None"),
    ]
    assert ours.count == 2


def test_a_stage_of_its_own_is_named_at_once() -> None:
    ours, context = jobs()
    with ours.stage("verify"):
        assert context.heard == [("group", "sums: verify")]
    assert [key for key, _ in context.heard[1:]] == ["spark.jobGroup.id", "spark.job.description"]
