"""fastjson: JSON as Java's fastjson writes and reads it, which is not quite JSON.

RocketMQ's bodies and config files come from Java's fastjson. Beside plain JSON they hold
    {0:"10.0.0.1:10911"}                                  integer keys without quotes
    {{"brokerName":"b","queueId":0,"topic":"t"}:12}       objects as keys
    {"a":{"x":1},"b":{"$ref":"$.a"}}                      a second mention of the same object
    {name:'text',}                                        bare names, single quotes, spare commas

loads() reads all of them: keys without quotes become text ("0"), an object key that is a message
queue becomes a MessageQueue, another object key the tuple of its sorted items, a $ref the object it
names. It raises ProtocolError and nothing else: limits on depth, digits and references make sure
that no text causes a RecursionError, or takes more time than its length justifies. dumps() writes
what both Java and Go can read: compact, members sorted by name, None left out, MessageQueue keys as
objects, integer keys without quotes by default.

Example: dumps({MessageQueue("t", "b", 0): 12}) ==
    b'{{"brokerName":"b","queueId":0,"topic":"t"}:12}'
"""

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from rmq.errors import ProtocolError

T = TypeVar("T")

# How deep objects and arrays may be nested, in all JSON that is read from files and from the wire.
# RocketMQ's own bodies have at most 6 levels. cext/wire/header.pyx has the same limit.
DEPTH_MAX = 64
DIGITS_MAX = 64  # of a whole number
# The limit for a request's body, and for any header, that is not plain JSON or has references:
# reading it takes half a second for each MiB, in the thread that serves all others. RocketMQ's own
# have some KiB, except registrations, which are read without this limit.
LOOSE_REQUEST_BYTES_MAX = 256 << 10
_NO_LIMIT = 1 << 62

_FLAT = re.compile(r'\{"[^{}\[\]]*\}')  # perhaps an object of plain values: msgspec decides
_SPACE = re.compile(r"[ \t\r\n\f\b]*")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$.-]*|-?[0-9]+", re.ASCII)
_PLAIN = {'"': re.compile(r'[^"\\]*'), "'": re.compile(r"[^'\\]*")}
_HEX4 = re.compile(r"[0-9a-fA-F]{4}", re.ASCII)
_REF_STEP = re.compile(r"\.([^.\[\]]+)|\[([0-9]+)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")
_INDEX = re.compile(r"[0-9]{1,18}", re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPES = {
    '"': '"', "'": "'", "\\": "\\", "/": "/",
    "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0",
}  # fmt: skip
_MANY_DIGITS = re.compile(rb"(?<![0-9])[0-9]{%d}" % (DIGITS_MAX + 1))
_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_SQUARE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(each for each in range(256) if each not in b"[]{}")
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None, "NaN": None}


class MessageQueue(NamedTuple):
    """One queue of a topic on one broker, as clients name it."""

    topic: str
    broker_name: str
    queue_id: int

    def members(self) -> dict[str, Any]:
        """The JSON object of this queue."""
        return {"brokerName": self.broker_name, "queueId": self.queue_id, "topic": self.topic}

    @classmethod
    def of(cls, members: Mapping[str, Any]) -> "MessageQueue":
        """The queue in a JSON object; ProtocolError if a member is missing or of another type."""
        topic, broker = members.get("topic"), members.get("brokerName")
        queue_id = members.get("queueId")
        if (
            not isinstance(topic, str)
            or not isinstance(broker, str)
            or not isinstance(queue_id, int)
            or isinstance(queue_id, bool)
        ):
            raise ProtocolError("a message queue needs topic, brokerName and queueId")
        return cls(topic, broker, queue_id)


# ---- reading

_strict = msgspec.json.Decoder()
# The errors of the strict reader for other JSON; RecursionError comes at some hundred levels.
_NOT_STRICT = (msgspec.DecodeError, RecursionError, ValueError)


def is_deep(data: bytes) -> bool:
    """Whether well-formed JSON is nested deeper than DEPTH_MAX. For most texts two counts show
    that it is not."""
    if data.count(b"[") + data.count(b"{") <= DEPTH_MAX:
        return False
    plain = _ESCAPED.sub(b"", data) if b"\\" in data else data
    brackets = b"".join(plain.split(b'"')[::2]).translate(_SQUARE, _NO_BRACKETS)
    for _ in range(DEPTH_MAX):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"")  # the innermost ones
    return bool(brackets)


