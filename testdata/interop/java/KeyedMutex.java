import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.TimeUnit;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.StandardLockInternalsDriver;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;

/**
 * Curator's mutex for a key of a locktree family of mutexes (docs/keyed.md) that is declared with {@code foreign = true}. Its first
 * contender makes the node of the key, a container, in one transaction with itself. Its last one takes it along, also where another
 * program made it. A Java team copies this file and KeyNames.java, and puts its access list where OPEN_ACL_UNSAFE stands. The framework must have no
 * namespace. A family that is being drained is not noticed: as with any lock, Curator's programs do not read declarations.
 */
public final class KeyedMutex extends InterProcessMutex {
    private final CuratorFramework client;
    private final String node;
    private int entered; // by the thread that holds it, which alone reads and writes this

    /** fanout is what the family declares: 0, 16 or 256. */
    public KeyedMutex(CuratorFramework client, String family, String key, int fanout) {
        this(client, KeyNames.path(family, key, fanout));
    }

    private KeyedMutex(CuratorFramework client, String node) {
        super(client, node, new Together(node));
        this.client = client;
        this.node = node;
    }

    @Override
    public void acquire() throws Exception {
        acquire(-1, null);
    }

    @Override
    public boolean acquire(long time, TimeUnit unit) throws Exception {
        boolean got = false;
        try {
            if (unit == null) {
                super.acquire();
                got = true;
            } else {
                got = super.acquire(time, unit);
            }
        } finally {
            if (got) {
                entered++;
            } else if (!isOwnedByCurrentThread()) {
                leave(); // whoever held it may have gone while our contender was there
            }
        }
        return got;
    }

    @Override
    public void release() throws Exception {
        boolean together = false;
        if (isOwnedByCurrentThread() && --entered == 0) {
            together = deleteTogether(getLockPath());
        }
        super.release(); // which does not mind if the contender is gone
        if (!together && !isOwnedByCurrentThread()) {
            leave();
        }
    }

    /** Deletes the contender and the node of the key, or neither: somebody has queued. */
    private boolean deleteTogether(String contender) throws Exception {
        try {
            client.getZookeeperClient().getZooKeeper().multi(Arrays.asList(Op.delete(contender, -1), Op.delete(node, -1)));
            return true;
        } catch (KeeperException e) {
            return false; // what is left to be done is done one by one, with Curator's retries
        }
    }

    /** Deletes the node of the key if nobody is in it. */
    private void leave() throws Exception {
        try {
            client.delete().forPath(node);
        } catch (KeeperException.NotEmptyException | KeeperException.NoNodeException e) {
            // Somebody else is the last.
        }
    }

    /** Makes a contender, and with it the node that it is in. */
    private static final class Together extends StandardLockInternalsDriver {
        private final String node;

        Together(String node) {
            this.node = node;
        }

        @Override
        public String createsTheLock(CuratorFramework client, String path, byte[] data) throws Exception {
            byte[] bytes = data == null ? new byte[0] : data;
            String prefix = "_c_" + UUID.randomUUID() + "-lock-";
            for (;;) {
                try {
                    ZooKeeper zk = client.getZookeeperClient().getZooKeeper();
                    List<OpResult> made = zk.multi(Arrays.asList(
                            Op.create(node, new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.CONTAINER),
                            Op.create(node + "/" + prefix, bytes, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL_SEQUENTIAL)));
                    return ((OpResult.CreateResult) made.get(1)).getPath();
                } catch (KeeperException.NodeExistsException e) {
                    // The key is in use.
                } catch (KeeperException.ConnectionLossException e) {
                    String own = find(client, prefix); // it may have been made
                    if (own != null) {
                        return own;
                    }
                    continue;
                }
                try {
                    return client.create().withProtection().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath(path, bytes);
                } catch (KeeperException.NoNodeException e) {
                    // Its last contender has gone: another one came and went, so this ends.
                }
            }
        }

        private String find(CuratorFramework client, String prefix) throws Exception {
            try {
                for (String name : client.getChildren().forPath(node)) {
                    if (name.startsWith(prefix)) {
                        return node + "/" + name;
                    }
                }
            } catch (KeeperException.NoNodeException e) {
                // Then we are not in it.
            }
            return null;
        }
    }
}
