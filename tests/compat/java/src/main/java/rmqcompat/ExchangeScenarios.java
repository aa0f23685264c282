package rmqcompat;

import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Fills a store, and reads a store back completely, so that two brokers can be compared.
 *
 * <p>"exchange_fill" sends `count` messages from number `first` on to topics with 1, 3 and 8 queues,
 * with tags, keys, properties and sizes that depend on the number only, and commits group offsets.
 * "exchange_read" answers with everything found: a line for each message and the groups' offsets.
 */
final class ExchangeScenarios {
    private static final String[] TOPICS = {"one", "three", "eight"};
    private static final int[] QUEUES = {1, 3, 8};

    private ExchangeScenarios() {
    }

    static void register(Map<String, Scenario> table) {
        table.put("exchange_fill", ExchangeScenarios::fill);
        table.put("exchange_read", ExchangeScenarios::read);
    }

    private static void fill(Context context) throws Exception {
        int first = Integer.parseInt(context.argument("first"));
        int count = Integer.parseInt(context.argument("count"));
        List<List<MessageQueue>> topics = new ArrayList<>();
        for (int i = 0; i < TOPICS.length; i++) {
            String topic = context.topic(TOPICS[i]);
            topics.add(first == 0 ? context.createTopic(topic, QUEUES[i]) : context.queues(topic));
        }
        for (int n = first; n < first + count; n++) {
            List<MessageQueue> queues = topics.get(n % 3);
            MessageQueue queue = queues.get(n / 3 % queues.size());
            if (n % 50 == 49) {
                List<Message> batch = new ArrayList<>();
                for (int i = 0; i < 5; i++) {
                    batch.add(message(queue.getTopic(), n * 10 + i));
                }
                context.checkSent(context.producer().send(batch, queue));
            } else {
                context.checkSent(context.producer().send(message(queue.getTopic(), n), queue));
            }
        }
        DefaultMQPullConsumer committer = context.newPuller("exchange");
        for (List<MessageQueue> queues : topics) {
            for (MessageQueue queue : queues) {
                OffsetScenarios.commit(committer, queue, committer.maxOffset(queue) / 2);
            }
        }
    }

    private static Message message(String topic, int n) {
        Random random = new Random(n);
        int size = n % 17 == 0 ? 8000 + random.nextInt(30000) : 1 + random.nextInt(900);
        byte[] body = new byte[size];
        random.nextBytes(body);
        Message message = new Message(topic, body);
        if (n % 4 != 0) {
            message.setTags(n % 4 == 1 ? "tag" : n % 4 == 2 ? "\u6807\u7b7e" : "T" + n % 10);
        }
        if (n % 3 == 0) {
            message.setKeys("order-" + n + " user-" + n % 7);
        }
        message.putUserProperty("n", Integer.toString(n));
        message.putUserProperty("\u57ce\u5e02", "\u676d\u5dde \ud83d\ude80 \"" + n + "\"");
        message.setFlag(n);
        return message;
    }

    private static void read(Context context) throws Exception {
        List<String> lines = new ArrayList<>();
        Map<String, Object> offsets = new TreeMap<>();
        Map<String, String> ids = new TreeMap<>();
        DefaultMQPullConsumer reader = context.newPuller("exchange");
        for (String name : TOPICS) {
            for (MessageQueue queue : context.queues(context.topic(name))) {
                String key = name + "-" + queue.getQueueId();
                long next = reader.minOffset(queue);
                long end = reader.maxOffset(queue);
                long byTime = reader.searchOffset(queue, 0);
                offsets.put(key, List.of(next, end, reader.fetchConsumeOffset(queue, true), byTime));
                while (next < end) {
                    PullResult result = reader.pull(queue, "*", next, 32, 15000);
                    Context.equal("status at " + queue + " " + next, PullStatus.FOUND,
                        result.getPullStatus());
                    for (MessageExt message : result.getMsgFoundList()) {
                        Context.equal("offset in " + queue, next++, message.getQueueOffset());
                        lines.add(line(key, message));
                        viewSome(context, message, ids);
                    }
                }
            }
        }
        context.detail("offsets", offsets);
        context.detail("messages", lines);
        context.detail("viewed", ids.size());
    }

    /** Every eleventh message is also fetched by its physical offset. */
    private static void viewSome(Context context, MessageExt message, Map<String, String> ids)
        throws Exception {
        if (message.getFlag() % 11 != 0) {
            return;
        }
        String id = offsetId(message);
        MessageExt viewed = context.producer().viewMessage(message.getTopic(), id);
        Context.equal("viewed " + id, message.getFlag(), viewed.getFlag());
        ids.put(id, viewed.getMsgId());
    }

    private static String offsetId(MessageExt message) throws Exception {
        return org.apache.rocketmq.common.message.MessageDecoder.createMessageId(
            message.getStoreHost(), message.getCommitLogOffset());
    }

    private static String line(String key, MessageExt message) throws Exception {
        StringBuilder body = new StringBuilder();
        for (byte b : MessageDigest.getInstance("SHA-1").digest(message.getBody())) {
            body.append(String.format("%02x", b));
        }
        return key + " " + message.getQueueOffset() + " at " + message.getCommitLogOffset()
            + " id " + message.getMsgId() + " " + offsetId(message)
            + " born " + message.getBornTimestamp() + " " + message.getBornHost()
            + " stored " + message.getStoreTimestamp() + " " + message.getStoreHost()
            + " flag " + message.getFlag() + " sys " + message.getSysFlag()
            + " crc " + message.getBodyCRC() + " body " + message.getBody().length + " " + body
            + " properties " + stored(message);
    }

    /** The properties of the record, without those that the client adds while it decodes. */
    private static Map<String, String> stored(MessageExt message) {
        Map<String, String> properties = new TreeMap<>(message.getProperties());
        properties.remove("MIN_OFFSET");
        properties.remove("MAX_OFFSET");
        return properties;
    }
}
