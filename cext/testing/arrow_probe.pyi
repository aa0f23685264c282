from cext.arrow.decoder import Decoder

def decode_bytes(
    decoder: Decoder, data: bytes, first: int = -1, end: int = 1 << 62
) -> tuple[int, int, int]: ...
