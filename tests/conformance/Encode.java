import java.io.PrintWriter;
import java.lang.reflect.Method;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.listener.ConsumeReturnType;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.trace.TraceBean;
import org.apache.rocketmq.client.trace.TraceContext;
import org.apache.rocketmq.client.trace.TraceDataEncoder;
import org.apache.rocketmq.client.trace.TraceTransferBean;
import org.apache.rocketmq.client.trace.TraceType;
import org.apache.rocketmq.common.message.MessageType;

/**
 * Encodes trace contexts and decodes bodies with the release of the client that is on the class path.
 *
 * <p>Arguments: a file of requests and one for the answers. Both hold lines of words with a tab between them,
 * each word URL-encoded. A property is name=value, or its name alone for null. Requests are
 *
 * <pre>
 * body name      then its contexts, each followed by its beans
 * context …      the properties of a TraceContext
 * bean …         the properties of a TraceBean
 * wire name body a body as it is, to decode
 * </pre>
 *
 * <p>Answers repeat a body's name with what was encoded, its keys, and what the release's decoder makes of it:
 * contexts and beans again, or the class of what it threw. Properties are found by reflection: releases differ in
 * what they have, and one that a release has not is an error.
 */
public final class Encode {
    private static PrintWriter answers;
    private static String name;
    private static List<TraceContext> contexts;

    public static void main(String[] args) throws Exception {
        answers = new PrintWriter(args[1], StandardCharsets.UTF_8);
        for (Class<? extends Enum<?>> type :
                List.of(TraceType.class, MessageType.class, ConsumeReturnType.class, LocalTransactionState.class)) {
            answer("enum", type.getSimpleName(), names(type));
        }
        TraceContext fresh = new TraceContext();
        fresh.setTraceType(TraceType.Pub);
        fresh.setTraceBeans(List.of(new TraceBean()));
        answer("body", "fresh", "");
        describe(List.of(fresh));
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            request(line.split("\t"));
        }
        encode();
        answers.close();
    }

    private static void request(String[] words) throws Exception {
        switch (words[0]) {
            case "context" -> {
                TraceContext context = new TraceContext();
                context.setTraceBeans(new ArrayList<>());
                set(context, words);
                contexts.add(context);
            }
            case "bean" -> {
                TraceBean bean = new TraceBean();
                set(bean, words);
                contexts.get(contexts.size() - 1).getTraceBeans().add(bean);
            }
            case "body" -> {
                encode();
                name = decoded(words[1]);
                contexts = new ArrayList<>();
            }
            case "wire" -> {
                encode();
                answer("body", decoded(words[1]), decoded(words[2]));
                decode(decoded(words[2]));
            }
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    /** One body of the contexts since the last, as AsyncTraceDispatcher makes it: one after the other. */
    private static void encode() throws Exception {
        if (contexts == null) {
            return;
        }
        StringBuilder body = new StringBuilder();
        Set<String> keys = new TreeSet<>();
        for (TraceContext context : contexts) {
            TraceTransferBean encoded = TraceDataEncoder.encoderFromContextBean(context);
            body.append(encoded.getTransData());
            keys.addAll(encoded.getTransKey());
        }
        contexts = null;
        answer("body", name, body.toString());
        answer("keys", keys.toArray(new String[0]));
        decode(body.toString());
    }

    private static void decode(String body) throws Exception {
        List<TraceContext> found;
        try {
            found = TraceDataEncoder.decoderFromTraceDataString(body);
        } catch (RuntimeException error) {
            answer("threw", error.getClass().getSimpleName());
            return;
        }
        describe(found);
    }

    private static void describe(List<TraceContext> found) throws Exception {
        for (TraceContext context : found) {
            answer("context", properties(context));
            for (TraceBean bean : context.getTraceBeans()) {
                answer("bean", properties(bean));
            }
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void set(Object target, String[] words) throws Exception {
        for (int n = 1; n < words.length; n++) {
            String[] property = words[n].split("=", -1);
            Method setter = setter(target, property[0]);
            Class<?> type = setter.getParameterTypes()[0];
            String value = property.length == 1 ? null : decoded(property[1]);
            Object argument = value;
            if (value != null && type == int.class) {
                argument = Integer.valueOf(value);
            } else if (value != null && type == long.class) {
                argument = Long.valueOf(value);
            } else if (value != null && type == boolean.class) {
                argument = Boolean.valueOf(value);
            } else if (value != null && type.isEnum()) {
                argument = Enum.valueOf((Class<Enum>) type, value);
            }
            setter.invoke(target, argument);
        }
    }

    private static Method setter(Object target, String property) throws NoSuchMethodException {
        for (Method method : target.getClass().getMethods()) {
            if (method.getName().equalsIgnoreCase("set" + property) && method.getParameterCount() == 1) {
                return method;
            }
        }
        throw new NoSuchMethodException("no " + property + " in " + target.getClass().getSimpleName());
    }

    /** What every getter returns, except the beans of a context. */
    private static String[] properties(Object source) throws Exception {
        List<String> found = new ArrayList<>();
        Method[] methods = source.getClass().getDeclaredMethods();
        java.util.Arrays.sort(methods, Comparator.comparing(Method::getName));
        for (Method method : methods) {
            String property = method.getName().replaceFirst("^(get|is)(?=[A-Z])", "");
            boolean isGetter = method.getParameterCount() == 0 && !property.equals(method.getName());
            if (isGetter && !property.equals("TraceBeans")) {
                Object value = method.invoke(source);
                String text = value == null ? "" : "=" + encoded(value.toString());
                found.add(Character.toLowerCase(property.charAt(0)) + property.substring(1) + text);
            }
        }
        return found.toArray(new String[0]);
    }

    private static String names(Class<? extends Enum<?>> type) {
        List<String> found = new ArrayList<>();
        for (Enum<?> constant : type.getEnumConstants()) {
            found.add(constant.name());
        }
        return String.join(" ", found);
    }

    private static void answer(String kind, String... words) {
        StringBuilder line = new StringBuilder(kind);
        boolean isProperties = kind.equals("context") || kind.equals("bean");
        for (String word : words) {
            line.append('\t').append(isProperties ? word : encoded(word));
        }
        answers.println(line);
    }

    private static String encoded(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8);
    }

    private static String decoded(String text) {
        return URLDecoder.decode(text, StandardCharsets.UTF_8);
    }
}
