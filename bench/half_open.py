"""Half open: addresses of this machine that begin TLS handshakes and do not go on.

    python bench/half_open.py 127.0.0.1:10911 1000         runs until it is killed

It prints "held" when all of them are connected. Half of the addresses send a whole hello and read
the answer, the others send only the first half of a hello. A connection that the server closes is
opened again at once. Each has an address of its own, from 127.1.0.0 on.
"""

import asyncio
import contextlib
import ssl
import sys


def hello() -> bytes:
    """The first bytes that a client sends; the tests of address limits use the same."""
    outward = ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outward, server_hostname="x")
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        return outward.read()
    raise AssertionError("a handshake that nobody has answered")


async def hold(host: str, port: int, number: int, said: bytes, held: asyncio.Semaphore) -> None:
    source = f"127.1.{number // 250}.{number % 250 + 1}"
    while True:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection(host, port, local_addr=(source, 0))
            writer.write(said)
            held.release()
            while await reader.read(65536):
                pass
            writer.close()
        await asyncio.sleep(0)


async def main(address: str, count: int) -> None:
    host, _, port = address.rpartition(":")
    held, whole = asyncio.Semaphore(0), hello()
    tasks = []
    for number in range(count):
        said = whole if number % 2 else whole[: len(whole) // 2]
        tasks.append(asyncio.create_task(hold(host, int(port), number, said, held)))
        await held.acquire()
    print("held", flush=True)
    await asyncio.gather(*tasks)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
