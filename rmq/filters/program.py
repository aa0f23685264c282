"""Program: compiles an expression's tree to what cext/wire/sql_program runs for each message.

    header          magic "SQL1", u16 each: instructions, names, constants, stack depth; 4 zeros
    instructions    8 bytes each: operation u8, flag u8, operand u16, second operand u32
    names           8 bytes each: place in the texts u32, length u32: the properties it reads
    constants       24 bytes each: kind u8, 7 zeros, place u32, length u32, value i64 or double
    texts           UTF-8, one after the other

All numbers are in the machine's own byte order. It runs on a stack machine: PROPERTY and CONSTANT
push a value; the others take their operands from the stack and push one value. AND and OR jump over
their right side when the left side decides. cext/wire/sql_program.pyx says what each operation does
with nulls and types.

Example: "a > 5" is PROPERTY 0, CONSTANT 0, COMPARE flag 0 (>).
"""

import struct

import msgspec

from rmq.filters.tokens import SqlError
from rmq.filters.tree import (
    DOUBLE,
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
)

MAGIC = b"SQL1"
(
    PROPERTY, CONSTANT, NEGATE, NOT, CAST, EQUAL, COMPARE,
    CONTAINS, STARTS, ENDS, IN, AND, OR, JUMP_FALSE, JUMP_TRUE, JUMP_NULL,
) = range(16)  # fmt: skip
SIGNS = (">", ">=", "<", "<=")
SEARCHES = {"CONTAINS": CONTAINS, "STARTSWITH": STARTS, "ENDSWITH": ENDS}
INSTRUCTIONS_MAX, CONSTANTS_MAX, NAMES_MAX, STACK_MAX = 4096, 2048, 64, 128


def compile_tree(root: Node) -> bytes:
    """The program. Raises SqlError if the expression is too large for one."""
    maker = _Maker()
    maker.node(root)
    for count, most, what in (
        (len(maker.instructions), INSTRUCTIONS_MAX, "terms"),
        (len(maker.constants), CONSTANTS_MAX, "different values"),
        (len(maker.names), NAMES_MAX, "different properties"),
        (maker.deepest, STACK_MAX, "nested conditions"),
    ):
        if count > most:
            raise SqlError(1, f"the expression has too many {what}")
    return maker.bytes()


class _Maker(msgspec.Struct):
    instructions: list[tuple[int, int, int, int]] = []
    names: dict[str, int] = {}
    constants: dict[tuple[int, object], int] = {}
    depth: int = 0
    deepest: int = 0

    def add(self, operation: int, flag: int = 0, a: int = 0, b: int = 0, pushed: int = 0) -> int:
        self.instructions.append((operation, flag, a & 0xFFFF, b))
        self.depth += pushed
        self.deepest = max(self.deepest, self.depth)
        return len(self.instructions) - 1

    def land(self, jump: int) -> None:
        """Makes the jump go to the next instruction."""
        operation, flag, a, _ = self.instructions[jump]
        self.instructions[jump] = (operation, flag, a, len(self.instructions))

    def constant(self, kind: int, value: object) -> int:
        if isinstance(value, str):
            value = _utf8(value)
        return self.constants.setdefault((kind, value), len(self.constants))

    def node(self, node: Node) -> None:
        if isinstance(node, Constant):
            self.add(CONSTANT, a=self.constant(node.kind, node.value), pushed=1)
        elif isinstance(node, Property):
            self.add(PROPERTY, a=self.names.setdefault(node.name, len(self.names)), pushed=1)
        elif isinstance(node, Negate | Not | Cast):
            self.node(node.inner)
            self.add({Negate: NEGATE, Not: NOT, Cast: CAST}[type(node)])
        elif isinstance(node, Both):
            self.both(node)
        elif isinstance(node, Equal | Compare):
            self.comparison(node)
        elif isinstance(node, Search):
            self.node(node.inner)
            self.add(SEARCHES[node.word], node.negated, self.constant(TEXT, node.text))
        else:
            self.members(node)

    def both(self, node: Both) -> None:
        """Does not recurse to the left, since hundreds of terms may be joined."""
        spine = [node]
        while isinstance(spine[-1].left, Both):
            spine.append(spine[-1].left)
        self.node(spine[-1].left)
        for each in reversed(spine):
            jump = self.add(JUMP_FALSE if each.word == "AND" else JUMP_TRUE)
            self.node(each.right)
            self.add(AND if each.word == "AND" else OR, pushed=-1)
            self.land(jump)

    def comparison(self, node: Equal | Compare) -> None:
        self.node(node.left)
        # RocketMQ does not evaluate the right side of > when the left side is null. That matters
        # only if the right side can fail.
        jump = None
        if isinstance(node, Compare) and not isinstance(node.right, Property | Constant):
            jump = self.add(JUMP_NULL)
        self.node(node.right)
        if isinstance(node, Equal):
            self.add(EQUAL, pushed=-1)
        else:
            self.add(COMPARE, SIGNS.index(node.sign), pushed=-1)
        if jump is not None:
            self.land(jump)

    def members(self, node: In) -> None:
        """The texts have to be consecutive constants, so they are not shared with others."""
        self.node(node.inner)
        first = len(self.constants)
        for number, text in enumerate(dict.fromkeys(node.texts)):
            self.constants[(TEXT, (first, number, _utf8(text)))] = len(self.constants)
        self.add(IN, node.negated, first, len(self.constants) - first)

    def bytes(self) -> bytes:
        texts = bytearray()
        parts = [
            struct.pack(
                "=4sHHHH4x", MAGIC, len(self.instructions), len(self.names), len(self.constants),
                self.deepest,
            )
        ]  # fmt: skip
        parts += [struct.pack("=BBHI", *instruction) for instruction in self.instructions]
        for name in self.names:
            parts.append(struct.pack("=II", len(texts), len(name)))
            texts += name.encode()
        for kind, value in self.constants:
            parts.append(_constant(kind, value, texts))
        return b"".join([*parts, bytes(texts)])


def _constant(kind: int, value: object, texts: bytearray) -> bytes:
    if isinstance(value, tuple):
        value = value[2]
    if isinstance(value, bytes):
        texts += value
        return struct.pack("=B7xIIq", kind, len(texts) - len(value), len(value), 0)
    if kind == DOUBLE:
        return struct.pack("=B7xIId", kind, 0, 0, value)
    return struct.pack("=B7xIIq", kind, 0, 0, int(value) if isinstance(value, int) else 0)


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise SqlError(1, "a string holds half of a surrogate pair") from None
