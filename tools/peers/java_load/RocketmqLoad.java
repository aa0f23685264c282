import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * Load client: threads that send with one producer of the official client, with its defaults: one
 * connection to the broker, on which as many sends are open as there are threads.
 *
 * <pre>
 *   java -cp "lib/*" LoadClient.java namesrv=127.0.0.1:9876 topic=t threads=64 bytes=256
 * </pre>
 *
 * It writes a line when it is ready, and then does a turn for each line "SECONDS RATE" it reads and
 * writes what it counted as a line of JSON; the end of its input ends it. RATE 0: each thread sends
 * when its last send is answered. Else message k of all is due at k / RATE, and its latency is from
 * then on, whatever held it back.
 */
public final class LoadClient {
    private final DefaultMQProducer producer = new DefaultMQProducer("bench-java");
    private final String topic;
    private final byte[] body;
    private final int threads;

    private LoadClient(Map<String, String> told) throws Exception {
        topic = told.get("topic");
        threads = Integer.parseInt(told.get("threads"));
        body = "x".repeat(Integer.parseInt(told.get("bytes"))).getBytes(StandardCharsets.US_ASCII);
        producer.setNamesrvAddr(told.get("namesrv"));
        producer.start();
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> told = new HashMap<>();
        for (String each : arguments) {
            int equals = each.indexOf('=');
            told.put(each.substring(0, equals), each.substring(equals + 1));
        }
        LoadClient client = new LoadClient(told);
        System.out.println("{}");
        BufferedReader turns =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = turns.readLine(); line != null; line = turns.readLine()) {
            String[] words = line.trim().split(" ");
            System.out.println(
                client.turn(Double.parseDouble(words[0]), Double.parseDouble(words[1])));
        }
        client.producer.shutdown();
        System.exit(0); // threads of the client's own must not keep us
    }

    /** What one thread counted in a turn. */
    private static final class Count {
        long[] latencies = new long[1024];
        int messages;
        final Map<String, Integer> failures = new TreeMap<>();

        void add(long nanoseconds) {
            if (messages == latencies.length) {
                latencies = Arrays.copyOf(latencies, 2 * messages);
            }
            latencies[messages++] = nanoseconds;
        }
    }

    private String turn(double seconds, double rate) throws InterruptedException {
        long begin = System.nanoTime();
        long end = begin + (long) (seconds * 1e9);
        List<Count> counts = new ArrayList<>();
        List<Thread> running = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            Count count = new Count();
            int number = i;
            counts.add(count);
            running.add(new Thread(() -> send(count, number, begin, end, rate)));
        }
        for (Thread each : running) {
            each.start();
        }
        for (Thread each : running) {
            each.join();
        }
        return summed(counts, (System.nanoTime() - begin) / 1e9);
    }

    private void send(Count count, int first, long begin, long end, double rate) {
        for (long number = first; ; number += threads) {
            long due = rate > 0 ? begin + (long) (number / rate * 1e9) : System.nanoTime();
            if (due >= end || System.nanoTime() >= end) {
                return;
            }
            for (long left = due - System.nanoTime(); left > 0; left = due - System.nanoTime()) {
                LockSupport.parkNanos(left);
            }
            try {
                SendResult result = producer.send(new Message(topic, body));
                if (result.getSendStatus() == SendStatus.SEND_OK) {
                    count.add(System.nanoTime() - due);
                } else {
                    count.failures.merge(result.getSendStatus().name(), 1, Integer::sum);
                }
            } catch (Exception error) {
                count.failures.merge(error.getClass().getSimpleName(), 1, Integer::sum);
            }
        }
    }

    private static String summed(List<Count> counts, double seconds) {
        int messages = counts.stream().mapToInt(each -> each.messages).sum();
        long[] latencies = new long[messages];
        Map<String, Integer> failures = new TreeMap<>();
        int at = 0;
        for (Count each : counts) {
            System.arraycopy(each.latencies, 0, latencies, at, each.messages);
            at += each.messages;
            each.failures.forEach((name, count) -> failures.merge(name, count, Integer::sum));
        }
        Arrays.sort(latencies);
        StringBuilder json = new StringBuilder("{\"seconds\":").append(seconds)
            .append(",\"messages\":").append(messages).append(",\"failures\":{");
        failures.forEach((name, count) -> json.append(json.charAt(json.length() - 1) == '{' ? "" : ",")
            .append('"').append(name).append("\":").append(count));
        json.append("},\"latency_us\":{");
        if (messages > 0) {
            json.append("\"p50\":").append(part(latencies, 0.5)).append(",\"p99\":")
                .append(part(latencies, 0.99)).append(",\"p99.9\":").append(part(latencies, 0.999));
        }
        return json.append("}}").toString();
    }

    private static double part(long[] sorted, double share) {
        return sorted[Math.min(sorted.length - 1, (int) (share * sorted.length))] / 1e3;
    }
}
