package rmqcompat;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Clients that stay up while the test does something to the broker (restarts it, or looks at it with
 * mqadmin). "live_open" starts a producer and a push consumer and leaves them running under a name
 * (listener=orderly: one that consumes each queue in order), "live_send" sends and waits until all has
 * arrived, "live_stream" sends until "live_stop" comes, whatever fails meanwhile, "live_close" shuts
 * them down.
 */
final class LiveScenarios {
    private static final Map<String, Live> OPEN = new ConcurrentHashMap<>();

    private LiveScenarios() {
    }

    private static final class Live {
        Context context;
        Receiver receiver;
        List<MessageQueue> queues;
        int next;
        volatile boolean stopping;
        final Set<Integer> failed = new TreeSet<>(); // nobody was told that these are stored
        final AtomicReference<String> wrong = new AtomicReference<>();
        final Map<MessageQueue, Long> seen = new ConcurrentHashMap<>(); // the offset that comes next
    }

    static void register(Map<String, Scenario> table) {
        table.put("live_open", LiveScenarios::open);
        table.put("live_send", LiveScenarios::send);
        table.put("live_counts", LiveScenarios::counts);
        table.put("live_stream", LiveScenarios::stream);
        table.put("live_stop", context -> OPEN.get(context.argument("as")).stopping = true);
        table.put("live_close", LiveScenarios::close);
    }

    private static void open(Context context) throws Exception {
        String name = context.argument("as");
        Live live = new Live();
        live.context = context.lasting();
        String topic = live.context.topic("t");
        live.queues = live.context.createTopic(topic, 4);
        live.receiver = new Receiver();
        DefaultMQPushConsumer consumer = live.context.newPusher("c");
        consumer.subscribe(topic, "*");
        if (context.argument("listener", "").equals("orderly")) {
            consumer.registerMessageListener(inOrder(live));
        } else {
            consumer.registerMessageListener(live.receiver.listener());
        }
        consumer.start();
        Context.waitFor(30, "all queues",
            () -> Bridge.ownedQueues(consumer, topic) == live.queues.size());
        OPEN.put(name, live);
        context.detail("topic", topic);
        context.detail("consumerGroup", live.context.group("c"));
        context.detail("producerGroup", live.context.group("p"));
    }

    /** With a broker that was just restarted the first sends may need some attempts. */
    private static void send(Context context) throws Exception {
        Live live = OPEN.get(context.argument("as"));
        int first = live.next;
        int end = first + Integer.parseInt(context.argument("count", "100"));
        long limit = System.currentTimeMillis() + 40000;
        String offsetId = null;
        while (live.next < end) {
            MessageQueue queue = live.queues.get(live.next % live.queues.size());
            try {
                SendResult result = live.context.producer().send(
                    live.context.message(queue.getTopic(), "tag", live.next), queue, 5000);
                live.context.checkSent(result);
                offsetId = result.getOffsetMsgId();
                live.next++;
            } catch (Exception error) {
                Context.check(System.currentTimeMillis() < limit, "still failing: " + error);
                Thread.sleep(200);
            }
        }
        // At least once: a restart may take the latest commits of offsets with it.
        Context.waitFor(40, "messages " + first + ".." + end,
            () -> live.failed.containsAll(live.receiver.missing(0, end)));
        context.detail("lastOffsetId", offsetId);
        context.detail("received", live.receiver.total());
        context.detail("sent", live.next);
        if (context.argument("verify", "").equals("pull")) {
            List<MessageExt> found = live.context.pullAll(live.queues.get(0).getTopic(), end, 30);
            Context.check(Context.numbers(found).containsAll(Context.range(0, end)), "all stored");
        }
    }

    /** How often each number came, waited for: "least" times of all from "first" on. */
    private static void counts(Context context) throws Exception {
        Live live = OPEN.get(context.argument("as"));
        int least = Integer.parseInt(context.argument("least", "1"));
        int first = Integer.parseInt(context.argument("first", "0"));
        int seconds = Integer.parseInt(context.argument("seconds", "60"));
        Context.waitFor(seconds, least + " times each",
            () -> live.receiver.least(first, live.next) >= least);
        Thread.sleep(1000);
        context.detail("counts", live.receiver.counts());
    }

    /** A queue may be given again from an earlier offset, but never goes on behind a gap. */
    private static MessageListenerOrderly inOrder(Live live) {
        return (messages, orderly) -> {
            MessageQueue queue = orderly.getMessageQueue();
            for (MessageExt message : messages) {
                long expected = live.seen.getOrDefault(queue, 0L);
                if (message.getQueueOffset() > expected) {
                    live.wrong.set(queue + ": " + message.getQueueOffset() + " after " + expected);
                }
                live.seen.put(queue, message.getQueueOffset() + 1);
                live.receiver.took(message);
            }
            return ConsumeOrderlyStatus.SUCCESS;
        };
    }

    /**
     * Sends one after the other until it is told to stop; the client chooses queues and tries again by
     * itself. What was acknowledged must be stored, and be consumed.
     */
    private static void stream(Context context) throws Exception {
        Live live = OPEN.get(context.argument("as"));
        String topic = live.queues.get(0).getTopic();
        Set<Integer> acked = new TreeSet<>();
        Set<String> used = new TreeSet<>();
        Map<String, Integer> reasons = new TreeMap<>(); // of failures, how often
        long last = System.currentTimeMillis();
        long gap = 0;
        while (!live.stopping) {
            int number = live.next++;
            try {
                SendResult result =
                    live.context.producer().send(live.context.message(topic, "tag", number), 3000);
                live.context.checkSent(result);
                acked.add(number);
                used.add(result.getMessageQueue().getBrokerName());
                gap = Math.max(gap, System.currentTimeMillis() - last);
                last = System.currentTimeMillis();
            } catch (Exception error) {
                live.failed.add(number);
                reasons.merge(String.valueOf(error.getMessage()).split("\n")[0]
                    .replaceAll("[0-9]+", "N"), 1, Integer::sum);
            }
            Thread.sleep(1);
        }
        context.detail("acked", acked.size());
        context.detail("failed", live.failed.size());
        context.detail("reasons", reasons);
        context.detail("brokers", String.join(" ", used));
        context.detail("longestGapMs", gap);
        Context.waitFor(60, "everything acknowledged is consumed",
            () -> live.receiver.numbers().containsAll(acked));
        List<Integer> stored =
            Context.numbers(live.context.pullAll(topic, acked.size(), 60));
        List<Integer> missing = new ArrayList<>(acked);
        missing.removeAll(Set.copyOf(stored));
        Context.check(missing.isEmpty(), "acknowledged and not stored: " + missing);
        Context.equal("order", null, live.wrong.get());
        context.detail("stored", stored.size());
    }

    private static void close(Context context) {
        OPEN.remove(context.argument("as")).context.close();
    }
}
