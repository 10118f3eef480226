"""Words that the parser takes for others, told apart before it reads them.

`window(` is a function and never the WINDOW clause, which has a name there. `TABLE t` where a query may begin is
SELECT * FROM t. `>>>` is one operator and not `>>` before `>`.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot.tokens import Token, TokenType

UNSIGNED_SHIFT = TokenType.CARET_AT
"""A token that Spark does not have, in the place of `>>>`."""

_QUERY_MAY_FOLLOW = frozenset(
    {TokenType.L_PAREN, TokenType.R_PAREN, TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT, TokenType.ALL, TokenType.DISTINCT}
)

_NESTING = frozenset({TokenType.ARRAY, TokenType.MAP, TokenType.STRUCT})


def respelled(tokens: list[Token]) -> list[Token]:
    """The tokens as the parser should see them."""
    return list(_respelled(tokens))


def _respelled(tokens: list[Token]) -> Iterator[Token]:
    skip = nested = 0  # tokens taken already; types such as ARRAY<...> that are still open
    for i, token in enumerate(tokens):
        if skip:
            skip -= 1
            continue
        after = tokens[i + 1].token_type if i + 1 < len(tokens) else None
        if token.token_type is TokenType.WINDOW and after is TokenType.L_PAREN:
            yield _as(token, TokenType.VAR, token.text)
        elif token.token_type is TokenType.TABLE and after in (TokenType.VAR, TokenType.IDENTIFIER) and _begins(tokens, i):
            yield from (_as(token, TokenType.SELECT, "SELECT"), _as(token, TokenType.STAR, "*"), _as(token, TokenType.FROM, "FROM"))
        elif token.token_type is TokenType.LT and i and tokens[i - 1].token_type in _NESTING:
            nested += 1
            yield token
        elif token.token_type is TokenType.GT and nested:
            nested -= 1
            yield token
        elif _is_unsigned_shift(tokens[i : i + 3]):
            yield _as(token, UNSIGNED_SHIFT, ">>>")
            skip = 2
        else:
            yield token


def _begins(tokens: list[Token], i: int) -> bool:
    """Whether a query may begin at a token."""
    return i == 0 or tokens[i - 1].token_type in _QUERY_MAY_FOLLOW


def _is_unsigned_shift(tokens: list[Token]) -> bool:
    return len(tokens) == 3 and all(t.token_type is TokenType.GT for t in tokens) and tokens[2].start == tokens[0].start + 2


def _as(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end, token.comments)
