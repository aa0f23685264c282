package rmqcompat;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageQueue;

/** Clients with message tracing on: what they write to the trace topic is looked at by the test. */
final class TraceScenarios {
    private TraceScenarios() {
    }

    static void register(Map<String, Scenario> table) {
        table.put("trace_send_and_consume", TraceScenarios::run);
    }

    /** Sends three messages; the consumer fails the second once. Answers with their ids. */
    private static void run(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 1);
        Map<String, Integer> seen = new ConcurrentHashMap<>();
        DefaultMQPushConsumer consumer = context.configure(new DefaultMQPushConsumer(
            context.group("c"), context.hook(), new AllocateMessageQueueAveragely(), true, null));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, work) -> {
            int number = Context.number(messages.get(0));
            int times = messages.get(0).getReconsumeTimes();
            seen.put(number + ":" + times, 1);
            work.setDelayLevelWhenNextConsume(1);
            return number == 1 && times == 0 ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        DefaultMQProducer producer = context.configure(
            new DefaultMQProducer(context.group("p"), context.hook(), true, null));
        producer.setSendMsgTimeout(15000);
        producer.start();
        for (int i = 0; i < 3; i++) {
            SendResult result = producer.send(context.message(topic, "tag", i), queues.get(0));
            context.checkSent(result);
            context.detail("id" + i, result.getMsgId());
            context.detail("offsetId" + i, result.getOffsetMsgId());
        }
        Context.waitFor(40, "four deliveries", () -> seen.size() == 4);
        // Tracers send what they hold every 5 s; what a shutdown finds it may leave on its way.
        Thread.sleep(7000);
        producer.shutdown();
        consumer.shutdown();
        context.detail("topic", topic);
        context.detail("producerGroup", context.group("p"));
        context.detail("consumerGroup", context.group("c"));
    }
}