def too_deep() -> ProtocolError:
    return ProtocolError(f"bad JSON: nested deeper than {DEPTH_MAX}")


def loads_as(data: bytes, kind: type[T], what: str, loose_bytes_max: int = _NO_LIMIT) -> T:
    """`data` as `kind`: read in one step if it is plain JSON, else by loads(). ProtocolError."""
    try:
        found = msgspec.json.decode(data, type=kind)
    except _NOT_STRICT:
        value = loads(data, loose_bytes_max)
        try:
            return msgspec.convert(value, kind, strict=False)
        except (msgspec.ValidationError, RecursionError) as error:
            raise ProtocolError(f"{what}: {error}") from None
    if is_deep(data):
        raise too_deep()
    if _MANY_DIGITS.search(data):
        loads(data, loose_bytes_max)
    return found


def loads(data: bytes | bytearray | memoryview | str, loose_bytes_max: int = _NO_LIMIT) -> Any:
    """The value in `data`; ProtocolError when not even fastjson would read it, or when it is longer
    than `loose_bytes_max` and not plain JSON."""
    raw = data.encode("utf-8", "replace") if isinstance(data, str) else bytes(data)
    try:
        value = _strict.decode(raw)
    except _NOT_STRICT:
        value = _loose(raw, loose_bytes_max)
    else:
        if is_deep(raw):
            raise too_deep()
        if _MANY_DIGITS.search(raw):  # perhaps only in a text, which the loose reader can tell
            value = _loose(raw, loose_bytes_max)
    if b'"$ref"' in raw:
        _refuse_long(raw, loose_bytes_max)
        value = _References(value).resolved(value, [])
    return value


def _loose(raw: bytes, bytes_max: int) -> Any:
    _refuse_long(raw, bytes_max)
    return _Reader(raw).document()


def _refuse_long(raw: bytes, bytes_max: int) -> None:
    if len(raw) > bytes_max:
        raise ProtocolError(
            f"bad JSON: {len(raw)} bytes that are not plain JSON, where {bytes_max} are the most"
        )


def loads_object(
    data: bytes | bytearray | memoryview | str, loose_bytes_max: int = _NO_LIMIT
) -> dict[Any, Any]:
    """The object in `data`; ProtocolError when it is anything else."""
    value = loads(data, loose_bytes_max)
    if not isinstance(value, dict):
        raise ProtocolError(f"a JSON object was expected, not {type(value).__name__}")
    return value


def request_object(body: bytes) -> dict[Any, Any]:
    """The object in a request's body. ProtocolError."""
    return loads_object(body, LOOSE_REQUEST_BYTES_MAX)


