package rmqcompat;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Logical queues of a static topic. "static_send" sends the bodies first to end - 1 to the queues in
 * turn and answers where each is: "broker queue offset"; a queue that is being moved is tried again
 * until the client's route shows its new leader. "static_ranges" answers "queue minimum maximum".
 */
final class StaticTopicScenarios {
    private static final int NOT_LEADER_FOR_QUEUE = 501;

    private StaticTopicScenarios() {
    }

    static void register(Map<String, Scenario> table) {
        table.put("static_send", StaticTopicScenarios::send);
        table.put("static_ranges", StaticTopicScenarios::ranges);
    }

    private static List<MessageQueue> queues(Context context) throws Exception {
        int count = Integer.parseInt(context.argument("queues"));
        String topic = context.argument("topic");
        Context.waitFor(30, count + " queues", () -> {
            try {
                return context.producer().fetchPublishMessageQueues(topic).size() == count;
            } catch (Exception notYet) {
                return false;
            }
        });
        return context.queues(topic);
    }

    private static void send(Context context) throws Exception {
        List<MessageQueue> queues = queues(context);
        List<String> places = new ArrayList<>();
        int end = Integer.parseInt(context.argument("end"));
        for (int i = Integer.parseInt(context.argument("first")); i < end; i++) {
            byte[] body = String.valueOf(i).getBytes(StandardCharsets.US_ASCII);
            Message message = new Message(context.argument("topic"), body);
            SendResult sent = patiently(context.producer(), message, queues.get(i % queues.size()));
            MessageQueue queue = sent.getMessageQueue();
            places.add(queue.getBrokerName() + " " + queue.getQueueId() + " " + sent.getQueueOffset());
        }
        context.detail("places", String.join(";", places));
    }

    private static SendResult patiently(DefaultMQProducer producer, Message message, MessageQueue queue)
        throws Exception {
        long end = System.currentTimeMillis() + 60_000;
        while (true) {
            try {
                return producer.send(message, queue);
            } catch (MQBrokerException error) {
                if (error.getResponseCode() != NOT_LEADER_FOR_QUEUE || System.currentTimeMillis() > end) {
                    throw error;
                }
                Thread.sleep(200);
            }
        }
    }

    private static void ranges(Context context) throws Exception {
        List<String> found = new ArrayList<>();
        for (MessageQueue queue : queues(context)) {
            found.add(queue.getQueueId() + " " + context.puller().minOffset(queue) + " "
                + context.puller().maxOffset(queue));
        }
        context.detail("ranges", String.join(";", found));
    }
}
