"""The statements Runnel adds to SQL, recognised from tokens so that names and strings are never taken for keywords.

CREATE [OR REPLACE] STREAM TABLE [IF NOT EXISTS] name [COMMENT '..'] [TBLPROPERTIES (..)] [REFRESH MODE m | REFRESH POLICY p] [schedule] AS query
ALTER STREAM TABLE name [SET] REFRESH MODE m | REFRESH POLICY p | TBLPROPERTIES (..) | AS query
ALTER STREAM TABLE name SET | ADD schedule, DROP SCHEDULE, SUSPEND, RESUME; schedules are those of `schedule/schedules.py`
REFRESH | DROP | DESCRIBE | EXPLAIN STREAM TABLE name, SHOW STREAM TABLES; STREAM TABLE may be written MATERIALIZED VIEW,
STREAMING TABLE, DYNAMIC TABLE or MATERIALIZED LAKE VIEW. Anything else belongs to Spark.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

from runnel.bind.faithful import SparkText
from runnel.errors import DefinitionError
from runnel.observe.record import POLICIES, Mode
from runnel.schedule.schedules import HINT, read_schedule

_NOUNS = (("MATERIALIZED", "LAKE", "VIEW"), ("STREAM", "TABLE"), ("STREAMING", "TABLE"), ("MATERIALIZED", "VIEW"), ("DYNAMIC", "TABLE"))
_PLURALS = tuple((*noun[:-1], noun[-1] + "S") for noun in _NOUNS)


@dataclass(frozen=True)
class Statement:
    """One recognised statement. `verb` is create, alter, refresh, drop, show, describe, explain, suspend or resume.

    `mode` and `schedule` are None where it says nothing about them; an alter then keeps them. An empty schedule drops the one that is there.
    """

    verb: str
    name: tuple[str, ...] = ()
    query: str = ""
    mode: Mode | None = None
    replace: bool = False
    if_not_exists: bool = False
    if_exists: bool = False
    cascade: bool = False
    full: bool = False
    comment: str = ""
    properties: dict[str, str] = field(default_factory=dict)
    schedule: str | None = None
    add: bool = False
    """The schedule may not replace another one."""


def parse_statement(text: str) -> Statement | None:
    """The Runnel statement in a text, or None when it is for Spark.

    >>> parse_statement("REFRESH STREAM TABLE sales.totals FULL").name
    ('sales', 'totals')
    >>> parse_statement("SELECT 1") is None
    True
    """
    try:
        tokens = SparkText().tokenize(text)
    except SqlglotError:
        return None
    if len(tokens) > 1 and tokens[0].token_type in (TokenType.SHOW, TokenType.COMMAND) and tokens[1].token_type is TokenType.STRING:
        # The tokenizer leaves what follows SHOW and EXPLAIN as one piece of text.
        tokens = [tokens[0], *SparkText().tokenize(tokens[1].text)]
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    return _Reader(text, tokens).statement()


class _Reader:
    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text, self.tokens, self.at = text, tokens, 0

    def statement(self) -> Statement | None:
        if self._accept("CREATE"):
            replace = self._accept("OR", "REPLACE")
            return self._create(replace) if self._noun(_NOUNS) else None
        if self._accept("ALTER"):
            return self._alter() if self._noun(_NOUNS) else None
        for verb in ("REFRESH", "DROP", "DESCRIBE", "DESC", "EXPLAIN"):
            if self._accept(verb):
                return self._named({"DESC": "describe"}.get(verb, verb.lower())) if self._noun(_NOUNS) else None
        if self._accept("SHOW") and self._noun(_PLURALS):
            return self._end(Statement("show"))
        return None

    def _create(self, replace: bool) -> Statement:
        if_not_exists = self._accept("IF", "NOT", "EXISTS")
        if replace and if_not_exists:
            raise self._error("OR REPLACE and IF NOT EXISTS exclude each other", "Keep one of the two.")
        name, comment, properties, mode, schedule = self._name(), "", dict[str, str](), None, None
        while not self._accept("AS"):
            if self._accept("COMMENT"):
                comment = self._string()
            elif self._accept("TBLPROPERTIES"):
                properties = self._properties()
            elif (chosen := self._refresh_mode()) is not None:
                mode = chosen
            elif self._at_schedule():
                schedule = self._schedule()
            else:
                raise self._error(f"unexpected {self._shown()}", "Expected COMMENT, TBLPROPERTIES, REFRESH MODE, REFRESH POLICY, SCHEDULE or AS.")
        return Statement("create", name, self._query(), mode, replace, if_not_exists, comment=comment, properties=properties, schedule=schedule)

    def _query(self) -> str:
        """The rest of the text."""
        if self.at >= len(self.tokens):
            raise self._error("the query after AS is missing", "Write AS SELECT ...")
        return self.text[self.tokens[self.at].start : self.tokens[-1].end + 1]

    def _alter(self) -> Statement:
        name = self._name()
        for verb in ("SUSPEND", "RESUME"):
            if self._accept(verb):
                return self._end(Statement(verb.lower(), name))
        if self._accept("DROP"):
            if not (self._accept("SCHEDULE") or self._accept("TRIGGER")):
                raise self._error(f"unexpected {self._shown()}", "Expected DROP SCHEDULE.")
            return self._end(Statement("alter", name, schedule=""))
        add = self._accept("ADD")
        if not add:
            self._accept("SET")
        if add or self._at_schedule():
            return self._end(Statement("alter", name, schedule=self._schedule(), add=add))
        if self._accept("TBLPROPERTIES"):
            return self._end(Statement("alter", name, properties=self._properties()))
        if self._accept("AS"):
            return Statement("alter", name, query=self._query())
        mode = self._refresh_mode()
        if mode is None:
            raise self._error(f"unexpected {self._shown()}", "Expected REFRESH MODE, REFRESH POLICY, SET TBLPROPERTIES, SET SCHEDULE or AS.")
        return self._end(Statement("alter", name, mode=mode))

    def _named(self, verb: str) -> Statement:
        if_exists = verb == "drop" and self._accept("IF", "EXISTS")
        statement = Statement(
            verb,
            self._name(),
            if_exists=if_exists,
            full=verb == "refresh" and self._accept("FULL"),
            cascade=verb == "drop" and self._accept("CASCADE"),
        )
        return self._end(statement)

    def _end(self, statement: Statement) -> Statement:
        if self.at < len(self.tokens):
            raise self._error(f"unexpected {self._shown()}", "End the statement here.")
        return statement

    def _noun(self, nouns: tuple[tuple[str, ...], ...]) -> bool:
        return any(self._accept(*noun) for noun in nouns)

    def _accept(self, *words: str) -> bool:
        following = self.tokens[self.at : self.at + len(words)]
        found = len(following) == len(words) and all(
            t.text.upper() == w and t.token_type is not TokenType.STRING for t, w in zip(following, words, strict=True)
        )
        self.at += len(words) if found else 0
        return found

    def _name(self) -> tuple[str, ...]:
        parts = [self._word()]
        while self.at < len(self.tokens) and self.tokens[self.at].token_type is TokenType.DOT:
            self.at += 1
            parts.append(self._word())
        if len(parts) > 3:
            raise self._error(f"name of {len(parts)} parts", "Use catalog.schema.name at most.")
        return tuple(parts)

    def _word(self) -> str:
        if self.at >= len(self.tokens) or not (
            self.tokens[self.at].text.replace("_", "a")[:1].isalnum() or self.tokens[self.at].token_type is TokenType.IDENTIFIER
        ):
            raise self._error(f"expected a name, found {self._shown()}", "Quote unusual names with backticks.")
        self.at += 1
        return self.tokens[self.at - 1].text

    def _string(self) -> str:
        if self.at >= len(self.tokens) or self.tokens[self.at].token_type is not TokenType.STRING:
            raise self._error(f"expected a string, found {self._shown()}", "Write it in single quotes.")
        text = ""
        while self.at < len(self.tokens) and self.tokens[self.at].token_type is TokenType.STRING:
            text += self.tokens[self.at].text  # adjacent strings are one, as in Spark
            self.at += 1
        return text

    def _properties(self) -> dict[str, str]:
        found: dict[str, str] = {}
        self._symbol(TokenType.L_PAREN, "(")
        while True:
            parts = [self.tokens[self.at].text] if self.at < len(self.tokens) else []
            self.at += 1
            while self.at < len(self.tokens) and self.tokens[self.at].token_type is TokenType.DOT:
                parts.append(self.tokens[self.at + 1].text)
                self.at += 2
            self._symbol(TokenType.EQ, "=")
            if self.at >= len(self.tokens):
                raise self._error("the property has no value", "Write 'key' = 'value'.")
            found[".".join(parts)] = self.tokens[self.at].text
            self.at += 1
            if self.at < len(self.tokens) and self.tokens[self.at].token_type is TokenType.COMMA:
                self.at += 1
                continue
            self._symbol(TokenType.R_PAREN, ")")
            return found

    def _symbol(self, kind: TokenType, shown: str) -> None:
        if self.at >= len(self.tokens) or self.tokens[self.at].token_type is not kind:
            raise self._error(f"expected {shown}, found {self._shown()}", "Write TBLPROPERTIES ('key' = 'value').")
        self.at += 1

    def _at_schedule(self) -> bool:
        word = self.tokens[self.at] if self.at < len(self.tokens) else None
        return word is not None and word.token_type is not TokenType.STRING and word.text.upper() in ("SCHEDULE", "TRIGGER", "TARGET_LAG")

    def _schedule(self) -> str:
        """A schedule clause, read from the text itself: durations such as 30s are no tokens of SQL."""
        if self.at >= len(self.tokens):
            raise self._error("the schedule is missing", HINT)
        start = self.tokens[self.at].start
        try:
            found, end = read_schedule(self.text, start)
        except DefinitionError as error:
            offset = min(error.values.get("offset", start), len(self.text) - 1)
            lead = self.text[:offset]
            error.position = (lead.count("\n") + 1, offset - (lead.rfind("\n") + 1) + 1)
            raise
        while self.at < len(self.tokens) and self.tokens[self.at].start < end:
            self.at += 1
        return str(found)

    def _refresh_mode(self) -> Mode | None:
        """REFRESH MODE in our words or REFRESH POLICY in those of Databricks; None when neither stands here."""
        if self._accept("REFRESH", "MODE"):
            return self._mode()
        if not self._accept("REFRESH", "POLICY"):
            return None
        for words in sorted(POLICIES, key=len, reverse=True):
            if self._accept(*words.split()):
                return POLICIES[words]
        raise self._error(f"refresh policy {self._shown()} does not exist", f"Use one of {', '.join(POLICIES)}.")

    def _mode(self) -> Mode:
        word = self._word().upper()
        if word not in Mode.__members__:
            self.at -= 1
            raise self._error(f"refresh mode {word} does not exist", f"Use one of {', '.join(Mode)}.")
        return Mode(word)

    def _shown(self) -> str:
        return f'"{self.tokens[self.at].text}"' if self.at < len(self.tokens) else "the end"

    def _error(self, message: str, hint: str) -> DefinitionError:
        token = self.tokens[min(self.at, len(self.tokens) - 1)]
        return DefinitionError(message, code="SYNTAX", hint=hint, position=(token.line, max(1, token.col - len(token.text) + 1)))
