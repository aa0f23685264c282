import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageId;

/**
 * History client: producers, and push consumers when it has a group, that write down what they do
 * and are told, in the form of tests/ha/history.py. They have the client's defaults but for what is
 * given: a send that fails is tried again by the client, so a message may be stored twice.
 *
 * <pre>
 *   java -cp "lib/*" HistoryClient.java namesrv=127.0.0.1:9876 folder=histories name=java topic=t
 *       [ordered=t2] [transacted=t3] [group=g] [poll_ms=1000]
 * </pre>
 *
 * Each topic has a producer of its kind. The group reads topic and transacted, g-ordered reads
 * ordered. The first line on standard input ends the sends, its end ends all. System.nanoTime() is
 * CLOCK_MONOTONIC here, which all processes of a machine share.
 */
public final class HistoryClient {
    private static final long PAUSE_MS = 3;
    private static final int KEYS = 8;
    private static final long PAUSE_AFTER_FAILURE_MS = 20;

    private final Map<String, String> told = new HashMap<>();
    private final List<Runnable> ends = new ArrayList<>();
    private volatile boolean rests;

    private HistoryClient(String[] arguments) {
        for (String each : arguments) {
            int equals = each.indexOf('=');
            told.put(each.substring(0, equals), each.substring(equals + 1));
        }
    }

    public static void main(String[] arguments) throws Exception {
        new HistoryClient(arguments).run();
        System.exit(0); // threads of the client's own must not keep us
    }

    /** A file of events; an event is in it when add returns. */
    private static final class History {
        private final BufferedWriter file;
        private final String process;

        History(String folder, String process) throws IOException {
            this.file = Files.newBufferedWriter(Path.of(folder, process + ".jsonl"));
            this.process = process;
        }

        synchronized void add(String event, Object... fields) {
            StringBuilder line = new StringBuilder("{\"event\":\"").append(event).append('"');
            line.append(",\"at\":").append(System.nanoTime());
            line.append(",\"process\":\"").append(process).append('"');
            for (int i = 0; i < fields.length; i += 2) {
                line.append(",\"").append(fields[i]).append("\":");
                if (fields[i + 1] instanceof Number || fields[i + 1] instanceof Boolean) {
                    line.append(fields[i + 1]);
                } else {
                    text(line, String.valueOf(fields[i + 1]));
                }
            }
            try {
                file.write(line.append("}\n").toString());
                file.flush();
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }

        private static void text(StringBuilder line, String value) {
            line.append('"');
            for (char c : value.toCharArray()) {
                if (c < 0x20 || c > 0x7e || c == '"' || c == '\\') {
                    line.append(String.format("\\u%04x", (int) c));
                } else {
                    line.append(c);
                }
            }
            line.append('"');
        }
    }

    private void run() throws Exception {
        String topic = told.get("topic");
        String ordered = told.get("ordered");
        String transacted = told.get("transacted");
        if (told.containsKey("group")) {
            consume(topic, transacted);
            if (ordered != null) {
                consumeInOrder(ordered);
            }
        }
        List<Thread> senders = new ArrayList<>();
        senders.add(plain(topic));
        if (ordered != null) {
            senders.add(inOrder(ordered));
        }
        if (transacted != null) {
            senders.add(transacted(transacted));
        }
        for (Thread each : senders) {
            each.start();
        }
        BufferedReader orders =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        orders.readLine();
        rests = true;
        for (Thread each : senders) {
            each.join();
        }
        while (orders.readLine() != null) { // until its end
            continue;
        }
        for (Runnable each : ends) {
            each.run();
        }
    }

    // ---- sends

    private interface Send {
        SendResult of(Message message, String key) throws Exception;
    }

    private Thread plain(String topic) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(topic + "-java-producers");
        start(producer);
        return sender("send", topic, "plain", (message, key) -> producer.send(message));
    }

