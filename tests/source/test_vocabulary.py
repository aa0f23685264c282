"""The protocol's vocabulary: one home for compiled code, one for Python; both say the same.

    cext/wire/codes.pxd            rmq/codes.py     codes, flag bits, permissions
    cext/wire/system_topics.pxd    rmq/names.py     topics and groups with a meaning of their own
    cext/wire/limits.pxd           rmq/limits.py    lengths that client, broker and file agree on

A number or a name that stands anywhere else is one that a change forgets. Tests may write them out:
that is how they notice a change that nobody wanted.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.source_tree import OURS, ROOT, files, shown

import rmq.codes
import rmq.limits
import rmq.names
from rmq.codes import RequestCode, ResponseCode

HOMES = {
    "cext/wire/codes.pxd", "cext/wire/system_topics.pxd", "cext/wire/limits.pxd",
    "rmq/codes.py", "rmq/names.py", "rmq/limits.py",
}  # fmt: skip
CONSTANT = re.compile(r"^    ([A-Z][A-Z_0-9]*) = (.+?)(?:\s*#.*)?$", re.MULTILINE)
TEXT = re.compile(r'#define RMQ_(\w+) "([^"]+)"')

# Any of these in a text without blanks is a name; with blanks it is a sentence for people.
NAMES = (
    rmq.names.RETRY_PREFIX, rmq.names.DLQ_PREFIX, rmq.names.SYSTEM_TOPIC_PREFIX,
    rmq.names.OLD_SYSTEM_TOPIC_PREFIX, *rmq.names.SYSTEM_TOPICS, *rmq.names.PRESET_GROUPS,
    rmq.names.CLIENT_PRODUCER_GROUP,
)  # fmt: skip


def compiled_constants(path: str) -> dict[str, int]:
    """{name: value} of a header's enums, in one table: a name stands once."""
    found = CONSTANT.findall((ROOT / path).read_text())
    values: dict[str, int] = {}
    for name, text in found:
        assert name not in values, f"{name} stands twice in {path}"
        values[name] = int(text, 0)
    return values


def python_constants(module: object) -> dict[str, int]:
    return {
        name: value
        for name, value in vars(module).items()
        if name.isupper() and type(value) is int
    }  # fmt: skip


CODES = compiled_constants("cext/wire/codes.pxd")
LIMITS = compiled_constants("cext/wire/limits.pxd")
TOPICS = dict(TEXT.findall((ROOT / "cext/wire/system_topics.pxd").read_text()))
# VERSION is left out: files of rmq have a VERSION of their own.
WORDS = (CODES.keys() | LIMITS.keys() | python_constants(rmq.limits).keys()) - {"VERSION"}


def test_compiled_codes_are_those_of_python() -> None:
    python = python_constants(rmq.codes)
    del python["VERSION_QUOTED_KEYS"]  # nothing compiled reads or writes routes
    for codes in (RequestCode, ResponseCode):
        python |= {code.name: code.value for code in codes}
    del python["GET_AUDIT_LOG"]  # rmq's own, and only control answers it
    assert len(python) > 240
    assert python == CODES


def test_texts_of_headers_that_are_written_at_once_say_the_same_numbers() -> None:
    text = (ROOT / "cext/wire/replies.pyx").read_text()
    versions = re.findall(r'"version":(\d+)', text)
    codes = re.findall(r'"code":(\d+),"flag":(\d)', text)
    assert versions and {int(each) for each in versions} == {rmq.codes.VERSION}
    assert [(int(code), int(flag)) for code, flag in codes] == [
        (RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, 0),
        (RequestCode.CHECK_TRANSACTION_STATE, rmq.codes.FLAG_ONE_WAY),
    ]


def test_compiled_names_of_topics_are_those_of_python() -> None:
    assert len(TOPICS) >= 11
    assert {name: getattr(rmq.names, name) for name in TOPICS} == TOPICS


