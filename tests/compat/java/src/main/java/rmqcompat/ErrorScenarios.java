package rmqcompat;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyRemotingClient;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/** What a client is told when it asks for something wrong; the codes of Apache RocketMQ 5.5.0. */
final class ErrorScenarios {
    private ErrorScenarios() {
    }

    static void register(Map<String, Scenario> table) {
        table.put("error_body_too_large", ErrorScenarios::tooLarge);
        table.put("error_no_such_queue", ErrorScenarios::noSuchQueue);
        table.put("error_topic_not_created", ErrorScenarios::notCreated);
        table.put("error_codes_of_send", ErrorScenarios::sendCodes);
        table.put("error_codes_of_pull", ErrorScenarios::pullCodes);
        table.put("error_codes_of_others", ErrorScenarios::otherCodes);
        table.put("error_unknown_request", ErrorScenarios::unknownRequest);
        table.put("error_busy", ErrorScenarios::busy);
    }

    private static int codeOf(Callable<?> action) throws Exception {
        try {
            Object result = action.call();
            throw new AssertionError("no error but " + result);
        } catch (MQBrokerException error) {
            return error.getResponseCode();
        } catch (MQClientException error) {
            return error.getResponseCode();
        }
    }

    private static void tooLarge(Context context) throws Exception {
        String topic = context.topic("t");
        MessageQueue queue = context.createTopic(topic, 1).get(0);
        DefaultMQProducer producer = context.producer();
        producer.setMaxMessageSize(16 * 1024 * 1024);
        producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        byte[] body = new byte[4 * 1024 * 1024 + 1];
        new Random(1).nextBytes(body);
        Context.equal("code", 13, codeOf(() -> producer.send(new Message(topic, body), queue)));
        context.send(List.of(queue), "tag", 0, 1); // the connection still works
        Context.equal("stored", 1, context.pullAll(topic, 1, 20).size());
    }

    private static void noSuchQueue(Context context) throws Exception {
        String topic = context.topic("t");
        MessageQueue queue = context.createTopic(topic, 1).get(0);
        MessageQueue wrong = new MessageQueue(topic, queue.getBrokerName(), 9);
        Context.equal("send", 29, codeOf(() -> context.producer().send(new Message(topic, new byte[1]),
            wrong)));
        Context.equal("pull", 29, codeOf(() -> context.puller().pull(wrong, "*", 0, 32)));
    }

    /** Needs a broker with autoCreateTopicEnable=false. */
    private static void notCreated(Context context) throws Exception {
        String topic = context.topic("absent");
        Context.equal("client's code", 10005, codeOf(() ->
            context.producer().send(new Message(topic, new byte[1]))));
        try (Raw raw = new Raw(context)) {
            RemotingCommand answer = raw.ask(310, raw.send(topic, 0), new byte[1]);
            Context.equal("broker's code", 17, answer.getCode());
        }
        String created = context.topic("created");
        context.send(context.createTopic(created, 2), "tag", 0, 4);
    }

    private static void sendCodes(Context context) throws Exception {
        String topic = context.topic("t");
        context.createTopic(topic, 2);
        try (Raw raw = new Raw(context)) {
            Context.equal("good", 0, raw.ask(310, raw.send(topic, 1), new byte[1]).getCode());
            Context.equal("long names", 0, raw.ask(10, raw.sendLong(topic, 1), new byte[1]).getCode());
            Context.equal("queue 2", 29, raw.ask(310, raw.send(topic, 2), new byte[1]).getCode());
            Context.equal("random queue", 0, raw.ask(310, raw.send(topic, -1), new byte[1]).getCode());
            Context.equal("illegal character", 29,
                raw.ask(310, raw.send("a.b!c", 0), new byte[1]).getCode());
            Context.equal("path", 29, raw.ask(310, raw.send("../../x", 0), new byte[1]).getCode());
            Context.equal("too long", 29,
                raw.ask(310, raw.send("t".repeat(128), 0), new byte[1]).getCode());
            Context.equal("blank", 29, raw.ask(310, raw.send(" ", 0), new byte[1]).getCode());
            Context.equal("system topic", 16,
                raw.ask(310, raw.send("SCHEDULE_TOPIC_XXXX", 0), new byte[1]).getCode());
            Map<String, String> fields = raw.send(topic, 0);
            fields.put("i", "k\u0001" + "v".repeat(33000));
            Context.equal("properties too long", 13, raw.ask(310, fields, new byte[1]).getCode());
            fields = raw.send(topic, 0);
            fields.remove("g");
            RemotingCommand answer = raw.ask(310, fields, new byte[1]);
            Context.equal("field missing", 1, answer.getCode());
            fields.put("g", "soon");
            Context.equal("not a number", 1, raw.ask(310, fields, new byte[1]).getCode());
        }
    }

