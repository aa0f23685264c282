from typing import final

@final
class Block:
    def __len__(self) -> int: ...
