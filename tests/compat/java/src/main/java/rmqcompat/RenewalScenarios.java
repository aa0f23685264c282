package rmqcompat;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Work at a name server whose certificate the test renews. "renewal_load" goes on until
 * "renewal_stop": a client that stays asks the name server for routes on the connection that it
 * has, and others come, ask on one of their own where to send, send and go. Nothing is tried twice,
 * and what fails fails the scenario. "renewal_came" says how many have come so far.
 */
final class RenewalScenarios {
    private static final int PATIENCE_MS = 600_000; // a busy machine is no failure
    private static final Map<String, Work> UNDER_WAY = new ConcurrentHashMap<>();

    private RenewalScenarios() {
    }

    private static final class Work {
        final AtomicInteger came = new AtomicInteger();
        volatile boolean stopping;
    }

    static void register(Map<String, Scenario> table) {
        table.put("renewal_load", RenewalScenarios::load);
        table.put("renewal_came", context -> context.detail("came", work(context).came.get()));
        table.put("renewal_stop", context -> work(context).stopping = true);
    }

    private static Work work(Context context) {
        return UNDER_WAY.computeIfAbsent(context.argument("as"), name -> new Work());
    }

    private static void load(Context context) throws Exception {
        Work work = work(context);
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 4);
        DefaultMQProducer stays = context.producer();
        stays.getDefaultMQProducerImpl().getmQClientFactory().getMQAdminImpl()
            .setTimeoutMillis(PATIENCE_MS);
        while (!work.stopping) {
            Context.equal("queues", queues, context.queues(topic));
            comes(context, topic, work.came.get());
            work.came.incrementAndGet();
        }
        int sent = work.came.get();
        Context.equal("stored", Context.range(0, sent),
            Context.numbers(context.pullAll(topic, sent, 60)));
        context.detail("sent", sent);
    }

    private static void comes(Context context, String topic, int number) throws Exception {
        DefaultMQProducer client =
            context.configure(new DefaultMQProducer(context.group("comes"), context.hook()));
        client.setMqClientApiTimeout(PATIENCE_MS);
        client.setSendMsgTimeout(PATIENCE_MS);
        client.setRetryTimesWhenSendFailed(0);
        client.start();
        try {
            context.checkSent(client.send(context.message(topic, "tag", number)));
        } finally {
            client.shutdown();
        }
    }
}
