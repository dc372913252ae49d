package samara;

import java.nio.ByteBuffer;
import java.time.Instant;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;

/**
 * The messages that a member has received. Those of one sender arrive sequentially, those of
 * several senders concurrently.
 */
final class Tally {
    /**
     * Size of a payload's header: sender (1 byte), number (8), and due time in nanoseconds since
     * 1970 (8).
     */
    static final int HEADER_BYTES = 17;

    private final Histogram[] latencies;
    /**
     * By sender, the number of received messages. Below, the number of messages that were out of
     * order.
     */
    final AtomicLongArray received;
    final AtomicLong disordered = new AtomicLong();
    private final AtomicLong total = new AtomicLong();

    /** Number of messages that triggers {@code whenAll}. After that, it is out of reach again. */
    private final AtomicLong expected = new AtomicLong(Long.MAX_VALUE);
    private volatile Runnable whenAll;

    private final Object gapLock = new Object();
    private long lastNanos = System.nanoTime();
    private long longestGapNanos;

    Tally(int members) {
        latencies = new Histogram[members];
        for (int i = 0; i < members; i++) {
            latencies[i] = new Histogram();
        }
        received = new AtomicLongArray(members);
    }

    static long unixNanos() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000_000L + now.getNano();
    }

    static byte[] payload(int bytes, int sender, long number, long dueNanos) {
        byte[] data = new byte[Math.max(bytes, HEADER_BYTES)];
        ByteBuffer.wrap(data).put((byte) sender).putLong(number).putLong(dueNanos);
        return data;
    }

    void take(byte[] data, int offset) {
        ByteBuffer header = ByteBuffer.wrap(data, offset, HEADER_BYTES);
        int sender = header.get();
        long number = header.getLong();
        long dueNanos = header.getLong();
        if (received.getAndIncrement(sender) != number) {
            disordered.incrementAndGet();
        }
        latencies[sender].add((unixNanos() - dueNanos) / 1000);
        long now = System.nanoTime();
        synchronized (gapLock) {
            longestGapNanos = Math.max(longestGapNanos, now - lastNanos);
            lastNanos = now;
        }
        total.incrementAndGet();
        check();
    }

    private void check() {
        long target = expected.get();
        if (total.get() >= target && expected.compareAndSet(target, Long.MAX_VALUE)) {
            whenAll.run();
        }
    }

    /** Runs a task once this number of messages have arrived since the start. */
    void expect(long messages, Runnable then) {
        whenAll = then;
        expected.set(messages);
        check();
    }

    /**
     * The longest time without a message since the last call, including the time since the last
     * message.
     */
    long drainGapNanos() {
        synchronized (gapLock) {
            long now = System.nanoTime();
            long longest = Math.max(longestGapNanos, now - lastNanos);
            longestGapNanos = 0;
            lastNanos = now;
            return longest;
        }
    }

    String drainLatencies() {
        StringBuilder text = new StringBuilder("latencies");
        for (Histogram histogram : latencies) {
            histogram.drainTo(text);
        }
        return text.toString();
    }
}
