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
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.message.MessageExt;

/** Counts what arrives, by message number; one receiver may serve several consumers. */
final class Receiver {
    private final Map<Integer, AtomicInteger> counts = new ConcurrentHashMap<>();
    private final AtomicInteger total = new AtomicInteger();

    MessageListenerConcurrently listener() {
        return (messages, context) -> {
            messages.forEach(this::took);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        };
    }

    void took(MessageExt message) {
        counts.computeIfAbsent(Context.number(message), n -> new AtomicInteger()).incrementAndGet();
        total.incrementAndGet();
    }

    int total() {
        return total.get();
    }

    int different() {
        return counts.size();
    }

    /** Waits for numbers first..end-1, a second more for duplicates, and compares. */
    void expectExactlyOnce(int first, int end, int seconds) throws Exception {
        Context.waitFor(seconds, "messages " + first + ".." + end + ", missing " + missing(first, end),
            () -> missing(first, end).isEmpty());
        Thread.sleep(1000);
        Map<Integer, Integer> wrong = new TreeMap<>();
        counts.forEach((number, count) -> {
            if (count.get() != 1 || number < first || number >= end) {
                wrong.put(number, count.get());
            }
        });
        Context.check(wrong.isEmpty(), "not exactly once, number=times: " + wrong);
    }

    /** How often the rarest of these numbers came. */
    int least(int first, int end) {
        int least = Integer.MAX_VALUE;
        for (int i = first; i < end; i++) {
            AtomicInteger count = counts.get(i);
            least = Math.min(least, count == null ? 0 : count.get());
        }
        return least;
    }

    /** "number:times" of all, separated by blanks. */
    String counts() {
        StringBuilder text = new StringBuilder();
        new TreeMap<>(counts).forEach((number, count) ->
            text.append(text.length() > 0 ? " " : "").append(number).append(':').append(count));
        return text.toString();
    }

    List<Integer> missing(int first, int end) {
        List<Integer> missing = new ArrayList<>();
        for (int i = first; i < end; i++) {
            if (!counts.containsKey(i)) {
                missing.add(i);
            }
        }
        return missing;
    }

    List<Integer> numbers() {
        List<Integer> numbers = new ArrayList<>(counts.keySet());
        Collections.sort(numbers);
        return numbers;
    }

    static DefaultMQPushConsumer start(Context context, String group, String topic, String expression,
        Receiver receiver) throws Exception {
        DefaultMQPushConsumer consumer = context.newPusher(group);
        consumer.subscribe(topic, expression);
        consumer.registerMessageListener(receiver.listener());
        consumer.start();
        return consumer;
    }
}
