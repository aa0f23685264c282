"""The one table of what this broker answers: request code -> handler.

A code that is not here is answered with 3 and " request type <n> not supported". Codes of later
pieces (access control 50-54 and 3001-3010, replication 906 and 908) are left out on purpose: a
client that gets 3 knows where it stands.
"""

from typing import TYPE_CHECKING

from rmq.broker.clients import subscription_filters
from rmq.broker.dispatch.request import Handler, Reply, Request
from rmq.broker.requests import (
    assignments,
    broker_config,
    consumer_diagnosis,
    consumer_retries,
    groups,
    heartbeats,
    members,
    offset_resets,
    offsets,
    pops,
    pulls,
    queries,
    recalls,
    replies,
    sends,
    topics,
)
from rmq.broker.status import consume_stats, runtime_info
from rmq.broker.tables import locks
from rmq.broker.tasks import transaction_checks
from rmq.codes import RequestCode as Code

if TYPE_CHECKING:
    from rmq.broker.broker import Broker


def delete_expired_log(broker: "Broker", request: Request) -> Reply:
    broker.retention.delete_by_hand()
    return request.command.reply()


def refuse_filter_server(broker: "Broker", request: Request) -> Reply:
    """301 and 302: filter servers ran Java classes that consumers uploaded."""
    raise subscription_filters.refuse_class_filter()


def nothing_to_clean(broker: "Broker", request: Request) -> Reply:
    """306 and 316: files of queues go together with the log they point into, by themselves."""
    return request.command.reply()


HANDLERS: dict[int, Handler] = {
    # sends and pulls that the reactor hands over
    Code.SEND_MESSAGE: sends.send,
    Code.SEND_MESSAGE_V2: sends.send,
    Code.SEND_BATCH_MESSAGE: sends.send,
    Code.PULL_MESSAGE: pulls.pull,
    Code.LITE_PULL_MESSAGE: pulls.pull,
    Code.POP_MESSAGE: pops.pop,
    Code.PEEK_MESSAGE: pops.pop,
    Code.NOTIFICATION: pops.pop,
    Code.POLLING_INFO: pops.pop,
    Code.ACK_MESSAGE: pops.again,
    Code.BATCH_ACK_MESSAGE: pops.again,
    Code.CHANGE_MESSAGE_INVISIBLETIME: pops.again,
    Code.CONSUMER_SEND_MSG_BACK: consumer_retries.send_back,
    Code.END_TRANSACTION: transaction_checks.end_transaction,
    Code.RECALL_MESSAGE: recalls.recall,
    Code.RESUME_CHECK_HALF_MESSAGE: transaction_checks.resume_check,
    Code.SEND_REPLY_MESSAGE: replies.send_reply,
    Code.SEND_REPLY_MESSAGE_V2: replies.send_reply,
    # reading queues and messages
    Code.QUERY_MESSAGE: queries.query_message,
    Code.SEARCH_OFFSET_BY_TIMESTAMP: queries.search_offset,
    Code.GET_MAX_OFFSET: queries.get_max_offset,
    Code.GET_MIN_OFFSET: queries.get_min_offset,
    Code.GET_EARLIEST_MSG_STORETIME: queries.get_earliest_store_time,
    Code.VIEW_MESSAGE_BY_ID: queries.view_message,
    Code.QUERY_CONSUME_QUEUE: queries.query_consume_queue,
    # offsets of consumers
    Code.QUERY_CONSUMER_OFFSET: offsets.query_consumer_offset,
    Code.UPDATE_CONSUMER_OFFSET: offsets.update_consumer_offset,
    Code.GET_ALL_CONSUMER_OFFSET: offsets.get_all_consumer_offset,
    Code.QUERY_CORRECTION_OFFSET: offsets.query_correction_offset,
    Code.CLONE_GROUP_OFFSET: offsets.clone_group_offset,
    # clients
    Code.HEART_BEAT: heartbeats.heart_beat,
    Code.UNREGISTER_CLIENT: heartbeats.unregister_client,
    Code.GET_CONSUMER_LIST_BY_GROUP: heartbeats.get_consumer_list,
    Code.CHECK_CLIENT_CONFIG: heartbeats.check_client_config,
    Code.REGISTER_FILTER_SERVER: refuse_filter_server,
    Code.REGISTER_MESSAGE_FILTER_CLASS: refuse_filter_server,
    Code.LOCK_BATCH_MQ: locks.lock_batch,
    Code.UNLOCK_BATCH_MQ: locks.unlock_batch,
    Code.QUERY_ASSIGNMENT: assignments.query_assignment,
    Code.SET_MESSAGE_REQUEST_MODE: assignments.set_request_mode,
    Code.GET_ALL_MESSAGE_REQUEST_MODE: assignments.get_request_modes,
    # topics
    Code.UPDATE_AND_CREATE_TOPIC: topics.update_topic,
    Code.UPDATE_AND_CREATE_TOPIC_LIST: topics.update_topics,
    Code.DELETE_TOPIC_IN_BROKER: topics.delete_topic,
    Code.GET_ALL_TOPIC_CONFIG: topics.get_all_topics,
    Code.GET_TOPIC_CONFIG: topics.get_topic,
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: topics.get_system_topics,
    # subscription groups
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: groups.update_group,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: groups.update_groups,
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: groups.get_all_groups,
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: groups.get_group,
    Code.DELETE_SUBSCRIPTIONGROUP: groups.delete_group,
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: groups.forbid_reading,
    # who is connected
    Code.GET_CONSUMER_CONNECTION_LIST: members.get_consumer_connections,
    Code.GET_PRODUCER_CONNECTION_LIST: members.get_producer_connections,
    Code.GET_ALL_PRODUCER_INFO: members.get_all_producers,
    Code.QUERY_TOPIC_CONSUME_BY_WHO: members.query_groups_of_topic,
    Code.QUERY_TOPICS_BY_CONSUMER: members.query_topics_of_group,
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: members.query_subscription,
    # numbers
    Code.GET_BROKER_RUNTIME_INFO: runtime_info.get_runtime_info,
    Code.VIEW_BROKER_STATS_DATA: runtime_info.view_broker_stats,
    Code.GET_BROKER_HA_STATUS: runtime_info.get_ha_status,
    Code.GET_TOPIC_STATS_INFO: consume_stats.get_topic_stats,
    Code.GET_CONSUME_STATS: consume_stats.get_consume_stats,
    Code.GET_BROKER_CONSUME_STATS: consume_stats.get_broker_consume_stats,
    Code.QUERY_CONSUME_TIME_SPAN: consume_stats.query_consume_time_span,
    # asking and telling clients
    Code.GET_CONSUMER_RUNNING_INFO: consumer_diagnosis.get_running_info,
    Code.CONSUME_MESSAGE_DIRECTLY: consumer_diagnosis.consume_directly,
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: consumer_diagnosis.get_consumer_status,
    Code.INVOKE_BROKER_TO_RESET_OFFSET: offset_resets.reset_offset,
    # the broker itself
    Code.GET_BROKER_CONFIG: broker_config.get_config,
    Code.UPDATE_BROKER_CONFIG: broker_config.update_config,
    Code.DELETE_EXPIRED_COMMITLOG: delete_expired_log,
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: nothing_to_clean,
    Code.CLEAN_UNUSED_TOPIC: nothing_to_clean,
}
# A binary header has 16 bits for the code.
HANDLERS |= {code & 0xFFFF: handler for code, handler in HANDLERS.items() if code > 0xFFFF}
