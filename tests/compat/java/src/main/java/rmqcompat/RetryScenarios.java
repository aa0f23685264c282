package rmqcompat;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * What consumers fail to consume: with the level they ask for, at once to the dead letters, with the
 * limits of their group, and sent by the client itself. The broker has the levels "1s 2s 1s 2s 3s".
 */
final class RetryScenarios {
    private RetryScenarios() {
    }

    static void register(Map<String, Scenario> table) {
        table.put("retry_asked_level", RetryScenarios::askedLevel);
        table.put("retry_default_limit", RetryScenarios::defaultLimit);
        table.put("retry_gives_up_at_once", RetryScenarios::givesUp);
        table.put("retry_group_limits", RetryScenarios::groupLimits);
        table.put("retry_own_sends", RetryScenarios::ownSends);
        table.put("retry_orderly_gives_up", RetryScenarios::orderlyGivesUp);
        table.put("retry_batch_in_part", RetryScenarios::batchInPart);
    }

    private static void start(Context context, String topic,
        MessageListenerConcurrently listener) throws Exception {
        start(context, topic, -1, listener);
    }

    private static void start(Context context, String topic, int times,
        MessageListenerConcurrently listener) throws Exception {
        DefaultMQPushConsumer consumer = context.newPusher("c");
        consumer.setMaxReconsumeTimes(times);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(listener);
        consumer.start();
        // A group's retry topic comes with its first heartbeat, its queues with later rebalances:
        // a broker that the client heard of later is 20 s behind the other.
        Context.waitFor(60, "the retry queues", () ->
            Bridge.ownedQueues(consumer, "%RETRY%" + context.group("c")) >= context.brokers);
    }

    private static void waitForRoute(Context context, String topic) throws Exception {
        Context.waitFor(30, "route of " + topic, () -> {
            try {
                return !context.queues(topic).isEmpty();
            } catch (Exception notYet) {
                return false;
            }
        });
    }