class _Reader:
    """Recursive descent over one text. `at` is the position of the next character to read."""

    def __init__(self, data: bytes) -> None:
        self.text = data.decode("utf-8", "replace")
        self.at = 0
        self.has_many_digits = _MANY_DIGITS.search(data) is not None

    def document(self) -> Any:
        value = self.value(0)
        if self.peek():
            raise self.error("something follows the value")
        return value

    def error(self, what: str) -> ProtocolError:
        return ProtocolError(f"bad JSON at character {self.at}: {what}")

    def peek(self) -> str:
        """The next character that is not a blank; empty at the end."""
        found = _SPACE.match(self.text, self.at)
        assert found is not None
        self.at = found.end()
        return self.text[self.at : self.at + 1]

    def value(self, depth: int) -> Any:
        """The value here, with `depth` objects and arrays around it."""
        head = self.peek()
        if head == "{":
            return self.object(depth)
        if head == "[":
            return self.array(depth)
        if head in ('"', "'") and head:
            return self.string(head)
        number = _NUMBER.match(self.text, self.at)
        if number is not None:
            return self.number(number)
        for word, meaning in _WORDS.items():
            if self.text.startswith(word, self.at):
                self.at += len(word)
                return meaning
        raise self.error("no value" if head else "the text ends")

    def number(self, found: "re.Match[str]") -> int | float:
        self.at = found.end()
        if self.text[self.at : self.at + 1] in ("L", "l"):  # a long as some Java writers mark it
            self.at += 1
        if found[1] is None and found[2] is None:
            if len(found[0]) > DIGITS_MAX:
                raise self.error(f"a number of more than {DIGITS_MAX} digits")
            return int(found[0])
        number = float(found[0])
        if math.isinf(number):
            raise self.error("a number too large")
        return number

    def flat(self) -> dict[Any, Any] | None:
        """Reads an object of plain values in proper JSON, ten times as fast; None if it is not one.

        No text is looked at twice, because the part that is looked at here ends before the next
        `{`.
        """
        found = _FLAT.match(self.text, self.at)
        if found is None or self.has_many_digits:
            return None
        try:
            members: dict[Any, Any] = _strict.decode(found[0])
        except _NOT_STRICT:
            return None
        self.at = found.end()
        return members

    def inside(self, depth: int) -> int:
        if depth >= DEPTH_MAX:
            raise too_deep()
        return depth + 1

    def object(self, depth: int) -> dict[Any, Any]:
        inner = self.inside(depth)
        flat = self.flat()
        if flat is not None:
            return flat
        self.at += 1
        members: dict[Any, Any] = {}
        while True:
            head = self.peek()
            if head == "}":
                self.at += 1
                return members
            if head == ",":
                self.at += 1
                continue
            key = self.key(head, inner)
            if self.peek() != ":":
                raise self.error("a colon was expected")
            self.at += 1
            members[key] = self.value(inner)
            if self.peek() not in (",", "}"):
                raise self.error("a comma or } was expected")

    def key(self, head: str, depth: int) -> Any:
        if head == "{":
            return _object_key(self.object(depth))
        if head in ('"', "'") and head:
            return self.string(head)
        name = _NAME.match(self.text, self.at)
        if name is None:
            raise self.error("no member name")
        self.at = name.end()
        return name[0]

    def array(self, depth: int) -> list[Any]:
        inner = self.inside(depth)
        self.at += 1
        items: list[Any] = []
        while True:
            head = self.peek()
            if head == "]":
                self.at += 1
                return items
            if head == ",":
                self.at += 1
                continue
            items.append(self.value(inner))
            if self.peek() not in (",", "]"):
                raise self.error("a comma or ] was expected")

    def string(self, quote: str) -> str:
        self.at += 1
        pieces = []
        while True:
            plain = _PLAIN[quote].match(self.text, self.at)
            assert plain is not None
            pieces.append(plain[0])
            self.at = plain.end()
            stop = self.text[self.at : self.at + 1]
            if not stop:
                raise self.error("the text ends inside a string")
            self.at += 1
            if stop == quote:
                break
            pieces.append(self.escape())
        return _join_surrogates("".join(pieces))

    def escape(self) -> str:
        letter = self.text[self.at : self.at + 1]
        self.at += 1
        if letter == "u":
            digits = _HEX4.match(self.text, self.at)
            if digits is None:
                raise self.error("four hex digits were expected")
            self.at += 4
            return chr(int(digits[0], 16))
        if letter not in _ESCAPES:
            raise self.error("an escape that JSON does not have")
        return _ESCAPES[letter]


def _join_surrogates(text: str) -> str:
    """Pairs of \\u escapes become one character, half a pair becomes "?", as in Java."""
    if _SURROGATE.search(text) is None:
        return text
    return _SURROGATE.sub(
        "?", text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    )


def _object_key(members: dict[Any, Any]) -> Any:
    if members.keys() == {"topic", "brokerName", "queueId"}:
        return MessageQueue.of(members)
    try:
        key = tuple(sorted(members.items()))
        hash(key)
    except TypeError:
        raise ProtocolError("an object used as a key holds more than plain values") from None
    return key


