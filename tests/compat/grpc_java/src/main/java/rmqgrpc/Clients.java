package rmqgrpc;

import java.io.Closeable;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** What Main is told, by its name: it opens clients, sends, and says what came. */
final class Clients {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final Map<String, Closeable> OPEN = new ConcurrentHashMap<>();
    private static final Map<String, List<Object>> RECEIVED = new ConcurrentHashMap<>();
    private static final Map<String, Map<Integer, Integer>> ASKED = new ConcurrentHashMap<>();

    private Clients() {
    }

    static Map<String, Object> run(String name, Map<String, String> given) throws Exception {
        String as = given.get("as");
        switch (name) {
            case "send":
                return send(given);
            case "transact":
                return transact(as, given);
            case "asked":
                return Map.of("asked", ASKED.get(as));
            case "push_open":
                return pushOpen(as, given);
            case "push_received":
                return Map.of("messages", new ArrayList<>(RECEIVED.get(as)));
            case "simple_open":
                return simpleOpen(as, given);
            case "simple_receive":
                return simpleReceive((SimpleConsumer) OPEN.get(as), given);
            case "close":
                OPEN.remove(as).close();
                return Map.of();
            default:
                throw new IllegalArgumentException("nothing is known of " + name);
        }
    }

    private static ClientConfiguration configuration(Map<String, String> given) {
        ClientConfigurationBuilder builder = ClientConfiguration.newBuilder()
            .setEndpoints(given.get("endpoints")).enableSsl(false)
            .setRequestTimeout(Duration.ofSeconds(60));
        if (given.containsKey("accessKey")) {
            builder.setCredentialProvider(new StaticSessionCredentialsProvider(
                given.get("accessKey"), given.get("secretKey")));
        }
        return builder.build();
    }

    private static Message message(Map<String, String> given, int number) {
        MessageBuilder builder = PROVIDER.newMessageBuilder().setTopic(given.get("topic"))
            .setBody(("body-" + number).getBytes(StandardCharsets.UTF_8)).setKeys("k" + number)
            .addProperty("n", String.valueOf(number));
        if (given.containsKey("tag")) {
            builder.setTag(given.get("tag"));
        }
        if (given.containsKey("groups")) {
            String[] groups = given.get("groups").split(",");
            builder.setMessageGroup(groups[number % groups.length]);
        }
        if (given.containsKey("delayMs")) {
            builder.setDeliveryTimestamp(
                System.currentTimeMillis() + Long.parseLong(given.get("delayMs")));
        }
        return builder.build();
    }

    private static Map<String, Object> shown(MessageView view) {
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("id", view.getMessageId().toString());
        shown.put("topic", view.getTopic());
        shown.put("body", StandardCharsets.UTF_8.decode(view.getBody()).toString());
        shown.put("tag", view.getTag().orElse(null));
        shown.put("keys", String.join(" ", view.getKeys()));
        shown.put("group", view.getMessageGroup().orElse(null));
        shown.put("n", Integer.parseInt(view.getProperties().get("n")));
        shown.put("attempt", view.getDeliveryAttempt());
        shown.put("atMs", System.currentTimeMillis());
        return shown;
    }

    private static Map<String, Object> send(Map<String, String> given) throws Exception {
        List<String> ids = new ArrayList<>();
        try (Producer producer = PROVIDER.newProducerBuilder().setTopics(given.get("topic"))
            .setClientConfiguration(configuration(given)).build()) {
            for (int number = 0; number < Integer.parseInt(given.get("count")); number++) {
                ids.add(producer.send(message(given, number)).getMessageId().toString());
            }
        }
        return Map.of("ids", ids);
    }

    /** outcome: commit, rollback, or open: even numbers are committed when asked about, others undone. */
    private static Map<String, Object> transact(String as, Map<String, String> given)
        throws Exception {
        Map<Integer, Integer> asked = new ConcurrentHashMap<>();
        Producer producer = PROVIDER.newProducerBuilder().setTopics(given.get("topic"))
            .setClientConfiguration(configuration(given)).setTransactionChecker(view -> {
                int number = Integer.parseInt(view.getProperties().get("n"));
                asked.merge(number, 1, Integer::sum);
                return number % 2 == 0 ? TransactionResolution.COMMIT
                    : TransactionResolution.ROLLBACK;
            }).build();
        ASKED.put(as, asked);
        OPEN.put(as, producer);
        for (int number = 0; number < Integer.parseInt(given.get("count")); number++) {
            Transaction transaction = producer.beginTransaction();
            producer.send(message(given, number), transaction);
            if (given.get("outcome").equals("commit")) {
                transaction.commit();
            } else if (given.get("outcome").equals("rollback")) {
                transaction.rollback();
            }
        }
        return Map.of();
    }

    private static Map<String, FilterExpression> subscription(Map<String, String> given) {
        return Map.of(given.get("topic"), new FilterExpression(given.getOrDefault("tag", "*")));
    }

    /** failures: so many deliveries of each message are refused. */
    private static Map<String, Object> pushOpen(String as, Map<String, String> given)
        throws Exception {
        List<Object> received = Collections.synchronizedList(new ArrayList<>());
        int failures = Integer.parseInt(given.getOrDefault("failures", "0"));
        PushConsumer consumer = PROVIDER.newPushConsumerBuilder()
            .setClientConfiguration(configuration(given)).setConsumerGroup(given.get("group"))
            .setSubscriptionExpressions(subscription(given)).setMessageListener(view -> {
                received.add(shown(view));
                return view.getDeliveryAttempt() <= failures ? ConsumeResult.FAILURE
                    : ConsumeResult.SUCCESS;
            }).build();
        RECEIVED.put(as, received);
        OPEN.put(as, consumer);
        return Map.of();
    }

    private static Map<String, Object> simpleOpen(String as, Map<String, String> given)
        throws Exception {
        OPEN.put(as, PROVIDER.newSimpleConsumerBuilder()
            .setClientConfiguration(configuration(given)).setConsumerGroup(given.get("group"))
            .setSubscriptionExpressions(subscription(given)).setAwaitDuration(Duration.ofSeconds(5))
            .build());
        return Map.of();
    }

    private static Map<String, Object> simpleReceive(SimpleConsumer consumer,
        Map<String, String> given) throws Exception {
        List<MessageView> views = consumer.receive(Integer.parseInt(given.get("batch")),
            Duration.ofMillis(Long.parseLong(given.get("invisibleMs"))));
        List<Object> messages = new ArrayList<>();
        for (MessageView view : views) {
            messages.add(shown(view));
            if (given.get("ack").equals("True")) {
                consumer.ack(view);
            }
        }
        return Map.of("messages", messages);
    }
}
