import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * A load in turns. It writes a line when it is ready, and then does a turn for each line
 * "SECONDS RATE" it reads and writes what it counted as a line of JSON; the end of its input ends
 * it.
 *
 * <p>RATE 0: as much as goes, for so long. Else message k of all is due at k / RATE, and its latency
 * is from then on, whatever held it back: what was due in the turn is sent, however late.
 */
abstract class Turns {
    /** How long after its end a turn may go on with what was due, or is open. */
    static final long PATIENCE_NS = TimeUnit.SECONDS.toNanos(30);

    /** NAME=VALUE of each argument. */
    static Map<String, String> told(String[] arguments) {
        Map<String, String> told = new HashMap<>();
        for (String each : arguments) {
            int equals = each.indexOf('=');
            told.put(each.substring(0, equals), each.substring(equals + 1));
        }
        return told;
    }

    /** When messages of a turn are due; times of System.nanoTime. */
    record Schedule(long begin, long end, double rate) {
        boolean paced() {
            return rate > 0;
        }

        /** Of message `number`; without a rate now. */
        long due(long number) {
            return paced() ? begin + (long) (number / rate * 1e9) : System.nanoTime();
        }

        /** Whether a message that is due then belongs to the turn. */
        boolean has(long due) {
            return paced() ? due < end : System.nanoTime() < end;
        }

        /** False: it is so late that it is not worth sending. */
        boolean await(long due) {
            for (long left = due - System.nanoTime(); left > 0; left = due - System.nanoTime()) {
                LockSupport.parkNanos(left);
            }
            return System.nanoTime() < end + PATIENCE_NS;
        }

        /** Whether that many became free before patience ended. */
        boolean acquire(Semaphore free, int permits) throws InterruptedException {
            return free.tryAcquire(
                permits, end + PATIENCE_NS - System.nanoTime(), TimeUnit.NANOSECONDS);
        }
    }

    /** What one thread, and those that answer it, counted in a turn. */
    static final class Count {
        private long[] latencies = new long[1024];
        private int timed;
        private int messages;
        private final Map<String, Integer> failures = new TreeMap<>();

        /** A message that went through, and how long it took. */
        synchronized void add(long nanoseconds) {
            if (timed == latencies.length) {
                latencies = Arrays.copyOf(latencies, 2 * timed);
            }
            latencies[timed++] = nanoseconds;
            messages++;
        }

        /** Messages that went through. */
        synchronized void addMany(int count) {
            messages += count;
        }

        synchronized void fail(String why) {
            failures.merge(why, 1, Integer::sum);
        }

        synchronized Map<String, Integer> failures() {
            return new TreeMap<>(failures);
        }
    }

    /** The part of one thread in a turn. */
    abstract void work(int thread, Schedule schedule, Count count) throws Exception;

    /** Turns until the input ends; never returns, whatever threads a client has. */
    final void serve(int threads) throws Exception {
        System.out.println("{}");
        BufferedReader turns =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = turns.readLine(); line != null; line = turns.readLine()) {
            String[] words = line.trim().split(" ");
            System.out.println(
                turn(threads, Double.parseDouble(words[0]), Double.parseDouble(words[1])));
        }
        System.exit(0);
    }

    private String turn(int threads, double seconds, double rate) throws InterruptedException {
        long begin = System.nanoTime();
        Schedule schedule = new Schedule(begin, begin + (long) (seconds * 1e9), rate);
        List<Count> counts = new ArrayList<>();
        List<Thread> running = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            Count count = new Count();
            int number = i;
            counts.add(count);
            running.add(new Thread(() -> {
                try {
                    work(number, schedule, count);
                } catch (Exception error) {
                    count.fail(error.toString());
                }
            }));
        }
        for (Thread each : running) {
            each.start();
        }
        for (Thread each : running) {
            each.join();
        }
        return summed(counts, (System.nanoTime() - begin) / 1e9);
    }

    private static String summed(List<Count> counts, double seconds) {
        int messages = 0;
        int timed = 0;
        for (Count each : counts) {
            messages += each.messages;
            timed += each.timed;
        }
        long[] latencies = new long[timed];
        Map<String, Integer> failures = new TreeMap<>();
        int at = 0;
        for (Count each : counts) {
            System.arraycopy(each.latencies, 0, latencies, at, each.timed);
            at += each.timed;
            each.failures.forEach((name, count) -> failures.merge(name, count, Integer::sum));
        }
        Arrays.sort(latencies);
        StringBuilder json = new StringBuilder("{\"seconds\":").append(seconds)
            .append(",\"messages\":").append(messages).append(",\"failures\":{");
        failures.forEach((name, count) -> json.append(json.charAt(json.length() - 1) == '{' ? "" : ",")
            .append('"').append(name.replaceAll("[\"\\\\\\p{Cntrl}]", " ")).append("\":").append(count));
        json.append("},\"latency_us\":{");
        if (timed > 0) {
            json.append("\"p50\":").append(part(latencies, 0.5)).append(",\"p99\":")
                .append(part(latencies, 0.99)).append(",\"p99.9\":").append(part(latencies, 0.999));
        }
        return json.append("}}").toString();
    }

    private static double part(long[] sorted, double share) {
        return sorted[Math.min(sorted.length - 1, (int) (share * sorted.length))] / 1e3;
    }
}
