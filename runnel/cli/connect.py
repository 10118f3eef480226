"""Connections: to the catalog alone, or with Spark and its noise kept off the console."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.text import Text

from runnel.bind.expand import join_key
from runnel.cli.names import full_name, short
from runnel.definition import Definition
from runnel.errors import DefinitionError
from runnel.project.names import Home
from runnel.state import Catalog

if TYPE_CHECKING:
    from runnel.api import Runnel
    from runnel.cli.app import Options


def known(options: Options, names: Sequence[str]) -> dict[str, Definition]:
    """The definitions of these stream tables, or of all; unknown names fail before Spark starts."""
    with opened_catalog(options) as catalog:
        every = {e.name: Definition.from_dict(e.definition) for e in catalog.entries()}
    for name in names:
        if full_name(name) not in every:
            known = ", ".join(short(n) for n in every)
            raise DefinitionError(
                f'stream table "{name}" does not exist',
                code="STREAM_TABLE_NOT_FOUND",
                detail=f"Stream tables are {known}." if known else "There are no stream tables yet.",
                hint='Create it with `runnel create NAME "SELECT ..."`, or run `runnel repair` if its backing table exists.',
            )
    return {n: every[n] for n in dict.fromkeys(map(full_name, names))} if names else every


def check_folder(options: Options) -> None:
    if not os.path.isdir(options.folder):
        raise DefinitionError(
            f"there is no warehouse at {options.folder}",
            code="WAREHOUSE_NOT_FOUND",
            hint="Run `runnel init`, or name another folder with --warehouse.",
        )


@contextmanager
def opened_catalog(options: Options) -> Iterator[Catalog]:
    check_folder(options)
    catalog = Catalog.open(options.catalog_url)
    try:
        yield catalog
    finally:
        catalog.close()


@contextmanager
def offline(options: Options) -> Iterator[Runnel]:
    """A `Runnel` for the verbs that need the catalog and the logs only: list, status, alter, repair."""
    from runnel.api import Runnel
    from runnel.execute.engine import Engine

    class Offline(Runnel):
        def __init__(self, catalog: Catalog) -> None:
            self.folder = options.folder
            self.settings = options.loaded_settings()
            self._engine = Engine(None, self.settings, catalog, None)  # type: ignore[arg-type]
            self._views = {}

        def _name(self, name: str | tuple[str, ...]) -> str:
            return full_name(name if isinstance(name, str) else join_key(name))

        def _sync(self) -> None:
            """No session, no views."""

    with opened_catalog(options) as catalog:
        yield Offline(catalog)


@contextmanager
def connected(options: Options, make: bool = False) -> Iterator[tuple[Runnel, Callable[[str], None]]]:
    """A connection, and the function that says on stderr what is going on."""
    if make:
        os.makedirs(options.folder, exist_ok=True)
    check_folder(options)
    settings = options.loaded_settings()
    with progress() as say:
        say("loading Spark")
        from runnel.api import connect
        from runnel.execute import session

        with spark_to_file(options.debug):
            spark = session.embedded(options.folder, say, options.config)
        say("opening the warehouse")
        rn = connect(warehouse=options.folder, catalog=options.catalog, settings=settings, progress=say)
        before = (spark.catalog.currentCatalog(), spark.catalog.currentDatabase())
        try:
            if options.home != Home():
                use(rn, options.home)
            yield rn, say
        finally:
            if options.home != Home():
                use(rn, Home(*before))
            rn.close()


def use(rn: Runnel, home: Home) -> None:
    """Let names without a schema mean those of a project; its schema comes into being with the first use."""
    schema = f"`{home.catalog}`.`{home.schema}`"
    rn.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    rn.sql(f"USE {schema}")


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """A line on stderr that says what runs: with a spinner on a terminal, plain lines elsewhere. "" clears it."""
    with _own_stderr() as stream:
        console = Console(file=stream)
        if not console.is_terminal:
            yield lambda text: print(text, file=stream, flush=True) if text else None
            return
        status = console.status("")

        def say(text: str) -> None:
            if text:
                status.update(Text(text))
            status.start() if text else status.stop()

        try:
            yield say
        finally:
            status.stop()


@contextmanager
def _own_stderr() -> Iterator[TextIO]:
    """Stderr under a descriptor of its own, which stays with the terminal while Spark's goes to a file."""
    if not _is_console():
        yield sys.stderr
        return
    with os.fdopen(os.dup(2), "w") as stream:
        yield stream


@contextmanager
def spark_to_file(debug: bool) -> Iterator[None]:
    """Let the Java process, started inside, write to a file instead of the console; its last lines show when it fails."""
    if debug or not _is_console():
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        failure = True
        try:
            yield
            failure = False
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for descriptor, copy in zip((1, 2), kept, strict=True):
                os.dup2(copy, descriptor)
                os.close(copy)
            if failure:
                log.seek(0)
                sys.stderr.write("".join(log.read().decode(errors="replace").splitlines(keepends=True)[-10:]))


def _is_console() -> bool:
    try:
        return sys.stderr.fileno() == 2 and sys.stdout.fileno() == 1
    except (AttributeError, OSError, ValueError):
        return False