def test_compiled_limits_are_those_of_python() -> None:
    python = python_constants(rmq.limits)
    assert len(LIMITS) >= 8
    assert {name: python.get(name) for name in LIMITS} == LIMITS


# ------------------------------------------------------------------- nowhere else

CYTHON = {
    "a constant that has a home": re.compile(
        rf"^\s*(?:cdef .*)?\b({'|'.join(sorted(WORDS))}) = -?\w", re.MULTILINE
    ),
    "a counted length": re.compile(
        rf"(?:{'|'.join(TOPICS)}), \d|(?:name_length|topic_bytes) [=!]= [1-9]"
    ),
    "a code as a number": re.compile(r"\bcode [=!]= -?[1-9]|\bcode\) [=!]= -?[1-9]"),
    "a flag or a permission as a number": re.compile(r"(?:flag|flags|permission) & ~?(?:0x)?\d"),
}


def without_comments(text: str) -> str:
    """A .pyx without docstrings and comments, its lines where they were."""
    blank = re.compile(r'"""(?:.|\n)*?"""')
    text = blank.sub(lambda found: "\n" * found[0].count("\n"), text)
    return re.sub(r"#(?!define).*", "", text)


NAME = re.compile("|".join(map(re.escape, NAMES)))
BLANK = re.compile(r"\s")


def is_name(text: str) -> bool:
    return NAME.search(text) is not None and not BLANK.search(text)


def cython_breaches(text: str) -> Iterator[str]:
    code = without_comments(text)
    for what, pattern in CYTHON.items():
        for found in pattern.finditer(code):
            yield f"{what}: {found[0].strip()}"
    for found in re.finditer(r"\"([^\"\n]*)\"|'([^'\n]*)'", code):
        if is_name(found[1] or found[2] or ""):
            yield f"a name: {found[0]}"


FLAGS = ("flag", "sys_flag", "perm")
# Forms that make the whole name of a flag or a permission from a shortened one.
SHORTENED = ("FLAG_{}", "{}_FLAG", "PERM_{}", "TRANSACTION_{}_TYPE")
ALL_CODES = {int(code) for codes in (RequestCode, ResponseCode) for code in codes}
ANSWERS = ("RemoteError", "RouteError", "Refusal")


def is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value != 0


def word_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def assigned(node: ast.Assign | ast.AnnAssign) -> Iterator[tuple[str, ast.expr]]:
    """(name, value), of each in `A, B = 1, 2`."""
    value = node.value
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        if isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
            yield from zip(map(word_of, target.elts), value.elts, strict=False)
        elif value is not None:
            yield word_of(target), value


def has_home(word: str, value: ast.expr) -> bool:
    if not isinstance(value, ast.Constant) or not is_number(value):
        return False
    return word in WORDS or any(CODES.get(form.format(word)) == value.value for form in SHORTENED)


def members_of(node: ast.expr) -> list[ast.expr]:
    """The elements of a set that is written as one, or as set() or frozenset() of a list."""
    if isinstance(node, ast.Call) and word_of(node.func) in ("set", "frozenset") and node.args:
        of = node.args[0]
        return of.elts if isinstance(of, ast.Tuple | ast.List) else []
    return node.elts if isinstance(node, ast.Set) else []


def is_set_of_codes(node: ast.expr) -> bool:
    """Whether a set has only numbers that are codes. A set of only small ones may be anything."""
    values = [each.value if isinstance(each, ast.Constant) else None for each in members_of(node)]
    return (
        len(values) > 1
        and all(type(each) is int and each in ALL_CODES for each in values)
        and any(isinstance(each, int) and each > 9 for each in values)
    )


