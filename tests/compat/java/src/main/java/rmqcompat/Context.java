package rmqcompat;

import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.exception.RemotingException;

/**
 * What a scenario works with: clients that are closed at its end, names of its own, checks.
 *
 * <p>Names are run + scenario + suffix, e.g. topic("b") of "send_sync" in run "a1" is
 * "a1_send_sync_b": many scenarios, clients and versions share one broker without meeting.
 */
final class Context implements AutoCloseable {
    private static final AtomicInteger INSTANCES = new AtomicInteger();

    final String nameServer;
    final int brokers;
    private final String prefix;
    private final Map<String, String> arguments;
    private final Map<String, Object> details;
    private final Deque<AutoCloseable> opened = new ArrayDeque<>();
    private DefaultMQProducer producer;
    private DefaultMQPullConsumer puller;

    Context(String name, Map<String, String> arguments, Map<String, Object> details) {
        this.nameServer = arguments.getOrDefault("nameServer", "");
        this.brokers = Integer.parseInt(arguments.getOrDefault("brokers", "1"));
        this.prefix = arguments.getOrDefault("run", "run") + "_" + arguments.getOrDefault("as", name);
        this.arguments = arguments;
        this.details = details;
    }

    /** With the same arguments, for clients that go on when this scenario has ended. */
    Context lasting() {
        return new Context("", arguments, new ConcurrentHashMap<>());
    }

    String topic(String suffix) {
        return prefix + "_" + suffix;
    }

    String group(String suffix) {
        return "g_" + prefix + "_" + suffix;
    }

    String argument(String name) {
        return Objects.requireNonNull(arguments.get(name), "argument " + name);
    }

    String argument(String name, String otherwise) {
        return arguments.getOrDefault(name, otherwise);
    }

    void detail(String name, Object value) {
        details.put(name, value);
    }

    // ---- clients

    <T extends ClientConfig> T configure(T client) {
        client.setNamesrvAddr(nameServer);
        // Brokers tell the members of a group apart by it, also those in other processes.
        client.setInstanceName("i" + ProcessHandle.current().pid() + "-" + INSTANCES.incrementAndGet()
            + "@" + prefix);
        client.setHeartbeatBrokerInterval(1500);
        client.setPollNameServerInterval(5000);
        return client;
    }

    /** Signs requests for the account that the arguments name; null without one. */
    RPCHook hook() {
        String key = argument("accessKey", "");
        return key.isEmpty() ? null
            : new AclClientRPCHook(new SessionCredentials(key, argument("secretKey")));
    }

    /** Makes topics: as another account, where the arguments name one for that. */
    private DefaultMQProducer maker() throws Exception {
        String key = argument("makerAccessKey", "");
        if (key.isEmpty()) {
            return producer();
        }
        RPCHook hook = new AclClientRPCHook(new SessionCredentials(key, argument("makerSecretKey")));
        DefaultMQProducer client = configure(new DefaultMQProducer(group("maker"), hook));
        client.start();
        closeLater(client::shutdown);
        return client;
    }

    void closeLater(AutoCloseable closing) {
        opened.push(closing);
    }

    /** The scenario's own producer, started at first use. */
    DefaultMQProducer producer() throws Exception {
        if (producer == null) {
            producer = newProducer("p");
        }
        return producer;
    }

    DefaultMQProducer newProducer(String suffix) throws Exception {
        DefaultMQProducer client = configure(new DefaultMQProducer(group(suffix), hook()));
        client.setSendMsgTimeout(15000);
        client.start();
        closeLater(client::shutdown);
        return client;
    }

    DefaultMQPullConsumer puller() throws Exception {
        if (puller == null) {
            puller = newPuller("pull");
        }
        return puller;
    }

    DefaultMQPullConsumer newPuller(String suffix) throws Exception {
        DefaultMQPullConsumer client = configure(new DefaultMQPullConsumer(group(suffix), hook()));
        client.start();
        closeLater(client::shutdown);
        return client;
    }

    DefaultLitePullConsumer newLitePuller(String suffix) {
        DefaultLitePullConsumer client = configure(new DefaultLitePullConsumer(group(suffix), hook()));
        client.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        closeLater(client::shutdown);
        return client;
    }

    /** Not started: the caller subscribes and registers its listener first. */
    DefaultMQPushConsumer newPusher(String suffix) {
        DefaultMQPushConsumer client =
            configure(new DefaultMQPushConsumer(group(suffix), hook(), new AllocateMessageQueueAveragely()));
        client.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        client.setConsumeThreadMin(2);
        client.setConsumeThreadMax(2);
        client.setPersistConsumerOffsetInterval(1000);
        closeLater(client::shutdown);
        return client;
    }

