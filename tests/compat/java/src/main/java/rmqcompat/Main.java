package rmqcompat;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Runs scenarios on demand, so that one JVM serves a whole test session.
 *
 * <p>A request is one line of standard input, fields separated by tabs, values URL-encoded:
 *
 * <pre>
 *   17 \t send_sync \t nameServer=127.0.0.1:9876 \t run=a1b2
 * </pre>
 *
 * Its answer is one line of JSON on standard output, in the order of completion:
 *
 * <pre>
 *   {"details":{...},"error":null,"id":"17","name":"send_sync","ok":true,"seconds":0.8}
 * </pre>
 *
 * The pseudo scenario "list" answers with all names. The end of standard input ends the process.
 * Up to rmqcompat.threads (4) scenarios run at a time; each has topics and groups of its own.
 */
public final class Main {
    private static final Map<String, Scenario> SCENARIOS = new TreeMap<>();
    private static final PrintStream ANSWERS = System.out;

    private Main() {
    }

    public static void main(String[] arguments) throws Exception {
        // Libraries print to System.out; only answers may appear on the real one.
        System.setOut(System.err);
        SendScenarios.register(SCENARIOS);
        SizeScenarios.register(SCENARIOS);
        PullScenarios.register(SCENARIOS);
        LitePullScenarios.register(SCENARIOS);
        PushScenarios.register(SCENARIOS);
        OrderlyScenarios.register(SCENARIOS);
        OffsetScenarios.register(SCENARIOS);
        ErrorScenarios.register(SCENARIOS);
        ExchangeScenarios.register(SCENARIOS);
        QueryScenarios.register(SCENARIOS);
        LiveScenarios.register(SCENARIOS);
        TypeScenarios.register(SCENARIOS);
        TransactionScenarios.register(SCENARIOS);
        FilterScenarios.register(SCENARIOS);
        ClassFilterScenarios.register(SCENARIOS);
        RetryScenarios.register(SCENARIOS);
        PopScenarios.register(SCENARIOS);
        RequestScenarios.register(SCENARIOS);
        TraceScenarios.register(SCENARIOS);
        OrderlyJournal.register(SCENARIOS);
        ReplicaScenarios.register(SCENARIOS);
        StaticTopicScenarios.register(SCENARIOS);
        AdminScenarios.register(SCENARIOS);
        RenewalScenarios.register(SCENARIOS);
        MqAdmin.register(SCENARIOS);
        Json.write(Map.of()); // what answers are written with is loaded before there are any
        ExecutorService pool = Executors.newFixedThreadPool(Integer.getInteger("rmqcompat.threads", 4));
        BufferedReader requests =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = requests.readLine()) != null) {
            String[] fields = line.split("\t");
            pool.execute(() -> answer(fields));
        }
        System.exit(0); // client threads that a failed scenario left behind must not keep us
    }

    private static void answer(String[] fields) {
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("id", fields[0]);
        result.put("name", fields[1]);
        long begin = System.nanoTime();
        Map<String, Object> details = new LinkedHashMap<>();
        String error = null;
        if (fields[1].equals("list")) {
            details.put("scenarios", String.join(" ", SCENARIOS.keySet()));
        } else {
            error = run(fields, details);
        }
        result.put("ok", error == null);
        result.put("error", error);
        result.put("details", details);
        result.put("seconds", (System.nanoTime() - begin) / 1_000_000 / 1000.0);
        String text = Json.write(result);
        synchronized (ANSWERS) {
            ANSWERS.println(text);
            ANSWERS.flush();
        }
    }

    private static String run(String[] fields, Map<String, Object> details) {
        Map<String, String> arguments = new TreeMap<>();
        try {
            for (int i = 2; i < fields.length; i++) {
                int equals = fields[i].indexOf('=');
                arguments.put(fields[i].substring(0, equals),
                    URLDecoder.decode(fields[i].substring(equals + 1), StandardCharsets.UTF_8));
            }
            Scenario scenario = SCENARIOS.get(fields[1]);
            if (scenario == null) {
                throw new IllegalArgumentException("no such scenario: " + fields[1]);
            }
            try (Context context = new Context(fields[1], arguments, details)) {
                scenario.run(context);
            }
            return null;
        } catch (Throwable failure) {
            StringWriter text = new StringWriter();
            failure.printStackTrace(new PrintWriter(text));
            return text.toString();
        }
    }
}
