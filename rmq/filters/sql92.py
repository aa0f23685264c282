"""SQL92: compiles a filter expression to a program, and to the function that decides too, if any.

    compile_expression("a > 5")                            Filter(program, function="")
    compile_expression("$filter = 'vip' AND a > 5")        the program of a > 5, function "vip"

The second form asks for a message filter that the broker's owner has named in the setting
rmqMessageFilters (rmq/filters/functions.py). It needs nothing beyond RocketMQ's grammar, and no
property is called $filter, so a broker that does not know the form delivers nothing to such a
subscription. If the expression has other terms, AND must join them to this one at the top level.
"""

from functools import lru_cache

import msgspec

from rmq.filters.parser import parse
from rmq.filters.program import compile_tree
from rmq.filters.tokens import SqlError, cut
from rmq.filters.tree import BOOL, TEXT, Both, Compare, Constant, Equal, Node, Property

SQL92 = "SQL92"
FUNCTION_PROPERTY = "$filter"
CACHED_EXPRESSIONS = 1024


class Filter(msgspec.Struct, frozen=True):
    """One compiled expression."""

    program: bytes
    function: str = ""  # name of the message filter that also decides


@lru_cache(CACHED_EXPRESSIONS)
def compile_expression(expression: str) -> Filter:
    """Compiles the expression. SqlError tells what is wrong with it, and where."""
    root = parse(expression)
    if FUNCTION_PROPERTY not in expression:
        return Filter(compile_tree(root))
    terms: list[Node] = []
    functions: list[str] = []
    for term in _terms(root):
        if (
            isinstance(term, Equal)
            and term.left == Property(FUNCTION_PROPERTY)
            and isinstance(term.right, Constant)
            and term.right.kind == TEXT
        ):
            functions.append(str(term.right.value))
        else:
            terms.append(term)
    if len(functions) > 1 or any(_names_function(term) for term in terms):
        raise SqlError(
            _place(expression),
            f"{FUNCTION_PROPERTY} may stand once, as {FUNCTION_PROPERTY} = 'name', joined by AND",
        )
    rest: Node = Constant(True, BOOL)
    for number, term in enumerate(terms):
        rest = term if number == 0 else Both("AND", rest, term)
    return Filter(compile_tree(rest), functions[0] if functions else "")


def _terms(node: Node) -> list[Node]:
    """The terms that AND joins at the top level, from left to right."""
    found, left = [], [node]
    while left:
        node = left.pop()
        if isinstance(node, Both) and node.word == "AND":
            left += [node.left, node.right]
        else:
            found.append(node)
    return found[::-1]


def _names_function(node: Node) -> bool:
    left = [node]
    while left:
        node = left.pop()
        if node == Property(FUNCTION_PROPERTY):
            return True
        if isinstance(node, Both | Equal | Compare):
            left += [node.left, node.right]
        elif not isinstance(node, Property | Constant):
            left.append(node.inner)
    return False


def _place(expression: str) -> int:
    return next(token.position for token in cut(expression) if token.value == FUNCTION_PROPERTY)
