package rmqcompat;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A push consumer that stays up while the test ends the master it reads from. "replica_open" starts
 * it under a name, "replica_suspend" and "replica_resume" end and begin its pulls, "replica_wait"
 * waits until the bodies "0" to count - 1 have come, "replica_close" shuts it down and tells how
 * often each came.
 */
final class ReplicaScenarios {
    private static final Map<String, Reader> OPEN = new ConcurrentHashMap<>();

    private ReplicaScenarios() {
    }

    private static final class Reader {
        Context context;
        DefaultMQPushConsumer consumer;
        final ConcurrentMap<Integer, Integer> counts = new ConcurrentHashMap<>();
    }

    static void register(Map<String, Scenario> table) {
        table.put("replica_open", ReplicaScenarios::open);
        table.put("replica_suspend", context -> of(context).consumer.suspend());
        table.put("replica_resume", context -> of(context).consumer.resume());
        table.put("replica_wait", ReplicaScenarios::await);
        table.put("replica_close", ReplicaScenarios::close);
    }

    private static Reader of(Context context) {
        return OPEN.get(context.argument("as"));
    }

    private static void open(Context context) throws Exception {
        String name = context.argument("as");
        Reader reader = new Reader();
        // Its own context: the one given ends with this scenario.
        reader.context = new Context(name, Map.of("nameServer", context.nameServer, "run",
            context.argument("run"), "as", name), new ConcurrentHashMap<>());
        DefaultMQPushConsumer consumer = reader.consumer = reader.context.newPusher("c");
        consumer.setConsumerGroup(context.argument("group"));
        consumer.setPollNameServerInterval(1000);
        consumer.setHeartbeatBrokerInterval(1000);
        consumer.subscribe(context.argument("topic"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, unused) -> {
            for (MessageExt message : messages) {
                String body = new String(message.getBody(), StandardCharsets.US_ASCII);
                reader.counts.merge(Integer.parseInt(body), 1, Integer::sum);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        OPEN.put(name, reader);
    }

    private static void await(Context context) throws Exception {
        Reader reader = of(context);
        int count = Integer.parseInt(context.argument("count"));
        Context.waitFor(90, count + " messages", () -> reader.counts.size() >= count);
    }

    private static void close(Context context) {
        Reader reader = OPEN.remove(context.argument("as"));
        reader.context.close();
        Map<String, Integer> twice = new TreeMap<>();
        reader.counts.forEach((number, count) -> {
            if (count > 1) {
                twice.put(String.valueOf(number), count);
            }
        });
        context.detail("numbers", reader.counts.size());
        context.detail("twice", twice);
    }
}
