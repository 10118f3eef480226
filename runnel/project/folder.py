"""A project is a folder with a `runnel.toml`: where its tables live, where its SQL is, and what holds for all of them."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runnel.errors import DefinitionError
from runnel.observe.record import Mode, mode_of
from runnel.project import pipeline_spec
from runnel.project.declare import Declarations, declarations, sql_files
from runnel.project.names import Home
from runnel.schedule.schedules import parse_schedule

FILE = "runnel.toml"
KEYS: dict[str, type] = {"warehouse": str, "catalog": str, "sql": str, "schema": str, "defaults": dict, "settings": dict, "spark": dict}
DEFAULTS = ("mode", "schedule")
TEMPLATE = """# What is here holds for every `runnel` command in this folder and below it; the command line wins.

warehouse = "runnel-warehouse"
sql = "sql"

# A catalog that several machines share. Passwords stay in the environment:
# catalog = "postgresql://runnel:${RUNNEL_PASSWORD}@db.example/runnel"

# Where names without a schema live:
# schema = "default"

[defaults]
# mode = "AUTO"         # of definitions that do not name one: AUTO, DIFFERENTIAL, STRICT or FULL
# schedule = "EVERY 5m"

[settings]
# history_days = 30.0  # docs/settings.md lists all of them

[spark]
# "spark.sql.shuffle.partitions" = "8"
"""


@dataclass(frozen=True)
class Project:
    """What the file of a project says, with paths in full and the environment filled in."""

    file: Path
    warehouse: str
    catalog: str | None = None
    home: Home = field(default_factory=Home)
    sql: tuple[Path, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    spark: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    only_batch: bool = False

    @property
    def root(self) -> Path:
        return self.file.parent

    @property
    def lock(self) -> Path:
        return self.root / "runnel.lock"

    def declarations(self) -> Declarations:
        """What the SQL files define."""
        return declarations(sql_files(self.sql), self.home, self.root, self.only_batch)


def find(start: Path) -> Path | None:
    """The file of the project that a folder belongs to: its own, or that of the nearest folder above."""
    for folder in (start.resolve(), *start.resolve().parents):
        for name in (FILE, *pipeline_spec.FILES):
            if (folder / name).is_file():
                return folder / name
    return None


def load(path: Path, environ: Mapping[str, str] | None = None) -> Project:
    """Read a `runnel.toml` or a pipeline spec; a folder means the file in it."""
    file = path.resolve()
    if file.is_dir():
        found = next((file / name for name in (FILE, *pipeline_spec.FILES) if (file / name).is_file()), None)
        if found is None:
            raise DefinitionError(f"{path} has no {FILE}", code="PROJECT_NOT_FOUND", hint=f"Run `runnel init {path}`, or name another folder.")
        file = found
    text = _text(file)
    if file.suffix in (".yml", ".yaml"):
        spec = pipeline_spec.read(text, file)
        home = Home(*(p.lower() for p in (spec.catalog, spec.schema)))
        return Project(file, str(file.parent / "runnel-warehouse"), None, home, spec.files, spark=spec.configuration, only_batch=True)
    return _project(file, _parsed(text, file), os.environ if environ is None else environ)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise DefinitionError(f"cannot read {file}", code="PROJECT_NOT_FOUND", detail=f"{why}.", hint=f"Name a {FILE} or its folder.") from error


def _parsed(text: str, file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"line (\d+), column (\d+)", str(error))
        wrong = DefinitionError(f"{file.name} is not TOML", code="PROJECT", detail=f"{re.sub(r' [(]at .*', '', str(error))}.", hint="Correct it.")
        wrong.file, wrong.position = str(file), (int(place[1]), int(place[2])) if place else None
        raise wrong from error


def _project(file: Path, data: dict[str, Any], environ: Mapping[str, str]) -> Project:
    _check(file, "", data, KEYS)
    defaults = data.get("defaults", {})
    _check(file, "defaults.", defaults, dict.fromkeys(DEFAULTS, str))
    spark = {key: fill(value, environ, file) if isinstance(value, str) else _flat(value) for key, value in _pairs("", data.get("spark", {}))}
    schema = tuple(p.lower() for p in data.get("schema", "default").split("."))
    if not 1 <= len(schema) <= 2 or not all(schema):
        raise _wrong(file, f'schema "{data["schema"]}" is not a name', "Use schema, or catalog.schema.")
    return Project(
        file,
        _at(file, fill(data.get("warehouse", "runnel-warehouse"), environ, file)),
        _address(file, fill(data["catalog"], environ, file)) if "catalog" in data else None,
        Home(*schema) if len(schema) == 2 else Home(schema=schema[0]),
        (Path(_at(file, data.get("sql", "sql"))),),
        data.get("settings", {}),
        spark,
        {key: _default(file, key, text) for key, text in defaults.items()},
    )


def fill(text: str, environ: Mapping[str, str], file: Path) -> str:
    """A text with `${NAME}` and `${NAME:-otherwise}` replaced from the environment.

    >>> fill("postgresql://ann:${PASSWORD}@${HOST:-db}/runnel", {"PASSWORD": "secret"}, Path("runnel.toml"))
    'postgresql://ann:secret@db/runnel'
    """

    def value(match: re.Match[str]) -> str:
        name, otherwise = match[1], match[2]
        if name in environ:
            return environ[name]
        if otherwise is None:
            raise _wrong(file, f"the environment variable {name} is not set", f"Set it, or write ${{{name}:-otherwise}}.")
        return otherwise

    return re.sub(r"\$\{(\w+)(?::-([^}]*))?\}", value, text)


def _at(file: Path, path: str) -> str:
    """A path as seen from the folder of the file."""
    return path if "://" in path else os.path.normpath(file.parent / Path(path).expanduser())


def _address(file: Path, url: str) -> str:
    """The address of a catalog; a SQLite file is seen from the folder of the project, too."""
    scheme, _, path = url.partition("sqlite:///")
    return f"sqlite:///{_at(file, path)}" if not scheme and path and not path.startswith("/") else url


def _pairs(prefix: str, values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Keys with dots, whether they were quoted or became tables of tables."""
    pairs: list[tuple[str, Any]] = []
    for key, value in values.items():
        pairs += _pairs(f"{prefix}{key}.", value) if isinstance(value, Mapping) else [(f"{prefix}{key}", value)]
    return pairs


def _flat(value: Any) -> str:
    """A number or a truth value as Spark writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check(file: Path, prefix: str, values: Mapping[str, Any], known: Mapping[str, type]) -> None:
    for key, value in values.items():
        if key not in known:
            raise _wrong(file, f'key "{prefix}{key}" does not exist', f"Use one of {', '.join(prefix + k for k in known)}.")
        if not isinstance(value, known[key]):
            what = "a table, as [" + key + "]" if known[key] is dict else "a text in quotes"
            raise _wrong(file, f'key "{prefix}{key}" cannot be {value!r}', f"Write {what}.")


def _default(file: Path, key: str, text: str) -> Mode | str:
    if key == "mode":
        return _mode(file, text)
    try:
        return str(parse_schedule(text))
    except DefinitionError as error:
        error.file, error.position = str(file), None
        raise


def _mode(file: Path, text: str) -> Mode:
    found = mode_of(text)
    if found is None:
        raise _wrong(file, f"refresh mode {text} does not exist", f"Use one of {', '.join(Mode)}.")
    return found


def _wrong(file: Path, message: str, hint: str) -> DefinitionError:
    error = DefinitionError(message, code="PROJECT", hint=hint)
    error.file = str(file)
    return error
