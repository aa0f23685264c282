package rmqgrpc;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * RocketMQ 5's Java client (gRPC), told what to do line by line: the lines are those of
 * rmqcompat.Main, what is told is the same as to ../grpc_node. The end of standard input ends the
 * process.
 */
public final class Main {
    private static final Gson JSON = new GsonBuilder().serializeNulls().create();
    private static final PrintStream ANSWERS = System.out;

    private Main() {
    }

    public static void main(String[] arguments) throws Exception {
        // Libraries print to System.out; only answers may appear on the real one.
        System.setOut(System.err);
        ExecutorService pool = Executors.newFixedThreadPool(4);
        BufferedReader requests =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = requests.readLine()) != null) {
            String[] fields = line.split("\t");
            pool.execute(() -> answer(fields));
        }
        System.exit(0);
    }

    private static void answer(String[] fields) {
        long began = System.nanoTime();
        Map<String, Object> details = Collections.emptyMap();
        String error = null;
        try {
            details = Clients.run(fields[1], given(fields));
        } catch (Throwable failure) {
            StringWriter text = new StringWriter();
            failure.printStackTrace(new PrintWriter(text));
            error = text.toString();
        }
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("id", fields[0]);
        result.put("name", fields[1]);
        result.put("ok", error == null);
        result.put("error", error);
        result.put("details", details);
        result.put("seconds", (System.nanoTime() - began) / 1_000_000 / 1000.0);
        String text = JSON.toJson(result);
        synchronized (ANSWERS) {
            ANSWERS.println(text);
            ANSWERS.flush();
        }
    }

    private static Map<String, String> given(String[] fields) {
        Map<String, String> given = new TreeMap<>();
        for (int i = 2; i < fields.length; i++) {
            int equals = fields[i].indexOf('=');
            given.put(fields[i].substring(0, equals),
                URLDecoder.decode(fields[i].substring(equals + 1), StandardCharsets.UTF_8));
        }
        return given;
    }
}
