import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.RetryNTimes;

/**
 * A process with many Java clients of locks on one ZooKeeper session. It reads commands line by line, in the language of
 * ../README.md. It runs Apache Curator's recipes as Debian ships them; this class itself locks nothing.
 */
public final class Peer {
    private final String id;
    private final CuratorFramework curator;
    private final Map<String, Handle> handles = new ConcurrentHashMap<>();
    private final PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private Peer(String connect, int sessionMillis, String id) throws InterruptedException {
        this.id = id;
        // By default, Curator writes its address into contenders. The id makes them recognisable.
        curator = CuratorFrameworkFactory.builder().connectString(connect).sessionTimeoutMs(sessionMillis)
                .connectionTimeoutMs(sessionMillis).retryPolicy(new RetryNTimes(3, 100))
                .defaultData(id.getBytes(StandardCharsets.UTF_8)).build();
        curator.start();
        if (!curator.blockUntilConnected(300, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no session at " + connect + " within 300 s");
        }
    }

    public static void main(String[] args) throws Exception {
        Peer peer = new Peer(args[0], Integer.parseInt(args[1]), args[2]);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.trim().split(" +");
            if (words.length < 2) {
                throw new IllegalArgumentException("not a command: " + line);
            }
            peer.obey(words[0], words[1], Arrays.copyOfRange(words, 2, words.length));
        }
        // The end of the input ends the process and its session: without its driver it has no work.
        peer.curator.close();
        System.exit(0);
    }

    /** Writes one whole line at a time: a killed process must not leave half an acknowledgement. */
    void say(String line) {
        synchronized (out) {
            out.println(line);
        }
    }

    String id() {
        return id;
    }

    CuratorFramework curator() {
        return curator;
    }

    /** Runs commands that may wait in the handle's own thread (Curator's locks belong to threads), the others at once. */
    private void obey(String number, String verb, String[] args) {
        Handle handle = args.length == 0 ? null : handles.get(args[0]);
        switch (verb) {
            case "hello":
                reply(number, this::session);
                return;
            case "open":
                reply(number, () -> {
                    handles.put(args[0], Handle.open(this, args[1], args[2], Arrays.copyOfRange(args, 3, args.length)));
                    return "ok";
                });
                return;
            case "auth":
                reply(number, () -> {
                    curator.getZookeeperClient().getZooKeeper().addAuthInfo(args[0], args[1].getBytes(StandardCharsets.UTF_8));
                    return "ok";
                });
                return;
            case "others":
                reply(number, () -> {
                    Others.create(curator, args[0]);
                    return "ok";
                });
                return;
            case "names":
                reply(number, () -> "ok " + Keys.check(args[0]));
                return;
            case "revoke":
                reply(number, () -> {
                    Revoker.attemptRevoke(curator, args[0]);
                    return "ok";
                });
                return;
            default:
        }
        if (handle == null) {
            say(number + " err no command or no handle: " + verb + " " + String.join(" ", args));
            return;
        }
        switch (verb) {
            case "parked":
                reply(number, () -> handle.parked() ? "ok yes" : "ok no");
                break;
            case "participants":
                reply(number, () -> ("ok " + String.join(" ", handle.participants())).trim());
                break;
            case "cancel":
                reply(number, () -> {
                    handle.cancel();
                    return "ok";
                });
                break;
            case "downgrade":
                handle.run(() -> reply(number, () -> {
                    handle.downgrade();
                    return "ok";
                }));
                break;
            case "acquire":
                handle.run(() -> reply(number, () -> handle.acquire(args)));
                break;
            case "release":
                handle.run(() -> reply(number, () -> {
                    handle.release();
                    return "ok";
                }));
                break;
            case "soak":
                handle.run(() -> reply(number, () -> new Soak(this, handle, args).run()));
                break;
            default:
                say(number + " err unknown command " + verb);
        }
    }

    private String session() throws Exception {
        return "ok " + Long.toHexString(curator.getZookeeperClient().getZooKeeper().getSessionId());
    }

    /** The action of a command; its answer begins with "ok" or "held". */
    interface Action {
        String run() throws Exception;
    }

    private void reply(String number, Action action) {
        String answer;
        try {
            answer = action.run();
        } catch (Throwable t) { // also an Error: the driver must get an answer, or it waits on
            t.printStackTrace();
            answer = "err " + t.toString().replace('\n', ' ');
        }
        say(number + " " + answer);
    }
}