class _References:
    """Replaces the references of one document by what they name."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.plain: dict[int, Any] = {}  # by id: objects that were named and have no references

    def resolved(self, node: Any, above: list[Any]) -> Any:
        """`node` with every {"$ref": path} in it replaced by what the path names."""
        if isinstance(node, dict):
            if len(node) == 1 and isinstance(node.get("$ref"), str):
                return self.referred(node["$ref"], above)
            return {k: self.resolved(v, [*above, node]) for k, v in node.items()}
        if isinstance(node, list):
            return [self.resolved(item, [*above, node]) for item in node]
        return node

    def referred(self, path: str, above: list[Any]) -> Any:
        """What a reference names: "$" the root, "@" the holder, ".." its parent, "$.a[0]"."""
        if path == "@" and above:
            target = above[-1]
        elif path and not path.strip("./") and path.count("..") < len(above):
            target = above[-1 - path.count("..")]
        elif path.startswith("$"):
            target, at = self.root, 1
            while at < len(path):
                step = _REF_STEP.match(path, at)
                if step is None:
                    raise ProtocolError(f"a reference in JSON cannot be read: {path[:80]!r}")
                name = next(part for part in step.groups() if part is not None)
                target = _step(target, name, path)
                at = step.end()
        else:
            raise ProtocolError(f"a reference in JSON cannot be read: {path[:80]!r}")
        if any(target is holder for holder in above):
            raise ProtocolError(f"a reference in JSON leads back to itself: {path[:80]!r}")
        self.refuse_references(target)
        return target

    def refuse_references(self, node: Any) -> None:
        """Refuses references in an object that is named by one: no RocketMQ body has them, and
        chains could loop. Each object is checked once, however many references name it."""
        if not isinstance(node, (dict, list)) or id(node) in self.plain:
            return
        if isinstance(node, dict) and "$ref" in node:
            raise ProtocolError("a reference in JSON leads to another reference")
        for inner in node.values() if isinstance(node, dict) else node:
            self.refuse_references(inner)
        self.plain[id(node)] = node


def _step(target: Any, key: str, path: str) -> Any:
    if isinstance(target, dict) and key in target:
        return target[key]
    if isinstance(target, list) and _INDEX.fullmatch(key) and int(key) < len(target):
        return target[int(key)]
    raise ProtocolError(f"a reference in JSON names nothing: {path[:80]!r}")


# ---- writing


def dumps(value: Any, quote_integer_keys: bool = False) -> bytes:
    """`value` as compact JSON with sorted members, in fastjson's form where JSON has none."""
    out: list[str] = []
    _write(value, out, quote_integer_keys)
    return "".join(out).encode()


def text(value: str) -> str:
    """`value` as a JSON string; half a surrogate pair becomes "?"."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(_join_surrogates(value)).decode()


def _write(value: Any, out: list[str], quote: bool) -> None:
    if isinstance(value, str):
        out.append(text(value))
    elif value is None:
        out.append("null")
    elif isinstance(value, bool):
        out.append("true" if value else "false")
    elif isinstance(value, int):
        out.append(str(int(value)))
    elif isinstance(value, float):
        out.append(repr(value) if math.isfinite(value) else "null")
    elif isinstance(value, MessageQueue):
        out.append(_queue_text(value))
    elif isinstance(value, Mapping):
        _write_map(value, out, quote)
    elif isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value) if isinstance(value, (set, frozenset)) else value
        out.append("[")
        for position, item in enumerate(items):
            if position:
                out.append(",")
            _write(item, out, quote)
        out.append("]")
    elif isinstance(value, msgspec.Struct):
        _write_map({name: getattr(value, name) for name in value.__struct_fields__}, out, quote)
    else:
        raise TypeError(f"{type(value).__name__} has no JSON form here")


def _write_map(members: Mapping[Any, Any], out: list[str], quote: bool) -> None:
    rows = [(_key(key, quote), value) for key, value in members.items() if value is not None]
    rows.sort(key=lambda row: row[0])
    out.append("{")
    for position, ((_, _, key), value) in enumerate(rows):
        if position:
            out.append(",")
        out.append(key)
        out.append(":")
        _write(value, out, quote)
    out.append("}")


def _key(key: Any, quote: bool) -> tuple[int, Any, str]:
    """(kind, sort key, the key as written)."""
    if isinstance(key, str):
        return 1, key, text(key)
    if isinstance(key, int):
        return 0, int(key), f'"{int(key)}"' if quote else str(int(key))
    if isinstance(key, MessageQueue):
        return 2, key, _queue_text(key)
    raise TypeError(f"{type(key).__name__} cannot be a key in JSON")


def _queue_text(queue: MessageQueue) -> str:
    """The text of queue.members(), made directly because answers about a topic have many."""
    topic, broker, queue_id = queue
    return f'{{"brokerName":{text(broker)},"queueId":{int(queue_id)},"topic":{text(topic)}}}'
