from collections.abc import Sequence
from enum import IntEnum
from typing import final

class Field(IntEnum):
    TOPIC = 0
    BROKER_NAME = 1
    QUEUE_ID = 2
    QUEUE_OFFSET = 3
    PHYSICAL_OFFSET = 4
    MESSAGE_ID = 5
    UNIQUE_KEY = 6
    TAGS = 7
    KEYS = 8
    BODY = 9
    PROPERTIES = 10
    BORN_TIMESTAMP = 11
    STORE_TIMESTAMP = 12
    BORN_HOST = 13
    STORE_HOST = 14
    RECONSUME_TIMES = 15
    FLAG = 16
    SYS_FLAG = 17
    BODY_CRC = 18
    PREPARED_OFFSET = 19
    PARTITION = 20
    TIMESTAMP_TYPE = 21
    CORRUPT = 22
    BODY_TEXT = 23
    BODY_SIZE = 24
    FIELDS = 25

@final
class Columns:
    count: int
    rows: int
    def __new__(
        cls, fields: Sequence[int], rows_max: int = 8192, bytes_wanted: int = 1 << 20
    ) -> Columns: ...
    def place(self, topic: str, broker_name: str, queue_id: int, partition: int) -> None: ...
    def hand_over(self) -> int: ...
