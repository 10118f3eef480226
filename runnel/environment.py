"""What the machine must offer: Java, Spark, and the jars that Spark needs beyond its own.

`python -m runnel.environment` checks all three and fetches the jars the first time; afterwards `jars()` only lists a folder.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from runnel.errors import EnvironmentProblem
from runnel.versions import DELTA, DELTA_COORDINATE, JAVA_MINIMUM, SPARK

COORDINATES = (DELTA_COORDINATE,)
INSTALL_JAVA = f"Install a JDK {JAVA_MINIMUM} or newer (Debian and Ubuntu: apt install openjdk-17-jre-headless) or point JAVA_HOME at one."
RESOLVE_SECONDS = 900  # 90 MB over a slow line; a machine without network fails much earlier


def check_java() -> int:
    """The Java version, or an error that says what to install."""
    found = java_version()
    if found is None:
        home = os.environ.get("JAVA_HOME")
        where = f"JAVA_HOME is {home}, which has no bin/java that runs" if home else "JAVA_HOME is not set, and PATH has no java that runs"
        raise EnvironmentProblem(f"java {JAVA_MINIMUM} or newer is needed, none found", detail=f"{where}.", hint=INSTALL_JAVA)
    if found < JAVA_MINIMUM:
        raise EnvironmentProblem(
            f"java {JAVA_MINIMUM} or newer is needed, found java {found}", detail=f"It is {_java()}.", hint=INSTALL_JAVA, found=found
        )
    return found


def java_version() -> int | None:
    """Major version of the Java that Spark will start, None when there is none that runs."""
    java = _java()
    if java is None:
        return None
    try:
        # Java prints its version to stderr, after a line of its own when JAVA_TOOL_OPTIONS is set.
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_java_version(answer.stderr + answer.stdout) if answer.returncode == 0 else None


def parse_java_version(text: str) -> int | None:
    """The major version in the answer of `java -version`.

    >>> parse_java_version('openjdk version "17.0.15" 2025-04-15')
    17
    >>> parse_java_version('java version "1.8.0_402"')
    8
    """
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else None


def jars(progress: Callable[[str], None] | None = None) -> list[str]:
    """Paths of the jars for `spark.jars`; the first call on a machine fetches them, which needs Java and the network."""
    folder = cache_folder() / "jars" / _key()
    found = _jars_in(folder)
    if not found:
        check_java()
        if progress:
            progress(f"fetching Delta Lake {DELTA} (first time, about half a minute)")
        _fetch(folder)
        found = _jars_in(folder)
    return found


def cache_folder() -> Path:
    """Where downloads are kept: `RUNNEL_CACHE`, else `~/.cache/runnel`."""
    return Path(os.environ.get("RUNNEL_CACHE") or "~/.cache/runnel").expanduser().absolute()


def spark_home() -> Path:
    """The Spark that pyspark will start: `SPARK_HOME` if set, as in pyspark itself, else the one inside the package."""
    if os.environ.get("SPARK_HOME"):
        return Path(os.environ["SPARK_HOME"])
    spec = importlib.util.find_spec("pyspark")  # finds the folder without the cost of importing it
    if spec is None or spec.origin is None:
        raise EnvironmentProblem("pyspark is not installed", hint=f"Run pip install pyspark=={SPARK}.")
    return Path(spec.origin).parent


def missing_in_spark(fetched: Iterable[str], in_spark: Iterable[str]) -> list[str]:
    """The fetched jars whose artifact Spark does not bring in any version; two versions in one class path break each other.

    >>> missing_in_spark(["io.delta_delta-storage-4.4.0.jar", "org.slf4j_slf4j-api-2.0.13.jar"], ["slf4j-api-2.0.17.jar"])
    ['io.delta_delta-storage-4.4.0.jar']
    """
    present = {_artifact(name) for name in in_spark}
    # Ivy names a file group_artifact-version.jar, and a group has no underscore.
    return [name for name in fetched if _artifact(name.partition("_")[2]) not in present]


def _artifact(jar: str) -> str:
    """`zstd-jni` of `zstd-jni-1.5.7-3.jar`, `log4j-1.2-api` of `log4j-1.2-api-2.24.3.jar`."""
    match = re.fullmatch(r"(.+?)-\d[^-]*(?:-[^-]+)?\.jar", jar)
    return match.group(1) if match else jar.removesuffix(".jar")


def _java() -> str | None:
    """The same choice as Spark's own scripts: JAVA_HOME wins, even when PATH has a better one."""
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else shutil.which("java")


