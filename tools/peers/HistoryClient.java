import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageId;

/**
 * History client: a producer, and a push consumer when it has a group, that write down what they do
 * and are told, in the form of tests/ha/history.py. Both have the client's defaults but for what is
 * given: a send that fails is tried again by the client, so a message may be stored twice.
 *
 * <pre>
 *   java -cp "lib/*" HistoryClient.java namesrv=127.0.0.1:9876 folder=histories name=java topic=t
 *       [group=g] [poll_ms=1000]
 * </pre>
 *
 * The first line on standard input ends the sends, its end ends all. System.nanoTime() is
 * CLOCK_MONOTONIC here, which all processes of a machine share.
 */
public final class HistoryClient {
    private static final long PAUSE_MS = 3;
    private static final long PAUSE_AFTER_FAILURE_MS = 20;

    private final Map<String, String> told = new HashMap<>();
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
                if (fields[i + 1] instanceof Number) {
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
        String name = told.get("name");
        DefaultMQPushConsumer consumer = told.containsKey("group") ? consumer(name + "-read") : null;
        DefaultMQProducer producer = new DefaultMQProducer(told.get("topic") + "-java-producers");
        producer.setNamesrvAddr(told.get("namesrv"));
        if (told.containsKey("poll_ms")) {
            producer.setPollNameServerInterval(Integer.parseInt(told.get("poll_ms")));
        }
        producer.start();
        History history = new History(told.get("folder"), name + "-send");
        Thread sender = new Thread(() -> send(producer, history, name), "sender");
        sender.start();
        BufferedReader orders =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        orders.readLine();
        rests = true;
        sender.join();
        while (orders.readLine() != null) { // until its end
            continue;
        }
        if (consumer != null) {
            consumer.shutdown();
        }
        producer.shutdown();
    }

    // ---- sends

    private void send(DefaultMQProducer producer, History history, String name) {
        for (int number = 1; !rests; number++) {
            String message = name + "/" + number;
            byte[] body = (message + " " + ".".repeat(number % 7 * 100)).getBytes(StandardCharsets.US_ASCII);
            history.add("sending", "message", message, "topic", told.get("topic"));
            try {
                SendResult result = producer.send(new Message(told.get("topic"), body));
                if (result.getSendStatus() != SendStatus.SEND_OK) {
                    history.add("unknown", "message", message, "reason", result.getSendStatus());
                } else {
                    stored(history, message, result);
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

    private void stored(History history, String message, SendResult result) throws Exception {
        MessageId id = MessageDecoder.decodeMessageId(result.getOffsetMsgId());
        String acker = id.getAddress().toString().replace("/", "");
        history.add("stored", "message", message, "topic", told.get("topic"),
            "broker", result.getMessageQueue().getBrokerName(),
            "queue_id", result.getMessageQueue().getQueueId(), "offset", result.getQueueOffset(),
            "log_offset", id.getOffset(), "acker", acker);
    }

    private static void pause() {
        try {
            Thread.sleep(PAUSE_AFTER_FAILURE_MS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    // ---- deliveries

    private DefaultMQPushConsumer consumer(String process) throws Exception {
        String group = told.get("group");
        String topic = told.get("topic");
        History history = new History(told.get("folder"), process);
        history.add("subscribed", "group", group, "topic", topic);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(told.get("namesrv"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, unused) -> {
            for (MessageExt each : messages) {
                delivered(history, group, each);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return consumer;
    }

    /** Of a message that came again by a retry topic the place is that topic's. */
    private static void delivered(History history, String group, MessageExt message) {
        boolean again = message.getReconsumeTimes() > 0;
        String body = new String(message.getBody(), StandardCharsets.US_ASCII);
        history.add("delivered", "group", group, "topic", message.getTopic(),
            "broker", message.getBrokerName(), "queue_id", message.getQueueId(),
            "offset", again ? -1 : message.getQueueOffset(),
            "message", body.substring(0, body.indexOf(' ')), "how", "any",
            "log_offset", again ? -1 : message.getCommitLogOffset());
    }
}
