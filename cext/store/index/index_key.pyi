from enum import IntFlag

class KeyKind(IntFlag):
    ANY_KEY = 0
    TAG_KEY = 1

def hash_for_tests(text: bytes) -> int: ...
def has_key_for_tests(record: bytes, kind: int, topic: bytes, key: bytes) -> bool: ...
