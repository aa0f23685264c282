package rmqcompat;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * "exchange_query" reads every message that "exchange_fill" sent and then asks for them by key and
 * by unique id. It answers with what was asked, what was not found ("missing") and what was found
 * although it has another key ("wrong"); all as "topic key offset".
 */
final class QueryScenarios {
    private static final String[] TOPICS = {"one", "three", "eight"};
    private static final int MOST = 64;

    private QueryScenarios() {
    }

    static void register(Map<String, Scenario> table) {
        table.put("exchange_query", QueryScenarios::query);
    }

    private static void query(Context context) throws Exception {
        Set<String> missing = new TreeSet<>();
        Set<String> wrong = new TreeSet<>();
        int asked = 0;
        DefaultMQPullConsumer reader = context.newPuller("exchange");
        for (String name : TOPICS) {
            String topic = context.topic(name);
            List<MessageExt> messages = new ArrayList<>();
            for (MessageQueue queue : context.queues(topic)) {
                readAll(reader, queue, messages);
            }
            TreeMap<String, TreeSet<Long>> byKey = new TreeMap<>();
            for (MessageExt message : messages) {
                if (message.getKeys() != null) {
                    for (String key : message.getKeys().split(" ")) {
                        byKey.computeIfAbsent(key, k -> new TreeSet<>())
                            .add(message.getCommitLogOffset());
                    }
                }
            }
            for (Map.Entry<String, TreeSet<Long>> entry : byKey.entrySet()) {
                asked++;
                compare(name + " " + entry.getKey(), newest(entry.getValue()),
                    found(context, topic, entry.getKey()), missing, wrong);
            }
            for (MessageExt message : messages) {
                if (message.getFlag() % 7 == 0) {
                    asked++;
                    byUniqueId(context, name, message, missing, wrong);
                }
            }
        }
        context.detail("asked", asked);
        context.detail("missing", new ArrayList<>(missing));
        context.detail("wrong", new ArrayList<>(wrong));
    }

    private static void readAll(DefaultMQPullConsumer reader, MessageQueue queue,
        List<MessageExt> out) throws Exception {
        long next = reader.minOffset(queue);
        long end = reader.maxOffset(queue);
        while (next < end) {
            PullResult result = reader.pull(queue, "*", next, 32, 15000);
            Context.equal("status at " + queue, PullStatus.FOUND, result.getPullStatus());
            out.addAll(result.getMsgFoundList());
            next = result.getNextBeginOffset();
        }
    }

    private static Set<Long> newest(TreeSet<Long> offsets) {
        Set<Long> out = new HashSet<>();
        for (Long offset : offsets.descendingSet()) {
            if (out.size() < MOST) {
                out.add(offset);
            }
        }
        return out;
    }

    private static Set<Long> found(Context context, String topic, String key) throws Exception {
        Set<Long> out = new HashSet<>();
        try {
            for (MessageExt message : context.producer()
                .queryMessage(topic, key, MOST, 0, Long.MAX_VALUE).getMessageList()) {
                out.add(message.getCommitLogOffset());
            }
        } catch (MQClientException error) {
            if (!error.getErrorMessage().contains("no message")) {
                throw error;
            }
        }
        return out;
    }

    private static void compare(String what, Set<Long> wanted, Set<Long> found, Set<String> missing,
        Set<String> wrong) {
        for (Long offset : wanted) {
            if (!found.contains(offset)) {
                missing.add(what + " " + offset);
            }
        }
        for (Long offset : found) {
            if (!wanted.contains(offset)) {
                wrong.add(what + " " + offset);
            }
        }
    }

    /** The message as the client's own look-up by unique id gives it. */
    private static void byUniqueId(Context context, String name, MessageExt message,
        Set<String> missing, Set<String> wrong) throws Exception {
        String what = name + " " + message.getMsgId() + " " + message.getCommitLogOffset();
        MessageExt viewed = null;
        try {
            viewed = context.producer().viewMessage(message.getTopic(), message.getMsgId());
        } catch (MQClientException error) {
            if (!error.getErrorMessage().contains("no message")) {
                throw error;
            }
        }
        if (viewed == null) {
            missing.add(what);
        } else if (viewed.getCommitLogOffset() != message.getCommitLogOffset()) {
            wrong.add(what);
        }
    }
}
