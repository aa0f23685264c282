"""Handlers of the broker's own settings: 26 shows them, 25 changes those that may change.

Both bodies are java.util.Properties text. 25 takes what a property file may have, all of it or
nothing:

    acted on, changeable at run time    takes effect at once
    acted on, needs a restart           16, unless it is the present value: answering with success
                                        would say that, for instance, sends are synced from now on
    RocketMQ's, without effect here     kept, shown by 26, and named in the answer and in the log
    refused in a file, too              1 with the reason (aclEnable=true); "off" is fine
    black list, rocketmqHome            16, whoever asks: requests never choose commands or paths
    unknown                             16

A value of the wrong type is refused with 1. What was changed holds until the process ends; to keep
it, write it into the property file.

Example: body "flushDiskType=SYNC_FLUSH" is answered with 16 and the key's name, body
"fileReservedTime=48" with 0, and retention uses 48 hours from its next round on; body
"sendMessageThreadPoolNums=8" with 0 and "without effect in rmq: sendMessageThreadPoolNums".
"""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rmq import properties
from rmq.broker.dispatch.request import Refusal, Reply, Request
from rmq.codes import ResponseCode
from rmq.config import ForbiddenError
from rmq.errors import ConfigError, ProtocolError
from rmq.format import fastjson

if TYPE_CHECKING:
    from rmq.broker.broker import Broker

KEYS_MAX = 1000
REMARK_MAX = 500

log = logging.getLogger("rmq.broker.config")


def get_config(broker: "Broker", request: Request) -> Reply:
    body = broker.bodies.of_version(
        "config",
        broker.settings_version.key,
        lambda: properties.format(broker.settings.items()).encode(),
    )
    version = fastjson.dumps(broker.settings_version.members()).decode()
    return request.command.reply(fields={"version": version}, body=body)


def update_config(broker: "Broker", request: Request) -> Reply:
    command = request.command
    try:
        changes = properties.parse(command.body.decode("utf-8"), "request body")
    except (ConfigError, UnicodeDecodeError) as error:
        raise ProtocolError(f"the body is not property text: {error}") from None
    if len(changes) > KEYS_MAX:
        raise ProtocolError(f"a change of more than {KEYS_MAX} settings")
    _refuse_unknown(broker, changes)
    try:
        ignored = broker.settings.change(changes)
    except ForbiddenError as error:
        raise Refusal(ResponseCode.NO_PERMISSION, f"{error}; nothing was changed") from None
    except ConfigError as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"{error}; nothing was changed") from None
    # The rest is as it was, and other shards may have other values of it (listenPort).
    changed = {key: text for key, text in changes.items() if broker.settings.can_change(key)}
    broker.settings_changed(changed)
    broker.siblings.settings_changed(changed)
    if not ignored:
        return command.reply()
    log.warning("settings without effect in rmq: %s", ", ".join(ignored))
    return command.reply(remark=f"without effect in rmq: {', '.join(ignored)}"[:REMARK_MAX])


def _refuse_unknown(broker: "Broker", changes: Mapping[str, str]) -> None:
    unknown = sorted(key for key in changes if key not in broker.settings)
    if unknown:
        raise Refusal(
            ResponseCode.NO_PERMISSION,
            f"{', '.join(unknown)[:REMARK_MAX]}: no such settings; nothing was changed",
        )
