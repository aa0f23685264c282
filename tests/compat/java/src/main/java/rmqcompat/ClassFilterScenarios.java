package rmqcompat;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyRemotingClient;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * Class filters of old: a consumer that names a Java class, whose source the client would upload. Every
 * way to one ends with the same words; the details "check", "upload" and "pull" hold them.
 */
final class ClassFilterScenarios {
    private static final String NAME = "example.OnlySmall";
    private static final String SOURCE = "package example; public class OnlySmall {}";

    private ClassFilterScenarios() {
    }

    static void register(Map<String, Scenario> table) {
        table.put("filter_class", ClassFilterScenarios::refused);
    }

    private static void refused(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 1);
        Receiver receiver = new Receiver();
        DefaultMQPushConsumer consumer = context.newPusher("c");
        consumer.subscribe(topic, NAME, SOURCE);
        consumer.registerMessageListener(receiver.listener());
        consumer.start();
        Context.waitFor(60, "a queue", () -> Bridge.ownedQueues(consumer, topic) == 1);
        context.send(queues, "tag", 0, 10);

        Object client = consumer.getDefaultMQPushConsumerImpl().getmQClientFactory()
            .getMQClientAPIImpl();
        Map<?, ?> subscriptions = (Map<?, ?>) consumer.getDefaultMQPushConsumerImpl().getClass()
            .getMethod("getSubscriptionInner").invoke(consumer.getDefaultMQPushConsumerImpl());
        String broker = context.argument("broker");
        context.detail("check", words(client, "checkClientInBroker", broker, context.group("c"),
            "client", subscriptions.get(topic), 10000L));
        if (context.argument("uploads").equals("true")) { // 5.x has no method for it
            context.detail("upload", words(client, "registerMessageFilterClass", broker,
                context.group("c"), topic, NAME, 7, SOURCE.getBytes(), 10000L));
        }
        context.detail("pull", pull(context, topic));

        Thread.sleep(4000); // the client pulls again every 3 s
        Context.equal("messages through a class filter", 0, receiver.total());
        consumer.subscribe(topic, MessageSelector.bySql("n < 5"));
        receiver.expectExactlyOnce(0, 5, 40);
    }

    /** What the method throws. */
    private static String words(Object client, String name, Object... arguments) throws Exception {
        for (Method method : client.getClass().getMethods()) {
            if (method.getName().equals(name)) {
                try {
                    method.invoke(client, arguments);
                } catch (InvocationTargetException thrown) {
                    return String.valueOf(thrown.getCause());
                }
                throw new AssertionError(name + " was not refused");
            }
        }
        throw new NoSuchMethodException(name);
    }

    /** Bit 8 of the flags: the subscription is a class. */
    private static String pull(Context context, String topic) throws Exception {
        NettyRemotingClient client = new NettyRemotingClient(new NettyClientConfig());
        client.start();
        try {
            RemotingCommand request = RemotingCommand.createRequestCommand(11, null);
            request.setExtFields(new HashMap<>(Map.of("consumerGroup", context.group("raw"), "topic",
                topic, "queueId", "0", "queueOffset", "0", "maxMsgNums", "32", "sysFlag", "12",
                "commitOffset", "0", "suspendTimeoutMillis", "0", "subVersion", "0")));
            request.getExtFields().put("subscription", NAME);
            RemotingCommand answer = client.invokeSync(context.argument("broker"), request, 10000);
            return "CODE: " + answer.getCode() + "  DESC: " + answer.getRemark();
        } finally {
            client.shutdown();
        }
    }
}