def nodes_of(tree: ast.Module) -> Iterator[ast.AST]:
    """All nodes except documentation, and except those that say whether a name is read or written,
    which are a third of all."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        yield node
        for value in vars(node).values():
            if isinstance(value, list):
                waiting += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                waiting.append(value)


def python_breaches(text: str) -> Iterator[str]:
    for node in nodes_of(ast.parse(text)):
        if isinstance(node, ast.Name | ast.Attribute | ast.Expr | ast.arg):
            continue  # most nodes: none of these is looked at by itself
        if isinstance(node, ast.Constant):
            value = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
            if isinstance(value, str) and is_name(value):
                yield f"a name: {value}"
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for word, given in assigned(node):
                if has_home(word, given):
                    yield f"a constant that has a home: {word}"
        elif isinstance(node, ast.Set | ast.Call) and is_set_of_codes(node):
            yield f"codes as numbers: {ast.unparse(node)}"
        elif isinstance(node, ast.Compare) and word_of(node.left) == "code":
            equal = isinstance(node.ops[0], ast.Eq | ast.NotEq)
            other = node.comparators[0]
            listed = other.elts if isinstance(other, ast.Tuple | ast.List) else []
            if (equal and is_number(other)) or any(map(is_number, listed)):
                yield f"a code as a number: {ast.unparse(node)}"
        elif isinstance(node, ast.Call) and word_of(node.func) in ANSWERS:
            if node.args and is_number(node.args[0]):
                yield f"a code as a number: {ast.unparse(node)}"
        elif isinstance(node, ast.keyword) and node.arg in ("code", "perm"):
            if is_number(node.value):
                yield f"a code or a permission as a number: {ast.unparse(node)}"
        elif (
            isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd)
            and word_of(node.left) in FLAGS and is_number(node.right)
        ):  # fmt: skip
            yield f"a flag or a permission as a number: {ast.unparse(node)}"


def test_words_of_the_protocol_stand_in_their_homes_alone() -> None:
    found = [
        f"{shown(path)}: {breach}"
        for path in files(".py", ".pyx", ".pxd", trees=OURS)
        if shown(path) not in HOMES
        for breach in breaches_of(path)
    ]
    assert found == []


def breaches_of(path: Path) -> Iterator[str]:
    return (python_breaches if path.suffix == ".py" else cython_breaches)(path.read_text())


@pytest.mark.parametrize(
    ("breaches", "text"),
    [
        (cython_breaches, "cdef enum:\n    SEND_MESSAGE_V2 = 310\n"),
        (cython_breaches, "cdef enum:\n    FRAME_BYTES_MAX = 16 << 20     # ours\n"),
        (cython_breaches, 'memcpy(name, b"%RETRY%", length)\n'),
        (cython_breaches, "name_map_find(&s.topics, HALF_TOPIC, 24)\n"),
        (cython_breaches, "if view.topic_bytes == 19:\n"),
        (cython_breaches, "if header.code == 310:\n"),
        (cython_breaches, "if view.sys_flag & 0xC:\n"),
        (python_breaches, "PERM_READ = 4\n"),
        (python_breaches, "PERM_READ: int = 4\n"),
        (python_breaches, "FLOW_CONTROL, PAUSE_MS = 215, 20\n"),
        (python_breaches, "[PAUSE_MS, FLOW_CONTROL] = [20, 215]\n"),
        (python_breaches, "WAITS, SUSPEND = 1, 2\n"),
        (python_breaches, "TRY_ELSEWHERE = {1, 2, 14, 16}\n"),
        (python_breaches, "TRY_ELSEWHERE = frozenset((1, 2, 14, 16))\n"),
        (python_breaches, "if reply.code in (0, 17):\n    pass\n"),
        (python_breaches, 'TOPIC = "SCHEDULE_TOPIC_XXXX"\n'),
        (python_breaches, 'topic = f"%RETRY%{group}"\n'),
        (python_breaches, "Command(code=103)\n"),
        (python_breaches, "if reply.code == 17:\n    pass\n"),
        (python_breaches, "raise Refusal(29, 'illegal')\n"),
        (python_breaches, "if config.perm & 4:\n    pass\n"),
    ],
)  # fmt: skip
def test_the_check_sees_a_planted_breach(breaches: object, text: str) -> None:
    assert callable(breaches) and len(list(breaches(text))) == 1
