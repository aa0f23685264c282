package rmqcompat;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Delayed and transaction messages, and what consumers fail to consume. The broker has the levels
 * "1s 2s 1s 2s 3s" and looks for open transactions every three seconds once they are a second old.
 */
final class TypeScenarios {
    /** Exactness is measured elsewhere; a machine may stand still for seconds. */
    private static final long LATE_MS_MAX = 10_000;
    private static final int COMMIT = 0;
    private static final int ROLLBACK = 1;
    private static final int COMMIT_WHEN_ASKED = 2;
    private static final int ROLLBACK_WHEN_ASKED = 3;
    private static final int COMMIT_WHEN_ASKED_TWICE = 4;

    private TypeScenarios() {
    }

    static void register(Map<String, Scenario> table) {
        table.put("type_delay_levels", TypeScenarios::delay);
        table.put("type_timed", TypeScenarios::timed);
        table.put("type_timed_by_property", TypeScenarios::timedByProperty);
        table.put("type_recall", TypeScenarios::recall);
        table.put("type_transaction", TypeScenarios::transaction);
        table.put("type_retry_to_dead_letter", TypeScenarios::retry);
    }

    /** What arrives, in its order, and when. */
    private static Map<Integer, MessageExt> receive(Context context, String topic) throws Exception {
        Map<Integer, MessageExt> received = new ConcurrentHashMap<>();
        DefaultMQPushConsumer consumer = context.newPusher("c");
        consumer.subscribe(topic, "tag");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, ignored) -> {
            for (MessageExt message : messages) {
                Context.check(received.put(Context.number(message), message) == null, "twice");
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return received;
    }

    private static void delay(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 2);
        Map<Integer, MessageExt> received = receive(context, topic);
        long[] sent = new long[20];
        for (int i = 0; i < 20; i++) {
            Message message = context.message(topic, "tag", i);
            message.setDelayTimeLevel(i % 4 == 3 ? 99 : 1 + i % 4);
            sent[i] = System.currentTimeMillis();
            context.checkSent(context.producer().send(message, queues.get(i % queues.size())));
        }
        Context.waitFor(30, "20 delayed messages", () -> received.size() == 20);
        int[] delays = {1000, 2000, 1000, 3000};
        String[] levels = {"1", "2", "3", "5"};
        for (int i = 0; i < 20; i++) {
            MessageExt message = received.get(i);
            long waited = message.getStoreTimestamp() - sent[i];
            Context.check(waited >= delays[i % 4], i + " came after " + waited + " ms");
            Context.check(waited < delays[i % 4] + LATE_MS_MAX, i + " came after " + waited + " ms");
            Context.equal("body", "body-" + i, Context.text(message.getBody()));
            Context.equal("keys", "k" + i, message.getKeys());
            int queue = queues.get(i % queues.size()).getQueueId();
            Context.equal("queue", queue, message.getQueueId());
            Context.equal("topic", topic, message.getTopic());
            Context.equal("real topic", topic, message.getProperty("REAL_TOPIC"));
            Context.equal("real queue", String.valueOf(queue), message.getProperty("REAL_QID"));
            if (i % 4 != 3) { // what is stored of a level too high differs between versions
                Context.equal("level", levels[i % 4], message.getProperty("DELAY"));
            }
            Context.check(message.getBornTimestamp() <= sent[i] + 1000, "born");
        }
    }

