package rmqcompat;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Transactions that nobody ends: whom the broker asks about them, when, how often, and after a
 * restart. The broker looks every three seconds for those that are a second old, and asks 15 times.
 */
final class TransactionScenarios {
    private static final int CHECKS_MAX = 15;
    private static final Map<String, Open> OPEN = new ConcurrentHashMap<>();

    private TransactionScenarios() {
    }

    static void register(Map<String, Scenario> table) {
        table.put("transaction_other_producer", TransactionScenarios::otherProducer);
        table.put("transaction_immunity", TransactionScenarios::immunity);
        table.put("transaction_given_up", TransactionScenarios::givenUp);
        table.put("transaction_open", TransactionScenarios::open);
        table.put("transaction_end", TransactionScenarios::end);
    }

    /** A producer whose transactions are open after the send; how it answers when it is asked. */
    private static TransactionMQProducer start(Context context,
        Function<MessageExt, LocalTransactionState> answer) throws Exception {
        TransactionMQProducer producer =
            context.configure(new TransactionMQProducer(context.group("tx"), context.hook()));
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.UNKNOW;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return answer.apply(message);
            }
        });
        producer.setSendMsgTimeout(15000);
        producer.start();
        context.closeLater(producer::shutdown);
        return producer;
    }

    private static void send(TransactionMQProducer producer, Message message) throws Exception {
        Context.equal("send status", SendStatus.SEND_OK,
            producer.sendMessageInTransaction(message, null).getSendStatus());
    }

    /** The one that sent has gone: another of its group is asked. */
    private static void otherProducer(Context context) throws Exception {
        String topic = context.topic("t");
        context.createTopic(topic, 2);
        AtomicInteger first = new AtomicInteger();
        TransactionMQProducer gone = start(context, message -> {
            first.incrementAndGet();
            return LocalTransactionState.UNKNOW;
        });
        Map<Integer, Integer> asked = new ConcurrentHashMap<>();
        TransactionMQProducer other = start(context, message -> {
            asked.merge(Context.number(message), 1, Integer::sum);
            return Context.number(message) % 2 == 0 ? LocalTransactionState.COMMIT_MESSAGE
                : LocalTransactionState.ROLLBACK_MESSAGE;
        });
        for (int i = 0; i < 10; i++) {
            send(gone, context.message(topic, "tag", i));
        }
        gone.shutdown();
        int until = first.get();
        // A producer that has sent nothing knows no broker, and no broker knows it.
        context.checkSent(other.send(context.message(topic, "plain", 100)));
        List<MessageExt> found = context.pullAll(topic, 6, 40);
        Context.waitFor(40, "questions about all ten", () -> asked.size() == 10);
        Context.equal("messages", List.of(0, 2, 4, 6, 8, 100), Context.numbers(found));
        Context.equal("questions to the one that has gone", until, first.get());
        for (MessageExt message : found) {
            int number = Context.number(message);
            Context.equal("body", "body-" + number, Context.text(message.getBody()));
            Context.equal("keys", "k" + number, message.getKeys());
            Context.equal("group", number == 100 ? null : context.group("tx"),
                message.getProperty("PGROUP"));
        }
        Thread.sleep(4000);
        Context.equal("messages later", 6, context.pullAll(topic, 6, 10).size());
        asked.forEach((number, times) -> Context.equal("asked about " + number, 1, times));
    }

    /** CHECK_IMMUNITY_TIME_IN_SECONDS says from which age on a transaction is asked about. */
    private static void immunity(Context context) throws Exception {
        String topic = context.topic("t");
        context.createTopic(topic, 2);
        Map<Integer, Long> ages = new ConcurrentHashMap<>();
        TransactionMQProducer producer = start(context, message -> {
            ages.putIfAbsent(Context.number(message),
                System.currentTimeMillis() - message.getBornTimestamp());
            return LocalTransactionState.COMMIT_MESSAGE;
        });
        for (int i = 0; i < 8; i++) {
            Message message = context.message(topic, "tag", i);
            if (i % 2 == 0) {
                message.putUserProperty("CHECK_IMMUNITY_TIME_IN_SECONDS", "10");
            }
            send(producer, message);
        }
        List<MessageExt> found = context.pullAll(topic, 8, 40);
        Context.equal("messages", Context.range(0, 8), Context.numbers(found));
        for (int i = 0; i < 8; i++) {
            long age = ages.get(i);
            Context.check(age >= (i % 2 == 0 ? 10_000 : 1000), i + " was asked about after " + age);
            Context.check(i % 2 == 0 || age < 10_000, i + " was asked about after " + age);
        }
        context.detail("ages", ages.toString());
    }

    /** Nobody knows: after 15 questions the message goes to a topic that operators look into. */
    private static void givenUp(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 2);
        Map<Integer, AtomicInteger> asked = new ConcurrentHashMap<>();
        List<String> times = new ArrayList<>();
        TransactionMQProducer producer = start(context, message -> {
            asked.computeIfAbsent(Context.number(message), n -> new AtomicInteger())
                .incrementAndGet();
            synchronized (times) {
                times.add(message.getUserProperty("TRANSACTION_CHECK_TIMES"));
            }
            return LocalTransactionState.UNKNOW;
        });
        Bridge.introduce(producer, topic);
        for (int i = 0; i < 3; i++) {
            send(producer, context.message(topic, "tag", i));
        }
        List<MessageExt> kept = new ArrayList<>();
        Context.waitFor(120, "three messages that were given up", () -> {
            Thread.sleep(500);
            kept.clear();
            try {
                kept.addAll(context.pullAll("TRANS_CHECK_MAX_TIME_TOPIC", 0, 10));
            } catch (MQClientException noRouteYet) {
                return false;
            }
            kept.removeIf(message -> !context.group("tx").equals(message.getProperty("PGROUP")));
            return kept.size() >= 3;
        });
        Thread.sleep(4000);
        Context.equal("kept", Context.range(0, 3), Context.numbers(kept));
        for (MessageExt message : kept) {
            int number = Context.number(message);
            Context.equal("questions", CHECKS_MAX, asked.get(number).get());
            Context.equal("body", "body-" + number, Context.text(message.getBody()));
            Context.equal("tags", "tag", message.getTags());
            Context.equal("keys", "k" + number, message.getKeys());
            Context.equal("real topic", topic, message.getProperty("REAL_TOPIC"));
            Context.equal("times", String.valueOf(CHECKS_MAX),
                message.getProperty("TRANSACTION_CHECK_TIMES"));
        }
        for (int i = 1; i <= CHECKS_MAX; i++) {
            Context.equal("questions with number " + i, 3L,
                times.stream().filter(String.valueOf(i)::equals).count());
        }
        for (MessageQueue queue : queues) {
            Context.equal("end of " + queue, 0L, context.puller().maxOffset(queue));
        }
    }

    // ---- the broker is restarted between these two

    private static final class Open {
        Context context;
        final Map<Integer, Integer> asked = new ConcurrentHashMap<>();
        volatile boolean knows;
    }

    private static void open(Context given) throws Exception {
        Open open = new Open();
        open.context = given.lasting();
        OPEN.put(given.argument("as"), open);
        String topic = open.context.topic("t");
        open.context.createTopic(topic, 2);
        TransactionMQProducer producer = start(open.context, message -> {
            if (!open.knows) {
                return LocalTransactionState.UNKNOW;
            }
            open.asked.merge(Context.number(message), 1, Integer::sum);
            return Context.number(message) % 2 == 0 ? LocalTransactionState.COMMIT_MESSAGE
                : LocalTransactionState.ROLLBACK_MESSAGE;
        });
        for (int i = 0; i < 20; i++) {
            send(producer, open.context.message(topic, "tag", i));
        }
    }

    private static void end(Context given) throws Exception {
        Open open = OPEN.remove(given.argument("as"));
        try {
            open.knows = true;
            Context.waitFor(60, "questions about all twenty", () -> open.asked.size() == 20);
            List<MessageExt> found = open.context.pullAll(open.context.topic("t"), 10, 40);
            Thread.sleep(4000);
            found = open.context.pullAll(open.context.topic("t"), found.size(), 40);
            List<Integer> expected = Context.range(0, 20);
            expected.removeIf(number -> number % 2 == 1);
            List<Integer> numbers = Context.numbers(found);
            if (given.argument("once").equals("false")) {
                numbers = new ArrayList<>(new TreeSet<>(numbers));
            }
            Context.equal("messages", expected, numbers);
            for (MessageExt message : found) {
                Context.equal("body", "body-" + Context.number(message),
                    Context.text(message.getBody()));
            }
        } finally {
            open.context.close();
        }
    }
}
