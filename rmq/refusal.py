"""Refusal: the answer to a request that is understood, and not carried out.

Example: raise Refusal(ResponseCode.TOPIC_NOT_EXIST, "topic[t] does not exist")
"""

from rmq.codes import ResponseCode
from rmq.errors import RmqError


class Refusal(RmqError):
    """The request is answered with this code and remark; nothing is wrong with the broker."""

    def __init__(self, code: ResponseCode, remark: str) -> None:
        super().__init__(code, remark)
        self.code = code
        self.remark = remark

    def __str__(self) -> str:
        return self.remark
