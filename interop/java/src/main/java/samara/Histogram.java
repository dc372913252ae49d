package samara;

/** Microseconds in buckets that are 1.6 % wide: those of examples/throughput/histogram.rs in samara-net. */
final class Histogram {
    /** How many bits of a value below its highest one are kept: 64 buckets to an octave. */
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
