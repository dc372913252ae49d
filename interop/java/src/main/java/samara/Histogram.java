package samara;

/**
 * Counts microseconds in buckets that are 1.6 % wide, the same as in
 * examples/throughput/histogram.rs of samara-net.
 */
final class Histogram {
    /** Number of bits kept below the highest bit of a value: 64 buckets per octave. */
    private static final int MANTISSA_BITS = 6;

    private final long[] counts = new long[bucket(Long.MAX_VALUE) + 1];

    private static int bucket(long value) {
        if (value < 2L << MANTISSA_BITS) {
            return (int) value;
        }
        int shift = 63 - Long.numberOfLeadingZeros(value) - MANTISSA_BITS;
        return (shift << MANTISSA_BITS) + (int) (value >> shift);
    }

    void add(long value) {
        counts[bucket(Math.max(value, 0))]++;
    }

    /** Appends {@code bucket:count} for every bucket that is not empty, and empties them. */
    void drainTo(StringBuilder text) {
        for (int bucket = 0; bucket < counts.length; bucket++) {
            if (counts[bucket] > 0) {
                text.append(' ').append(bucket).append(':').append(counts[bucket]);
                counts[bucket] = 0;
            }
        }
    }
}
