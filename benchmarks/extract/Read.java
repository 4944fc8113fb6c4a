import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayDeque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullCallback;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Reads ranges of one queue with the official client, over its one connection to the broker.
 *
 * <p>Arguments: how (pull, lite or async), nameserver, topic, broker. Says READY, then answers each line
 * "start end" with "DONE messages bytes", the bodies as the client gives them out, inflated.
 */
public final class Read {
    private static final int MOST_A_PULL = 32; // the broker gives no more, whatever it is asked for
    private static final int IN_FLIGHT = 32;
    private static final int NEVER_PAUSE = 1_000_000;

    private interface Reader {
        void read(long start, long end, Sum sum) throws Exception;
    }

    private static final class Sum {
        private long messages;
        private long bytes;

        void add(MessageExt message) {
            messages++;
            bytes += message.getBody().length;
        }
    }

    public static void main(String[] args) throws Exception {
        MessageQueue queue = new MessageQueue(args[2], args[3], 0);
        Reader reader = switch (args[0]) {
            case "pull" -> pull(args[1], queue);
            case "lite" -> lite(args[1], queue);
            default -> async(args[1], queue);
        };
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("READY");
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            Sum sum = new Sum();
            reader.read(Long.parseLong(words[0]), Long.parseLong(words[1]), sum);
            System.out.println("DONE " + sum.messages + " " + sum.bytes);
        }
        Runtime.getRuntime().halt(0);
    }

    /** One pull after the other, as its examples do. */
    private static Reader pull(String namesrv, MessageQueue queue) throws Exception {
        DefaultMQPullConsumer consumer = puller(namesrv, "bench_pull");
        return (start, end, sum) -> inTurn(consumer, queue, start, end, sum);
    }

    private static void inTurn(DefaultMQPullConsumer consumer, MessageQueue queue, long start, long end, Sum sum)
            throws Exception {
        for (long next = start; next < end; ) {
            PullResult result = found(consumer.pull(queue, "*", next, count(next, end)));
            result.getMsgFoundList().forEach(sum::add);
            next = result.getNextBeginOffset();
        }
    }

    /** The consumer that pulls ahead by itself; its limits are set so that it never pauses for being too far ahead. */
    private static Reader lite(String namesrv, MessageQueue queue) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer("bench_lite");
        consumer.setNamesrvAddr(namesrv);
        consumer.setAutoCommit(false);
        consumer.setPullBatchSize(MOST_A_PULL);
        consumer.setPullThresholdForAll(NEVER_PAUSE);
        consumer.setPullThresholdForQueue(NEVER_PAUSE);
        consumer.setPullThresholdSizeForQueue(NEVER_PAUSE);
        consumer.setConsumeMaxSpan(NEVER_PAUSE);
        consumer.start();
        consumer.assign(List.of(queue));
        return (start, end, sum) -> {
            consumer.seek(queue, start);
            for (long next = start; next < end; ) {
                for (MessageExt message : consumer.poll(5000)) {
                    if (message.getQueueOffset() == next && next < end) {
                        sum.add(message);
                        next++;
                    }
                }
            }
        };
    }

    /** Pulls with a callback, several at once: what our client does, written by hand for the official one. */
    private static Reader async(String namesrv, MessageQueue queue) throws Exception {
        DefaultMQPullConsumer consumer = puller(namesrv, "bench_async");
        return (start, end, sum) -> {
            ArrayDeque<CompletableFuture<PullResult>> inFlight = new ArrayDeque<>();
            long next = start;
            for (long done = start; done < end; ) {
                while (next < end && inFlight.size() < IN_FLIGHT) {
                    CompletableFuture<PullResult> answer = new CompletableFuture<>();
                    consumer.pull(queue, "*", next, count(next, end), new PullCallback() {
                        @Override
                        public void onSuccess(PullResult result) {
                            answer.complete(result);
                        }

                        @Override
                        public void onException(Throwable error) {
                            answer.completeExceptionally(error);
                        }
                    });
                    inFlight.add(answer);
                    next += count(next, end);
                }
                PullResult result = found(inFlight.poll().get());
                result.getMsgFoundList().forEach(sum::add);
                done += count(done, end);
                inTurn(consumer, queue, result.getNextBeginOffset(), done, sum); // an answer may hold less than asked for
            }
        };
    }

    private static DefaultMQPullConsumer puller(String namesrv, String group) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.start();
        return consumer;
    }

    private static int count(long next, long end) {
        return (int) Math.min(MOST_A_PULL, end - next);
    }

    private static PullResult found(PullResult result) {
        if (result.getPullStatus() != PullStatus.FOUND) {
            throw new IllegalStateException(result.toString());
        }
        return result;
    }
}
