package rmqcompat;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** What has another package or another signature in 4.9 and in 5.x, reached by reflection. */
final class Bridge {
    private Bridge() {
    }

    /** MessageModel lives in common.protocol.heartbeat (4.9) or remoting.protocol.heartbeat (5.x). */
    @SuppressWarnings({"unchecked", "rawtypes"})
    static void broadcasting(Object consumer) throws Exception {
        Method setter = method(consumer.getClass(), "setMessageModel", 1);
        Class model = setter.getParameterTypes()[0];
        call(setter, consumer, Enum.valueOf(model, "BROADCASTING"));
    }

    /** createTopic(key, topic, queues) in 4.9, with an attribute map behind it in 5.x. */
    static void createTopic(DefaultMQProducer producer, String key, String topic, int queues)
        throws Exception {
        for (Method method : DefaultMQProducer.class.getMethods()) {
            if (!method.getName().equals("createTopic") || method.getParameterTypes()[2] != int.class) {
                continue;
            }
            Class<?>[] types = method.getParameterTypes();
            if (types.length == 3) {
                call(method, producer, key, topic, queues);
                return;
            }
            if (types.length == 4 && types[3] == Map.class) {
                call(method, producer, key, topic, queues, new HashMap<String, String>());
                return;
            }
        }
        throw new NoSuchMethodException("createTopic");
    }

    /** How many queues of a topic the consumer owns; its group's retry topic is in the table too. */
    static int ownedQueues(DefaultMQPushConsumer consumer, String topic) {
        int owned = 0;
        for (MessageQueue queue : consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl()
            .getProcessQueueTable().keySet()) {
            owned += queue.getTopic().equals(topic) ? 1 : 0;
        }
        return owned;
    }

    /** One of Message's setDelayTimeSec, setDelayTimeMs, setDeliverTimeMs, which 5.x has. */
    static void setTime(Message message, String setter, long value) throws Exception {
        call(method(Message.class, setter, 1), message, value);
    }

    /** What a send of 5.x says about recalling the message; null when it says nothing. */
    static String recallHandle(SendResult result) throws Exception {
        return (String) method(SendResult.class, "getRecallHandle", 0).invoke(result);
    }

    /** recallMessage of 5.x: the unique key of the recalled message. */
    static String recall(DefaultMQProducer producer, String topic, String handle)
        throws Exception {
        return (String) method(DefaultMQProducer.class, "recallMessage", 2)
            .invoke(producer, topic, handle);
    }

    /** MQAdminImpl.searchOffset(queue, time, boundary) of 5.x. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    static long searchOffset(DefaultMQProducer producer, MessageQueue queue, long time,
        String boundary) throws Exception {
        Object admin = producer.getDefaultMQProducerImpl().getmQClientFactory().getMQAdminImpl();
        Method search = method(admin.getClass(), "searchOffset", 3);
        Class kind = search.getParameterTypes()[2];
        return (Long) search.invoke(admin, queue, time, Enum.valueOf(kind, boundary));
    }

    /** A broker that is to ask a producer has to know it; 4.9 tells after a second. */
    static void introduce(DefaultMQProducer producer, String topic) throws Exception {
        Object instance = producer.getDefaultMQProducerImpl().getmQClientFactory();
        instance.getClass().getMethod("updateTopicRouteInfoFromNameServer", String.class)
            .invoke(instance, topic);
        method(instance.getClass(), "sendHeartbeatToAllBrokerWithLock", 0).invoke(instance);
    }

    private static Method method(Class<?> type, String name, int parameters) throws Exception {
        for (Method method : type.getMethods()) {
            if (method.getName().equals(name) && method.getParameterCount() == parameters) {
                return method;
            }
        }
        throw new NoSuchMethodException(name);
    }

    private static void call(Method method, Object target, Object... arguments) throws Exception {
        try {
            method.invoke(target, arguments);
        } catch (InvocationTargetException wrapped) {
            if (wrapped.getCause() instanceof Exception) {
                throw (Exception) wrapped.getCause();
            }
            throw wrapped;
        }
    }
}
