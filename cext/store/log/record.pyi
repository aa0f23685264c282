from enum import IntFlag

class RecordProblem(IntFlag):
    NO_PROBLEM = 0
    AT_END = 1
    AT_BLANK = 2
    BAD_MAGIC = 3
    BAD_SIZE = 4
    BAD_LENGTHS = 5
    BAD_POSITION = 6
    BAD_BODY_CRC = 7
