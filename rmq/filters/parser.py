"""Parser of SQL92 filter expressions, with RocketMQ's whole grammar and its rules of comparison.

    selector    and-term (OR and-term)*
    and-term    equality (AND equality)*
    equality    comparison ( = c | <> c | IS NULL | IS NOT NULL )*
    comparison  unary ( > u | >= u | < u | <= u | [NOT] BETWEEN u AND u | [NOT] IN ('a', 'b')
                      | [NOT] CONTAINS 'a' | [NOT] STARTSWITH 'a' | [NOT] ENDSWITH 'a' )*
    unary       + u | - u | NOT u | 'text' | 5 | 5.5 | TRUE | FALSE | NULL | property | ( selector )

There is no LIKE and no arithmetic. What RocketMQ's parser refuses is refused here too, with the
position. This parser also refuses text after the end of an expression. RocketMQ silently drops it:
there, "a = 1 b = 2" filters by a = 1 alone.

Example: parse("a >= 'x'") raises SqlError "character 3: only numbers can be compared with >=".
"""

import itertools
from collections.abc import Callable

from rmq.filters.tokens import END, ERROR, SqlError, Token, cut
from rmq.filters.tree import (
    BOOL,
    DOUBLE,
    INT,
    LONG,
    NULL,
    TEXT,
    Both,
    Cast,
    Compare,
    Constant,
    Equal,
    In,
    Negate,
    Node,
    Not,
    Property,
    Search,
    is_truth,
)

CHARACTERS_MAX = 32_768  # of one expression; rmq's own limit
NESTING_MAX = 64  # nested parentheses and signs, comparisons in a row; rmq's own limit
_INT_MAX, _LONG_MAX = 2**31 - 1, 2**63 - 1
_SEARCHES = ("CONTAINS", "STARTSWITH", "ENDSWITH")
_SIGNS = (">", ">=", "<", "<=")


class TrailingText(SqlError):
    """The expression is complete and more follows."""


def parse(expression: str) -> Node:
    """The tree, whose root is a truth value. SqlError tells what is wrong, and where."""
    if len(expression) > CHARACTERS_MAX:
        raise SqlError(CHARACTERS_MAX + 1, f"longer than {CHARACTERS_MAX} characters")
    parser = _Parser(cut(expression))
    root = parser.truth(parser.either(), parser.tokens[0])
    token = parser.token
    if token.kind != END:
        raise TrailingText(token.position, _trailing(token))
    return root


def _trailing(token: Token) -> str:
    if token.kind == "name" and token.value.upper() == "LIKE":
        return "RocketMQ has no LIKE; use CONTAINS, STARTSWITH or ENDSWITH"
    return f"the expression is complete before {token.shown()}; join the two by AND or OR"


