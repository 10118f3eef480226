"""Java and the jars, without network and without Spark: every `java` and `spark-submit` here is a small script."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

import runnel
from runnel import environment, versions
from runnel.errors import EnvironmentProblem
from runnel.execute import session

FETCHED = ["io.delta_delta-spark_4.1_2.13-4.4.0.jar", "io.delta_delta-storage-4.4.0.jar", "com.github.luben_zstd-jni-1.5.7-3.jar"]


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Java, no Spark, an empty cache; each test adds what it needs."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("RUNNEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.delenv("JAVA_HOME", raising=False)


def script(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{body}\n")
    path.chmod(0o755)


def fake_java(folder: Path, version: str) -> None:
    script(folder / "bin" / "java", f"""echo 'openjdk version "{version}" 2025-04-15' >&2""")


def fake_spark(home: Path, *, fetches: Sequence[str], has: Sequence[str] = (), fails_with: str = "") -> None:
    """A Spark whose spark-submit puts `fetches` where Ivy would, leaves a line in `calls`, and may fail in the end."""
    (home / "jars").mkdir(parents=True)
    for name in has:
        (home / "jars" / name).touch()
    lines = [f'echo run >> "{home}/calls"']
    lines += ['for word; do case "$word" in spark.jars.ivy=*) jars="${word#spark.jars.ivy=}/jars";; esac; done']
    lines += [f'mkdir -p "$jars" && touch "$jars/{name}"' for name in fetches]
    if fails_with:
        lines.append(f"echo '{fails_with}'; exit 1")
    script(home / "bin" / "spark-submit", "\n".join(lines))


def names(paths: list[str]) -> list[str]:
    return [Path(path).name for path in paths]


@pytest.mark.parametrize(("version", "major"), [("1.8.0_402", 8), ("11.0.22", 11), ("17.0.15", 17), ("21", 21), ("21.0.2", 21), ("25-ea", 25)])
def test_java_version_is_read(tmp_path: Path, version: str, major: int) -> None:
    fake_java(tmp_path, version)
    assert environment.java_version() == major


def test_java_version_is_found_behind_other_output(tmp_path: Path) -> None:
    script(tmp_path / "bin" / "java", """echo 'Picked up JAVA_TOOL_OPTIONS: -Xmx1g' >&2; echo 'openjdk version "17.0.15"' >&2""")
    assert environment.java_version() == 17


def test_java_is_missing() -> None:
    assert environment.java_version() is None
    with pytest.raises(EnvironmentProblem, match="java 17 or newer is needed, none found") as problem:
        environment.check_java()
    assert problem.value.detail == "JAVA_HOME is not set, and PATH has no java that runs."
    assert problem.value.hint.startswith("Install a JDK 17")


def test_java_that_does_not_run_is_missing(tmp_path: Path) -> None:
    script(tmp_path / "bin" / "java", "echo 'Unable to locate a Java Runtime' >&2; exit 1")
    assert environment.java_version() is None


@pytest.mark.parametrize(("version", "major"), [("1.8.0_402", 8), ("11.0.22", 11)])
def test_java_is_too_old(tmp_path: Path, version: str, major: int) -> None:
    fake_java(tmp_path, version)
    with pytest.raises(EnvironmentProblem, match=f"java 17 or newer is needed, found java {major}") as problem:
        environment.check_java()
    assert str(tmp_path / "bin" / "java") in problem.value.detail


@pytest.mark.parametrize("version", ["17.0.15", "21"])
def test_java_is_new_enough(tmp_path: Path, version: str) -> None:
    fake_java(tmp_path, version)
    assert environment.check_java() == int(version[:2])


def test_java_home_wins_over_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, "17.0.15")
    fake_java(tmp_path / "jdk21", "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk21"))
    assert environment.java_version() == 21


def test_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(EnvironmentProblem) as problem:
        environment.check_java()
    assert problem.value.detail == f"JAVA_HOME is {tmp_path / 'gone'}, which has no bin/java that runs."


def test_jars_are_fetched_once_and_then_only_listed(tmp_path: Path) -> None:
    fake_java(tmp_path, "17.0.15")
    fake_spark(tmp_path / "spark", fetches=FETCHED, has=["zstd-jni-1.5.7-6.jar", "log4j-api-2.24.3.jar"])
    said: list[str] = []
    first = environment.jars(progress=said.append)
    assert names(first) == FETCHED[:2]
    assert said == [f"fetching Delta Lake {versions.DELTA} (first time, about half a minute)"]

    (tmp_path / "bin" / "java").unlink()
    assert environment.jars(progress=said.append) == first
    assert len(said) == 1
    assert (tmp_path / "spark" / "calls").read_text() == "run\n"


def test_a_full_cache_needs_neither_java_nor_spark(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "jars" / environment._key()
    folder.mkdir(parents=True)
    (folder / FETCHED[0]).touch()
    assert environment.jars() == [str(folder / FETCHED[0])]


def test_nothing_unfinished_stays_in_the_cache(tmp_path: Path) -> None:
    fake_java(tmp_path, "17.0.15")
    fake_spark(tmp_path / "spark", fetches=FETCHED)
    environment.jars()
    assert [path.name for path in (tmp_path / "cache" / "jars").iterdir()] == [environment._key()]


def test_the_slower_of_two_processes_takes_the_jars_of_the_faster(tmp_path: Path) -> None:
    fake_java(tmp_path, "17.0.15")
    folder = tmp_path / "cache" / "jars" / environment._key()
    fake_spark(tmp_path / "spark", fetches=FETCHED)
    submit = tmp_path / "spark" / "bin" / "spark-submit"
    submit.write_text(submit.read_text() + f'mkdir "{folder}" && touch "{folder}/{FETCHED[0]}"\n')
    assert names(environment.jars()) == FETCHED[:1]


def test_failure_to_fetch_says_why_and_keeps_nothing(tmp_path: Path) -> None:
    fake_java(tmp_path, "17.0.15")
    fake_spark(tmp_path / "spark", fetches=FETCHED[:1], fails_with=":: Host maven.example not found. url=somewhere")
    with pytest.raises(EnvironmentProblem, match=f"cannot fetch {versions.DELTA_COORDINATE}") as problem:
        environment.jars()
    assert problem.value.detail == "Host maven.example not found."
    assert problem.value.hint.startswith("Check the network")
    assert list((tmp_path / "cache" / "jars").iterdir()) == []


def test_spark_without_spark_submit_is_named(tmp_path: Path) -> None:
    fake_java(tmp_path, "17.0.15")
    with pytest.raises(EnvironmentProblem) as problem:
        environment.jars()
    assert problem.value.detail == f"{tmp_path / 'spark' / 'bin' / 'spark-submit'}: No such file or directory"


def test_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    fake_java(tmp_path, "17.0.15")
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(EnvironmentProblem, match="cannot write to") as problem:
        environment.jars()
    assert "RUNNEL_CACHE" in problem.value.hint


@pytest.mark.parametrize(
    ("jar", "artifact"),
    [
        ("zstd-jni-1.5.7-3.jar", "zstd-jni"),
        ("log4j-1.2-api-2.24.3.jar", "log4j-1.2-api"),
        ("delta-spark_4.1_2.13-4.4.0.jar", "delta-spark_4.1_2.13"),
        ("RoaringBitmap-0.9.25.jar", "RoaringBitmap"),
        ("unversioned.jar", "unversioned"),
    ],
)
def test_artifact_of_a_jar(jar: str, artifact: str) -> None:
    assert environment._artifact(jar) == artifact


def test_jars_that_spark_has_are_left_out() -> None:
    in_spark = ["zstd-jni-1.5.7-6.jar", "delta-storage-api-1.0.jar", "log4j-1.2-api-2.24.3.jar"]
    assert environment.missing_in_spark([*FETCHED, "org.log4j_log4j-2.0.jar"], in_spark) == [*FETCHED[:2], "org.log4j_log4j-2.0.jar"]


def test_versions_agree_with_the_package_requirements() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert f"pyspark=={versions.SPARK}" in project["dependencies"]
    assert versions.DELTA_COORDINATE == "io.delta:delta-spark_4.1_2.13:4.4.0"


@pytest.mark.parametrize("name", ["a[b]", "{a}", "a*"])
def test_a_folder_that_spark_takes_for_a_pattern_is_refused_before_spark_starts(tmp_path: Path, name: str) -> None:
    with pytest.raises(EnvironmentProblem, match="cannot be a warehouse") as problem:
        runnel.connect(warehouse=str(tmp_path / name))
    assert "--warehouse" in (problem.value.hint or "")
    assert not (tmp_path / name).exists()


def test_runnel_may_lie_in_a_folder_with_a_space_in_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "QUIET", "/new user/log4j2.properties")
    assert shlex.split(session.java_options("-Xss4m")) == ["-Dlog4j2.configurationFile=/new user/log4j2.properties", "-Xss4m"]
