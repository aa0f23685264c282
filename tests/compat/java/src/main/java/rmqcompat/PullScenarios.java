package rmqcompat;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullCallback;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** DefaultMQPullConsumer: each status with its offsets, long polling, filters, searches, views. */
final class PullScenarios {
    private PullScenarios() {
    }

    static void register(Map<String, Scenario> table) {
        table.put("pull_statuses", PullScenarios::statuses);
        table.put("pull_tag_filter", PullScenarios::tagFilter);
        table.put("pull_holds_until_message", PullScenarios::holds);
        table.put("pull_holds_until_timeout", PullScenarios::timesOut);
        table.put("pull_async", PullScenarios::async);
        table.put("pull_reply_limits", PullScenarios::limits);
        table.put("search_by_timestamp", PullScenarios::search);
        table.put("view_by_id", PullScenarios::view);
    }

    private static void statuses(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 2);
        MessageQueue queue = queues.get(0);
        MessageQueue empty = queues.get(1);
        DefaultMQPullConsumer puller = context.puller();
        Set<MessageQueue> subscribed = puller.fetchSubscribeMessageQueues(topic);
        Context.equal("queues to subscribe", queues.size(), subscribed.size());
        context.send(List.of(queue), "tag", 0, 50);

        PullResult found = puller.pull(queue, "*", 0, 32);
        expect("first", found, PullStatus.FOUND, 32, 0, 50);
        Context.equal("messages", 32, found.getMsgFoundList().size());
        found = puller.pull(queue, "*", 32, 32);
        expect("second", found, PullStatus.FOUND, 50, 0, 50);
        Context.equal("messages", 18, found.getMsgFoundList().size());
        expect("at the end", puller.pull(queue, "*", 50, 32), PullStatus.NO_NEW_MSG, 50, 0, 50);
        expect("beyond the end", puller.pull(queue, "*", 77, 32), PullStatus.OFFSET_ILLEGAL, 50, 0, 50);
        expect("one message", puller.pull(queue, "*", 7, 1), PullStatus.FOUND, 8, 0, 50);
        expect("empty queue", puller.pull(empty, "*", 0, 32), PullStatus.NO_NEW_MSG, 0, 0, 0);
        expect("empty, wrong", puller.pull(empty, "*", 9, 32), PullStatus.OFFSET_ILLEGAL, 0, 0, 0);

