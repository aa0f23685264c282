"""Node, lock and page size of a mapped range. See region.pxd."""

def exercise(
    size: int, node: int, lock: bool = False, huge: bool = False
) -> tuple[int, int, int, int, int, list[int]]: ...