def _key() -> str:
    """Folder name for one set of jars, for example `delta-spark_4.1_2.13-4.4.0-spark-4.1.4`."""
    artifacts = ["-".join(coordinate.split(":")[1:]) for coordinate in COORDINATES]
    return "-".join([*artifacts, "spark", _spark_version()])


def _spark_version() -> str:
    try:
        return importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return SPARK


def _jars_in(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.glob("*.jar"))


def _fetch(folder: Path) -> None:
    """Fill `folder` in one rename: whoever sees it sees all of it, and of two processes the first to finish wins."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".fetching-", dir=folder.parent))
    except OSError as error:
        raise EnvironmentProblem(
            f"cannot write to {folder.parent}", detail=f"{error.strerror}.", hint="Set RUNNEL_CACHE to a folder that you can write to."
        ) from error
    try:
        ready = _resolve(work)
        try:
            ready.rename(folder)
        except OSError:
            if not _jars_in(folder):  # otherwise another process was first, with the same jars
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _resolve(work: Path) -> Path:
    """Resolve COORDINATES inside `work` with Spark's own Ivy; returns the folder of the jars that Spark lacks."""
    home, ivy, ready = spark_home(), work / "ivy", work / "ready"
    failure = _run_ivy(home, ivy)
    if failure:
        raise EnvironmentProblem(
            f"cannot fetch {', '.join(COORDINATES)}",
            detail=_last_useful_lines(failure),
            hint="Check the network, or set DEFAULT_ARTIFACT_REPOSITORY to a Maven mirror that this machine can reach, and try again.",
        )
    ready.mkdir()
    fetched = sorted(path.name for path in (ivy / "jars").glob("*.jar"))
    for name in missing_in_spark(fetched, (path.name for path in (home / "jars").glob("*.jar"))):
        (ivy / "jars" / name).rename(ready / name)
    return ready


def _run_ivy(home: Path, ivy: Path) -> str:
    """Let spark-submit put the packages into `ivy`/jars; returns its output when it fails, else nothing."""
    command = [str(home / "bin" / "spark-submit"), "--master", "local", "--packages", ",".join(COORDINATES), "--conf", f"spark.jars.ivy={ivy}"]
    # What it starts after resolving is itself with --version, so no session is created.
    command += ["--class", "org.apache.spark.deploy.SparkSubmit", "spark-internal", "--version"]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "SPARK_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=RESOLVE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {RESOLVE_SECONDS} seconds"
    except OSError as error:
        return f"{command[0]}: {error.strerror}"
    return "" if done.returncode == 0 else done.stdout or f"{command[0]} ended with code {done.returncode}"


def _last_useful_lines(output: str, count: int = 3) -> str:
    """The last different lines that name a cause; an unreachable host matters more than the packages it did not deliver.

    >>> _last_useful_lines("loading\\n  Host maven.example not found. url=x/a.pom\\n  Host maven.example not found. url=x/a.jar\\n  at Main.run")
    'Host maven.example not found.'
    """
    lines = [line.partition(" url=")[0].strip(" \t:") for line in output.splitlines() if not line.lstrip().startswith("at ")]
    lines = list(dict.fromkeys(line for line in lines if line))
    causes = [line for line in lines if re.search(r"host \S+ not found|server access error|exception|no such|no answer", line, re.IGNORECASE)]
    return " | ".join((causes or lines)[-count:])


def main() -> int:
    try:
        print(f"Java {check_java()}: {_java()}")
        print(f"Spark {_spark_version()}: {spark_home()}")
        found = jars(progress=lambda text: print(text, flush=True))
        print(f"Delta Lake {DELTA}: {len(found)} jars in {Path(found[0]).parent}")
    except EnvironmentProblem as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
