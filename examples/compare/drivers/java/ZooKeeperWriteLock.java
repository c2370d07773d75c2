import java.util.ArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.recipes.lock.LockListener;
import org.apache.zookeeper.recipes.lock.WriteLock;

/** The lock that comes with ZooKeeper. It does not block: its listener is called when the lock is there. */
public final class ZooKeeperWriteLock implements Driver {
    @Override
    public Client dial(String servers) throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        AtomicReference<KeeperState> state = new AtomicReference<>();
        ZooKeeper zk = new ZooKeeper(servers, Integer.getInteger("ttl"), e -> {
            state.set(e.getState());
            if (e.getState() == KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        connected.await();
        create(zk, "/writelock");
        return new Client() {
            @Override
            public Locker locker(String kind, String[] names, int permits) throws Exception {
                create(zk, "/writelock/" + names[0]);
                return !kind.equals("mutex") ? null : new WriteLocker(zk, "/writelock/" + names[0]);
            }

            @Override
            public Doubt doubt() {
                return state.get() == KeeperState.Expired ? Doubt.LOST : state.get() == KeeperState.SyncConnected ? Doubt.NONE : Doubt.UNKNOWN;
            }

            @Override
            public void close() throws Exception { zk.close(); }
        };
    }

    private static void create(ZooKeeper zk, String path) throws Exception {
        try {
            zk.create(path, null, new ArrayList<>(Ids.OPEN_ACL_UNSAFE), CreateMode.PERSISTENT);
        } catch (KeeperException.NodeExistsException e) {
            // another client was first
        }
    }

    private static final class WriteLocker implements Driver.Locker, LockListener {
        private final Semaphore acquired = new Semaphore(0);
        private final WriteLock lock;

        WriteLocker(ZooKeeper zk, String path) {
            lock = new WriteLock(zk, path, new ArrayList<>(Ids.OPEN_ACL_UNSAFE), this);
        }

        @Override
        public void lock() throws Exception {
            acquired.drainPermits();
            lock.lock();
            // It waits for nobody when the one before it goes between its listing and its look at that node, so it is
            // asked again; without that a crowd soon stands still for ever.
            while (!acquired.tryAcquire(1, TimeUnit.SECONDS)) {
                lock.lock();
            }
        }

        @Override
        public void unlock() { lock.unlock(); }

        @Override
        public void lockAcquired() { acquired.release(); }
        @Override
        public void lockReleased() {}
    }
}
