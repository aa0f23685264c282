package rmqcompat;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A push consumer that stays up while the test ends the master it reads from. "replica_open" starts
 * it under a name, "replica_suspend" and "replica_resume" end and begin its pulls, "replica_wait"
 * waits until the bodies "0" to count - 1 have come, "replica_close" shuts it down and tells how
 * often each came. "writer_open" starts a producer that sends "0", "1", .. one after the other, each
 * until it is acknowledged; "writer_close" ends it and tells how many were, how many sends failed
 * and the longest time between two acknowledgements.
 */
final class ReplicaScenarios {
    private static final Map<String, Reader> OPEN = new ConcurrentHashMap<>();
    private static final Map<String, Writer> WRITERS = new ConcurrentHashMap<>();

    private ReplicaScenarios() {
    }

    private static final class Reader {
        Context context;
        DefaultMQPushConsumer consumer;
        final ConcurrentMap<Integer, Integer> counts = new ConcurrentHashMap<>();
    }

    private static final class Writer extends Thread {
        Context context;
        DefaultMQProducer producer;
        String topic;
        volatile boolean ends;
        volatile int sent;
        int failed;
        long longestGapMs;

        @Override
        public void run() {
            long last = System.nanoTime();
            while (!ends) {
                try {
                    byte[] body = String.valueOf(sent).getBytes(StandardCharsets.US_ASCII);
                    if (producer.send(new Message(topic, body)).getSendStatus() != SendStatus.SEND_OK) {
                        failed++;
                        continue;
                    }
                    long now = System.nanoTime();
                    longestGapMs = Math.max(longestGapMs, (now - last) / 1_000_000);
                    last = now;
                    sent++;
                    pause(2);
                } catch (Exception error) {
                    failed++;
                    pause(20);
                }
            }
        }
    }

    private static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    static void register(Map<String, Scenario> table) {
        table.put("replica_open", ReplicaScenarios::open);
        table.put("replica_suspend", context -> of(context).consumer.suspend());
        table.put("replica_resume", context -> of(context).consumer.resume());
        table.put("replica_wait", ReplicaScenarios::await);
        table.put("replica_close", ReplicaScenarios::close);
        table.put("writer_open", ReplicaScenarios::openWriter);
        table.put("writer_wait", context -> {
            Writer writer = WRITERS.get(context.argument("as"));
            int count = writer.sent + Integer.parseInt(context.argument("count"));
            Context.waitFor(90, count + " sends", () -> writer.sent >= count);
        });
        table.put("writer_close", ReplicaScenarios::closeWriter);
    }

    private static Reader of(Context context) {
        return OPEN.get(context.argument("as"));
    }

    private static void open(Context context) throws Exception {
        String name = context.argument("as");
        Reader reader = new Reader();
        reader.context = context.lasting();
        DefaultMQPushConsumer consumer = reader.consumer = reader.context.newPusher("c");
        consumer.setConsumerGroup(context.argument("group"));
        consumer.setPollNameServerInterval(1000);
        consumer.setHeartbeatBrokerInterval(1000);
        consumer.subscribe(context.argument("topic"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, unused) -> {
            for (MessageExt message : messages) {
                String body = new String(message.getBody(), StandardCharsets.US_ASCII);
                reader.counts.merge(Integer.parseInt(body), 1, Integer::sum);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        OPEN.put(name, reader);
    }

    private static void await(Context context) throws Exception {
        Reader reader = of(context);
        int count = Integer.parseInt(context.argument("count"));
        Context.waitFor(90, count + " messages", () -> reader.counts.size() >= count);
    }

    private static void close(Context context) {
        Reader reader = OPEN.remove(context.argument("as"));
        reader.context.close();
        Map<String, Integer> twice = new TreeMap<>();
        reader.counts.forEach((number, count) -> {
            if (count > 1) {
                twice.put(String.valueOf(number), count);
            }
        });
        context.detail("numbers", reader.counts.size());
        context.detail("twice", twice);
    }

    private static void openWriter(Context context) throws Exception {
        String name = context.argument("as");
        Writer writer = new Writer();
        writer.context = context.lasting();
        writer.producer = writer.context.newProducer("p");
        writer.topic = context.argument("topic");
        writer.setDaemon(true);
        writer.start();
        WRITERS.put(name, writer);
    }

    private static void closeWriter(Context context) throws Exception {
        Writer writer = WRITERS.remove(context.argument("as"));
        writer.ends = true;
        writer.join(60_000);
        writer.context.close();
        context.detail("sent", writer.sent);
        context.detail("failed", writer.failed);
        context.detail("longestGapMs", writer.longestGapMs);
    }
}
