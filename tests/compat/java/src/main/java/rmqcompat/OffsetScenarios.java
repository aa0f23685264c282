package rmqcompat;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Progress of a group: kept over a restart of the client (one scenario), and over a restart of the
 * broker (two scenarios with the same argument "as"; the test restarts the broker in between).
 */
final class OffsetScenarios {
    private OffsetScenarios() {
    }

    static void register(Map<String, Scenario> table) {
        table.put("offset_kept_by_client_restart", OffsetScenarios::clientRestart);
        table.put("offset_by_time", OffsetScenarios::byTime);
        table.put("offset_pull_commit", OffsetScenarios::pullCommit);
        table.put("offset_before_broker_restart", OffsetScenarios::before);
        table.put("offset_after_broker_restart", OffsetScenarios::after);
    }

    private static void clientRestart(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 4);
        context.send(queues, "tag", 0, 100);
        Receiver receiver = new Receiver();
        DefaultMQPushConsumer consumer = Receiver.start(context, "c", topic, "*", receiver);
        receiver.expectExactlyOnce(0, 100, 30);
        consumer.shutdown();
        context.send(queues, "tag", 100, 150);
        Receiver again = new Receiver();
        Receiver.start(context, "c", topic, "*", again);
        again.expectExactlyOnce(100, 150, 30);
    }

    /** Both boundaries, for each millisecond in which something was stored and those beside it (5.x). */
    private static void byTime(Context context) throws Exception {
        String topic = context.topic("t");
        MessageQueue queue = context.createTopic(topic, 1).get(0);
        for (int i = 0; i < 40; i++) {
            context.send(List.of(queue), "tag", i, i + 1);
            Thread.sleep(i % 4 == 0 ? 5 : 0);
        }
        List<MessageExt> stored = context.pullAll(topic, 40, 20);
        Set<Long> moments = new TreeSet<>();
        for (MessageExt message : stored) {
            for (long beside = -1; beside <= 1; beside++) {
                moments.add(message.getStoreTimestamp() + beside);
            }
        }
        for (long moment : moments) {
            long lower = stored.stream().filter(m -> m.getStoreTimestamp() < moment).count();
            long upTo = stored.stream().filter(m -> m.getStoreTimestamp() <= moment).count();
            Context.equal("first at or after " + moment, lower,
                Bridge.searchOffset(context.producer(), queue, moment, "LOWER"));
            Context.equal("last at or before " + moment, Math.max(0, upTo - 1),
                Bridge.searchOffset(context.producer(), queue, moment, "UPPER"));
        }
        context.detail("moments", moments.size());
    }

    private static void pullCommit(Context context) throws Exception {
        String topic = context.topic("t");
        MessageQueue queue = context.createTopic(topic, 1).get(0);
        context.send(List.of(queue), "tag", 0, 10);
        DefaultMQPullConsumer first = context.newPuller("c");
        commit(first, queue, 7);
        first.shutdown();
        DefaultMQPullConsumer second = context.newPuller("c");
        Context.equal("kept", 7L, second.fetchConsumeOffset(queue, true));
        commit(second, queue, 3); // a lower one is taken too
    }

    /** Commits go one-way and are dropped while the broker has not had the group's heartbeat. */
    static void commit(DefaultMQPullConsumer consumer, MessageQueue queue, long offset)
        throws Exception {
        Context.waitFor(20, "commit of " + offset, () -> {
            consumer.updateConsumeOffset(queue, offset); // the last reading may have replaced it
            consumer.getOffsetStore().persist(queue);
            Thread.sleep(50);
            return consumer.fetchConsumeOffset(queue, true) == offset;
        });
    }

    private static void before(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 4);
        context.send(queues, "tag", 0, 100);
        Receiver receiver = new Receiver();
        DefaultMQPushConsumer consumer = Receiver.start(context, "c", topic, "*", receiver);
        receiver.expectExactlyOnce(0, 100, 30);
        consumer.shutdown();
        DefaultMQPullConsumer reader = context.newPuller("c");
        long each = 100 / queues.size();
        for (MessageQueue queue : queues) {
            Context.waitFor(15, "offset " + each,
                () -> reader.fetchConsumeOffset(queue, true) == each);
        }
        context.send(queues, "tag", 100, 120);
    }

    private static void after(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.queues(topic);
        Context.equal("queues", 4 * context.brokers, queues.size());
        long each = 100 / queues.size();
        DefaultMQPullConsumer reader = context.newPuller("c");
        for (MessageQueue queue : queues) {
            Context.equal("offset of " + queue, each, reader.fetchConsumeOffset(queue, true));
            Context.equal("max of " + queue, each + 20 / queues.size(), reader.maxOffset(queue));
        }
        reader.shutdown();
        Context.equal("stored", Context.range(0, 120), Context.numbers(context.pullAll(topic, 120, 20)));
        context.send(queues, "tag", 120, 140);
        Receiver receiver = new Receiver();
        Receiver.start(context, "c", topic, "*", receiver);
        receiver.expectExactlyOnce(100, 140, 30);
    }
}
