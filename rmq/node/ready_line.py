"""Ready line: the line that says a server is ready. If the broker was not registered by then, a
second line follows once it is.

    rmq 0.1.0 is ready in 0.21 s: name server 127.0.0.1:9876, broker broker-a at 127.0.0.1:10911 ...
    rmq 0.1.0 is ready in 20.4 s with 1 of 2 shards (broker-a-1: given up after 10 failed starts in
        a row; last: ...): ...
    rmq 0.1.0 is ready in 0.24 s, but is not registered: nobody answers at 10.0.0.1:9876; that is
        tried again every 1 to 30 s: broker broker-a at ...
    rmq 0.1.0 is ready in 0.31 s: broker broker-a at .., store .., master of epoch 1. Try: ...
    rmq: registered at 10.0.0.1:9876: broker-a. Try: ...

Whether a broker is registered is asked of the name servers, not of the code that registers it:
clients will find what the name servers answer, and the question is the same for one process and for
shards. Modules that only a broker needs are imported only when there is one.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
import time
from pathlib import Path

import click

from rmq import __version__
from rmq.base import clock
from rmq.broker.replication.role import is_controlled, is_slave
from rmq.config import Settings
from rmq.node import service_manager

POLL_S = 0.5  # between two requests to the name servers while none lists the broker
ANSWER_S = 1.0
FIRST_WAIT_S = 1.0  # for a name server that answers, but does not know us yet
OWN_WAIT_S = 10.0  # for the name server in this process: nobody else has to act
DEFAULT = "127.0.0.1:9876"

Served = list[tuple[str, str]]  # (broker name, address)


async def print_ready(
    own: str, broker: Settings | None, served: Served, given_up: list[tuple[str, str]]
) -> asyncio.Task[None] | None:
    """Prints the ready line. Returns a task that prints the second line, if one is needed.

    own: address of the name server in this process, or "".
    given_up: (broker name, why) of each shard that does not serve.
    """
    if broker is None:
        print_line(
            f"is ready in {seconds_since_start():.2f} s: name server {own}. "
            f"Try: {_command()} broker{_option(own)}"
        )
        return None
    what = f"broker {', '.join(f'{name} at {where}' for name, where in served)}"
    what += f", store {broker.storePathRootDir} ({broker.flushDiskType})"
    if is_controlled(broker):
        from rmq.node.role_line import role_line

        what += f", {await role_line(served)}" if served else ""
    elif is_slave(broker):
        what += f", slave {broker.brokerId}"
        what += f" of {broker.rmqMasterAddress}" if broker.rmqMasterAddress else ""
    ready = f"is ready in {seconds_since_start():.2f} s"  # includes the wait for the role
    if given_up:
        reasons = "; ".join(f"{name}: {why}" for name, why in given_up)
        ready += f" with {len(served)} of {len(served) + len(given_up)} shards ({reasons})"
    if own:
        if not is_controlled(broker):  # one without a role is not registered
            # A start waits only briefly for the first registration (registration.py). On a busy
            # machine it may still be under way, and a reader of the line would find no route.
            await _until_registered([own], served, OWN_WAIT_S)
        print_line(f"{ready}: name server {own}, {what}. {_try_sends(own, broker)}")
        return None
    addresses = [part.strip() for part in broker.namesrvAddr.split(";") if part.strip()]
    registered, problem = await _until_registered(addresses, served, FIRST_WAIT_S)
    if registered:
        print_line(f"{ready}: {what}. {_try_sends(broker.namesrvAddr, broker)}")
        return None
    from rmq.broker.registration.registration import RETRY_FIRST_S, RETRY_LAST_S

    print_line(
        f"{ready}, but is not registered: {problem}; that is tried again every "
        f"{RETRY_FIRST_S:.0f} to {RETRY_LAST_S:.0f} s: {what}. {_try_name_server(addresses)}"
    )
    return asyncio.get_running_loop().create_task(_print_registered(broker, served))


async def _until_registered(
    addresses: list[str], served: Served, patience_s: float
) -> tuple[str, str]:
    """Repeats _find_registered() until one name server knows all brokers, one does not answer, or
    patience_s is over. Returns its last result."""
    until = clock.monotonic() + patience_s
    found = await _find_registered(addresses, served)
    while not found[0] and "nobody" not in found[1] and clock.monotonic() < until:
        await asyncio.sleep(0.02)
        found = await _find_registered(addresses, served)
    return found


async def _print_registered(broker: Settings, served: Served) -> None:
    while True:
        await asyncio.sleep(POLL_S)
        addresses = [part.strip() for part in broker.namesrvAddr.split(";") if part.strip()]
        registered, _ = await _find_registered(addresses, served)
        if registered:
            names = ", ".join(name for name, _ in served)
            advice = _try_sends(registered, broker)
            click.echo(f"rmq: registered at {registered}: {names}. {advice}")
            sys.stdout.flush()
            return


async def _find_registered(addresses: list[str], served: Served) -> tuple[str, str]:
    """(the first name server that lists all of `served`, or ""; what is wrong with the others)"""
    answers = await asyncio.gather(*(_knows(address, served) for address in addresses))
    problems = []
    for address, known in zip(addresses, answers, strict=True):
        if known:
            return address, ""
        problems.append(
            f"nobody answers at {address}" if known is None else f"{address} does not list it"
        )
    return "", ", ".join(problems) or "no name server is given (namesrvAddr)"


async def _knows(address: str, served: Served) -> bool | None:
    """Whether the name server lists all of `served`; None if it does not answer."""
    from rmq.codes import RequestCode, ResponseCode
    from rmq.errors import ProtocolError
    from rmq.format import fastjson
    from rmq.format.remoting import Command
    from rmq.serving.remoting_client import CallError, RemotingClient

    link = RemotingClient(address)
    try:
        reply = await link.call(Command(code=RequestCode.GET_BROKER_CLUSTER_INFO), ANSWER_S)
        if reply.code != ResponseCode.SUCCESS:
            return False
        table = fastjson.loads_object(reply.body).get("brokerAddrTable")
    except CallError:
        return None
    except ProtocolError:
        return False
    finally:
        link.close()
    if not isinstance(table, dict):
        return False
    return all(where in _addresses(table.get(name)) for name, where in served)


def _addresses(entry: object) -> list[object]:
    addresses = entry.get("brokerAddrs") if isinstance(entry, dict) else None
    return list(addresses.values()) if isinstance(addresses, dict) else []


def print_line(text: str) -> None:
    """Prints the line that says a server is ready, and tells the service manager."""
    click.echo(f"rmq {__version__} {text}")
    sys.stdout.flush()
    service_manager.tell(service_manager.READY)


def _command() -> str:
    """`rmq`, or the path of the running one if a shell would find no `rmq` or another."""
    running = Path(sys.argv[0])
    if running.name != "rmq" or not running.exists():  # python -m rmq
        return "rmq"
    found = shutil.which("rmq")
    is_found = found is not None and running.samefile(found)
    return "rmq" if is_found else shlex.quote(str(running.absolute()))


def _option(address: str) -> str:
    return "" if address == DEFAULT else f" -n {shlex.quote(address)}"


def _try_sends(address: str, broker: Settings) -> str:
    from rmq.node.advised_options import advised_options

    asking, before = advised_options(broker)
    option, rmq = _option(address) + asking, before + _command()
    return f"Try: {rmq} send greetings hello{option} && {rmq} consume greetings{option}"


def _try_name_server(addresses: list[str]) -> str:
    from rmq.serving.remoting_client import CallError, parse_address

    for address in addresses:
        try:
            host, port = parse_address(address)
        except CallError:
            continue
        if host in ("127.0.0.1", "localhost", "::1"):
            return f"Try: {_command()} namesrv" + ("" if port == 9876 else f" --port {port}")
    return "Start a name server there, or name another with -n HOST:PORT."


def seconds_since_start() -> float:
    """Seconds since this process was started, as the kernel counts them (in ticks of 10 ms)."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started)