    private static void pullCodes(Context context) throws Exception {
        String topic = context.topic("t");
        context.createTopic(topic, 2);
        try (Raw raw = new Raw(context)) {
            Map<String, String> fields = raw.pull(topic, 0);
            Context.equal("empty queue", 19, raw.ask(11, fields, null).getCode());
            Context.equal("queue 2", 29, raw.ask(11, raw.pull(topic, 2), null).getCode());
            Context.equal("queue -1", 29, raw.ask(11, raw.pull(topic, -1), null).getCode());
            Context.equal("unknown topic", 17,
                raw.ask(11, raw.pull(context.topic("absent"), 0), null).getCode());
            fields.put("queueOffset", "5");
            RemotingCommand moved = raw.ask(11, fields, null);
            Context.equal("offset of an empty queue", 21, moved.getCode());
            for (String name : List.of("nextBeginOffset", "minOffset", "maxOffset",
                "suggestWhichBrokerId")) {
                Context.equal(name, "0", moved.getExtFields().get(name));
            }
            fields.put("sysFlag", "0");
            Context.equal("group has no heartbeat", 24, raw.ask(11, fields, null).getCode());
            fields.remove("topic");
            Context.equal("no topic", 1, raw.ask(11, fields, null).getCode());
        }
    }

    private static void otherCodes(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 1);
        try (Raw raw = new Raw(context)) {
            Context.equal("no such record", 1,
                raw.ask(33, Map.of("topic", topic, "offset", "999999999999"), null).getCode());
            Map<String, String> progress =
                Map.of("consumerGroup", context.group("x"), "topic", topic, "queueId", "0");
            Context.equal("offset in an empty queue", 22, raw.ask(14, progress, null).getCode());
            context.send(queues, "tag", 0, 1);
            Context.waitFor(10, "offset 0 in a young queue", () -> {
                RemotingCommand young = raw.ask(14, progress, null); // Apache builds queues behind
                return young.getCode() == 0 && "0".equals(young.getExtFields().get("offset"));
            });
            Context.equal("offset not set", 22, raw.ask(14, Map.of("consumerGroup", context.group("x"),
                "topic", topic, "queueId", "0", "setZeroIfNotFound", "false"), null).getCode());
            Context.equal("no members", 1,
                raw.ask(38, Map.of("consumerGroup", context.group("x")), null).getCode());
            Context.equal("no stats of unknown topic", 17,
                raw.ask(202, Map.of("topic", context.topic("absent")), null).getCode());
            Context.equal("no consumer connection", 206,
                raw.ask(203, Map.of("consumerGroup", context.group("x")), null).getCode());
            Context.equal("no producer connection", 1,
                raw.ask(204, Map.of("producerGroup", context.group("x")), null).getCode());
            Map<String, String> create = new HashMap<>(Map.of("topic", "bad.name", "defaultTopic",
                "TBW102", "readQueueNums", "1", "writeQueueNums", "1", "perm", "6", "topicFilterType",
                "SINGLE_TAG", "topicSysFlag", "0", "order", "false"));
            Context.equal("bad name", 29, raw.ask(17, create, null).getCode());
            create.put("topic", "SCHEDULE_TOPIC_XXXX");
            Context.equal("system topic", 29, raw.ask(17, create, null).getCode());
        }
    }

    /**
     * Eight threads send for some seconds while the test holds the broker up. Answers with the codes
     * and texts of what was refused; what was not must be stored, and nothing else.
     */
    private static void busy(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 4);
        DefaultMQProducer producer = context.newProducer("busy");
        producer.setRetryTimesWhenSendFailed(0);
        Set<Integer> stored = Collections.synchronizedSet(new TreeSet<>());
        List<String> refused = Collections.synchronizedList(new ArrayList<>());
        AtomicInteger next = new AtomicInteger();
        long end = System.currentTimeMillis() + Long.parseLong(context.argument("ms"));
        List<Thread> threads = new ArrayList<>();
        for (int t = 0; t < 8; t++) {
            Thread thread = new Thread(() -> {
                while (System.currentTimeMillis() < end) {
                    int number = next.getAndIncrement();
                    try {
                        Thread.sleep(number % 5); // or all wait for the same write
                        context.checkSent(producer.send(context.message(topic, "tag", number),
                            queues.get(number % 4)));
                        stored.add(number);
                    } catch (MQBrokerException busy) {
                        refused.add(busy.getResponseCode() + " " + busy.getErrorMessage());
                    } catch (Exception other) {
                        refused.add("0 " + other);
                    }
                }
            });
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        List<MessageExt> found = context.pullAll(topic, stored.size(), 30);
        Context.equal("stored", new ArrayList<>(stored), Context.numbers(found));
        context.detail("stored", stored.size());
        context.detail("refused", String.join("\n", refused));
    }

    private static void unknownRequest(Context context) throws Exception {
        context.createTopic(context.topic("t"), 1);
        try (Raw raw = new Raw(context)) {
            RemotingCommand answer = raw.ask(31999, Map.of("a", "b"), new byte[3]);
            Context.equal("code", 3, answer.getCode());
            Context.check(answer.getRemark().contains("31999"), "remark: " + answer.getRemark());
            Context.equal("next", 3, raw.ask(31998, Map.of(), null).getCode());
        }
    }

    /** Requests by code and fields, straight to the broker, as no client library would send them. */
    private static final class Raw implements AutoCloseable {
        private final Context context;
        private final NettyRemotingClient client = new NettyRemotingClient(new NettyClientConfig());

        Raw(Context context) {
            this.context = context;
            client.start();
        }

        RemotingCommand ask(int code, Map<String, String> fields, byte[] body) throws Exception {
            RemotingCommand request = RemotingCommand.createRequestCommand(code, null);
            request.setExtFields(new HashMap<>(fields));
            request.setBody(body);
            return client.invokeSync(context.argument("broker"), request, 10000);
        }

        Map<String, String> send(String topic, int queue) {
            return new HashMap<>(Map.of("a", context.group("raw"), "b", topic, "c", "TBW102", "d", "4",
                "e", Integer.toString(queue), "f", "0", "g",
                Long.toString(System.currentTimeMillis()), "h", "0"));
        }

        Map<String, String> sendLong(String topic, int queue) {
            return new HashMap<>(Map.of("producerGroup", context.group("raw"), "topic", topic,
                "defaultTopic", "TBW102", "defaultTopicQueueNums", "4", "queueId",
                Integer.toString(queue), "sysFlag", "0", "bornTimestamp",
                Long.toString(System.currentTimeMillis()), "flag", "0"));
        }

        Map<String, String> pull(String topic, int queue) {
            Map<String, String> fields = new HashMap<>(Map.of("consumerGroup", context.group("raw"),
                "topic", topic, "queueId", Integer.toString(queue), "queueOffset", "0", "maxMsgNums",
                "32", "sysFlag", "4", "commitOffset", "0", "suspendTimeoutMillis", "0", "subVersion",
                "0", "subscription", "*"));
            return fields;
        }

        @Override
        public void close() {
            client.shutdown();
        }
    }
}
