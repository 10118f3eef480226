"""`spark-pipeline.yml`, the file that describes a pipeline to `spark-pipelines`: the keys of Spark 4.1, with the same rules.

`storage` is asked for as Spark asks for it and otherwise left alone: it is for the checkpoints of streams.
"""

from __future__ import annotations

import glob
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from runnel.errors import DefinitionError

FILES = ("spark-pipeline.yml", "spark-pipeline.yaml")
KEYS = ("name", "storage", "catalog", "database", "schema", "configuration", "libraries")
REQUIRED = ("name", "storage")


@dataclass(frozen=True)
class PipelineSpec:
    """What a pipeline spec says; `files` are the SQL files that its libraries name."""

    name: str
    catalog: str
    schema: str
    configuration: Mapping[str, str]
    files: tuple[Path, ...]


def read(text: str, file: Path) -> PipelineSpec:
    """The spec in a text; `file` is where the paths in it begin."""
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        wrong = _wrong(file, f"{file.name} is not YAML", "Correct it.", f"{getattr(error, 'problem', error)}.")
        mark = getattr(error, "problem_mark", None)
        wrong.position = (mark.line + 1, mark.column + 1) if mark else None
        raise wrong from error
    if not isinstance(data, dict):
        raise _wrong(file, f"{file.name} is not a table of keys", f"Write keys such as {', '.join(REQUIRED)}.")
    for key in data:
        if key not in KEYS:
            raise _wrong(file, f'key "{key}" does not exist', f"Use one of {', '.join(KEYS)}.")
    for key in REQUIRED:
        if key not in data:
            raise _wrong(file, f'key "{key}" is missing', f"Add {key}.")
    configuration = data.get("configuration") or {}
    if not isinstance(configuration, dict) or not all(isinstance(v, str) for pair in configuration.items() for v in pair):
        raise _wrong(file, "configuration is not a table of texts", 'Write each value in quotes, as in spark.sql.shuffle.partitions: "8".')
    schema = data.get("database", data.get("schema")) or "default"
    return PipelineSpec(str(data["name"]), str(data.get("catalog") or "spark_catalog"), str(schema), configuration, _files(data, file))


def _files(data: Mapping[str, Any], file: Path) -> tuple[Path, ...]:
    found: list[Path] = []
    for library in data.get("libraries") or []:
        try:
            pattern = str(library["glob"]["include"])
        except (KeyError, TypeError):
            raise _wrong(file, f"{library!r} is not a library", "Write - glob: {include: transformations/**}.") from None
        for path in sorted(p for p in file.parent.glob(_pattern(pattern, file)) if p.is_file() and "__pycache__" not in p.parts):
            if path.suffix != ".sql":
                raise _wrong(
                    file,
                    f"{path.relative_to(file.parent)} is not SQL",
                    "Define its tables in a .sql file, or keep it out of the libraries that Runnel reads.",
                    "Runnel reads the SQL files of a pipeline; definitions in Python belong to spark-pipelines.",
                )
            found.append(path)
    return tuple(dict.fromkeys(found))


def _pattern(pattern: str, file: Path) -> str:
    """A file, or a folder that ends with /**, as Spark allows them."""
    if not glob.has_magic(pattern):
        return pattern
    if pattern.endswith("/**") and not glob.has_magic(pattern[:-3]):
        return pattern + "/*"
    raise _wrong(file, f"the pattern {pattern} is not allowed", "Name a file, or a folder that ends with /**.")


def _wrong(file: Path, message: str, hint: str, detail: str = "") -> DefinitionError:
    error = DefinitionError(message, code="PIPELINE_SPEC", detail=detail, hint=hint)
    error.file = str(file)
    return error
