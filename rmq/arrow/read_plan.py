"""ReadPlan: what every part of a read has in common, from its options and the columns it gives.

plan = ReadPlan(options, access, ("QUEUE_OFFSET", "BODY"), schema, tags=())
decoder = plan.decoder()             # with columns of its own, which a BatchMaker gives out
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cext.arrow.columns import Columns, Field
from cext.arrow.decoder import DamageMode, Decoder
from rmq.arrow.access import Access
from rmq.arrow.batches import unpack_body
from rmq.arrow.options import Options
from rmq.errors import RmqError

MODES = {"failfast": DamageMode.FAIL_FAST, "permissive": DamageMode.PERMISSIVE,
         "dropmalformed": DamageMode.DROP}  # fmt: skip


class DamagedMessageError(RmqError):
    """mode=failfast met a damaged message."""


@dataclass(frozen=True)
class ReadPlan:
    """Made once, and sent to whoever reads a part: Spark pickles it to the executors."""

    options: Options
    access: Access | None  # None: a store is read, without a broker
    fields: tuple[str, ...]  # names in cext.arrow.columns.Field
    schema: Any  # of Arrow, a column for each field
    tags: tuple[str, ...]

    def decoder(self) -> Decoder:
        options = self.options
        columns = Columns(
            [Field[name] for name in self.fields], options.batch_rows, options.batch_bytes
        )
        return Decoder(
            columns,
            unpack=unpack_body,
            tags=self.tags,
            mode=MODES[options.mode],
            unpacked_max=options.max_unpacked_bytes,
        )
