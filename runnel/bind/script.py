"""A text of several statements, split where a semicolon stands outside strings and comments; each piece knows where it began."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

from runnel.bind.faithful import SparkText
from runnel.errors import DefinitionError


@dataclass(frozen=True)
class Piece:
    """One statement without its semicolon, and the line and column of its first character, counted from 1."""

    text: str
    line: int
    column: int

    def at(self, offset: int) -> tuple[int, int]:
        """Line and column, in the whole text, of a character of this statement."""
        before = self.text[:offset]
        lines = before.count("\n")
        return self.line + lines, (len(before) - before.rfind("\n") if lines else self.column + offset)


def pieces(text: str) -> list[Piece]:
    """The statements of a text, in order. What stands between two semicolons without a statement is passed over.

    >>> [(p.text, p.line, p.column) for p in pieces("SELECT ';' ; -- one; two\\n  SELECT 'it''s';;")]
    [("SELECT ';'", 1, 1), ("SELECT 'it''s'", 2, 3)]
    """
    found: list[Piece] = []
    start: int | None = None
    end = 0
    whole = Piece(text, 1, 1)
    try:
        tokens = SparkText().tokenize(text)
    except SqlglotError as error:
        raise _unreadable(whole, error) from error
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            found += [_piece(whole, start, end)] if start is not None else []
            start = None
            continue
        start, end = token.start if start is None else start, token.end + 1
    return [*found, _piece(whole, start, end)] if start is not None else found


def _piece(whole: Piece, start: int, end: int) -> Piece:
    return Piece(whole.text[start:end].rstrip(), *whole.at(start))


def _unreadable(whole: Piece, error: SqlglotError) -> DefinitionError:
    """A quote or a comment that does not end. The tokenizer counts where it began from the start of the text."""
    place = re.search(r"Missing (.) from \d+:(\d+)", str(error.__cause__ or ""))
    opened = int(place[2]) if place else max(0, whole.text.rfind("/*"))
    return DefinitionError(
        f"{'what begins with ' + place[1] if place else 'a comment'} does not end",
        code="SYNTAX",
        hint="Close it; a quote inside a string is written twice." if place else "Close it with */.",
        position=whole.at(opened),
    )
