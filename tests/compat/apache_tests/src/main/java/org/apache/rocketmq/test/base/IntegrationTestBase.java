package org.apache.rocketmq.test.base;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.TopicAttributes;
import org.apache.rocketmq.common.attribute.CQType;
import org.apache.rocketmq.common.attribute.TopicMessageType;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.namesrv.NamesrvConfig;
import org.apache.rocketmq.namesrv.NamesrvController;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.test.util.MQAdminTestUtils;

import static org.awaitility.Awaitility.await;

/**
 * In the place of RocketMQ's class of this name, by which its tests (BaseConf) start a name server
 * and three brokers: what they get is asked for addresses and names alone, and says those of
 * servers that run already. Nothing listens in this process.
 *
 * <pre>
 *   -Drmq.nameServer=127.0.0.1:9876 -Drmq.brokers="broker-a broker-b broker-c"
 * </pre>
 */
public class IntegrationTestBase {
    private static final int QUEUES = 8;
    private static final int PATIENCE_SECONDS = 600; // a busy machine is no failure
    private static final String[] BROKERS = System.getProperty("rmq.brokers").split(" ");
    private static final AtomicInteger HANDED_OUT = new AtomicInteger();

    public static NamesrvController createAndStartNamesrv() {
        String address = System.getProperty("rmq.nameServer");
        NettyServerConfig server = new NettyServerConfig();
        server.setListenPort(Integer.parseInt(address.substring(address.lastIndexOf(':') + 1)));
        return new NamesrvController(new NamesrvConfig(), server);
    }

    /** What it is asked for besides names goes to the name server (refreshMetadata). */
    public static BrokerController createAndStartBroker(String nameServer) {
        BrokerConfig config = new BrokerConfig();
        config.setBrokerName(BROKERS[HANDED_OUT.getAndIncrement()]);
        config.setNamesrvAddr(nameServer);
        MessageStoreConfig store = new MessageStoreConfig();
        store.setStorePathRootDir(
            Path.of(System.getProperty("user.home"), config.getBrokerName()).toString());
        BrokerController broker = new BrokerController(
            config, new NettyServerConfig(), new NettyClientConfig(), store);
        broker.getBrokerOuterAPI().updateNameServerAddressList(nameServer);
        broker.getBrokerOuterAPI().start();
        return broker;
    }

    public static boolean initTopic(String topic, String nameServer, String cluster,
        CQType queues) {
        return initTopic(topic, nameServer, cluster, queues, TopicMessageType.NORMAL);
    }

    public static boolean initTopic(String topic, String nameServer, String cluster,
        TopicMessageType messages) {
        return initTopic(topic, nameServer, cluster, CQType.SimpleCQ, messages);
    }

    private static boolean initTopic(String topic, String nameServer, String cluster,
        CQType queues, TopicMessageType messages) {
        Map<String, String> attributes = Map.of(
            "+" + TopicAttributes.QUEUE_TYPE_ATTRIBUTE.getName(), queues.toString(),
            "+" + TopicAttributes.TOPIC_MESSAGE_TYPE_ATTRIBUTE.getName(), messages.toString());
        boolean made = MQAdminTestUtils.createTopic(
            nameServer, cluster, topic, QUEUES, attributes, PATIENCE_SECONDS);
        try {
            begin(topic, nameServer);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
        return made;
    }

    /**
     * A message into each queue, which tests do not count. The client of a new group asks about an
     * empty queue first whether the group has an offset and then where the end is, and misses what
     * comes between the two, whosever the broker is.
     */
    private static void begin(String topic, String nameServer) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("begins");
        producer.setNamesrvAddr(nameServer);
        producer.setSendMsgTimeout(PATIENCE_SECONDS * 1000);
        producer.start();
        try {
            List<MessageQueue> queues =
                await().atMost(PATIENCE_SECONDS, TimeUnit.SECONDS).ignoreExceptions().until(
                    () -> producer.fetchPublishMessageQueues(topic),
                    found -> found.size() == QUEUES * BROKERS.length);
            for (MessageQueue queue : queues) {
                producer.send(new Message(topic, "begins".getBytes(StandardCharsets.UTF_8)), queue);
            }
        } finally {
            producer.shutdown();
        }
    }

    public static void initMQAdmin(String nameServer) {
        try {
            MQAdminTestUtils.startAdmin(nameServer);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }
}
