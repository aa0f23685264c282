package rmqcompat;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** DefaultLitePullConsumer with subscribe and with assign (5.x asks with LITE_PULL_MESSAGE). */
final class LitePullScenarios {
    private LitePullScenarios() {
    }

    static void register(Map<String, Scenario> table) {
        table.put("lite_subscribe", LitePullScenarios::subscribe);
        table.put("lite_subscribe_tag", LitePullScenarios::tag);
        table.put("lite_assign_seek", LitePullScenarios::assign);
        table.put("lite_commit_and_restart", LitePullScenarios::commit);
        table.put("lite_two_consumers", LitePullScenarios::two);
    }

    private static List<MessageExt> poll(DefaultLitePullConsumer consumer, int count, int seconds) {
        List<MessageExt> found = new ArrayList<>();
        long end = System.currentTimeMillis() + seconds * 1000L;
        while (found.size() < count) {
            Context.check(System.currentTimeMillis() < end, found.size() + " of " + count);
            found.addAll(consumer.poll(200));
        }
        // Whatever else comes within half a second is one too many; the caller compares numbers.
        found.addAll(consumer.poll(500));
        return found;
    }

    private static void subscribe(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 4);
        context.send(queues, "tag", 0, 200);
        DefaultLitePullConsumer consumer = context.newLitePuller("c");
        consumer.subscribe(topic, "*");
        consumer.start();
        Context.equal("old", Context.range(0, 200), Context.numbers(poll(consumer, 200, 30)));
        context.send(queues, "tag", 200, 300);
        Context.equal("new", Context.range(200, 300), Context.numbers(poll(consumer, 100, 30)));
    }

    private static void tag(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 2);
        for (int i = 0; i < 60; i++) {
            MessageQueue queue = queues.get(i % queues.size());
            context.producer().send(context.message(topic, i < 30 ? "low" : "high", i), queue);
        }
        DefaultLitePullConsumer consumer = context.newLitePuller("c");
        consumer.subscribe(topic, "high || highest");
        consumer.start();
        Context.equal("high", Context.range(30, 60), Context.numbers(poll(consumer, 30, 30)));
    }

    private static void assign(Context context) throws Exception {
        String topic = context.topic("t");
        MessageQueue queue = context.createTopic(topic, 1).get(0);
        context.send(List.of(queue), "tag", 0, 100);
        DefaultLitePullConsumer consumer = context.newLitePuller("c");
        consumer.setAutoCommit(false);
        consumer.start();
        Context.equal("queues", context.brokers, consumer.fetchMessageQueues(topic).size());
        consumer.assign(List.of(queue));
        // All first: a seek that meets the very first pull in flight is lost inside the client.
        Context.equal("first", Context.range(0, 100), Context.numbers(poll(consumer, 100, 30)));
        consumer.seek(queue, 40);
        Context.equal("from 40", Context.range(40, 100), Context.numbers(poll(consumer, 60, 30)));
        consumer.seekToBegin(queue);
        Context.equal("all", Context.range(0, 100), Context.numbers(poll(consumer, 100, 30)));
        consumer.seekToEnd(queue);
        Context.equal("end", 0, consumer.poll(500).size());
        Context.equal("by time", 0L, (long) consumer.offsetForTimestamp(queue, 0L));
        consumer.pause(List.of(queue));
        context.send(List.of(queue), "tag", 100, 105);
        // A pull that was under way when the queue was paused may still bring some.
        List<MessageExt> more = new ArrayList<>(consumer.poll(300));
        consumer.resume(List.of(queue));
        more.addAll(poll(consumer, 5 - more.size(), 30));
        Context.equal("more", Context.range(100, 105), Context.numbers(more));
    }

    private static void commit(Context context) throws Exception {
        String topic = context.topic("t");
        MessageQueue queue = context.createTopic(topic, 1).get(0);
        context.send(List.of(queue), "tag", 0, 50);
        DefaultLitePullConsumer first = context.newLitePuller("c");
        first.setAutoCommit(false);
        first.setPullBatchSize(10);
        first.start();
        // No seek to the beginning, where it begins anyway: while the client's first pull is under
        // way a seek makes it drop or repeat that pull's messages, whatever the broker.
        first.assign(List.of(queue));
        Context.equal("all", Context.range(0, 50), Context.numbers(poll(first, 50, 30)));
        first.commitSync(Map.of(queue, 30L), true);
        Context.waitFor(15, "committed", () -> first.committed(queue) == 30L);
        first.shutdown();
        DefaultLitePullConsumer second = context.newLitePuller("c");
        second.setAutoCommit(false);
        second.start();
        second.assign(List.of(queue));
        Context.equal("kept", 30L, (long) second.committed(queue));
        Context.equal("rest", Context.range(30, 50), Context.numbers(poll(second, 20, 30)));
    }

    private static void two(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 4);
        DefaultLitePullConsumer one = context.newLitePuller("c");
        DefaultLitePullConsumer two = context.newLitePuller("c");
        one.subscribe(topic, "*");
        two.subscribe(topic, "*");
        one.start();
        two.start();
        int share = queues.size() / 2;
        Context.waitFor(30, "equal shares", () -> {
            one.poll(10);
            two.poll(10);
            return one.assignment().size() == share && two.assignment().size() == share;
        });
        context.send(queues, "tag", 0, 100);
        List<MessageExt> found = new ArrayList<>();
        long end = System.currentTimeMillis() + 30000;
        while (found.size() < 100 && System.currentTimeMillis() < end) {
            found.addAll(one.poll(50));
            found.addAll(two.poll(50));
        }
        Context.equal("exactly once", Context.range(0, 100), Context.numbers(found));
    }
}