    // ---- topics and messages

    /**
     * Creates a topic with so many queues on each broker, and waits until name server and client show
     * all of them; in order of brokers and ids.
     */
    List<MessageQueue> createTopic(String name, int queues) throws Exception {
        long limit = System.currentTimeMillis() + 15000;
        while (!created(name, queues, limit)) {
            Thread.sleep(20);
        }
        waitFor(15, "route of " + name, () -> {
            try {
                return producer().fetchPublishMessageQueues(name).size() == queues * brokers;
            } catch (Exception notYet) {
                return false;
            }
        });
        return queues(name);
    }

    /** Whether somebody has heard it: the client waits 3 s, a JVM's first handshake can take longer. */
    private boolean created(String name, int queues, long limit) throws Exception {
        try {
            // The client asks the brokers that serve the key topic; without auto-creation there is no TBW102.
            Bridge.createTopic(maker(), argument("keyTopic", "TBW102"), name, queues);
            return true;
        } catch (MQClientException error) {
            if (error.getCause() instanceof RemotingException && System.currentTimeMillis() < limit) {
                return false;
            }
            throw error;
        }
    }

    /** The queues of a topic in order of brokers and ids, as the client itself keeps them. */
    List<MessageQueue> queues(String name) throws Exception {
        Set<MessageQueue> sorted = new TreeSet<>(producer().fetchPublishMessageQueues(name));
        return new ArrayList<>(sorted);
    }

    Message message(String topic, String tag, int number) {
        Message message = new Message(topic, tag, "k" + number, bytes("body-" + number));
        message.putUserProperty("n", Integer.toString(number));
        return message;
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    static int number(MessageExt message) {
        return Integer.parseInt(message.getUserProperty("n"));
    }

    /** Sends messages numbered first..end-1, spread over the queues, and checks each result. */
    void send(List<MessageQueue> queues, String tag, int first, int end) throws Exception {
        for (int i = first; i < end; i++) {
            MessageQueue queue = queues.get(i % queues.size());
            checkSent(producer().send(message(queue.getTopic(), tag, i), queue));
        }
    }

    void checkSent(SendResult result) {
        equal("send status", SendStatus.SEND_OK, result.getSendStatus());
        check(result.getMsgId() != null && result.getOffsetMsgId() != null, "ids in " + result);
    }

    /** Everything in a topic, from each queue's minimum on, at least `count` messages. Brokers may
     *  register their queues of it later than the first. */
    List<MessageExt> pullAll(String topic, int count, int seconds) throws Exception {
        List<MessageExt> found = new ArrayList<>();
        long end = System.currentTimeMillis() + seconds * 1000L;
        Map<MessageQueue, Long> next = new TreeMap<>();
        while (true) {
            boolean more = false;
            for (MessageQueue queue : queues(topic)) {
                if (!next.containsKey(queue)) {
                    next.put(queue, puller().minOffset(queue));
                }
                PullResult result = puller().pull(queue, "*", next.get(queue), 32, 10000);
                next.put(queue, result.getNextBeginOffset());
                if (result.getPullStatus() == PullStatus.FOUND) {
                    found.addAll(result.getMsgFoundList());
                    more = true;
                }
            }
            if (!more && found.size() >= count) {
                return found;
            }
            check(System.currentTimeMillis() < end, topic + ": " + found.size() + " of " + count);
            if (!more) {
                Thread.sleep(50);
            }
        }
    }

    // ---- checks

    static void check(boolean condition, String what) {
        if (!condition) {
            throw new AssertionError(what);
        }
    }

    static void equal(String what, Object expected, Object actual) {
        check(Objects.equals(expected, actual), what + ": expected " + expected + ", got " + actual);
    }

    static void waitFor(int seconds, String what, Callable<Boolean> condition) throws Exception {
        long end = System.currentTimeMillis() + seconds * 1000L;
        while (!condition.call()) {
            check(System.currentTimeMillis() < end, "waited " + seconds + " s for " + what);
            Thread.sleep(20);
        }
    }

    static List<Integer> range(int first, int end) {
        List<Integer> numbers = new ArrayList<>();
        for (int i = first; i < end; i++) {
            numbers.add(i);
        }
        return numbers;
    }

    static List<Integer> numbers(List<MessageExt> messages) {
        List<Integer> numbers = new ArrayList<>();
        messages.forEach(message -> numbers.add(number(message)));
        Collections.sort(numbers);
        return numbers;
    }

    @Override
    public void close() {
        while (!opened.isEmpty()) {
            try {
                opened.pop().close();
            } catch (Exception ignored) {
                // a client that failed to start cannot be closed either
            }
        }
    }
}
