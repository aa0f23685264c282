package rmqcompat;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * Push consumers of 5.x that pop: the operator has set the group's mode to POP, and the consumers ask
 * the broker which queues are theirs (clientRebalance=false). What fails is made invisible for 10 s,
 * which is the least that the client asks for.
 */
final class PopScenarios {
    private PopScenarios() {
    }

    static void register(Map<String, Scenario> table) {
        table.put("pop_two_consumers", PopScenarios::twoConsumers);
        table.put("pop_comes_again", PopScenarios::comesAgain);
        table.put("pop_taken_over", PopScenarios::takenOver);
        table.put("pop_tag_filter", PopScenarios::tagFilter);
        table.put("pop_sql_filter", PopScenarios::sqlFilter);
    }

    /** What mqadmin setConsumeMode does, on each broker: a client may ask any of them for its queues. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void setMode(Context context, String topic, String group) throws Exception {
        Class<?> type = Class.forName("org.apache.rocketmq.tools.admin.DefaultMQAdminExt");
        Object admin = type.getConstructor(RPCHook.class).newInstance(context.hook());
        type.getMethod("setNamesrvAddr", String.class).invoke(admin, context.nameServer);
        type.getMethod("setInstanceName", String.class).invoke(admin, "admin" + System.nanoTime());
        type.getMethod("start").invoke(admin);
        try {
            Class mode = Class.forName("org.apache.rocketmq.common.message.MessageRequestMode");
            String all = context.argument("allBrokers", context.argument("broker"));
            for (String broker : all.split(",")) {
                type.getMethod("setMessageRequestMode", String.class, String.class, String.class, mode,
                    int.class, long.class).invoke(admin, broker, topic, group,
                    Enum.valueOf(mode, "POP"), 0, 30000L);
            }
        } finally {
            type.getMethod("shutdown").invoke(admin);
        }
    }

    private static DefaultMQPushConsumer start(Context context, String topic, String tags,
        MessageListenerConcurrently listener) throws Exception {
        return start(context, topic, MessageSelector.byTag(tags), listener);
    }

    private static DefaultMQPushConsumer start(Context context, String topic,
        MessageSelector selector, MessageListenerConcurrently listener) throws Exception {
        DefaultMQPushConsumer consumer = context.newPusher("c");
        consumer.getClass().getMethod("setClientRebalance", boolean.class).invoke(consumer, false);
        consumer.getClass().getMethod("setPopInvisibleTime", long.class).invoke(consumer, 10000L);
        consumer.subscribe(topic, selector);
        consumer.registerMessageListener(listener);
        consumer.start();
        Context.waitFor(40, "a queue to pop from", () -> popQueues(consumer) > 0);
        return consumer;
    }

    /** How many queues the consumer pops from: none in mode PULL. */
    private static int popQueues(DefaultMQPushConsumer consumer) throws Exception {
        Object rebalance = consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl();
        return ((Map<?, ?>) rebalance.getClass().getMethod("getPopProcessQueueTable")
            .invoke(rebalance)).size();
    }

    private static void twoConsumers(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 3);
        setMode(context, topic, context.group("c"));
        context.send(queues, "tag", 0, 100);
        Receiver all = new Receiver();
        Receiver one = new Receiver();
        Receiver two = new Receiver();
        start(context, topic, "*", both(all, one));
        start(context, topic, "*", both(all, two));
        int sent = 100;
        while (sent < 400 || one.total() == 0 || two.total() == 0) {
            Context.check(sent < 6000, one.total() + " and " + two.total());
            context.send(queues, "tag", sent, sent + 20);
            sent += 20;
            Thread.sleep(50);
        }
        all.expectExactlyOnce(0, sent, 60);
    }

    private static MessageListenerConcurrently both(Receiver all, Receiver own) {
        return (messages, work) -> {
            messages.forEach(all::took);
            messages.forEach(own::took);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        };
    }

    private static void comesAgain(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 2);
        setMode(context, topic, context.group("c"));
        Receiver good = new Receiver();
        List<MessageExt> again = Collections.synchronizedList(new ArrayList<>());
        List<Long> failed = Collections.synchronizedList(new ArrayList<>());
        start(context, topic, "*", (messages, work) -> {
            MessageExt message = messages.get(0);
            if (Context.number(message) % 3 == 0 && message.getReconsumeTimes() == 0) {
                failed.add(System.currentTimeMillis());
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            if (message.getReconsumeTimes() > 0) {
                again.add(message);
            }
            good.took(message);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        context.send(queues, "tag", 0, 12);
        good.expectExactlyOnce(0, 12, 90);
        Context.equal("failed", 4, failed.size());
        Context.equal("came again", 4, again.size());
        for (MessageExt message : again) {
            Context.equal("times", 1, message.getReconsumeTimes());
            Context.equal("topic", topic, message.getTopic());
            Context.equal("tag", "tag", message.getTags());
            Context.equal("keys", "k" + Context.number(message), message.getKeys());
            Context.equal("body", "body-" + Context.number(message),
                Context.text(message.getBody()));
            Context.check(message.getProperty("1ST_POP_TIME") != null, "1ST_POP_TIME");
            Context.check(message.getStoreTimestamp() >= failed.get(0) + 9900,
                "it came too soon: " + (message.getStoreTimestamp() - failed.get(0)));
        }
    }

    /** A consumer that hangs and ends without an ack: after 10 s another one has its messages. */
    private static void takenOver(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 1);
        setMode(context, topic, context.group("c"));
        AtomicInteger hung = new AtomicInteger();
        CountDownLatch hold = new CountDownLatch(1);
        DefaultMQPushConsumer first = start(context, topic, "*", (messages, work) -> {
            hung.addAndGet(messages.size());
            try {
                hold.await();
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
            return null;
        });
        context.send(queues, "tag", 0, 2);
        Context.waitFor(30, "two messages in the hands of the first", () -> hung.get() == 2);
        first.suspend();
        first.shutdown();
        Receiver second = new Receiver();
        start(context, topic, "*", second.listener());
        second.expectExactlyOnce(0, 2, 60);
        hold.countDown();
    }

    private static void tagFilter(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 2);
        setMode(context, topic, context.group("c"));
        Receiver receiver = new Receiver();
        start(context, topic, "good || fine", receiver.listener());
        context.send(queues, "bad", 1000, 1020);
        context.send(queues, "good", 0, 10);
        context.send(queues, "fine", 10, 20);
        receiver.expectExactlyOnce(0, 20, 40);
    }

    /** What does not pass is never seen, by whoever is in the group; a failure passes once more. */
    private static void sqlFilter(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 2);
        setMode(context, topic, context.group("c"));
        Receiver receiver = new Receiver();
        AtomicInteger failures = new AtomicInteger();
        MessageSelector selector = MessageSelector.bySql("n BETWEEN 0 AND 29 AND TAGS <> 'bad'");
        start(context, topic, selector, (messages, work) -> {
            MessageExt message = messages.get(0);
            if (Context.number(message) == 7 && message.getReconsumeTimes() == 0) {
                failures.incrementAndGet();
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            messages.forEach(receiver::took);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        context.send(queues, "bad", 0, 20);
        context.send(queues, "good", 0, 60);
        receiver.expectExactlyOnce(0, 30, 60);
        Context.equal("failures", 1, failures.get());
    }
}
