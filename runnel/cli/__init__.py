"""The verbs of the Python interface in the shell: results on stdout, everything else on stderr.

`list`, `history`, `timeline`, `status`, `graph`, `alter`, `export`, `apply --dry-run`, `repair` and the commands of operation read files, the catalog
and the commit logs only, so they start no Spark.
With `--json`, stdout carries exactly one JSON document, also when a command fails. A file has the commands of one kind;
`connect.py` and `show.py` are what they share.
"""

from runnel.cli import daemon, define, operate, project, read, rest, run
from runnel.cli.app import app

__all__ = ["app", "daemon", "define", "main", "operate", "project", "read", "rest", "run"]


def main() -> None:
    app()
