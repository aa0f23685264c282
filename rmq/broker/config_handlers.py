"""Handlers of the broker's own settings: 26 shows them, 25 changes those that may change.

Both bodies are java.util.Properties text. 25 takes only keys that the table of settings marks as
changeable at run time; any other key, known or not, refuses the whole request with code 16 naming
it, and nothing is changed. A value of the wrong type is refused with 1. What was changed holds
until the process ends; to keep it, write it into the property file.

Example: body "flushDiskType=SYNC_FLUSH" is answered with 16 and the key's name, body
"fileReservedTime=48" with 0, and retention uses 48 hours from its next round on.
"""

from typing import TYPE_CHECKING

from rmq import properties
from rmq.broker.request import Refusal, Reply, Request
from rmq.codes import ResponseCode
from rmq.errors import ConfigError, ProtocolError
from rmq.format import fastjson

if TYPE_CHECKING:
    from rmq.broker.broker import Broker

KEYS_MAX = 1000


def get_config(broker: "Broker", request: Request) -> Reply:
    text = properties.format(broker.settings.items())
    version = fastjson.dumps(broker.settings_version.members()).decode()
    return request.command.reply(fields={"version": version}, body=text.encode())


def update_config(broker: "Broker", request: Request) -> Reply:
    command = request.command
    try:
        changes = properties.parse(command.body.decode("utf-8"), "request body")
    except (ConfigError, UnicodeDecodeError) as error:
        raise ProtocolError(f"the body is not property text: {error}") from None
    if len(changes) > KEYS_MAX:
        raise ProtocolError(f"a change of more than {KEYS_MAX} settings")
    refused = [key for key in changes if not _changeable(broker, key)]
    if refused:
        raise Refusal(
            ResponseCode.NO_PERMISSION,
            f"{', '.join(sorted(refused))[:500]}: not changeable at run time; nothing was changed",
        )
    try:
        broker.settings.change(changes)
    except ConfigError as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, str(error)) from None
    broker.settings_changed(changes)
    broker.siblings.settings_changed(changes)
    return command.reply()


def _changeable(broker: "Broker", key: str) -> bool:
    return key in broker.settings and broker.settings.can_change(key)
