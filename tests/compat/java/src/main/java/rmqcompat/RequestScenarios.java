package rmqcompat;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.exception.RequestTimeoutException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Request-reply: a producer asks, a consumer answers, the broker pushes the answer to the producer. */
final class RequestScenarios {
    private RequestScenarios() {
    }

    static void register(Map<String, Scenario> table) {
        table.put("request_reply", RequestScenarios::ask);
        table.put("request_without_reply", RequestScenarios::askInVain);
    }

    private static void startReplier(Context context, String topic, boolean answers,
        Map<Integer, MessageExt> asked) throws Exception {
        DefaultMQProducer replier = context.newProducer("replier");
        DefaultMQPushConsumer consumer = context.newPusher("c");
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, work) -> {
            for (MessageExt message : messages) {
                asked.put(Context.number(message), message);
                if (!answers) {
                    continue;
                }
                try {
                    byte[] body = Context.bytes("reply to " + Context.text(message.getBody()));
                    Message reply = MessageUtil.createReplyMessage(message, body);
                    reply.putUserProperty("n", message.getUserProperty("n"));
                    SendResult result = replier.send(reply, 5000);
                    context.checkSent(result);
                } catch (Exception failed) {
                    context.detail("failed reply", failed.toString());
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        int all = context.queues(topic).size();
        Context.waitFor(30, "all queues", () -> Bridge.ownedQueues(consumer, topic) == all);
    }

    private static void ask(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 2);
        Map<Integer, MessageExt> asked = new ConcurrentHashMap<>();
        startReplier(context, topic, true, asked);
        long longest = 0;
        for (int i = 0; i < 20; i++) {
            long begin = System.nanoTime();
            Message question = context.message(topic, "tag", i);
            Message reply = i % 2 == 0 ? context.producer().request(question, 10000)
                : context.producer().request(question, queues.get(i / 2 % queues.size()), 10000);
            longest = Math.max(longest, (System.nanoTime() - begin) / 1000000);
            Context.equal("reply", "reply to body-" + i, Context.text(reply.getBody()));
            Context.equal("number", String.valueOf(i), reply.getUserProperty("n"));
            Context.equal("type", "reply", reply.getProperty("MSG_TYPE"));
            Context.equal("topic", "DefaultCluster_REPLY_TOPIC", reply.getTopic());
            Context.equal("correlation", asked.get(i).getProperty("CORRELATION_ID"),
                reply.getProperty("CORRELATION_ID"));
            Context.equal("asker", asked.get(i).getProperty("REPLY_TO_CLIENT"),
                reply.getProperty("REPLY_TO_CLIENT"));
            Context.check(Long.parseLong(reply.getProperty("PUSH_REPLY_TIME")) > 0, "pushed when");
            Context.equal("cluster", "DefaultCluster", asked.get(i).getProperty("CLUSTER"));
        }
        context.detail("longest ms", longest);
        // Many at a time, and one large enough to be compressed by the client.
        Map<Integer, String> replies = new ConcurrentHashMap<>();
        CountDownLatch left = new CountDownLatch(100);
        for (int i = 100; i < 200; i++) {
            Message question = context.message(topic, "tag", i);
            if (i == 150) {
                question.setBody(Context.bytes("x".repeat(20000)));
            }
            context.producer().request(question, new RequestCallback() {
                @Override
                public void onSuccess(Message reply) {
                    // A question may be consumed twice, and is then answered twice.
                    if (replies.put(Integer.parseInt(reply.getUserProperty("n")),
                        Context.text(reply.getBody())) == null) {
                        left.countDown();
                    }
                }

                @Override
                public void onException(Throwable failure) {
                    context.detail("failure", failure.toString());
                }
            }, 20000);
        }
        Context.check(left.await(30, TimeUnit.SECONDS), "replies missing: " + left.getCount());
        for (int i = 100; i < 200; i++) {
            String body = i == 150 ? "x".repeat(20000) : "body-" + i;
            Context.equal("reply " + i, "reply to " + body, replies.get(i));
        }
    }

    private static void askInVain(Context context) throws Exception {
        String topic = context.topic("t");
        context.createTopic(topic, 2);
        Map<Integer, MessageExt> asked = new ConcurrentHashMap<>();
        startReplier(context, topic, false, asked);
        long begin = System.currentTimeMillis();
        try {
            Message reply = context.producer().request(context.message(topic, "tag", 1), 5000);
            Context.check(false, "a reply: " + reply);
        } catch (RequestTimeoutException expected) {
            long waited = System.currentTimeMillis() - begin;
            Context.check(waited >= 4950 && waited < 30_000, "waited " + waited);
        }
        Context.waitFor(10, "the question", () -> asked.containsKey(1));
        // The producer has gone when the answer comes: the replier is told so.
        DefaultMQProducer gone = context.newProducer("gone");
        Message question = context.message(topic, "tag", 2);
        try {
            gone.request(question, 5000);
        } catch (RequestTimeoutException expected) {
            gone.shutdown();
        }
        Context.waitFor(10, "the question", () -> asked.containsKey(2));
        Message late = MessageUtil.createReplyMessage(asked.get(2), Context.bytes("late"));
        try {
            SendResult result = context.producer().send(late, 15000);
            Context.check(false, "sent to nobody: " + result);
        } catch (MQClientException expected) {
            Context.equal("code", 1, expected.getResponseCode());
        }
        List<MessageExt> stored = context.pullAll("DefaultCluster_REPLY_TOPIC", 1, 20);
        long matching = stored.stream().filter(message -> Context.text(message.getBody())
            .equals("late") && message.getProperty("CORRELATION_ID")
            .equals(asked.get(2).getProperty("CORRELATION_ID"))).count();
        Context.check(matching >= 1, "late reply is stored, " + matching + " times");
    }
}