    /** Messages of a key go to one queue, where the client tries no other one. */
    private Thread inOrder(String topic) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(topic + "-java-producers");
        start(producer);
        return sender("ordered", topic, "ordered", (message, key) ->
            producer.send(message, (queues, unused, of) ->
                queues.get(Math.floorMod(of.hashCode(), queues.size())), key));
    }

    private Thread transacted(String topic) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer(topic + "-java-producers");
        History history = new History(told.get("folder"), told.get("name") + "-transacted");
        Transactions transactions = new Transactions(history);
        producer.setTransactionListener(transactions);
        start(producer);
        return sender(history, topic, "transaction", (message, key) -> {
            try {
                SendResult result = producer.sendMessageInTransaction(message, null);
                if (result.getSendStatus() != SendStatus.SEND_OK) {
                    transactions.neverRan(name(message));
                }
                return result;
            } catch (Exception error) {
                transactions.neverRan(name(message));
                throw error;
            }
        });
    }

    /** The local side: one of five is rolled back, of one of eleven the broker has to ask. */
    private static final class Transactions implements TransactionListener {
        private final History history;
        private final Map<String, Boolean> commits = new ConcurrentHashMap<>();

        Transactions(History history) {
            this.history = history;
        }

        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object unused) {
            String name = name(message);
            int number = Integer.parseInt(name.substring(name.indexOf('/') + 1));
            boolean commit = number % 5 != 0;
            commits.put(name, commit);
            history.add("decided", "message", name, "commit", commit);
            return number % 11 == 0 ? LocalTransactionState.UNKNOW : state(name);
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            return state(name(message));
        }

        void neverRan(String name) {
            if (commits.putIfAbsent(name, false) == null) {
                history.add("decided", "message", name, "commit", false);
            }
        }

        /** One whose answer took long is asked about before its transaction began. */
        private LocalTransactionState state(String name) {
            Boolean commit = commits.get(name);
            if (commit == null) {
                return LocalTransactionState.UNKNOW;
            }
            return commit ? LocalTransactionState.COMMIT_MESSAGE
                : LocalTransactionState.ROLLBACK_MESSAGE;
        }
    }

    private void start(DefaultMQProducer producer) throws Exception {
        producer.setNamesrvAddr(told.get("namesrv"));
        if (told.containsKey("poll_ms")) {
            producer.setPollNameServerInterval(Integer.parseInt(told.get("poll_ms")));
        }
        producer.start();
        ends.add(producer::shutdown);
    }

    private Thread sender(String process, String topic, String kind, Send send) throws IOException {
        return sender(new History(told.get("folder"), told.get("name") + "-" + process), topic,
            kind, send);
    }

    private Thread sender(History history, String topic, String kind, Send send) {
        return new Thread(() -> send(history, topic, kind, send), kind);
    }

    private void send(History history, String topic, String kind, Send send) {
        for (int number = 1; !rests; number++) {
            String message = history.process + "/" + number;
            String key = kind.equals("ordered") ? "java-key-" + number % KEYS : "";
            byte[] body = (message + " " + ".".repeat(number % 7 * 100)).getBytes(StandardCharsets.US_ASCII);
            history.add("sending", "message", message, "topic", topic, "kind", kind, "key", key);
            try {
                SendResult result = send.of(new Message(topic, body), key);
                if (result.getSendStatus() != SendStatus.SEND_OK) {
                    history.add("unknown", "message", message, "reason", result.getSendStatus());
                } else {
                    stored(history, message, topic, result);
                }
                Thread.sleep(PAUSE_MS);
            } catch (InterruptedException error) {
                return;
            } catch (Exception error) { // of several attempts one may have been stored
                history.add("unknown", "message", message, "reason", error);
                pause();
            }
        }
    }

    /** Of a half message the client keeps no place, and there is none in its topic yet: -1. */
    private static void stored(History history, String message, String topic, SendResult result)
            throws Exception {
        boolean half = result.getOffsetMsgId() == null;
        MessageId id = half ? null : MessageDecoder.decodeMessageId(result.getOffsetMsgId());
        history.add("stored", "message", message, "topic", topic,
            "broker", result.getMessageQueue().getBrokerName(),
            "queue_id", result.getMessageQueue().getQueueId(),
            "offset", half ? -1 : result.getQueueOffset(),
            "log_offset", half ? -1 : id.getOffset(),
            "acker", half ? "" : id.getAddress().toString().replace("/", ""));
    }

    private static void pause() {
        try {
            Thread.sleep(PAUSE_AFTER_FAILURE_MS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    // ---- deliveries

    private void consume(String... topics) throws Exception {
        String group = told.get("group");
        History history = new History(told.get("folder"), told.get("name") + "-read");
        DefaultMQPushConsumer consumer = consumer(group, history, topics);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, unused) -> {
            for (MessageExt each : messages) {
                delivered(history, group, each, "any", each.getReconsumeTimes() > 0);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
    }

    private void consumeInOrder(String topic) throws Exception {
        String group = told.get("group") + "-ordered";
        History history = new History(told.get("folder"), told.get("name") + "-read-ordered");
        DefaultMQPushConsumer consumer = consumer(group, history, topic);
        consumer.registerMessageListener((MessageListenerOrderly) (messages, unused) -> {
            for (MessageExt each : messages) {
                delivered(history, group, each, "push", false);
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
    }

    private DefaultMQPushConsumer consumer(String group, History history, String... topics)
            throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(told.get("namesrv"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        for (String topic : topics) {
            if (topic != null) {
                history.add("subscribed", "group", group, "topic", topic);
                consumer.subscribe(topic, "*");
            }
        }
        ends.add(consumer::shutdown);
        return consumer;
    }

    /** Of a message that came again by a retry topic the place is that topic's. */
    private static void delivered(
            History history, String group, MessageExt message, String how, boolean again) {
        history.add("delivered", "group", group, "topic", message.getTopic(),
            "broker", message.getBrokerName(), "queue_id", message.getQueueId(),
            "offset", again ? -1 : message.getQueueOffset(), "message", name(message), "how", how,
            "log_offset", again ? -1 : message.getCommitLogOffset());
    }

    private static String name(Message message) {
        String body = new String(message.getBody(), StandardCharsets.US_ASCII);
        return body.substring(0, body.indexOf(' '));
    }
}
