package samara;

import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.jgroups.BytesMessage;
import org.jgroups.JChannel;

/** The only sending thread. Flow control is that of the stack: {@link JChannel#send} blocks. */
final class Sender {
    private final JChannel channel;
    private final int index;
    private final AtomicLong sent = new AtomicLong();
    private volatile boolean halted;
    private Thread thread;

    Sender(JChannel channel, int index) {
        this.channel = channel;
        this.index = index;
    }

    /**
     * Sends this number of messages at a rate, or as fast as the stack accepts them if the rate is
     * 0.
     */
    void start(long count, int bytes, double perSecond) {
        halted = false;
        thread = new Thread(() -> run(count, bytes, perSecond), "sender");
        thread.start();
    }

    private void run(long count, int bytes, double perSecond) {
        long start = System.nanoTime();
        long startUnix = Tally.unixNanos();
        try {
            for (long i = 0; i < count && !halted; i++) {
                long due = Tally.unixNanos();
                if (perSecond > 0) {
                    long offset = (long) (i * 1e9 / perSecond);
                    long wait = start + offset - System.nanoTime();
                    if (wait > 0) {
                        LockSupport.parkNanos(wait);
                    }
                    due = startUnix + offset;
                }
                channel.send(new BytesMessage(null, Tally.payload(bytes, index, sent.get(), due)));
                sent.incrementAndGet();
            }
        } catch (Exception e) {
            System.err.println("sending failed: " + e);
        }
    }

    /** Stops, and returns the total number of sent messages. */
    long halt() throws InterruptedException {
        halted = true;
        if (thread != null) {
            thread.join();
        }
        return sent.get();
    }
}
