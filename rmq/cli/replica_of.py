"""`rmq broker --replica-of HOST[:PORT]`: the settings of a slave, taken from its master.

The settings that a slave must have in common with its master are asked for (code 26), and kept in
the store, so that the slave can start again while the master is away:

    config/rmqReplicaOf.json    {"brokerName":"broker-a",..,"namesrvAddr":"10.0.0.5:9876"}

Settings that were given (-c, --set, options) stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from rmq import java_properties
from rmq.base import atomic_file
from rmq.cli.addresses import with_port
from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode
from rmq.errors import ConfigError, ProtocolError, RmqError, UnreachableError
from rmq.takeover.earlier_copy import SLAVE_FILE

PORT = 10911
TAKEN = ("brokerName", "brokerClusterName", "mappedFileSizeCommitLog", "maxMessageSize",
         "namesrvAddr", "messageDelayLevel", "rmqReplicaTls")  # fmt: skip


def slave_settings(master: str, store: Path) -> dict[str, str]:
    """The settings of a slave of that master. UnreachableError: the master does not answer, and the
    store has no settings from an earlier answer."""
    address = with_port(master, PORT)
    path = store / SLAVE_FILE
    try:
        taken = asked(address)
    except UnreachableError as error:
        taken = kept(path)
        if not taken:
            raise UnreachableError(
                f"{error}. A new slave takes its settings from its master: start the master first"
            ) from None
    else:
        atomic_file.replace(path, msgspec.json.encode(taken))
    return {"brokerRole": "SLAVE", "brokerId": "1", "rmqMasterAddress": address, **taken}


def asked(address: str) -> dict[str, str]:
    with Connection(address) as connection:
        body = connection.call(RequestCode.GET_BROKER_CONFIG).body
    try:
        theirs: Mapping[str, str] = java_properties.parse(body.decode("utf-8"), address)
    except (UnicodeDecodeError, ConfigError) as error:
        raise ProtocolError(f"{address}: its settings cannot be read: {error}") from None
    return {key: theirs[key] for key in TAKEN if theirs.get(key)}


def kept(path: Path) -> dict[str, str]:
    """The settings in the store; empty: there is no such file."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        raise RmqError(f"{path} cannot be read: {error}") from None
