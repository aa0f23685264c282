package rmqspring;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.spring.annotation.ConsumeMode;
import org.apache.rocketmq.spring.annotation.RocketMQMessageListener;
import org.apache.rocketmq.spring.annotation.RocketMQTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionState;
import org.apache.rocketmq.spring.core.RocketMQReplyListener;
import org.apache.rocketmq.spring.core.RocketMQTemplate;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.messaging.Message;
import org.springframework.messaging.support.MessageBuilder;
import org.springframework.stereotype.Service;

/**
 * Sends a few messages of each kind through a RocketMQTemplate, and prints a line "GOT what text
 * times" for each one that a listener gets, until its standard input ends. Topics are those of
 * the property run, with what they are for. Where the property asks is true, it asks questions
 * after that, and prints what the answers are.
 */
@SpringBootApplication
public class Application {
    private static final int COUNT = 12;
    private static final int ANSWER_TIMEOUT_MS = 600_000;

    public static void main(String[] arguments) throws IOException {
        try (ConfigurableApplicationContext context =
            SpringApplication.run(Application.class, arguments)) {
            RocketMQTemplate template = context.getBean(RocketMQTemplate.class);
            String run = context.getEnvironment().getRequiredProperty("run");
            for (int i = 0; i < COUNT; i++) {
                check(template.syncSend(run + "-plain:one", "plain " + i).getSendStatus());
                check(template.syncSend(run + "-plain:other", "other " + i).getSendStatus());
                String key = "key" + i % 3;
                check(template.syncSendOrderly(run + "-ordered", key + " " + i, key)
                    .getSendStatus());
                check(template.sendMessageInTransaction(run + "-transacted",
                    MessageBuilder.withPayload("transacted " + i).build(), i).getSendStatus());
            }
            long sentMs = System.currentTimeMillis();
            check(template.syncSendDelayTimeSeconds(run + "-delayed", "delayed " + sentMs, 3)
                .getSendStatus());
            got("sent", "all", 0);
            if (context.getEnvironment().getRequiredProperty("asks", Boolean.class)) {
                ask(template, run + "-asked");
            }
            while (System.in.read() >= 0) {
                continue;
            }
        }
    }

    private static void ask(RocketMQTemplate template, String topic) {
        for (int i = 0; i < COUNT; i++) {
            String question = "question " + i;
            String answer = i % 2 == 0
                ? template.sendAndReceive(topic, question, String.class, ANSWER_TIMEOUT_MS)
                : template.sendAndReceive(topic, question, String.class, "key", ANSWER_TIMEOUT_MS);
            got("answered", answer, 0);
        }
    }

    private static void check(SendStatus status) {
        if (status != SendStatus.SEND_OK) {
            throw new IllegalStateException("sent: " + status);
        }
    }

    static synchronized void got(String what, String text, int times) {
        System.out.println("GOT\t" + what + "\t" + text + "\t" + times);
        System.out.flush();
    }

    private static String text(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    /** Refuses each message once. */
    @Service
    @RocketMQMessageListener(topic = "${run}-plain", consumerGroup = "${run}-plain",
        selectorExpression = "one")
    static class Plain implements RocketMQListener<MessageExt> {
        @Override
        public void onMessage(MessageExt message) {
            got("plain", text(message), message.getReconsumeTimes());
            if (message.getReconsumeTimes() == 0) {
                throw new IllegalStateException("not yet");
            }
        }
    }

    @Service
    @RocketMQMessageListener(topic = "${run}-ordered", consumerGroup = "${run}-ordered",
        consumeMode = ConsumeMode.ORDERLY)
    static class Ordered implements RocketMQListener<String> {
        @Override
        public void onMessage(String text) {
            got("ordered", text, 0);
        }
    }

    @Service
    @RocketMQMessageListener(topic = "${run}-transacted", consumerGroup = "${run}-transacted")
    static class Transacted implements RocketMQListener<String> {
        @Override
        public void onMessage(String text) {
            got("transacted", text, 0);
        }
    }

    @Service
    @RocketMQMessageListener(topic = "${run}-delayed", consumerGroup = "${run}-delayed")
    static class Delayed implements RocketMQListener<String> {
        @Override
        public void onMessage(String text) {
            got("delayed", text + " " + System.currentTimeMillis(), 0);
        }
    }

    @Service
    @RocketMQMessageListener(topic = "${run}-asked", consumerGroup = "${run}-asked",
        replyTimeout = ANSWER_TIMEOUT_MS)
    static class Asked implements RocketMQReplyListener<String, String> {
        @Override
        public String onMessage(String question) {
            return "answer to " + question;
        }
    }

    /** Every third is committed, every third rolled back, every third committed when asked about. */
    @RocketMQTransactionListener
    static class Transactions implements RocketMQLocalTransactionListener {
        private final Map<String, Integer> open = new ConcurrentHashMap<>();

        @Override
        public RocketMQLocalTransactionState executeLocalTransaction(Message message,
            Object number) {
            switch ((Integer) number % 3) {
                case 0:
                    return RocketMQLocalTransactionState.COMMIT;
                case 1:
                    return RocketMQLocalTransactionState.ROLLBACK;
                default:
                    return RocketMQLocalTransactionState.UNKNOWN;
            }
        }

        @Override
        public RocketMQLocalTransactionState checkLocalTransaction(Message message) {
            String text = new String((byte[]) message.getPayload(),
                StandardCharsets.UTF_8);
            got("checked", text, open.merge(text, 1, Integer::sum));
            return RocketMQLocalTransactionState.COMMIT;
        }
    }
}
