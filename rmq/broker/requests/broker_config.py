"""Broker config: 26 shows the broker's settings, 25 changes those that may change.

Both bodies are java.util.Properties text; secrets are shown as ******. 25 takes the same settings
as a property file, all of them or none:

    acted on, changeable at run time    takes effect at once
    acted on, needs a restart           16, unless it is the present value: success would claim, for
                                        instance, that sends are synced from now on
    RocketMQ's, without effect here     kept, shown by 26, and named in the answer and in the log
    refused in a file, too              1 with the reason (aclEnable=true); "off" is accepted
    black list, rocketmqHome            16 for everybody: requests never choose commands or paths
    unknown                             16

A value of the wrong type is refused with 1. Changes last until the process ends; to keep them,
write them into the property file.

Example: body "flushDiskType=SYNC_FLUSH" is answered with 16 and the key's name, body
"fileReservedTime=48" with 0, and retention uses 48 hours from its next round on; body
"sendMessageThreadPoolNums=8" with 0 and "without effect in rmq: sendMessageThreadPoolNums".
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Protocol

from rmq import java_properties
from rmq.broker.dispatch.body_cache import BodyCache
from rmq.broker.dispatch.request import Handler, Reply, Request
from rmq.broker.siblings import Siblings
from rmq.broker.tables.data_version import DataVersion
from rmq.codes import RequestCode as Code
from rmq.codes import ResponseCode
from rmq.config import ForbiddenError, Settings
from rmq.errors import ConfigError, ProtocolError
from rmq.format import fastjson
from rmq.refusal import Refusal

KEYS_MAX = 1000
REMARK_MAX = 500

log = logging.getLogger("rmq.broker.broker_config")


class Context(Protocol):
    """What these handlers use of the broker."""

    bodies: BodyCache
    settings: Settings
    settings_version: DataVersion
    siblings: Siblings

    def settings_changed(self, changes: Iterable[str]) -> None: ...


def get_config(context: Context, request: Request) -> Reply:
    body = context.bodies.of_version(
        "config",
        context.settings_version.key,
        lambda: java_properties.format(context.settings.shown()).encode(),
    )
    version = fastjson.dumps(context.settings_version.members()).decode()
    return request.command.reply(fields={"version": version}, body=body)


def update_config(context: Context, request: Request) -> Reply:
    command = request.command
    try:
        changes = java_properties.parse(command.body.decode("utf-8"), "request body")
    except (ConfigError, UnicodeDecodeError) as error:
        raise ProtocolError(f"the body is not property text: {error}") from None
    if len(changes) > KEYS_MAX:
        raise ProtocolError(f"a change of more than {KEYS_MAX} settings")
    _refuse_unknown(context, changes)
    if request.asker.is_bound and "namesrvAddr" in changes:
        raise Refusal(
            ResponseCode.NO_PERMISSION,
            "namesrvAddr: only Super users choose whom this broker signs requests for; "
            "nothing was changed",
        )
    try:
        ignored = context.settings.change(changes)
    except ForbiddenError as error:
        raise Refusal(ResponseCode.NO_PERMISSION, f"{error}; nothing was changed") from None
    except ConfigError as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"{error}; nothing was changed") from None
    # Other settings are unchanged, and other shards may have other values of them (listenPort).
    changed = {key: text for key, text in changes.items() if context.settings.can_change(key)}
    context.settings_changed(changed)
    context.siblings.settings_changed(changed)
    if not ignored:
        return command.reply()
    log.warning("settings without effect in rmq: %s", ", ".join(ignored))
    return command.reply(remark=f"without effect in rmq: {', '.join(ignored)}"[:REMARK_MAX])


def _refuse_unknown(context: Context, changes: Mapping[str, str]) -> None:
    unknown = sorted(key for key in changes if key not in context.settings)
    if unknown:
        raise Refusal(
            ResponseCode.NO_PERMISSION,
            f"{', '.join(unknown)[:REMARK_MAX]}: no such settings; nothing was changed",
        )


HANDLERS: dict[int, Handler[Context]] = {
    Code.GET_BROKER_CONFIG: get_config,
    Code.UPDATE_BROKER_CONFIG: update_config,
}
