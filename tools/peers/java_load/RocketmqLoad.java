import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * Threads that send with one producer of the official client, with its defaults: one connection to
 * the broker, on which as many sends are open as there are threads. Its turns: Turns.java.
 *
 * <pre>
 *   java -cp "CLASSES:lib/*" RocketmqLoad namesrv=127.0.0.1:9876 topic=t threads=64 bytes=256
 * </pre>
 */
final class RocketmqLoad extends Turns {
    private final DefaultMQProducer producer = new DefaultMQProducer("bench-java");
    private final String topic;
    private final byte[] body;
    private final int threads;

    private RocketmqLoad(Map<String, String> told) throws Exception {
        topic = told.get("topic");
        threads = Integer.parseInt(told.get("threads"));
        body = "x".repeat(Integer.parseInt(told.get("bytes"))).getBytes(StandardCharsets.US_ASCII);
        producer.setNamesrvAddr(told.get("namesrv"));
        producer.start();
    }

    public static void main(String[] arguments) throws Exception {
        RocketmqLoad load = new RocketmqLoad(told(arguments));
        load.serve(load.threads);
    }

    @Override
    void work(int thread, Schedule schedule, Count count) {
        for (long number = thread; ; number += threads) {
            long due = schedule.due(number);
            if (!schedule.has(due)) {
                return;
            }
            if (!schedule.await(due)) {
                count.fail("not sent in time");
                continue;
            }
            try {
                SendResult result = producer.send(new Message(topic, body));
                if (result.getSendStatus() == SendStatus.SEND_OK) {
                    count.add(System.nanoTime() - due);
                } else {
                    count.fail(result.getSendStatus().name());
                }
            } catch (Exception error) {
                count.fail(error.getClass().getSimpleName());
            }
        }
    }
}
