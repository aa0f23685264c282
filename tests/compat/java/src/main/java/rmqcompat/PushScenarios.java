package rmqcompat;

import java.text.SimpleDateFormat;
import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageQueue;

/** DefaultMQPushConsumer with a concurrent listener: groups, rebalance, tags, where to begin. */
final class PushScenarios {
    private PushScenarios() {
    }

    static void register(Map<String, Scenario> table) {
        table.put("push_one_consumer", PushScenarios::one);
        table.put("push_three_consumers", PushScenarios::three);
        table.put("push_tag_filter", PushScenarios::tags);
        table.put("push_broadcasting", PushScenarios::broadcasting);
        table.put("push_two_groups", PushScenarios::twoGroups);
        table.put("push_large_backlog", PushScenarios::backlog);
        table.put("push_from_first", PushScenarios::fromFirst);
        table.put("push_from_last_young", PushScenarios::fromLastYoung);
        table.put("push_from_where_old", PushScenarios::fromWhereOld);
    }

    private static void one(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 4);
        Receiver receiver = new Receiver();
        DefaultMQPushConsumer consumer = Receiver.start(context, "c", topic, "*", receiver);
        Context.waitFor(30, "all queues",
            () -> Bridge.ownedQueues(consumer, topic) == queues.size());
        context.send(queues, "tag", 0, 500);
        receiver.expectExactlyOnce(0, 500, 30);
    }

    private static void three(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 6);
        Receiver all = new Receiver();
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            consumers.add(Receiver.start(context, "c", topic, "*", all));
        }
        // Well below the 20 s of the periodic rebalance: the broker tells members of a change.
        long begin = System.nanoTime();
        Context.waitFor(40, "a third of the queues each", () -> {
            for (DefaultMQPushConsumer consumer : consumers) {
                if (Bridge.ownedQueues(consumer, topic) != queues.size() / 3) {
                    return false;
                }
            }
            return true;
        });
        context.detail("milliseconds to balance three", (System.nanoTime() - begin) / 1_000_000);
        context.send(queues, "tag", 0, 600);
        all.expectExactlyOnce(0, 600, 30);
        // Steady state: what is not committed when a queue changes hands comes twice, on any broker,
        // and the client's first commit by itself is 10 s after its start.
        for (DefaultMQPushConsumer consumer : consumers) {
            consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
        }
        Thread.sleep(500); // commits are one-way
        begin = System.nanoTime();
        consumers.remove(0).shutdown();
        Context.waitFor(40, "half of the queues each", () ->
            Bridge.ownedQueues(consumers.get(0), topic) == queues.size() / 2
                && Bridge.ownedQueues(consumers.get(1), topic) == queues.size() / 2);
        context.detail("milliseconds to balance two", (System.nanoTime() - begin) / 1_000_000);
        context.send(queues, "tag", 600, 900);
        all.expectExactlyOnce(0, 900, 30);
    }

    private static void tags(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 2);
        Receiver receiver = new Receiver();
        DefaultMQPushConsumer consumer = Receiver.start(context, "c", topic, "Aa || C", receiver);
        Context.waitFor(30, "all queues",
            () -> Bridge.ownedQueues(consumer, topic) == queues.size());
        context.send(queues, "Aa", 0, 50);
        context.send(queues, "BB", 50, 100); // same hash code as Aa: the client must drop these
        context.send(queues, "D", 100, 150);
        context.send(queues, "Aa", 50, 100);
        receiver.expectExactlyOnce(0, 100, 30);
    }

    private static void broadcasting(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 4);
        List<Receiver> receivers = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            Receiver receiver = new Receiver();
            DefaultMQPushConsumer consumer = context.newPusher("c");
            Bridge.broadcasting(consumer);
            consumer.subscribe(topic, "*");
            consumer.registerMessageListener(receiver.listener());
            consumer.start();
            receivers.add(receiver);
            Context.waitFor(30, "all queues",
                () -> Bridge.ownedQueues(consumer, topic) == queues.size());
        }
        context.send(queues, "tag", 0, 100);
        for (Receiver receiver : receivers) {
            receiver.expectExactlyOnce(0, 100, 30);
        }
    }

    private static void twoGroups(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 2);
        Receiver first = new Receiver();
        Receiver second = new Receiver();
        Receiver.start(context, "c1", topic, "*", first);
        Receiver.start(context, "c2", topic, "*", second);
        context.send(queues, "tag", 0, 100);
        first.expectExactlyOnce(0, 100, 30);
        second.expectExactlyOnce(0, 100, 30);
    }

    private static void backlog(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 4);
        for (int i = 0; i < 3000; i += 100) {
            List<Message> batch = new ArrayList<>();
            for (int n = i; n < i + 100; n++) {
                batch.add(context.message(topic, "tag", n));
            }
            context.checkSent(context.producer().send(batch, queues.get(i / 100 % queues.size())));
        }
        Receiver receiver = new Receiver();
        Receiver.start(context, "c", topic, "*", receiver);
        receiver.expectExactlyOnce(0, 3000, 40);
    }

    private static void fromFirst(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 2);
        context.send(queues, "tag", 0, 40);
        Receiver receiver = new Receiver();
        Receiver.start(context, "c", topic, "*", receiver);
        receiver.expectExactlyOnce(0, 40, 30);
    }

    /** While message 0 is still in memory a new group starts there, whatever it asked for. */
    private static void fromLastYoung(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 2);
        context.send(queues, "tag", 0, 40);
        Receiver receiver = new Receiver();
        DefaultMQPushConsumer consumer = context.newPusher("c");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(receiver.listener());
        consumer.start();
        receiver.expectExactlyOnce(0, 40, 30);
    }

    /**
     * Needs a broker that deletes every full segment at once (argument segmentBytes): only when its
     * first messages are gone does a new group begin where it asked to.
     */
    private static void fromWhereOld(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 2);
        context.send(queues, "tag", 0, 40);
        fillUntilDeleted(context, queues);
        Thread.sleep(1100);
        // Whole seconds only: consumeTimestamp is yyyyMMddHHmmss.
        String since = new SimpleDateFormat("yyyyMMddHHmmss").format(new Date());
        context.send(queues, "tag", 40, 80);
        Thread.sleep(500); // Apache builds its queues behind the log
        Receiver last = new Receiver();
        DefaultMQPushConsumer consumer = context.newPusher("last");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        start(consumer, topic, last);
        Receiver first = new Receiver();
        start(context.newPusher("first"), topic, first);
        Receiver time = new Receiver();
        DefaultMQPushConsumer timed = context.newPusher("time");
        timed.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_TIMESTAMP);
        timed.setConsumeTimestamp(since);
        start(timed, topic, time);
        context.send(queues, "tag", 80, 120);
        last.expectExactlyOnce(80, 120, 30);
        time.expectExactlyOnce(40, 120, 30);
        first.expectExactlyOnce(40, 120, 30);
    }

    private static void start(DefaultMQPushConsumer consumer, String topic, Receiver receiver)
        throws Exception {
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(receiver.listener());
        consumer.start();
        Context.waitFor(30, "two queues", () -> Bridge.ownedQueues(consumer, topic) == 2);
    }

    /** Sends to another topic until the queues are empty, and is not near a segment's end then. */
    private static void fillUntilDeleted(Context context, List<MessageQueue> queues) throws Exception {
        long segment = Long.parseLong(context.argument("segmentBytes"));
        MessageQueue filler = context.createTopic(context.topic("filler"), 1).get(0);
        context.producer().setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        long sent = 0;
        long limit = System.currentTimeMillis() + 120_000; // Apache looks 60 s after its start first
        while (true) {
            SendResult result = context.producer().send(
                new Message(filler.getTopic(), new byte[64 * 1024]), filler);
            sent += 64 * 1024;
            long place =
                MessageDecoder.decodeMessageId(result.getOffsetMsgId()).getOffset() % segment;
            if (sent > 2 * segment && place < segment / 2) {
                boolean deleted = true;
                for (MessageQueue queue : queues) {
                    deleted &= context.puller().minOffset(queue) == 20;
                }
                if (deleted) {
                    return;
                }
                Thread.sleep(500);
            }
            Context.check(System.currentTimeMillis() < limit, "the first segment is still there");
        }
    }
}
