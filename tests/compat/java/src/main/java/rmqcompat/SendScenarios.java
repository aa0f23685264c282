package rmqcompat;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageId;
import org.apache.rocketmq.common.message.MessageQueue;

/** Every way a Java producer sends: what it is told, and that the messages are there as sent. */
final class SendScenarios {
    private SendScenarios() {
    }

    static void register(Map<String, Scenario> table) {
        table.put("send_sync", SendScenarios::sync);
        table.put("send_creates_topic", SendScenarios::createsTopic);
        table.put("send_async", SendScenarios::async);
        table.put("send_oneway", SendScenarios::oneway);
        table.put("send_batch", SendScenarios::batch);
        table.put("send_selector", SendScenarios::selector);
        table.put("send_parallel", SendScenarios::parallel);
        table.put("send_properties", SendScenarios::properties);
        table.put("send_without_wait", SendScenarios::withoutWait);
    }

    private static void sync(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 4);
        Map<MessageQueue, Long> next = new HashMap<>();
        Map<String, SendResult> results = new HashMap<>();
        for (int i = 0; i < 100; i++) {
            SendResult result = context.producer().send(context.message(topic, "tag", i));
            context.checkSent(result);
            MessageQueue queue = result.getMessageQueue();
            Context.check(queues.contains(queue), "queue of the topic: " + queue);
            long expected = next.getOrDefault(queue, 0L);
            Context.equal("queue offset", expected, result.getQueueOffset());
            next.put(queue, expected + 1);
            results.put(result.getMsgId(), result);
        }
        Context.equal("client's ids are unique", 100, results.size());
        List<MessageExt> found = context.pullAll(topic, 100, 20);
        Context.equal("messages", Context.range(0, 100), Context.numbers(found));
        for (MessageExt message : found) {
            SendResult result = results.get(message.getMsgId());
            Context.check(result != null, "id " + message.getMsgId() + " was returned by send");
            Context.equal("queue", result.getMessageQueue().getQueueId(), message.getQueueId());
            Context.equal("offset", result.getQueueOffset(), message.getQueueOffset());
            MessageId id = MessageDecoder.decodeMessageId(result.getOffsetMsgId());
            Context.equal("physical offset", id.getOffset(), message.getCommitLogOffset());
            Context.equal("body", "body-" + Context.number(message), Context.text(message.getBody()));
            Context.equal("tag", "tag", message.getTags());
            Context.equal("keys", "k" + Context.number(message), message.getKeys());
            Context.equal("topic", topic, message.getTopic());
            Context.equal("reconsume times", 0, message.getReconsumeTimes());
            Context.check(message.getStoreTimestamp() >= message.getBornTimestamp() - 1000, "times");
            Context.check(message.getBornHostString().equals("127.0.0.1"), "born host");
        }
    }

    private static void createsTopic(Context context) throws Exception {
        String topic = context.topic("t");
        for (int i = 0; i < 8; i++) {
            context.checkSent(context.producer().send(context.message(topic, "tag", i)));
        }
        DefaultMQProducer other = context.newProducer("other");
        Context.waitFor(15, "route of the new topic", () -> {
            try {
                return other.fetchPublishMessageQueues(topic).size() == 4 * context.brokers;
            } catch (Exception notYet) {
                return false;
            }
        });
        Context.equal("messages", Context.range(0, 8), Context.numbers(context.pullAll(topic, 8, 20)));
    }

    private static void async(Context context) throws Exception {
        String topic = context.topic("t");
        context.createTopic(topic, 4);
        int count = 300;
        CountDownLatch left = new CountDownLatch(count);
        AtomicReference<Throwable> failure = new AtomicReference<>();
        Set<String> ids = Collections.synchronizedSet(new HashSet<>());
        for (int i = 0; i < count; i++) {
            context.producer().send(context.message(topic, "tag", i), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    ids.add(result.getOffsetMsgId());
                    left.countDown();
                }

                @Override
                public void onException(Throwable error) {
                    failure.set(error);
                    left.countDown();
                }
            });
        }
        Context.check(left.await(30, TimeUnit.SECONDS), "unanswered: " + left.getCount());
        if (failure.get() != null) {
            throw new AssertionError("a send failed", failure.get());
        }
        Context.equal("broker's ids are unique", count, ids.size());
        List<MessageExt> found = context.pullAll(topic, count, 20);
        Context.equal("messages", Context.range(0, count), Context.numbers(found));
    }

    private static void oneway(Context context) throws Exception {
        String topic = context.topic("t");
        context.createTopic(topic, 4);
        for (int i = 0; i < 100; i++) {
            context.producer().sendOneway(context.message(topic, "tag", i));
        }
        List<MessageExt> found = context.pullAll(topic, 100, 20);
        Context.equal("messages", Context.range(0, 100), Context.numbers(found));
    }

    private static void batch(Context context) throws Exception {
        String topic = context.topic("t");
        MessageQueue queue = context.createTopic(topic, 1).get(0);
        for (int round = 0; round < 5; round++) {
            List<Message> messages = new ArrayList<>();
            for (int i = 0; i < 20; i++) {
                messages.add(context.message(topic, i % 2 == 0 ? "even" : "odd", round * 20 + i));
            }
            SendResult result = context.producer().send(messages, queue);
            context.checkSent(result);
            Context.equal("offset of the first", round * 20L, result.getQueueOffset());
            Context.equal("client's ids", 20, result.getMsgId().split(",").length);
            Context.equal("broker's ids", 20, result.getOffsetMsgId().split(",").length);
        }
        List<MessageExt> found = context.pullAll(topic, 100, 20);
        Context.equal("count", 100, found.size());
        for (int i = 0; i < 100; i++) {
            MessageExt message = found.get(i);
            Context.equal("order", i, Context.number(message));
            Context.equal("queue offset", (long) i, message.getQueueOffset());
            Context.equal("tag", i % 2 == 0 ? "even" : "odd", message.getTags());
            Context.equal("keys", "k" + i, message.getKeys());
            Context.equal("body", "body-" + i, Context.text(message.getBody()));
        }
    }

    private static void selector(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> known = context.createTopic(topic, 4);
        for (int i = 0; i < 80; i++) {
            int order = i % 7;
            SendResult result = context.producer().send(context.message(topic, "o" + order, i),
                (queues, message, argument) -> queues.get((Integer) argument % queues.size()), order);
            context.checkSent(result);
            Context.equal("queue", known.get(order % known.size()), result.getMessageQueue());
        }
        Map<String, Integer> last = new HashMap<>();
        for (MessageExt message : context.pullAll(topic, 80, 20)) {
            int before = last.getOrDefault(message.getTags(), -1);
            Context.check(before < Context.number(message), "order of " + message.getTags());
            last.put(message.getTags(), Context.number(message));
        }
        Context.equal("orders", 7, last.size());
    }

    private static void parallel(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 2);
        int each = 250;
        AtomicReference<Throwable> failure = new AtomicReference<>();
        List<Thread> threads = new ArrayList<>();
        for (int t = 0; t < 4; t++) {
            int first = t * each;
            DefaultMQProducer producer = t < 2 ? context.producer() : context.newProducer("p" + t);
            threads.add(new Thread(() -> {
                try {
                    for (int i = first; i < first + each; i++) {
                        context.checkSent(
                            producer.send(context.message(topic, "tag", i), queues.get(i % queues.size())));
                    }
                } catch (Throwable error) {
                    failure.set(error);
                }
            }));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join(60000);
        }
        if (failure.get() != null) {
            throw new AssertionError("a sender failed", failure.get());
        }
        List<MessageExt> found = context.pullAll(topic, 4 * each, 20);
        Context.equal("messages", Context.range(0, 4 * each), Context.numbers(found));
        for (MessageQueue queue : queues) {
            Context.equal("max offset", 4L * each / queues.size(), context.puller().maxOffset(queue));
        }
    }

    private static void properties(Context context) throws Exception {
        String topic = context.topic("t");
        MessageQueue queue = context.createTopic(topic, 1).get(0);
        Map<String, String> values = new HashMap<>();
        values.put("chinese", "\u8ba2\u5355\u5df2\u652f\u4ed8");
        values.put("emoji", "\ud83d\ude80 rocket \ud83c\udf89");
        values.put("quotes", "say \"hi\" \\ back / slash");
        values.put("controls", "tab\there, line\nthere, return\r, bell\u0007");
        values.put("\u952e", "a key that is not ASCII");
        values.put("json", "{\"a\":[1,2,{\"b\":null}]}");
        values.put("equals=&?", "a=b&c=d");
        char[] long4k = new char[4000];
        Arrays.fill(long4k, '\u00e9');
        values.put("long", new String(long4k));
        Message message = new Message(topic, "\u6807\u7b7e", Context.bytes("\u6b63\u6587 \ud83d\ude80"));
        values.forEach(message::putUserProperty);
        message.setKeys(Arrays.asList("order-1", "order-2", "\u952e-3"));
        message.setFlag(0x12345678);
        message.setBuyerId("buyer");
        context.checkSent(context.producer().send(message, queue));
        Message bare = new Message(topic, Context.bytes("no tag, no key"));
        context.checkSent(context.producer().send(bare, queue));
        List<MessageExt> found = context.pullAll(topic, 2, 20);
        MessageExt first = found.get(0);
        values.forEach((key, value) -> Context.equal(key, value, first.getUserProperty(key)));
        Context.equal("tag", "\u6807\u7b7e", first.getTags());
        Context.equal("keys", "order-1 order-2 \u952e-3", first.getKeys());
        Context.equal("flag", 0x12345678, first.getFlag());
        Context.equal("buyer", "buyer", first.getBuyerId());
        Context.equal("body", "\u6b63\u6587 \ud83d\ude80", Context.text(first.getBody()));
        Context.equal("cluster", "DefaultCluster", first.getProperty("CLUSTER"));
        Context.equal("no tag", null, found.get(1).getTags());
        Context.equal("no keys", null, found.get(1).getKeys());
        Context.equal("no flag", 0, found.get(1).getFlag());
    }

    private static void withoutWait(Context context) throws Exception {
        String topic = context.topic("t");
        MessageQueue queue = context.createTopic(topic, 1).get(0);
        for (int i = 0; i < 20; i++) {
            Message message = context.message(topic, "tag", i);
            message.setWaitStoreMsgOK(false);
            context.checkSent(context.producer().send(message, queue));
        }
        List<MessageExt> found = context.pullAll(topic, 20, 20);
        Context.equal("messages", Context.range(0, 20), Context.numbers(found));
    }
}
