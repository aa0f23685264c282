package rmqcompat;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Clients that stay up while the test does something to the broker (restarts it, or looks at it with
 * mqadmin). "live_open" starts a producer and a push consumer and leaves them running under a name,
 * "live_send" sends and waits until all has arrived, "live_close" shuts them down.
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
    }

    static void register(Map<String, Scenario> table) {
        table.put("live_open", LiveScenarios::open);
        table.put("live_send", LiveScenarios::send);
        table.put("live_counts", LiveScenarios::counts);
        table.put("live_close", LiveScenarios::close);
    }

    private static void open(Context context) throws Exception {
        String name = context.argument("as");
        Live live = new Live();
        // Its own context: the one given ends with this scenario.
        live.context = new Context(name, Map.of("nameServer", context.nameServer, "run",
            context.argument("run"), "as", name), new ConcurrentHashMap<>());
        String topic = live.context.topic("t");
        live.queues = live.context.createTopic(topic, 4);
        live.receiver = new Receiver();
        DefaultMQPushConsumer consumer =
            Receiver.start(live.context, "c", topic, "*", live.receiver);
        Context.waitFor(30, "four queues", () -> Bridge.ownedQueues(consumer, topic) == 4);
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
            () -> live.receiver.missing(0, end).isEmpty());
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

    private static void close(Context context) {
        OPEN.remove(context.argument("as")).context.close();
    }
}