        Context.equal("min", 0L, puller.minOffset(queue));
        Context.equal("max", 50L, puller.maxOffset(queue));
        Context.equal("max of the empty one", 0L, puller.maxOffset(empty));
        long earliest = puller.earliestMsgStoreTime(queue);
        Context.check(Math.abs(System.currentTimeMillis() - earliest) < 120_000, "time " + earliest);
        Context.equal("earliest of the empty one", -1L, puller.earliestMsgStoreTime(empty));
    }

    private static void expect(String what, PullResult result, PullStatus status, long next, long min,
        long max) {
        Context.equal(what + ": status", status, result.getPullStatus());
        Context.equal(what + ": next", next, result.getNextBeginOffset());
        Context.equal(what + ": min", min, result.getMinOffset());
        Context.equal(what + ": max", max, result.getMaxOffset());
    }

    private static void tagFilter(Context context) throws Exception {
        String topic = context.topic("t");
        MessageQueue queue = context.createTopic(topic, 1).get(0);
        String[] tags = {"A", "B", "C", "\u6807\u7b7e", "Aa", "BB"}; // the last two share a hash code
        for (int i = 0; i < 60; i++) {
            context.checkSent(context.producer().send(context.message(topic, tags[i % 6], i), queue));
        }
        Context.equal("A or C", 20, filtered(context, queue, "A || C"));
        Context.equal("without blanks", 20, filtered(context, queue, "A||C"));
        Context.equal("not ASCII", 10, filtered(context, queue, "\u6807\u7b7e"));
        Context.equal("hash collision", 10, filtered(context, queue, "Aa"));
        Context.equal("all", 60, filtered(context, queue, "*"));
        PullResult none = context.puller().pull(queue, "absent", 0, 32);
        Context.equal("status", PullStatus.NO_MATCHED_MSG, none.getPullStatus());
        Context.equal("next", 60L, none.getNextBeginOffset());
    }

    private static int filtered(Context context, MessageQueue queue, String expression)
        throws Exception {
        long offset = 0;
        int count = 0;
        while (offset < 60) {
            PullResult result = context.puller().pull(queue, expression, offset, 32);
            Context.check(result.getNextBeginOffset() > offset, "progress at " + offset);
            offset = result.getNextBeginOffset();
            if (result.getPullStatus() == PullStatus.FOUND) {
                count += result.getMsgFoundList().size();
            }
        }
        return count;
    }

    private static void holds(Context context) throws Exception {
        String topic = context.topic("t");
        MessageQueue queue = context.createTopic(topic, 1).get(0);
        context.send(List.of(queue), "tag", 0, 3);
        DefaultMQPullConsumer puller = context.puller();
        // The first held pull of a young group may need a heartbeat; it is not timed.
        puller.pull(queue, "*", 0, 32);
        CompletableFuture<PullResult> future = CompletableFuture.supplyAsync(() -> {
            try {
                return puller.pullBlockIfNotFound(queue, "*", 3, 32);
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        });
        Thread.sleep(1000);
        Context.check(!future.isDone(), "the pull is held");
        long begin = System.nanoTime();
        context.send(List.of(queue), "tag", 3, 4);
        PullResult result = future.get(20, TimeUnit.SECONDS);
        long waited = (System.nanoTime() - begin) / 1_000_000;
        context.detail("milliseconds from send to arrival", waited);
        Context.equal("status", PullStatus.FOUND, result.getPullStatus());
        Context.equal("message", 3, Context.number(result.getMsgFoundList().get(0)));
        Context.check(waited < 3000, "the send wakes the pull, not a sweep: " + waited + " ms");
    }

    private static void timesOut(Context context) throws Exception {
        String topic = context.topic("t");
        MessageQueue queue = context.createTopic(topic, 1).get(0);
        context.send(List.of(queue), "tag", 0, 1);
        DefaultMQPullConsumer puller =
            context.configure(new DefaultMQPullConsumer(context.group("short"), context.hook()));
        puller.setBrokerSuspendMaxTimeMillis(2000);
        puller.start();
        context.closeLater(puller::shutdown);
        long begin = System.nanoTime();
        PullResult result = puller.pullBlockIfNotFound(queue, "*", 1, 32);
        long waited = (System.nanoTime() - begin) / 1_000_000;
        context.detail("milliseconds held", waited);
        expect("time out", result, PullStatus.NO_NEW_MSG, 1, 0, 1);
        // Apache looks at held pulls every 5 s only.
        Context.check(waited >= 1900 && waited < 9000, "held for " + waited + " ms");
    }

    private static void async(Context context) throws Exception {
        String topic = context.topic("t");
        MessageQueue queue = context.createTopic(topic, 1).get(0);
        context.send(List.of(queue), "tag", 0, 40);
        CompletableFuture<PullResult> future = new CompletableFuture<>();
        context.puller().pull(queue, "*", 10, 16, new PullCallback() {
            @Override
            public void onSuccess(PullResult result) {
                future.complete(result);
            }

            @Override
            public void onException(Throwable error) {
                future.completeExceptionally(error);
            }
        });
        PullResult result = future.get(20, TimeUnit.SECONDS);
        expect("async", result, PullStatus.FOUND, 26, 0, 40);
        Context.equal("messages", Context.range(10, 26), Context.numbers(result.getMsgFoundList()));
    }

    /** A reply carries at most 256 KiB, but always one message however large. */
    private static void limits(Context context) throws Exception {
        String topic = context.topic("t");
        MessageQueue queue = context.createTopic(topic, 1).get(0);
        context.producer().setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        int[] sizes = {100_000, 100_000, 100_000, 100_000, 1_000_000, 10};
        for (int size : sizes) {
            context.checkSent(context.producer().send(new Message(topic, new byte[size]), queue));
        }
        List<Integer> counts = new ArrayList<>();
        long offset = 0;
        while (offset < sizes.length) {
            PullResult result = context.puller().pull(queue, "*", offset, 32);
            Context.equal("status", PullStatus.FOUND, result.getPullStatus());
            for (MessageExt message : result.getMsgFoundList()) {
                Context.equal("size", sizes[(int) offset], message.getBody().length);
                offset++;
            }
            Context.equal("next", offset, result.getNextBeginOffset());
            counts.add(result.getMsgFoundList().size());
        }
        context.detail("messages in each reply", counts);
        Context.equal("messages in each reply", List.of(2, 2, 1, 1), counts);
    }

    private static void search(Context context) throws Exception {
        String topic = context.topic("t");
        MessageQueue queue = context.createTopic(topic, 1).get(0);
        DefaultMQPullConsumer puller = context.puller();
        context.send(List.of(queue), "tag", 0, 10);
        Thread.sleep(300);
        long between = System.currentTimeMillis();
        Thread.sleep(300);
        context.send(List.of(queue), "tag", 10, 20);
        List<MessageExt> found = context.pullAll(topic, 20, 20);
        Context.equal("before all", 0L, puller.searchOffset(queue, 0));
        Context.equal("between", 10L, puller.searchOffset(queue, between));
        long last = found.get(19).getStoreTimestamp();
        Context.equal("after all", 20L, puller.searchOffset(queue, last + 100_000));
        for (int i : new int[] {0, 9, 10, 19}) {
            long time = found.get(i).getStoreTimestamp();
            int expected = i;
            while (expected > 0 && found.get(expected - 1).getStoreTimestamp() == time) {
                expected--;
            }
            Context.equal("time of " + i, (long) expected, puller.searchOffset(queue, time));
        }
    }

    private static void view(Context context) throws Exception {
        String topic = context.topic("t");
        context.createTopic(topic, 2);
        for (int i = 0; i < 10; i++) {
            SendResult sent = context.producer().send(context.message(topic, "tag", i));
            MessageExt message = context.producer().viewMessage(topic, sent.getOffsetMsgId());
            Context.equal("number", i, Context.number(message));
            Context.equal("queue offset", sent.getQueueOffset(), message.getQueueOffset());
            Context.equal("queue", sent.getMessageQueue().getQueueId(), message.getQueueId());
            Context.equal("body", "body-" + i, Context.text(message.getBody()));
            Context.equal("client's id", sent.getMsgId(), message.getMsgId());
        }
    }
}