class _Parser:
    """Recursive descent, with a method for each rule; `token` is the next one to read."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.at = 0
        self.depth = 0

    @property
    def token(self) -> Token:
        token = self.tokens[self.at]
        if token.kind == ERROR:
            raise SqlError(token.position, token.value)
        return token

    def take(self) -> Token:
        token = self.token
        self.at += token.kind != END
        return token

    def takes(self, value: str) -> bool:
        """Whether this keyword or sign is the next token; if so, goes past it."""
        if self.is_next(value):
            self.at += 1
            return True
        return False

    def is_next(self, value: str, ahead: int = 0) -> bool:
        token = self.tokens[min(self.at + ahead, len(self.tokens) - 1)]
        return token.kind in ("word", "sign") and token.value == value

    def expect(self, value: str) -> None:
        if not self.takes(value):
            raise SqlError(self.token.position, f"{value} was expected, not {self.token.shown()}")

    def truth(self, node: Node, token: Token) -> Node:
        """The node, for a place that needs a truth value."""
        if isinstance(node, Property):
            return Cast(node)
        if not is_truth(node):
            raise SqlError(token.position, "a condition was expected, this is a value")
        return node

    def either(self) -> Node:
        return self.chain("OR", self.both)

    def both(self) -> Node:
        return self.chain("AND", self.equality)

    def chain(self, word: str, rule: Callable[[], Node]) -> Node:
        first = self.token
        left = rule()
        while self.takes(word):
            second = self.token
            right = rule()
            left = Both(word, self.truth(left, first), self.truth(right, second))
        return left

    def equality(self) -> Node:
        left = self.comparison()
        for links in itertools.count():
            token = self.token
            if links > NESTING_MAX:
                raise SqlError(token.position, f"more than {NESTING_MAX} comparisons in a row")
            if self.takes("="):
                left = _equal(left, self.comparison(), token)
            elif self.takes("<>"):
                left = Not(_equal(left, self.comparison(), token))
            elif self.takes("IS"):
                negated = self.takes("NOT")
                self.expect("NULL")
                left = Equal(left, Constant(None, NULL))
                left = Not(left) if negated else left
            else:
                break
        return left

    def comparison(self) -> Node:
        left = self.unary()
        for links in itertools.count():
            token = self.token
            if links > NESTING_MAX:
                raise SqlError(token.position, f"more than {NESTING_MAX} comparisons in a row")
            if token.kind == "sign" and token.value in _SIGNS:
                self.take()
                left = _compare(token.value, left, self.unary(), token)
                continue
            negated = self.is_next("NOT")
            word = self.tokens[self.at + 1] if negated else token
            if word.kind == "word" and word.value in (*_SEARCHES, "BETWEEN", "IN"):
                self.at += 1 + negated
                left = self.range_or_search(word.value, negated, left, word)
            elif negated:
                raise SqlError(
                    word.position, "BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH must follow NOT"
                )
            else:
                break
        return left

    def range_or_search(self, word: str, negated: bool, left: Node, token: Token) -> Node:
        if word == "BETWEEN":
            low = self.unary()
            self.expect("AND")
            return _between(left, low, self.unary(), negated, token)
        if word == "IN":
            return self.members(left, negated, token)
        return Search(word, negated, left, self.text())

    def members(self, left: Node, negated: bool, token: Token) -> Node:
        self.expect("(")
        texts = [self.text()]
        while self.takes(","):
            texts.append(self.text())
        self.expect(")")
        if not isinstance(left, Property):
            raise SqlError(token.position, "only a property can be IN a list")
        return In(left, tuple(texts), negated)

    def text(self) -> str:
        token = self.token
        if token.kind != "text":
            raise SqlError(token.position, f"a 'string' was expected, not {token.shown()}")
        self.at += 1
        return token.value

    def unary(self) -> Node:
        token = self.token
        self.depth += 1
        if self.depth > NESTING_MAX:
            raise SqlError(token.position, f"nested deeper than {NESTING_MAX}")
        node: Node
        if self.takes("+"):
            node = self.unary()
        elif self.takes("-"):
            node = Negate(self.unary())
        elif self.takes("NOT"):
            inner = self.token
            node = Not(self.truth(self.unary(), inner))
        elif self.takes("("):
            node = self.either()
            self.expect(")")
        else:
            node = self.primary()
        self.depth -= 1
        return node

    def primary(self) -> Node:
        token = self.take()
        if token.kind == "name":
            return Property(token.value)
        if token.kind == "text":
            return Constant(token.value, TEXT)
        if token.kind == "whole":
            return _whole(token)
        if token.kind == "decimal":
            return _decimal(token)
        if token.kind == "word" and token.value in ("TRUE", "FALSE"):
            return Constant(token.value == "TRUE", BOOL)
        if token.kind == "word" and token.value == "NULL":
            return Constant(None, NULL)
        raise SqlError(token.position, f"a property or a value was expected, not {token.shown()}")


def _whole(token: Token) -> Constant:
    value = int(token.value.rstrip("lL"))
    if value > _LONG_MAX:
        raise SqlError(token.position, f"{token.value[:40]} is greater than {_LONG_MAX}")
    return Constant(value, INT if value <= _INT_MAX else LONG)


def _decimal(token: Token) -> Constant:
    value = float(token.value)
    if value == float("inf"):
        raise SqlError(token.position, f"{token.value[:40]} is greater than any double")
    if value == 0:
        # RocketMQ refuses what is less than the least positive double: both 0.0 and 1e-999.
        raise SqlError(token.position, f"{token.value[:40]} is no number RocketMQ takes; write 0")
    return Constant(value, DOUBLE)


def _equal(left: Node, right: Node, token: Token) -> Equal:
    for side in (left, right):
        if isinstance(side, Constant) and side.kind == NULL:
            raise SqlError(token.position, "nothing equals NULL; use IS NULL or IS NOT NULL")
    constants = isinstance(left, Constant) and isinstance(right, Constant)
    if constants and is_truth(left) and not is_truth(right):
        raise SqlError(token.position, "TRUE and FALSE cannot be compared with such a value")
    return Equal(left, right)


def _compare(sign: str, left: Node, right: Node, token: Token) -> Compare:
    for side in (left, right):
        number = isinstance(side, Constant) and side.kind in (INT, LONG, DOUBLE)
        if not number and (isinstance(side, Constant) or is_truth(side)):
            raise SqlError(token.position, f"only numbers can be compared with {sign}")
    return Compare(sign, left, right)


def _between(value: Node, low: Node, high: Node, negated: bool, token: Token) -> Both:
    if negated:
        return Both("OR", _compare("<", value, low, token), _compare(">", value, high, token))
    both = Both("AND", _compare(">=", value, low, token), _compare("<=", value, high, token))
    if isinstance(low, Constant) and isinstance(high, Constant):
        assert isinstance(low.value, int | float) and isinstance(high.value, int | float)
        # Java compares an int or long with a double by making both doubles.
        exact = low.kind != DOUBLE and high.kind != DOUBLE
        if high.value < low.value if exact else float(high.value) < float(low.value):
            raise SqlError(token.position, "the lower bound of BETWEEN is above the upper one")
    return both
