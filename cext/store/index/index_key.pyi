from enum import IntFlag

class KeyKind(IntFlag):
    ANY_KEY = 0
    TAG_KEY = 1
