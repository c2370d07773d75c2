import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;

import org.apache.curator.framework.CuratorFramework;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

/**
 * HANDLE OWNER COUNTER GRANTS [stop=N]: takes the lock GRANTS times, and each time adds one to the counter, by a read and
 * an unversioned write. Only the lock makes them one step. The owner node is empty while the lock is free.
 * With stop=N it halts for ever in grant N, after the write and before the acknowledgement: the worst moment for a kill.
 */
final class Soak {
    private final Peer peer;
    private final CuratorFramework zk;
    private final Handle handle;
    private final String owner;
    private final String counter;
    private final int grants;
    private final int stop;

    Soak(Peer peer, Handle handle, String[] args) {
        this.peer = peer;
        this.zk = peer.curator();
        this.handle = handle;
        owner = args[1];
        counter = args[2];
        grants = Integer.parseInt(args[3]);
        stop = args.length > 4 ? Integer.parseInt(args[4].substring("stop=".length())) : 0;
    }

    String run() throws Exception {
        for (int i = 1; i <= grants; i++) {
            String node = handle.acquire(-1);
            hold(node, i == stop);
            handle.release();
        }
        return "ok";
    }

    private void hold(String node, boolean stopHere) throws Exception {
        Stat contender = zk.checkExists().forPath(node);
        if (contender == null) {
            throw new IllegalStateException("granted without a contender: " + node);
        }
        String before = read(owner);
        String heir = before.isEmpty() ? "-" : inherit(before);
        Stat mine = zk.setData().forPath(owner, (peer.id() + " " + node).getBytes(StandardCharsets.UTF_8));

        long value = Long.parseLong(read(counter)) + 1;
        zk.setData().forPath(counter, Long.toString(value).getBytes(StandardCharsets.UTF_8));
        if (stopHere) {
            peer.say("- stopped " + value);
            new CountDownLatch(1).await();
        }
        peer.say("- grant " + value + " " + contender.getCzxid() + " " + node + " " + heir);
        try {
            zk.setData().withVersion(mine.getVersion()).forPath(owner, new byte[0]);
        } catch (KeeperException.BadVersionException e) {
            throw new IllegalStateException("overlap: " + read(owner) + " entered while " + node + " held");
        }
    }

    /** A name in the owner node is that of a holder that died. If its contender still exists, two hold the lock. */
    private String inherit(String before) throws Exception {
        String[] words = before.split(" ");
        if (zk.checkExists().forPath(words[1]) != null) {
            throw new IllegalStateException("overlap: " + before + " still holds");
        }
        return words[0];
    }

    private String read(String path) throws Exception {
        return new String(zk.getData().forPath(path), StandardCharsets.UTF_8);
    }
}
