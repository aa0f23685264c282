"""The reference page of the client's parameters is what the code says, with RocketMQ's defaults."""

from __future__ import annotations

import ast
import dataclasses

import pytest
from support.source_tree import ROOT

from rmq.client.parameters import (
    ClientParameters,
    ProducerParameters,
    PullConsumerParameters,
    PushConsumerParameters,
    TransactionProducerParameters,
)
from rmq.client.parameters.page import MESSAGE, TABLES, keywords, page, rows

# What RocketMQ 5.5 has, read from its published classes (DefaultMQProducer and its bases): name in
# Java, default. Left out: objects that are no settings (traceDispatcher, produceAccumulator),
# namespaceInitialized, and language, which is our own.
PRODUCER = """
producerGroup=DEFAULT_PRODUCER createTopicKey=TBW102 defaultTopicQueueNums=4 sendMsgTimeout=3000
sendMsgMaxTimeoutPerRequest=-1 compressMsgBodyOverHowmuch=4096 retryTimesWhenSendFailed=2
retryTimesWhenSendAsyncFailed=2 retryAnotherBrokerWhenNotStoreOK=False maxMessageSize=4194304
autoBatch=False enableBackpressureForAsyncMode=False backPressureForAsyncSendNum=1024
backPressureForAsyncSendSize=104857600 batchMaxDelayMs=-1 batchMaxBytes=-1 totalBatchMaxBytes=-1
compressLevel=5 compressType=ZLIB
"""
CLIENT = """
namesrvAddr=None clientCallbackExecutorThreads=2 namespace=None accessChannel=LOCAL
pollNameServerInterval=30000 heartbeatBrokerInterval=30000 persistConsumerOffsetInterval=5000
pullTimeDelayMillsWhenException=1000 traceMsgBatchNum=10 unitMode=False unitName=None
decodeReadBody=True decodeDecompressBody=True vipChannelEnabled=False useTLS=False
socksProxyConfig={} mqClientApiTimeout=3000 detectTimeout=200 detectInterval=2000
enableStreamRequestType=False sendLatencyEnable=False startDetectorEnable=False
enableHeartbeatChannelEventListener=True enableConcurrentHeartbeat=False
concurrentHeartbeatThreadPoolSize=2 enableTrace=False traceTopic=None maxPageSizeInGetMetadata=2000
clientIP=None instanceName=DEFAULT rpcHook=None
"""
PULL_CONSUMER = """
consumerGroup=DEFAULT_CONSUMER autoCommit=True autoCommitIntervalMillis=5000 pollTimeoutMillis=5000
allocateMessageQueueStrategy=None pullBatchSize=10 pullThresholdForAll=10000
pullThresholdForQueue=1000 consumeMaxSpan=2000
pullThresholdSizeForQueue=100 consumeFromWhere=CONSUME_FROM_LAST_OFFSET
brokerSuspendMaxTimeMillis=20000 consumerTimeoutMillisWhenSuspend=30000
consumerPullTimeoutMillis=10000 messageModel=CLUSTERING messageQueueListener=None offsetStore=None
registerTopics=() pullThreadNums=20 topicMetadataCheckIntervalMillis=30000 consumeTimestamp=None
"""
TRANSACTION_PRODUCER = """
transactionListener=None transactionCheckListener=None checkThreadPoolMinSize=1
checkThreadPoolMaxSize=1 checkRequestHoldMax=2000
"""
PUSH_CONSUMER = """
consumerGroup=DEFAULT_CONSUMER messageModel=CLUSTERING consumeFromWhere=CONSUME_FROM_LAST_OFFSET
allocateMessageQueueStrategy=None subscription=None messageListener=None messageQueueListener=None
offsetStore=None consumeThreadMin=20 consumeThreadMax=20 adjustThreadPoolNumsThreshold=100000
consumeConcurrentlyMaxSpan=2000 pullThresholdForQueue=1000 popThresholdForQueue=96
pullThresholdSizeForQueue=100 pullThresholdForTopic=-1 pullThresholdSizeForTopic=-1 pullInterval=0
consumeMessageBatchMaxSize=1 pullBatchSize=32 pullBatchSizeInBytes=262144
postSubscriptionWhenPull=False maxReconsumeTimes=-1 suspendCurrentQueueTimeMillis=1000
consumeTimeout=15 popInvisibleTime=60000 popBatchNums=32 awaitTerminationMillisWhenShutdown=0
clientRebalance=True
"""


def test_the_page_is_written_from_the_code() -> None:
    text = (ROOT / "docs" / "client-parameters.md").read_text()
    assert text.rstrip() == page().rstrip(), "run: python -m rmq.client.parameters > docs/..."


def test_the_keywords_are_written_from_the_code() -> None:
    text = (ROOT / "rmq" / "client" / "parameters" / "keywords.py").read_text()
    assert text.rstrip() == keywords().rstrip(), "run: python -m rmq.client.parameters keywords"


@pytest.mark.parametrize(
    ("of", "expected"),
    [(ClientParameters, CLIENT), (ProducerParameters, PRODUCER),
     (TransactionProducerParameters, TRANSACTION_PRODUCER),
     (PullConsumerParameters, PULL_CONSUMER), (PushConsumerParameters, PUSH_CONSUMER)],
)  # fmt: skip
def test_defaults_are_those_of_rocketmq(of: type[ClientParameters], expected: str) -> None:
    found = {java: default.strip("'") for _, java, default, _ in rows(of)}
    for pair in expected.split():
        name, _, default = pair.partition("=")
        assert found[name] == default


def test_every_parameter_has_a_meaning_and_stands_on_the_page() -> None:
    for of in TABLES:
        assert dataclasses.is_dataclass(of)
        for name, java, _, text in rows(of):
            assert len(text) > 10
            assert f"| `{name}` | {java} |" in page()


def test_the_page_names_what_a_message_takes() -> None:
    stub = ast.parse((ROOT / "cext" / "client" / "message.pyi").read_text())
    (init,) = (
        child
        for node in stub.body
        if isinstance(node, ast.ClassDef) and node.name == "Message"
        for child in node.body
        if isinstance(child, ast.FunctionDef) and child.name == "__init__"
    )
    names = [each.arg for each in (*init.args.args[1:], *init.args.kwonlyargs)]
    assert sorted(names) == sorted(name for name, _, _, _ in MESSAGE)
