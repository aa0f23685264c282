"""Read plan: what all parts of a read have in common, made from its options and columns.

plan = ReadPlan(options, access, ("QUEUE_OFFSET", "BODY"), schema, tags=())
decoder = plan.decoder()             # has its own columns, from which a BatchMaker makes batches
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
    """Made once, and given to each reader of a part: Spark pickles it to the executors."""

    options: Options
    access: Access | None  # None: the files of a store are read
    fields: tuple[str, ...]  # names in cext.arrow.columns.Field
    schema: Any  # pyarrow's, with a column for each field
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
