"""SQL files -> what a project declares: stream tables with their places in the files, and the statements that make their sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlglot.tokens import Token, TokenType

from runnel.bind.faithful import SparkText
from runnel.bind.script import Piece, pieces
from runnel.bind.statement import Statement, parse_statement
from runnel.errors import DefinitionError, RunnelError
from runnel.project.names import Home, reads
from runnel.schedule.graph import Graph

SOURCES = {"TABLE": "table", "SCHEMA": "schema", "DATABASE": "schema", "NAMESPACE": "schema"}
"""What a project may make besides stream tables, if it says IF NOT EXISTS."""


@dataclass(frozen=True)
class Place:
    """A line and a column of a file."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def shifted(self, position: tuple[int, int] | None) -> tuple[int, int]:
        """A position counted from here, counted from the start of the file."""
        line, column = position or (1, 1)
        return self.line + line - 1, column + (self.column - 1 if line == 1 else 0)


@contextmanager
def at(place: Place) -> Iterator[None]:
    """Errors inside are about the text that begins at this place: they name its file, and count from the start of it."""
    try:
        yield
    except RunnelError as error:
        if not error.file:
            error.file, error.position = place.file, place.shifted(error.position)
        raise


@dataclass(frozen=True)
class Declared:
    """One stream table as a file defines it: `name` is its key, `reads` the keys of what its query reads."""

    name: str
    statement: Statement
    reads: tuple[str, ...]
    place: Place
    query_place: Place


@dataclass(frozen=True)
class Source:
    """A statement for Spark that makes a schema or a table where it is not there yet."""

    kind: str
    name: str
    text: str
    place: Place


@dataclass(frozen=True)
class Declarations:
    """All that the files of a project say, stream tables after those that they read."""

    home: Home
    sources: tuple[Source, ...]
    stream_tables: tuple[Declared, ...]


