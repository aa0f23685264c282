"""Handlers of maintenance: 329 expired log files, 306 and 316 queues and topics; 301 and 302; and
requests about tables, pops or timers that RocketMQ may keep in RocksDB: 355, 200056, 5001.

Here tables are JSON files, and pops and timers are in the log and in files. So requests that move
them from RocksDB to files (mqadmin rocksDBConfigToJson, exportPopRecord, switchTimerEngine -e F)
are answered as by a RocketMQ broker without RocksDB, and -e R is refused as by such a broker.

Example: 329 lets the oldest segments be deleted at once, whatever the hour (deleteWhen).
"""

from typing import Protocol

from rmq.broker.clients import subscription_filters
from rmq.broker.dispatch.request import Handler, Reply, Request
from rmq.broker.tables.groups import GroupTable
from rmq.broker.tables.offsets import OffsetTable
from rmq.broker.tables.topics import TopicTable
from rmq.broker.tasks.retention import Retention
from rmq.codes import RequestCode as Code
from rmq.codes import ResponseCode
from rmq.config import Settings
from rmq.refusal import Refusal

FILE_ENGINE, ROCKSDB_ENGINE = "F", "R"


class Context(Protocol):
    """What these handlers use of the broker."""

    groups: GroupTable
    offsets: OffsetTable
    retention: Retention
    settings: Settings
    topics: TopicTable


def delete_expired_log(context: Context, request: Request) -> Reply:
    context.retention.delete_by_hand()
    return request.command.reply()


def refuse_filter_server(context: Context, request: Request) -> Reply:
    """301 and 302: filter servers ran Java classes that consumers uploaded."""
    raise subscription_filters.refuse_class_filter()


def nothing_to_clean(context: Context, request: Request) -> Reply:
    """306 and 316: queue files are deleted with the log they point into, without a request."""
    return request.command.reply()


def no_records_to_move(context: Context, request: Request) -> Reply:
    """200056: check points and acks are records of the log from the start."""
    return request.command.reply()


async def write_json(context: Context, request: Request) -> Reply:
    """355: writes to the JSON files what only their journals have."""
    tables = {
        "topics": context.topics.save_whole,
        "subscriptionGroups": context.groups.save_whole,
        "consumerOffsets": context.offsets.save_whole,
    }
    by_name = {name.lower(): save for name, save in tables.items()}  # RocketMQ ignores case, too
    names = [name.strip() for name in request.command.require("configType").split(";")]
    wanted = {name.lower(): name for name in names if name}
    for key, name in wanted.items():
        if key not in by_name:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"Unknown config type: {name[:100]}; known are {', '.join(tables)}",
            )
    for key, save in by_name.items():
        if key in wanted:
            await save()
    return request.command.reply(remark="export done.")


def switch_timer_engine(context: Context, request: Request) -> Reply:
    """5001: there is only one engine, which uses files."""
    engine = request.command.text_field("E_T")
    if not context.settings.timerWheelEnable:
        why = "broker timerWheelEnable is false"
    elif engine == ROCKSDB_ENGINE:
        why = "timerRocksDBEnable must be configured true when broker start: rmq has no RocksDB"
    elif engine != FILE_ENGINE:
        why = f"param error: E_T is {FILE_ENGINE} or {ROCKSDB_ENGINE}"
    else:
        return request.command.reply(remark="switch timer engine success")
    raise Refusal(ResponseCode.INVALID_PARAMETER, why)


HANDLERS: dict[int, Handler[Context]] = {
    Code.REGISTER_FILTER_SERVER: refuse_filter_server,
    Code.REGISTER_MESSAGE_FILTER_CLASS: refuse_filter_server,
    Code.DELETE_EXPIRED_COMMITLOG: delete_expired_log,
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: nothing_to_clean,
    Code.CLEAN_UNUSED_TOPIC: nothing_to_clean,
    Code.EXPORT_ROCKSDB_CONFIG_TO_JSON: write_json,
    Code.POP_ROLLBACK: no_records_to_move,
    Code.SWITCH_TIMER_ENGINE: switch_timer_engine,
}
