"""Paging: which rows of a long list are shown.

paging = Paging.of(request, rows)       ?page=2
paging.rows, paging.page, paging.pages, paging.count
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.requests import Request

ROWS_MAX = 50
DIGITS_MAX = 6


class Paging(msgspec.Struct):
    rows: Sequence[Any]  # the rows of this page
    page: int  # from 1 on
    pages: int
    count: int  # of all rows

    @classmethod
    def of(cls, request: Request, rows: Sequence[Any], most: int = ROWS_MAX) -> Paging:
        pages = max(1, -(-len(rows) // most))
        said = request.query_params.get("page", "1")
        is_number = said.isascii() and said.isdigit() and len(said) <= DIGITS_MAX
        page = min(max(1, int(said) if is_number else 1), pages)
        return cls(rows[(page - 1) * most : page * most], page, pages, len(rows))