    /** delayLevelWhenNextConsume names the level: 2 (2 s) and then 1 (1 s). */
    private static void askedLevel(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 1);
        Map<Integer, List<Long>> seen = new ConcurrentHashMap<>();
        List<MessageExt> last = Collections.synchronizedList(new ArrayList<>());
        start(context, topic, (messages, work) -> {
            MessageExt message = messages.get(0);
            seen.computeIfAbsent(Context.number(message),
                n -> Collections.synchronizedList(new ArrayList<>()))
                .add(System.currentTimeMillis());
            if (message.getReconsumeTimes() == 2) {
                last.add(message);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            }
            work.setDelayLevelWhenNextConsume(2 - message.getReconsumeTimes());
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        context.send(queues, "tag", 0, 5);
        Context.waitFor(40, "five third times", () -> last.size() == 5);
        for (List<Long> times : seen.values()) {
            Context.equal("deliveries", 3, times.size());
            long first = times.get(1) - times.get(0);
            long second = times.get(2) - times.get(1);
            Context.check(first >= 1950 && first < 9000, "level 2 took " + first + " ms");
            Context.check(second >= 950 && second < 9000, "level 1 took " + second + " ms");
        }
        for (MessageExt message : last) {
            Context.equal("level", "1", message.getProperty("DELAY"));
            Context.equal("first topic", topic, message.getProperty("RETRY_TOPIC"));
            Context.equal("real topic", "%RETRY%" + context.group("c"),
                message.getProperty("REAL_TOPIC"));
            Context.equal("queue", "0", message.getProperty("REAL_QID"));
            Context.equal("keys", "k" + Context.number(message), message.getKeys());
        }
    }

    /** Sixteen retries, of which the first take levels 3, 4, 5 and the highest again. */
    private static void defaultLimit(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 1);
        Map<Integer, List<MessageExt>> seen = new ConcurrentHashMap<>();
        Map<Integer, List<Long>> moments = new ConcurrentHashMap<>();
        start(context, topic, (messages, work) -> {
            MessageExt message = messages.get(0);
            int number = Context.number(message);
            moments.computeIfAbsent(number, n -> Collections.synchronizedList(new ArrayList<>()))
                .add(System.currentTimeMillis());
            seen.computeIfAbsent(number, n -> Collections.synchronizedList(new ArrayList<>()))
                .add(message);
            work.setDelayLevelWhenNextConsume(message.getReconsumeTimes() < 4 ? 0 : 1);
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        context.send(queues, "tag", 0, 3);
        String dead = "%DLQ%" + context.group("c");
        Context.waitFor(120, "17 times each", () -> seen.size() == 3
            && seen.values().stream().allMatch(times -> times.size() >= 17));
        Context.waitFor(30, "route of " + dead, () -> {
            try {
                return context.queues(dead).size() == context.brokers;
            } catch (Exception notYet) {
                return false;
            }
        });
        List<MessageExt> found = context.pullAll(dead, 3, 30);
        Context.equal("dead letters", Context.range(0, 3), Context.numbers(found));
        long[] waits = {1000, 2000, 3000, 3000};
        for (int number = 0; number < 3; number++) {
            List<MessageExt> messages = seen.get(number);
            Context.equal("deliveries", 17, messages.size());
            String first = ((MessageClientExt) messages.get(0)).getOffsetMsgId();
            for (int times = 0; times < 17; times++) {
                MessageExt message = messages.get(times);
                Context.equal("times", times, message.getReconsumeTimes());
                Context.equal("id", messages.get(0).getMsgId(), message.getMsgId());
                if (times > 0) {
                    Context.equal("first id", first, message.getProperty("ORIGIN_MESSAGE_ID"));
                    Context.equal("first topic", topic, message.getProperty("RETRY_TOPIC"));
                }
                if (times > 0 && times <= waits.length) {
                    long waited = moments.get(number).get(times) - moments.get(number).get(times - 1);
                    Context.check(waited >= waits[times - 1] - 50
                        && waited < waits[times - 1] + 4000, times + " came after " + waited);
                }
            }
            MessageExt letter = found.get(number);
            Context.equal("times", 17, letter.getReconsumeTimes());
            Context.equal("first id",
                ((MessageClientExt) seen.get(Context.number(letter)).get(0)).getOffsetMsgId(),
                letter.getProperty("ORIGIN_MESSAGE_ID"));
        }
    }

    /** A level of -1: a dead letter after the first time. */
    private static void givesUp(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 2);
        AtomicInteger times = new AtomicInteger();
        start(context, topic, (messages, work) -> {
            times.incrementAndGet();
            work.setDelayLevelWhenNextConsume(-1);
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        context.send(queues, "tag", 0, 6);
        String dead = "%DLQ%" + context.group("c");
        waitForRoute(context, dead);
        List<MessageExt> found = context.pullAll(dead, 6, 30);
        Context.equal("dead letters", Context.range(0, 6), Context.numbers(found));
        Map<String, Integer> queuesOf = new TreeMap<>();
        for (MessageExt message : found) {
            Context.equal("times", 1, message.getReconsumeTimes());
            Context.equal("first topic", topic, message.getProperty("RETRY_TOPIC"));
            Context.equal("level", "0", message.getProperty("DELAY"));
            Context.equal("waits", "false", message.getProperty("WAIT"));
            Context.equal("body", "body-" + Context.number(message),
                Context.text(message.getBody()));
            queuesOf.merge("queue " + message.getQueueId(), 1, Integer::sum);
        }
        Context.equal("queues", Map.of("queue 0", 6), queuesOf);
        Context.equal("deliveries", 6, times.get());
        // Dead letters are read like any topic, by consumers too.
        Receiver receiver = new Receiver();
        Receiver.start(context, "reader", dead, "*", receiver);
        receiver.expectExactlyOnce(0, 6, 40);
    }

    /** The test has given the group retryMaxTimes and retryQueueNums; "queues" and "times" say which. */
    private static void groupLimits(Context context) throws Exception {
        String topic = context.topic("t");
        int times = Integer.parseInt(context.argument("times"));
        int retryQueues = Integer.parseInt(context.argument("queues"));
        List<MessageQueue> queues = context.createTopic(topic, 2);
        List<String> seen = Collections.synchronizedList(new ArrayList<>());
        Map<String, Integer> from = new ConcurrentHashMap<>();
        start(context, topic, times, (messages, work) -> {
            MessageExt message = messages.get(0);
            seen.add(Context.number(message) + ":" + message.getReconsumeTimes());
            if (message.getReconsumeTimes() > 0) {
                from.merge(message.getProperty("REAL_QID"), 1, Integer::sum);
            }
            work.setDelayLevelWhenNextConsume(1);
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        context.send(queues, "tag", 0, 30);
        String dead = "%DLQ%" + context.group("c");
        waitForRoute(context, dead);
        List<MessageExt> found = context.pullAll(dead, 30, 60);
        Context.equal("dead letters", Context.range(0, 30), Context.numbers(found));
        Context.equal("deliveries", 30 * (times + 1), seen.size());
        Context.equal("retry queues", retryQueues, from.size());
        Context.equal("queues of the retry topic", retryQueues,
            context.queues("%RETRY%" + context.group("c")).size());
    }

    /** What the client does when sending back fails: it sends to the retry topic by itself. */
    private static void ownSends(Context context) throws Exception {
        String topic = context.topic("t");
        context.createTopic(topic, 1);
        String retry = "%RETRY%" + context.group("c");
        Map<Integer, MessageExt> received = new ConcurrentHashMap<>();
        start(context, topic, (messages, work) -> {
            messages.forEach(message -> received.put(Context.number(message), message));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        waitForRoute(context, retry);
        for (int i = 0; i < 4; i++) {
            Message message = context.message(retry, "tag", i);
            MessageAccessor.putProperty(message, "RETRY_TOPIC", topic);
            MessageAccessor.setOriginMessageId(message, "first-id-" + i);
            MessageAccessor.setReconsumeTime(message, String.valueOf(i + 1));
            MessageAccessor.setMaxReconsumeTimes(message, "3");
            message.setDelayTimeLevel(1);
            context.checkSent(context.producer().send(message));
        }
        // One to three of at most three come again, the fourth does not.
        Context.waitFor(40, "three messages", () -> received.size() == 3);
        String dead = "%DLQ%" + context.group("c");
        waitForRoute(context, dead);
        List<MessageExt> found = context.pullAll(dead, 1, 30);
        Context.equal("dead letters", List.of(3), Context.numbers(found));
        Context.equal("times", 4, found.get(0).getReconsumeTimes());
        Context.equal("first topic", topic, found.get(0).getProperty("RETRY_TOPIC"));
        for (int i = 0; i < 3; i++) {
            MessageExt message = received.get(i);
            Context.equal("topic", topic, message.getTopic());
            Context.equal("times", i + 1, message.getReconsumeTimes());
            Context.equal("first id", "first-id-" + i, message.getProperty("ORIGIN_MESSAGE_ID"));
            Context.check(message.getStoreTimestamp() - message.getBornTimestamp() >= 950,
                "waited " + (message.getStoreTimestamp() - message.getBornTimestamp()) + " ms");
        }
    }

    /** A consumer in order gives up after its limit: the client sends, and the queue goes on. */
    private static void orderlyGivesUp(Context context) throws Exception {
        String topic = context.topic("t");
        MessageQueue queue = context.createTopic(topic, 1).get(0);
        context.send(List.of(queue), "tag", 0, 10);
        List<Integer> seen = Collections.synchronizedList(new ArrayList<>());
        AtomicInteger refusals = new AtomicInteger();
        DefaultMQPushConsumer consumer = context.newPusher("c");
        consumer.setSuspendCurrentQueueTimeMillis(100);
        consumer.setMaxReconsumeTimes(2);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, orderly) -> {
            int number = Context.number(messages.get(0));
            if (number == 4) {
                refusals.incrementAndGet();
                return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            }
            messages.forEach(message -> seen.add(Context.number(message)));
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        Context.waitFor(40, "nine messages", () -> seen.size() >= 9);
        Context.equal("order", List.of(0, 1, 2, 3, 5, 6, 7, 8, 9), new ArrayList<>(seen));
        Context.equal("times number 4 was offered", 3, refusals.get());
        String dead = "%DLQ%" + context.group("c");
        waitForRoute(context, dead);
        List<MessageExt> found = context.pullAll(dead, 1, 30);
        Context.equal("dead letters", List.of(4), Context.numbers(found));
        Context.equal("first topic", topic, found.get(0).getProperty("RETRY_TOPIC"));
        Context.equal("body", "body-4", Context.text(found.get(0).getBody()));
        Thread.sleep(3500); // as long as the highest level: nothing comes again
        Context.equal("times number 4 was offered", 3, refusals.get());
    }

    /** A batch of which the listener acknowledges a part: only the rest comes again. */
    private static void batchInPart(Context context) throws Exception {
        String topic = context.topic("t");
        MessageQueue queue = context.createTopic(topic, 1).get(0);
        context.send(List.of(queue), "tag", 0, 8);
        Map<String, Integer> seen = new ConcurrentHashMap<>();
        DefaultMQPushConsumer consumer = context.newPusher("c");
        consumer.setConsumeMessageBatchMaxSize(8);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, work) -> {
            messages.forEach(message -> seen.merge(
                Context.number(message) + ":" + message.getReconsumeTimes(), 1, Integer::sum));
            if (messages.size() == 8) {
                work.setAckIndex(4);
                work.setDelayLevelWhenNextConsume(1);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Context.waitFor(60, "eight and the rest", () -> seen.size() >= 11);
        Thread.sleep(2500);
        Map<String, Integer> expected = new TreeMap<>();
        for (int i = 0; i < 8; i++) {
            expected.put(i + ":0", 1);
            if (i > 4) {
                expected.put(i + ":1", 1);
            }
        }
        Context.equal("deliveries", expected, new TreeMap<>(seen));
    }
}
