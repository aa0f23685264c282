package rmqcompat;

import java.util.Collection;
import java.util.Iterator;
import java.util.Map;

/** Writes maps, collections, strings, numbers and booleans as JSON; nothing else is needed here. */
final class Json {
    private Json() {
    }

    static String write(Object value) {
        StringBuilder out = new StringBuilder();
        append(out, value);
        return out.toString();
    }

    private static void append(StringBuilder out, Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else if (value instanceof Map) {
            out.append('{');
            Iterator<? extends Map.Entry<?, ?>> entries = ((Map<?, ?>) value).entrySet().iterator();
            while (entries.hasNext()) {
                Map.Entry<?, ?> entry = entries.next();
                text(out, String.valueOf(entry.getKey()));
                out.append(':');
                append(out, entry.getValue());
                out.append(entries.hasNext() ? "," : "");
            }
            out.append('}');
        } else if (value instanceof Collection) {
            out.append('[');
            Iterator<?> items = ((Collection<?>) value).iterator();
            while (items.hasNext()) {
                append(out, items.next());
                out.append(items.hasNext() ? "," : "");
            }
            out.append(']');
        } else {
            text(out, String.valueOf(value));
        }
    }

    private static void text(StringBuilder out, String value) {
        out.append('"');
        for (int i = 0; i < value.length(); i++) {
            char c = value.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < 0x20 || c > 0x7e) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }
}
