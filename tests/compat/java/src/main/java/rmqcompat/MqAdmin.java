package rmqcompat;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Scenario "mqadmin": runs one mqadmin command (arguments a0, a1, ...) inside this JVM and answers with
 * what it printed. Only with the jar of rocketmq-tools on the class path. Standard output belongs to
 * the whole process, so commands run one after the other.
 */
final class MqAdmin {
    private MqAdmin() {
    }

    static void register(Map<String, Scenario> table) {
        table.put("mqadmin", MqAdmin::run);
    }

    private static synchronized void run(Context context) throws Exception {
        List<String> words = new ArrayList<>();
        for (String word; !(word = context.argument("a" + words.size(), "\0")).equals("\0"); ) {
            words.add(word);
        }
        System.setProperty("rocketmq.namesrv.addr", context.nameServer);
        Class<?> admin = Class.forName("org.apache.rocketmq.tools.command.MQAdminStartup");
        // Commands keep clients in their fields and main0 adds a new set of commands at each call.
        Field commands = admin.getDeclaredField("SUB_COMMANDS");
        commands.setAccessible(true);
        ((List<?>) commands.get(null)).clear();
        Method main = null;
        for (Method method : admin.getMethods()) {
            main = method.getName().equals("main0") ? method : main;
        }
        PrintStream out = System.out;
        PrintStream err = System.err;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream capture = new PrintStream(printed, true, "UTF-8");
        System.setOut(capture);
        System.setErr(capture);
        try {
            main.invoke(null, words.toArray(new String[0]), context.hook());
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
        context.detail("output", printed.toString("UTF-8"));
    }
}