def sql_files(paths: Iterable[Path]) -> list[Path]:
    """The SQL files that these are or hold, by name; folders are searched to the bottom."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(p for p in path.rglob("*.sql") if p.is_file() and not any(part.startswith(".") for part in p.relative_to(path).parts))
        elif path.is_file():
            found.append(path)
        else:
            raise DefinitionError(f"there is no file or folder {path}", code="FILE_NOT_FOUND", hint="Name a file of SQL, or a folder of such files.")
    return list(dict.fromkeys(found))


def declarations(files: Iterable[Path], home: Home, root: Path | None = None, only_batch: bool = False) -> Declarations:
    """Read files; `root` shortens their names in messages. `only_batch` refuses what a declarative pipeline runs as a stream."""
    sources: list[Source] = []
    tables: dict[str, Declared] = {}
    for file in files:
        shown = _shown(file, root)
        with at(Place(shown)):
            found = pieces(_text(file, shown))
        for piece in found:
            place = Place(shown, piece.line, piece.column)
            with at(place):
                declared = _declared(piece, place, home, only_batch)
            if isinstance(declared, Source):
                sources.append(declared)
                continue
            if (first := tables.get(declared.name)) is not None:
                with at(place):
                    raise DefinitionError(
                        f'"{home.short(declared.name)}" is defined twice',
                        code="DEFINED_TWICE",
                        detail=f"The first definition is at {first.place}.",
                        hint="Keep one of the two.",
                    )
            tables[declared.name] = declared
    return Declarations(home, tuple(sources), _sorted(tables))


def _text(file: Path, shown: str) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise DefinitionError(f"cannot read {shown}", code="FILE_NOT_READABLE", detail=f"{why}.", hint="Give a text file in UTF-8.") from error


def _shown(file: Path, root: Path | None) -> str:
    try:
        return str(file.resolve().relative_to((root or Path.cwd()).resolve()))
    except ValueError:
        return str(file)


def _declared(piece: Piece, place: Place, home: Home, only_batch: bool) -> Declared | Source:
    tokens = SparkText().tokenize(piece.text)
    words = [t.text.upper() for t in tokens[:8]]
    if only_batch:
        _refuse_streams(words, tokens)
    statement = parse_statement(piece.text)
    if statement is None:
        return _source(piece, place, home, words, tokens)
    if statement.verb != "create":
        raise _misplaced(f"{statement.verb.upper()} STREAM TABLE")
    query_place = Place(place.file, *piece.at(len(piece.text) - len(statement.query)))
    with at(query_place):
        read = reads(statement.query, home)
    return Declared(home.full(statement.name), statement, read, place, query_place)


def _source(piece: Piece, place: Place, home: Home, words: list[str], tokens: list[Token]) -> Source:
    rest = words[1:]
    if rest[:1] == ["EXTERNAL"]:
        rest = rest[1:]
    kind = SOURCES.get(rest[0]) if rest and words[0] == "CREATE" else None
    if kind is None:
        raise _misplaced(" ".join(words[:2]))
    if rest[1:4] != ["IF", "NOT", "EXISTS"]:
        raise DefinitionError(
            f"CREATE {rest[0]} without IF NOT EXISTS",
            code="NOT_REPEATABLE",
            detail="The statements of a project run whenever it is applied.",
            hint=f"Write CREATE {rest[0]} IF NOT EXISTS.",
        )
    named = tokens[len(words) - len(rest) + 4 :]
    parts = [t.text for i, t in enumerate(named) if i % 2 == 0 and (i == 0 or named[i - 1].token_type is TokenType.DOT)]
    count = next((i for i in range(len(parts)) if 2 * i + 1 >= len(named) or named[2 * i + 1].token_type is not TokenType.DOT), 0) + 1
    name = home.full(parts[:count]) if kind == "table" and parts else ".".join(p.lower() for p in parts[:count])
    return Source(kind, name, piece.text, place)


def _misplaced(words: str) -> DefinitionError:
    return DefinitionError(
        f"{words} does not define anything",
        code="NOT_A_DEFINITION",
        detail="The files of a project hold CREATE STREAM TABLE, and CREATE SCHEMA or TABLE IF NOT EXISTS for sources.",
        hint="Run other statements with `runnel query`; instead of a view, use WITH in the query or make it a stream table.",
    )


def _refuse_streams(words: list[str], tokens: list[Token]) -> None:
    """A streaming table is fed once from each row of a stream, which is another thing than a query that is kept true."""
    plain = [w for w in words if w not in ("OR", "REPLACE", "TEMPORARY", "LIVE", "PRIVATE")]
    if plain[:1] == ["CREATE"] and plain[1:2] in (["STREAMING"], ["FLOW"]):
        what = " ".join(plain[:3] if plain[1] == "STREAMING" else plain[:2])
        raise DefinitionError(
            f"{what} is a flow of rows that is never looked at again, which Runnel does not run",
            code="STREAMING_ONLY",
            detail="Runnel keeps queries true under any change of their sources.",
            hint="Write CREATE MATERIALIZED VIEW over the table that the stream reads, or keep this flow in spark-pipelines.",
        )
    for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if (
            token.text.upper() == "STREAM"
            and before.text.upper() in ("FROM", "JOIN", ",")
            and after.token_type
            in (
                TokenType.VAR,
                TokenType.IDENTIFIER,
                TokenType.L_PAREN,
            )
        ):
            raise DefinitionError(
                "STREAM reads a table as a stream, which Runnel does not run",
                code="STREAMING_ONLY",
                detail="A stream table sees every change of the tables in its query as it is.",
                hint="Leave STREAM out.",
                position=(token.line, max(1, token.col - len(token.text) + 1)),
            )


def _sorted(tables: dict[str, Declared]) -> tuple[Declared, ...]:
    """Every stream table after those that it reads, else by name."""
    graph = Graph({name: tuple(r for r in d.reads if r in tables) for name, d in tables.items()})
    for unit in graph.components:
        if len(unit) > 1 or unit[0] in tables[unit[0]].reads:
            cycle = graph.path(unit[0], unit[0]) or unit
            place = tables[unit[0]].place
            with at(place):
                raise DefinitionError(
                    "stream tables read each other in a circle", code="CYCLE", detail=f"{' -> '.join(cycle)}.", hint="Break it at one of them."
                )
    return tuple(tables[name] for name in graph.order)