    /** As clients without a method for it do: the broker knows the property's name. */
    private static void timedByProperty(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 2);
        Map<Integer, MessageExt> received = receive(context, topic);
        long[] due = new long[12];
        for (int i = 0; i < 12; i++) {
            Message message = context.message(topic, "tag", i);
            long now = System.currentTimeMillis();
            due[i] = now + 2000;
            if (i % 3 == 0) {
                message.putUserProperty("TIMER_DELAY_SEC", "2");
            } else if (i % 3 == 1) {
                message.putUserProperty("TIMER_DELAY_MS", "2000");
            } else {
                message.putUserProperty("TIMER_DELIVER_MS", String.valueOf(due[i]));
            }
            context.checkSent(context.producer().send(message, queues.get(i % 2)));
        }
        Context.waitFor(30, "12 timed messages", () -> received.size() == 12);
        for (int i = 0; i < 12; i++) {
            MessageExt message = received.get(i);
            long late = message.getStoreTimestamp() - due[i];
            Context.check(late >= 0 && late < LATE_MS_MAX, i + " came " + late + " ms late");
            Context.equal("body", "body-" + i, Context.text(message.getBody()));
            Context.equal("keys", "k" + i, message.getKeys());
            Context.equal("queue", i % 2, message.getQueueId());
            Context.equal("topic", topic, message.getTopic());
            Context.equal("real topic", topic, message.getProperty("REAL_TOPIC"));
        }
    }

    /** By delay and by time; a broker of Apache is exact to its wheel's second. */
    private static void timed(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 2);
        Map<Integer, MessageExt> received = receive(context, topic);
        long[] due = new long[12];
        for (int i = 0; i < 12; i++) {
            Message message = context.message(topic, "tag", i);
            long now = System.currentTimeMillis();
            due[i] = now + 2000;
            if (i % 3 == 0) {
                Bridge.setTime(message, "setDelayTimeSec", 2);
            } else if (i % 3 == 1) {
                Bridge.setTime(message, "setDelayTimeMs", 2000);
            } else {
                Bridge.setTime(message, "setDeliverTimeMs", due[i]);
            }
            SendResult result = context.producer().send(message, queues.get(i % 2));
            context.checkSent(result);
            Context.check(Bridge.recallHandle(result) != null, "no recall handle");
        }
        Context.waitFor(30, "12 timed messages", () -> received.size() == 12);
        for (int i = 0; i < 12; i++) {
            MessageExt message = received.get(i);
            long late = message.getStoreTimestamp() - due[i];
            Context.check(late >= 0, i + " came " + -late + " ms early");
            Context.check(late < LATE_MS_MAX, i + " came " + late + " ms late");
            Context.equal("body", "body-" + i, Context.text(message.getBody()));
            Context.equal("keys", "k" + i, message.getKeys());
            Context.equal("queue", i % 2, message.getQueueId());
            Context.equal("topic", topic, message.getTopic());
            Context.equal("real topic", topic, message.getProperty("REAL_TOPIC"));
            Context.equal("real queue", String.valueOf(i % 2), message.getProperty("REAL_QID"));
            long out = Long.parseLong(message.getProperty("TIMER_OUT_MS"));
            Context.equal("whole seconds", 0L, out % 1000);
            Context.check(message.getStoreTimestamp() > out, "before its slot");
            Context.check(message.getProperty("TIMER_DEQUEUE_MS") != null, "no dequeue time");
            Context.check(message.getProperty("TIMER_ENQUEUE_MS") != null, "no enqueue time");
        }
        Message far = context.message(topic, "tag", 99);
        Bridge.setTime(far, "setDelayTimeSec", 4 * 86400);
        try {
            context.producer().send(far, queues.get(0));
            Context.check(false, "four days were accepted");
        } catch (MQBrokerException refused) {
            Context.equal("code", 13, refused.getResponseCode());
            Context.check(refused.getErrorMessage().contains("the max delay 259200000ms"),
                refused.getErrorMessage());
        }
    }

    private static void recall(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 2);
        Map<Integer, MessageExt> received = receive(context, topic);
        for (int i = 0; i < 10; i++) {
            Message message = context.message(topic, "tag", i);
            Bridge.setTime(message, "setDelayTimeSec", 5);
            SendResult result = context.producer().send(message, queues.get(i % 2));
            context.checkSent(result);
            if (i % 2 == 0) {
                Context.equal("recalled", result.getMsgId(),
                    Bridge.recall(context.producer(), topic, Bridge.recallHandle(result)));
            }
        }
        Context.waitFor(30, "5 messages", () -> received.size() == 5);
        Thread.sleep(2000);
        Context.equal("those not recalled", "[1, 3, 5, 7, 9]",
            new TreeMap<>(received).keySet().toString());
    }

    private static int plan(int number) {
        return number % 5;
    }

    private static LocalTransactionState state(boolean committed) {
        return committed ? LocalTransactionState.COMMIT_MESSAGE
            : LocalTransactionState.ROLLBACK_MESSAGE;
    }

    private static TransactionListener listener(Map<Integer, AtomicInteger> asked) {
        return new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                int plan = plan((Integer) argument);
                return plan > ROLLBACK ? LocalTransactionState.UNKNOW : state(plan == COMMIT);
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                int number = Context.number(message);
                int times = asked.computeIfAbsent(number, n -> new AtomicInteger())
                    .incrementAndGet();
                if (plan(number) == COMMIT_WHEN_ASKED_TWICE && times < 2) {
                    return LocalTransactionState.UNKNOW;
                }
                return state(plan(number) != ROLLBACK && plan(number) != ROLLBACK_WHEN_ASKED);
            }
        };
    }

    private static void transaction(Context context) throws Exception {
        String topic = context.topic("t");
        context.createTopic(topic, 4);
        Map<Integer, MessageExt> received = receive(context, topic);
        Map<Integer, AtomicInteger> asked = new ConcurrentHashMap<>();
        TransactionMQProducer producer =
            context.configure(new TransactionMQProducer(context.group("tx"), context.hook()));
        producer.setTransactionListener(listener(asked));
        producer.setSendMsgTimeout(15000);
        producer.start();
        context.closeLater(producer::shutdown);
        Bridge.introduce(producer, topic);
        for (int i = 0; i < 20; i++) {
            Context.equal("send status", SendStatus.SEND_OK, producer
                .sendMessageInTransaction(context.message(topic, "tag", i), i).getSendStatus());
        }
        Context.waitFor(60, "12 committed messages", () -> received.size() == 12);
        Context.waitFor(60, "checks of those to be rolled back",
            () -> asked.keySet().stream().filter(n -> plan(n) == ROLLBACK_WHEN_ASKED).count() == 4);
        Thread.sleep(4000); // nothing more comes, and nobody is asked again
        Set<Object> firsts = new HashSet<>(); // brokers whose log begins with one of these
        Map<Integer, Integer> times = new TreeMap<>();
        asked.forEach((number, count) -> times.put(number, count.get()));
        for (int i = 0; i < 20; i++) {
            int plan = plan(i);
            boolean committed = plan != ROLLBACK && plan != ROLLBACK_WHEN_ASKED;
            Context.equal("received " + i, committed, received.containsKey(i));
            int checks = plan < COMMIT_WHEN_ASKED ? 0 : plan == COMMIT_WHEN_ASKED_TWICE ? 2 : 1;
            Context.equal("checks of " + i, checks, times.getOrDefault(i, 0));
            if (committed) {
                MessageExt message = received.get(i);
                Context.equal("body", "body-" + i, Context.text(message.getBody()));
                Context.equal("checked", checks == 0 ? null : String.valueOf(checks),
                    message.getProperty("TRANSACTION_CHECK_TIMES"));
                Context.equal("group", context.group("tx"), message.getProperty("PGROUP"));
                Context.equal("transaction", message.getMsgId(), message.getTransactionId());
                Context.equal("sys flag", 8, message.getSysFlag() & 12);
                long half = message.getPreparedTransactionOffset(); // 0: the log's first record
                Context.check(half < message.getCommitLogOffset(), "prepared offset " + half);
                Context.check(half > 0 || i == 0
                    || context.brokers > 1 && firsts.add(message.getStoreHost()),
                    "prepared offset " + half + " of " + i);
            }
        }
    }

    private static void retry(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 2);
        List<String> seen = Collections.synchronizedList(new ArrayList<>());
        Map<Integer, String> firstIds = new ConcurrentHashMap<>();
        DefaultMQPushConsumer consumer = context.newPusher("c");
        consumer.subscribe(topic, "*");
        consumer.setMaxReconsumeTimes(2);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, ignored) -> {
            for (MessageExt message : messages) {
                int number = Context.number(message);
                seen.add(number + ":" + message.getReconsumeTimes());
                firstIds.putIfAbsent(number, ((MessageClientExt) message).getOffsetMsgId());
                Context.equal("topic", topic, message.getTopic());
            }
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
        context.send(queues, "tag", 0, 4);
        Context.waitFor(60, "three times each, " + seen, () -> seen.size() >= 12);
        String dead = "%DLQ%" + context.group("c");
        Context.waitFor(30, "route of " + dead, () -> {
            try {
                return context.queues(dead).size() == context.brokers;
            } catch (Exception notYet) {
                return false;
            }
        });
        List<MessageExt> found = context.pullAll(dead, 4, 30);
        Context.equal("dead letters", Context.range(0, 4), Context.numbers(found));
        for (MessageExt message : found) {
            int number = Context.number(message);
            for (int times = 0; times < 3; times++) {
                Context.equal("deliveries of " + number + " as retry " + times, 1,
                    Collections.frequency(seen, number + ":" + times));
            }
            Context.equal("body", "body-" + number, Context.text(message.getBody()));
            Context.equal("first topic", topic, message.getProperty("RETRY_TOPIC"));
            Context.equal("times", 3, message.getReconsumeTimes());
            Context.equal("first id", firstIds.get(number),
                message.getProperty("ORIGIN_MESSAGE_ID"));
            Context.equal("tags", "tag", message.getTags());
        }
        Context.equal("deliveries", 12, seen.size());
    }
}
