package rmqcompat;

import java.io.BufferedReader;
import java.io.PrintWriter;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** SQL92 filters: what consumers receive, and Apache's own evaluator asked directly. */
final class FilterScenarios {
    private FilterScenarios() {
    }

    static void register(Map<String, Scenario> table) {
        table.put("filter_push", FilterScenarios::push);
        table.put("filter_pull", FilterScenarios::pull);
        table.put("filter_lite", FilterScenarios::lite);
        table.put("filter_wrong", FilterScenarios::wrong);
        table.put("filter_evaluate", FilterScenarios::evaluate);
        table.put("filter_store_fill", FilterScenarios::fill);
        table.put("filter_store_read", FilterScenarios::read);
    }

    /** Messages from before the subscription, and those that come while it waits. */
    private static void push(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 2);
        context.send(queues, "early", 100, 140);
        context.send(queues, "A", 0, 20);
        Receiver receiver = new Receiver();
        DefaultMQPushConsumer consumer = context.newPusher("c");
        consumer.subscribe(topic,
            MessageSelector.bySql("n < 50 AND (TAGS IN ('A', 'B') OR n BETWEEN 40 AND 49)"));
        consumer.registerMessageListener(receiver.listener());
        consumer.start();
        Context.waitFor(30, "the early ones", () -> receiver.total() == 20);
        context.send(queues, "C", 140, 180);
        context.send(queues, "B", 20, 40);
        context.send(queues, "C", 180, 200);
        context.send(queues, "C", 40, 50);
        receiver.expectExactlyOnce(0, 50, 30);
    }

    private static void pull(Context context) throws Exception {
        String topic = context.topic("t");
        MessageQueue queue = context.createTopic(topic, 1).get(0);
        context.send(List.of(queue), "tag", 0, 60);
        MessageSelector selector = MessageSelector.bySql("n >= 10 AND n < 20 AND KEYS <> 'k15'");
        context.puller().pull(queue, "*", 0, 1);
        PullResult[] answer = new PullResult[1];
        // The client sends no SQL92 before a heartbeat's reply has told the broker's version.
        Context.waitFor(30, "the first heartbeat", () -> {
            try {
                answer[0] = context.puller().pull(queue, selector, 0, 32);
                return true;
            } catch (MQClientException notYet) {
                return false;
            }
        });
        PullResult result = answer[0];
        Context.equal("status", PullStatus.FOUND, result.getPullStatus());
        List<Integer> expected = Context.range(10, 20);
        expected.remove((Integer) 15);
        Context.equal("messages", expected, Context.numbers(result.getMsgFoundList()));
        Context.equal("next", 60L, result.getNextBeginOffset());
        PullResult nothing =
            context.puller().pull(queue, MessageSelector.bySql("absent IS NOT NULL"), 5, 32);
        Context.equal("status", PullStatus.NO_MATCHED_MSG, nothing.getPullStatus());
        Context.equal("next", 60L, nothing.getNextBeginOffset());
    }

    private static void lite(Context context) throws Exception {
        String topic = context.topic("t");
        List<MessageQueue> queues = context.createTopic(topic, 2);
        context.send(queues, "tag", 0, 60);
        DefaultLitePullConsumer consumer = context.newLitePuller("c");
        consumer.subscribe(topic, MessageSelector.bySql("n NOT BETWEEN 10 AND 49"));
        consumer.start();
        List<MessageExt> found = new ArrayList<>();
        Context.waitFor(40, "20 messages", () -> {
            found.addAll(consumer.poll(200));
            return found.size() >= 20;
        });
        found.addAll(consumer.poll(1000));
        List<Integer> expected = Context.range(0, 10);
        expected.addAll(Context.range(50, 60));
        Context.equal("messages", expected, Context.numbers(found));
    }

    private static void fill(Context context) throws Exception {
        List<MessageQueue> queues = context.createTopic(context.topic("t"), 1);
        for (int i = 0; i < 90; i++) {
            context.send(queues, "ABC".substring(i % 3, i % 3 + 1), i, i + 1);
        }
    }

    /** What the other scenario sent, perhaps to another broker, by tags. */
    private static void read(Context context) throws Exception {
        List<MessageQueue> queues = new ArrayList<>();
        Context.waitFor(30, "route", () -> {
            try {
                return queues.addAll(context.queues(context.topic("t")));
            } catch (MQClientException notYet) {
                return false;
            }
        });
        List<Integer> expected = Context.range(0, 90);
        expected.removeIf(number -> number % 3 == 1);
        List<MessageExt> found = new ArrayList<>();
        long next = 0;
        while (next < 90) {
            PullResult result = context.puller().pull(queues.get(0), "A || C", next, 32);
            Context.check(result.getNextBeginOffset() > next, "no way on from " + result);
            next = result.getNextBeginOffset();
            if (result.getPullStatus() == PullStatus.FOUND) {
                found.addAll(result.getMsgFoundList());
            }
        }
        Context.equal("messages", expected, Context.numbers(found));
    }

    /** The client asks the broker about the expression before it starts. */
    private static void wrong(Context context) throws Exception {
        String topic = context.topic("t");
        context.createTopic(topic, 1);
        DefaultMQPushConsumer consumer = context.newPusher("c");
        consumer.subscribe(topic, MessageSelector.bySql("n > 'five'"));
        consumer.registerMessageListener(new Receiver().listener());
        try {
            consumer.start();
        } catch (MQClientException refused) {
            context.detail("words", String.valueOf(refused.getMessage()));
            Context.check(refused.getMessage().contains("CODE: 23")
                || refused.getResponseCode() == 23 || refused.getCause() != null,
                "refused by " + refused);
            return;
        }
        throw new AssertionError("a wrong expression was taken");
    }

    /**
     * Reads lines "expression TAB name TAB value ..." (URL-encoded) and writes one letter for each:
     * E no expression, T true, F false, N null, X evaluation failed.
     */
    private static void evaluate(Context context) throws Exception {
        String root = "org.apache.rocketmq.filter.";
        Method parse =
            Class.forName(root + "parser.SelectorParser").getMethod("parse", String.class);
        Class<?> contextClass = Class.forName(root + "expression.EvaluationContext");
        Method run =
            Class.forName(root + "expression.Expression").getMethod("evaluate", contextClass);
        try (BufferedReader lines = Files.newBufferedReader(Path.of(context.argument("input")));
            PrintWriter answers =
                new PrintWriter(context.argument("output"), StandardCharsets.UTF_8)) {
            String line;
            while ((line = lines.readLine()) != null) {
                String[] fields = line.split("\t", -1);
                Map<String, String> properties = new HashMap<>();
                for (int i = 1; i + 1 < fields.length; i += 2) {
                    properties.put(decode(fields[i]), decode(fields[i + 1]));
                }
                Object values = Proxy.newProxyInstance(contextClass.getClassLoader(),
                    new Class<?>[] {contextClass}, (proxy, method, arguments) ->
                        method.getName().equals("get") ? properties.get(arguments[0]) : properties);
                answers.println(letter(parse, run, decode(fields[0]), values));
            }
        }
    }

    private static String decode(String text) {
        return URLDecoder.decode(text, StandardCharsets.UTF_8);
    }

    private static char letter(Method parse, Method run, String expression, Object values)
        throws IllegalAccessException {
        Object compiled;
        try {
            compiled = parse.invoke(null, expression);
        } catch (InvocationTargetException refused) {
            return 'E';
        }
        try {
            Object result = run.invoke(compiled, values);
            return result == null ? 'N' : Boolean.TRUE.equals(result) ? 'T' : 'F';
        } catch (InvocationTargetException failed) {
            return 'X';
        }
    }
}
