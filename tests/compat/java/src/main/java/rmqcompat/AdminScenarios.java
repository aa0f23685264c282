package rmqcompat;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * Scenario "admin_call": one method of DefaultMQAdminExt (of rocketmq-tools, by reflection) that no
 * mqadmin command calls. Arguments a0, a1 .. are texts that become what the method takes; a set of
 * texts is written with commas. The result is answered as text, maps sorted by their keys' text.
 */
final class AdminScenarios {
    private AdminScenarios() {
    }

    static void register(Map<String, Scenario> table) {
        table.put("admin_call", AdminScenarios::call);
    }

    private static void call(Context context) throws Exception {
        Class<?> type = Class.forName("org.apache.rocketmq.tools.admin.DefaultMQAdminExt");
        Object admin = type.getConstructor(RPCHook.class).newInstance(context.hook());
        type.getMethod("setNamesrvAddr", String.class).invoke(admin, context.nameServer);
        type.getMethod("setInstanceName", String.class).invoke(admin,
            "admin" + System.nanoTime());
        type.getMethod("start").invoke(admin);
        try {
            List<String> texts = new ArrayList<>();
            for (String word; !(word = context.argument("a" + texts.size(), "\0")).equals("\0"); ) {
                texts.add(word);
            }
            Method method = find(type, context.argument("method"), texts.size());
            Object result;
            try {
                result = method.invoke(admin, values(method.getParameterTypes(), texts));
            } catch (InvocationTargetException failed) {
                context.detail("failure", String.valueOf(failed.getCause()));
                return;
            }
            context.detail("result", text(result));
        } finally {
            type.getMethod("shutdown").invoke(admin);
        }
    }

    private static Method find(Class<?> type, String name, int parameters) throws Exception {
        for (Method method : type.getMethods()) {
            if (method.getName().equals(name) && method.getParameterCount() == parameters
                && Arrays.stream(method.getParameterTypes()).allMatch(AdminScenarios::known)) {
                return method;
            }
        }
        throw new NoSuchMethodException(name + " with " + parameters + " parameters");
    }

    private static boolean known(Class<?> type) {
        return type == String.class || type == long.class || type == Long.class
            || type == int.class || type == Integer.class || type == boolean.class
            || type == Set.class;
    }

    private static Object[] values(Class<?>[] types, List<String> texts) {
        Object[] values = new Object[types.length];
        for (int i = 0; i < types.length; i++) {
            String text = texts.get(i);
            if (text.equals("null")) {
                values[i] = null;
            } else if (types[i] == long.class || types[i] == Long.class) {
                values[i] = Long.valueOf(text);
            } else if (types[i] == int.class || types[i] == Integer.class) {
                values[i] = Integer.valueOf(text);
            } else if (types[i] == boolean.class) {
                values[i] = Boolean.valueOf(text);
            } else if (types[i] == Set.class) {
                values[i] = new HashSet<>(Arrays.asList(text.split(",")));
            } else {
                values[i] = text;
            }
        }
        return values;
    }

    private static String text(Object value) throws Exception {
        if (value instanceof Map) {
            Map<String, String> sorted = new TreeMap<>();
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                sorted.put(text(entry.getKey()), text(entry.getValue()));
            }
            return sorted.toString();
        }
        if (value instanceof Iterable) {
            List<String> texts = new ArrayList<>();
            for (Object each : (Iterable<?>) value) {
                texts.add(text(each));
            }
            return texts.toString();
        }
        if (value != null && value.getClass().getName().contains("QueueTimeSpan")) {
            return String.join(" ", text(value.getClass().getMethod("getMessageQueue").invoke(value)),
                text(value.getClass().getMethod("getMinTimeStamp").invoke(value)),
                text(value.getClass().getMethod("getMaxTimeStamp").invoke(value)),
                text(value.getClass().getMethod("getConsumeTimeStamp").invoke(value)),
                text(value.getClass().getMethod("getDelayTime").invoke(value)));
        }
        return String.valueOf(value);
    }
}
