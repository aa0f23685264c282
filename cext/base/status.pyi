from enum import IntFlag

class Status(IntFlag):
    OK = 0
    NOT_READY = -1
    POOL_EMPTY = -2
    RING_FULL = -3
    POISONED = -4
    IO_ERROR = -5
    NO_SPACE = -6
    CORRUPT = -7
    ABSENT = -8
    TOO_LARGE = -9
    MALFORMED = -10
    MISSING_FIELD = -11
    NOT_FOUND = -12
    CLOSED = -13

def raise_status(status: int, detail: str = "") -> int: ...
