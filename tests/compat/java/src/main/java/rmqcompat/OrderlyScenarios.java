package rmqcompat;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** MessageListenerOrderly: each queue in order and by one consumer at a time (broker-side locks). */
final class OrderlyScenarios {
    private OrderlyScenarios() {
    }

    static void register(Map<String, Scenario> table) {
        table.put("orderly_one_consumer", context -> inOrder(context, 1));
        table.put("orderly_two_consumers", context -> inOrder(context, 2));
        table.put("orderly_suspend", OrderlyScenarios::suspend);
    }

    private static void inOrder(Context context, int count) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 4);
        Receiver receiver = new Receiver();
        Map<MessageQueue, Long> next = new ConcurrentHashMap<>();
        Map<MessageQueue, AtomicInteger> inside = new ConcurrentHashMap<>();
        AtomicReference<String> wrong = new AtomicReference<>();
        MessageListenerOrderly listener = (messages, orderly) -> {
            MessageQueue queue = orderly.getMessageQueue();
            AtomicInteger entered = inside.computeIfAbsent(queue, q -> new AtomicInteger());
            if (entered.incrementAndGet() != 1) {
                wrong.set(queue + " consumed twice at a time");
            }
            for (MessageExt message : messages) {
                long expected = next.getOrDefault(queue, 0L);
                if (message.getQueueOffset() != expected) {
                    wrong.set(queue + ": " + message.getQueueOffset() + " after " + expected);
                }
                next.put(queue, message.getQueueOffset() + 1);
                receiver.took(message);
            }
            entered.decrementAndGet();
            return ConsumeOrderlyStatus.SUCCESS;
        };
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            DefaultMQPushConsumer consumer = context.newPusher("c");
            consumer.subscribe(topic, "*");
            consumer.registerMessageListener(listener);
            consumer.start();
            consumers.add(consumer);
        }
        // A queue that changes hands is locked by its old owner for some seconds.
        Context.waitFor(40, "equal shares", () -> {
            for (DefaultMQPushConsumer consumer : consumers) {
                if (Bridge.ownedQueues(consumer, topic) != queues.size() / count) {
                    return false;
                }
            }
            return true;
        });
        context.send(queues, "tag", 0, 400);
        receiver.expectExactlyOnce(0, 400, 40);
        Context.equal("order", null, wrong.get());
    }

    private static void suspend(Context context) throws Exception {
        String topic = context.topic("t");
        MessageQueue queue = context.createTopic(topic, 1).get(0);
        context.send(List.of(queue), "tag", 0, 20);
        List<Integer> seen = java.util.Collections.synchronizedList(new ArrayList<>());
        AtomicInteger refusals = new AtomicInteger();
        DefaultMQPushConsumer consumer = context.newPusher("c");
        consumer.setSuspendCurrentQueueTimeMillis(100);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, orderly) -> {
            int number = Context.number(messages.get(0));
            if (number == 7 && refusals.incrementAndGet() <= 3) {
                return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            }
            messages.forEach(message -> seen.add(Context.number(message)));
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        Context.waitFor(40, "all messages", () -> seen.size() >= 20);
        Context.equal("order", Context.range(0, 20), new ArrayList<>(seen));
        Context.equal("times number 7 was offered", 4, refusals.get());
    }
}
