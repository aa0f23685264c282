package rmqcompat;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Ordered consumption over kills: consumers in several JVMs write what they do to one file, which
 * the test reads afterwards, and so do those of other clients (journal.go, ordered_member.py). A
 * line is in the file before the listener goes on, whoever is killed:
 *
 * <pre>
 *   begin who queue offset number
 *   end who queue offset number     (or left, when the consumer was shut down meanwhile)
 * </pre>
 *
 * "ordered_open" starts a consumer under a name, "ordered_send" sends numbered messages of some
 * sharding keys (all of a key to one queue), "ordered_close" shuts a consumer down.
 */
final class OrderlyJournal {
    private static final Map<String, Context> OPEN = new ConcurrentHashMap<>();

    private OrderlyJournal() {
    }

    static void register(Map<String, Scenario> table) {
        table.put("ordered_open", OrderlyJournal::open);
        table.put("ordered_send", OrderlyJournal::send);
        table.put("ordered_close", OrderlyJournal::close);
    }

    private static void open(Context context) throws Exception {
        String name = context.argument("who");
        Context own = context.lasting();
        long sleep = Long.parseLong(context.argument("ms", "2"));
        OutputStream journal = new FileOutputStream(context.argument("file"), true);
        String topic = own.topic("t");
        DefaultMQPushConsumer consumer = own.newPusher("c");
        consumer.setPullThresholdForQueue(Integer.parseInt(context.argument("cached", "1000")));
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, orderly) -> {
            for (MessageExt message : messages) {
                String place = name + " " + message.getQueueId() + " " + message.getQueueOffset()
                    + " " + Context.number(message) + "\n";
                write(journal, "begin " + place);
                try {
                    Thread.sleep(sleep);
                } catch (InterruptedException ended) {
                    write(journal, "left " + place);
                    return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                }
                write(journal, "end " + place);
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        OPEN.put(name, own);
    }

    private static void write(OutputStream journal, String line) {
        try {
            journal.write(line.getBytes(StandardCharsets.UTF_8)); // one system call, appending
        } catch (IOException failed) {
            throw new IllegalStateException(failed);
        }
    }

    /** Numbers first..end-1; number % keys is the sharding key, whose messages go to one queue. */
    private static void send(Context context) throws Exception {
        Context own = context.lasting();
        int first = Integer.parseInt(context.argument("first"));
        int end = Integer.parseInt(context.argument("end"));
        int keys = Integer.parseInt(context.argument("keys", "16"));
        String topic = own.topic("t");
        try {
            long limit = System.currentTimeMillis() + 240000; // a JVM may start slowly
            List<MessageQueue> queues = queuesOf(own, topic, limit);
            for (int i = first; i < end; i++) {
                Message message = own.message(topic, "tag", i);
                int key = i % keys;
                while (true) {
                    try {
                        SendResult result = own.producer().send(message,
                            (list, sent, argument) -> queues.get((Integer) argument % queues.size()),
                            key, 3000);
                        own.checkSent(result);
                        break;
                    } catch (Exception failed) { // the broker may be away for a while
                        Context.check(System.currentTimeMillis() < limit, "failing: " + failed);
                        Thread.sleep(200);
                    }
                }
            }
        } finally {
            own.close();
        }
    }

    /** There is no route while the broker is away. */
    private static List<MessageQueue> queuesOf(Context own, String topic, long limit)
            throws Exception {
        while (true) {
            try {
                return own.queues(topic);
            } catch (MQClientException failed) {
                Context.check(System.currentTimeMillis() < limit, "no queues: " + failed);
                Thread.sleep(200);
            }
        }
    }

    private static void close(Context context) {
        OPEN.remove(context.argument("who")).close();
    }
}
