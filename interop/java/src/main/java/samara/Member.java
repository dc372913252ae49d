package samara;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.Receiver;
import org.jgroups.protocols.DAISYCHAIN;
import org.jgroups.protocols.TCPPING;
import org.jgroups.protocols.TP;
import org.jgroups.protocols.pbcast.GMS;
import org.jgroups.stack.ProtocolStack;

/**
 * A member of a JGroups cluster as a process. It reads commands as lines from standard input, and
 * answers each with a line on standard output. It stops when its input ends. {@code
 * examples/daisychain/member.rs} of samara-family-group does the same with samara-ring.
 *
 * <p>The stack is the unchanged {@code tcp.xml} of JGroups with TCPPING for discovery. {@code
 * daisychain} adds DAISYCHAIN directly above the transport.
 *
 * <p>Arguments: {@code tcp|daisychain INDEX MEMBER...}, where a member is {@code address:port}.
 */
public final class Member implements Receiver {
    private final Tally tally;
    private final Sender sender;
    private final JChannel channel;

    private Member(String stack, int index, List<InetSocketAddress> members) throws Exception {
        tally = new Tally(members.size());
        channel = new JChannel("tcp.xml");
        ProtocolStack protocols = channel.getProtocolStack();
        TP transport = protocols.getTransport();
        InetSocketAddress own = members.get(index);
        transport.setBindAddress(own.getAddress());
        transport.setBindPort(own.getPort());
        TCPPING discovery = protocols.findProtocol(TCPPING.class);
        discovery.setInitialHosts(members);
        if (stack.equals("daisychain")) {
            DAISYCHAIN daisychain = new DAISYCHAIN();
            protocols.insertProtocol(daisychain, ProtocolStack.Position.ABOVE, TP.class);
            daisychain.init();
        }
        // It would print to standard output, between answers.
        GMS membership = protocols.findProtocol(GMS.class);
        membership.printLocalAddress(false);
        channel.setReceiver(this);
        sender = new Sender(channel, index);
    }

    @Override
    public void receive(Message message) {
        tally.take(message.getArray(), message.getOffset());
    }

    public static void main(String[] arguments) throws Exception {
        List<InetSocketAddress> members = new ArrayList<>();
        for (int i = 2; i < arguments.length; i++) {
            int colon = arguments[i].lastIndexOf(':');
            InetAddress host = InetAddress.getByName(arguments[i].substring(0, colon));
            members.add(new InetSocketAddress(host, Integer.parseInt(arguments[i].substring(colon + 1))));
        }
        Member member = new Member(arguments[0], Integer.parseInt(arguments[1]), members);
        member.channel.connect("head-to-head");
        writeLine("joined");
        member.serve();
        // Does not close the channel, since the parent process is gone.
        Runtime.getRuntime().halt(0);
    }

    private static synchronized void writeLine(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private void serve() throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "members" -> writeLine("members " + channel.getView().size());
                case "send" -> send(words);
                case "flow" -> {
                    sender.start(Long.MAX_VALUE, Integer.parseInt(words[1]), Double.parseDouble(words[2]));
                    writeLine("flowing");
                }
                case "halt" -> writeLine("halted " + sender.halt());
                case "gap" -> writeLine("gap " + tally.drainGapNanos());
                case "counts" -> writeLine(counts());
                case "latencies" -> writeLine(tally.drainLatencies());
                case "leave" -> {
                    channel.close();
                    writeLine("left");
                    return;
                }
                default -> throw new IllegalArgumentException("unknown command " + line);
            }
        }
    }

    /**
     * {@code send COUNT BYTES RATE EXPECTED}: answered once EXPECTED messages have arrived since
     * the start of the member.
     */
    private void send(String[] words) {
        long count = Long.parseLong(words[1]);
        long start = System.nanoTime();
        tally.expect(Long.parseLong(words[4]), () -> writeLine("done " + (System.nanoTime() - start)));
        if (count > 0) {
            sender.start(count, Integer.parseInt(words[2]), Double.parseDouble(words[3]));
        }
    }

    private String counts() {
        StringBuilder text = new StringBuilder("counts ").append(tally.disordered.get());
        for (int i = 0; i < tally.received.length(); i++) {
            text.append(' ').append(tally.received.get(i));
        }
        return text.toString();
    }
}
