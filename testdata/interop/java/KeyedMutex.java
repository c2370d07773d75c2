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
 * Curator's mutex for a key of a locktree family of mutexes (docs/keyed.md). The family must be declared with {@code foreign = true}.
 * The first contender creates the key's node, a container, in the transaction that creates the contender. The last contender deletes the
 * key's node, even if another program created it. A Java team copies this file and KeyNames.java, and replaces OPEN_ACL_UNSAFE by its
 * access list. The framework must have no namespace. As with any lock, Curator's programs do not read declarations, so they do not
 * notice when a family is drained.
 */
public final class KeyedMutex extends InterProcessMutex {
    private final CuratorFramework client;
    private final String node;
    private int entered; // how often the holding thread has acquired it; only that thread reads and writes this

    /** fanout is as the family declares it: 0, 16 or 256. */
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
                leave(); // the holder may have left while our contender was there
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
        super.release(); // it accepts that the contender is gone
        if (!together && !isOwnedByCurrentThread()) {
            leave();
        }
    }

    /** Deletes the contender and the key's node, or neither if another contender has queued. */
    private boolean deleteTogether(String contender) throws Exception {
        try {
            client.getZookeeperClient().getZooKeeper().multi(Arrays.asList(Op.delete(contender, -1), Op.delete(node, -1)));
            return true;
        } catch (KeeperException e) {
            return false; // release then deletes them one by one, with Curator's retries
        }
    }

    /** Deletes the key's node if it has no contender. */
    private void leave() throws Exception {
        try {
            client.delete().forPath(node);
        } catch (KeeperException.NotEmptyException | KeeperException.NoNodeException e) {
            // Another contender is the last.
        }
    }

    /** Creates a contender together with the key's node. */
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
                    String own = find(client, prefix); // the server may have created it
                    if (own != null) {
                        return own;
                    }
                    continue;
                }
                try {
                    return client.create().withProtection().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath(path, bytes);
                } catch (KeeperException.NoNodeException e) {
                    // The last contender has left. The loop ends: each retry means that another contender came and went.
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
                // Without the node there is no contender.
            }
            return null;
        }
    }
}
