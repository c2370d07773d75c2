import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.recipes.lock.LockListener;
import org.apache.zookeeper.recipes.lock.WriteLock;

/** One way to use one lock, with a thread of its own. */
abstract class Handle {
    private static final String RECIPES = "org.apache.curator.framework.recipes.";
    private volatile Thread thread;
    private final ExecutorService executor = Executors.newSingleThreadExecutor(r -> {
        thread = new Thread(r);
        thread.setDaemon(true);
        return thread;
    });

    static Handle open(Peer peer, String recipe, String path, String[] options) {
        CuratorFramework c = peer.curator();
        switch (recipe) {
            case "mutex":
                return new Stock(peer, path);
            case "keyed": // path: the family; options: the key's UTF-8 in hexadecimal, the fanout
                return new Mutex(new KeyedMutex(c, path, Keys.text(options[0]), Integer.parseInt(options[1])));
            case "revocable": // empties its contender's data and watches it
                return new Stock(peer, path).revocable();
            case "read":
                return new ReadWrite(new InterProcessReadWriteLock(c, path, peer.id().getBytes()), false);
            case "write":
                return new ReadWrite(new InterProcessReadWriteLock(c, path, peer.id().getBytes()), true);
            case "semaphore":
                return new Semaphore(new InterProcessSemaphoreV2(c, path, Integer.parseInt(options[0])), Integer.parseInt(options[1]));
            case "multi":
                return new Multi(c, path, Integer.parseInt(options[0]));
            case "writelock":
                return new ZooKeeperLock(c, path);
            case "latch":
                return new Latch(c, path, peer.id());
            default:
                throw new IllegalArgumentException("no recipe " + recipe);
        }
    }

    void run(Runnable task) {
        executor.execute(task);
    }

    /** HANDLE [timeout=MILLIS]; without a timeout it waits for ever. */
    String acquire(String[] args) throws Exception {
        long millis = -1;
        if (args.length > 1) {
            if (!args[1].startsWith("timeout=")) {
                throw new IllegalArgumentException(args[1]);
            }
            millis = Long.parseLong(args[1].substring("timeout=".length()));
        }
        String node = acquire(millis);
        return node == null ? "held" : "ok " + node;
    }

    /** Returns the contender's path, or null if millis passed; -1 waits for ever. */
    abstract String acquire(long millis) throws Exception;

    abstract void release() throws Exception;

    abstract Collection<String> participants() throws Exception;

    /** Changes a write lock to a read lock, as Curator's documentation describes. */
    void downgrade() throws Exception {
        throw new UnsupportedOperationException("only a writer can become a reader");
    }

    /** Gives up waiting: the acquire under way fails. */
    void cancel() {
        thread.interrupt();
    }

    /**
     * Whether the thread sleeps in the recipe's own wait loop, so that it has decided to wait. If a thread waits for a
     * server's reply, its first frame outside the JDK is in the client library, not in a recipe.
     */
    boolean parked() {
        Thread t = thread;
        if (t == null || t.getState() == Thread.State.RUNNABLE) {
            return false;
        }
        for (StackTraceElement frame : t.getStackTrace()) {
            if (!frame.getClassName().startsWith("java.") && !frame.getClassName().startsWith("jdk.")) {
                return frame.getClassName().startsWith(RECIPES);
            }
        }
        return false;
    }

    /** The lock of a key (KeyedMutex), or another Curator mutex. It does not tell the contender's path. */
    private static class Mutex extends Handle {
        private final InterProcessMutex mutex;

        Mutex(InterProcessMutex mutex) {
            this.mutex = mutex;
        }

        @Override
        String acquire(long millis) throws Exception {
            if (millis < 0) {
                mutex.acquire();
            } else if (!mutex.acquire(millis, TimeUnit.MILLISECONDS)) {
                return null;
            }
            return node();
        }

        String node() {
            return "-";
        }

        @Override
        void release() throws Exception {
            mutex.release();
        }

        @Override
        Collection<String> participants() throws Exception {
            return mutex.getParticipantNodes();
        }
    }

    /** Curator's own mutex. */
    private static final class Stock extends Mutex {
        // Only a subclass may call getLockPath. This one changes nothing.
        private static final class Told extends InterProcessMutex {
            Told(CuratorFramework c, String path) {
                super(c, path);
            }

            String node() {
                return getLockPath();
            }
        }

        private final Peer peer;
        private final Told mutex;
        private volatile String node; // getLockPath answers only the holding thread; a listener runs in another

        Stock(Peer peer, String path) {
            this(peer, new Told(peer.curator(), path));
        }

        private Stock(Peer peer, Told mutex) {
            super(mutex);
            this.peer = peer;
            this.mutex = mutex;
        }

        Stock revocable() {
            mutex.makeRevocable(m -> peer.say("- revoked " + node));
            return this;
        }

        @Override
        String node() {
            node = mutex.node();
            return node;
        }
    }

    /** Either side of a read-write lock. */
    private static final class ReadWrite extends Handle {
        private final InterProcessReadWriteLock lock;
        private InterProcessMutex side;

        ReadWrite(InterProcessReadWriteLock lock, boolean write) {
            this.lock = lock;
            side = write ? lock.writeLock() : lock.readLock();
        }

        @Override
        String acquire(long millis) throws Exception {
            if (millis < 0) {
                side.acquire();
            } else if (!side.acquire(millis, TimeUnit.MILLISECONDS)) {
                return null;
            }
            return "-"; // Curator does not tell its path
        }

        @Override
        void release() throws Exception {
            side.release();
        }

        @Override
        void downgrade() throws Exception {
            lock.readLock().acquire();
            side.release();
            side = lock.readLock();
        }

        @Override
        Collection<String> participants() throws Exception {
            return side.getParticipantNodes();
        }
    }

    /** Mutexes at PATH-0, PATH-1 and so on, together. Option: how many. */
    private static final class Multi extends Handle {
        private final InterProcessMultiLock lock;

        Multi(CuratorFramework curator, String path, int members) {
            List<String> paths = new ArrayList<>();
            for (int i = 0; i < members; i++) {
                paths.add(path + "-" + i);
            }
            lock = new InterProcessMultiLock(curator, paths);
        }

        @Override
        String acquire(long millis) throws Exception {
            if (millis < 0) {
                lock.acquire();
            } else if (!lock.acquire(millis, TimeUnit.MILLISECONDS)) {
                return null;
            }
            return "-"; // it has a contender in each queue
        }

        @Override
        void release() throws Exception {
            lock.release();
        }

        @Override
        Collection<String> participants() {
            throw new UnsupportedOperationException("a multi-lock lists nobody");
        }
    }

    private static final class Semaphore extends Handle {
        private final InterProcessSemaphoreV2 semaphore;
        private final int permits;
        private final List<Lease> leases = new ArrayList<>();

        /** Options: how many permits there are, how many of them each acquire takes. */
        Semaphore(InterProcessSemaphoreV2 semaphore, int permits) {
            this.semaphore = semaphore;
            this.permits = permits;
        }

        @Override
        String acquire(long millis) throws Exception {
            Collection<Lease> got = millis < 0 ? semaphore.acquire(permits)
                    : semaphore.acquire(permits, millis, TimeUnit.MILLISECONDS);
            if (got == null) {
                return null;
            }
            leases.addAll(got);
            return leases.get(leases.size() - 1).getNodeName();
        }

        @Override
        void release() {
            semaphore.returnAll(leases);
            leases.clear();
        }

        @Override
        Collection<String> participants() throws Exception {
            return semaphore.getParticipantNodes();
        }
    }

    /** The lock that comes with ZooKeeper itself. */
    private static final class ZooKeeperLock extends Handle {
        private final CuratorFramework curator;
        private final String path;
        private WriteLock lock;

        ZooKeeperLock(CuratorFramework curator, String path) {
            this.curator = curator;
            this.path = path;
        }

        @Override
        String acquire(long millis) throws Exception {
            if (millis >= 0) {
                throw new IllegalArgumentException("WriteLock waits for ever");
            }
            CountDownLatch granted = new CountDownLatch(1);
            lock = new WriteLock(curator.getZookeeperClient().getZooKeeper(), path, ZooDefs.Ids.OPEN_ACL_UNSAFE, new LockListener() {
                @Override
                public void lockAcquired() {
                    granted.countDown();
                }

                @Override
                public void lockReleased() {
                }
            });
            lock.lock();
            granted.await();
            return lock.getId();
        }

        @Override
        void release() {
            lock.unlock();
        }

        @Override
        Collection<String> participants() {
            throw new UnsupportedOperationException("WriteLock lists nobody");
        }
    }

    /** A latch serves once, so each acquire makes a new one. */
    private static final class Latch extends Handle {
        private final CuratorFramework curator;
        private final String path;
        private final String id;
        private LeaderLatch latch;

        Latch(CuratorFramework curator, String path, String id) {
            this.curator = curator;
            this.path = path;
            this.id = id;
        }

        @Override
        String acquire(long millis) throws Exception {
            latch = new LeaderLatch(curator, path, id);
            latch.start();
            if (millis < 0) {
                latch.await();
            } else if (!latch.await(millis, TimeUnit.MILLISECONDS)) {
                latch.close();
                return null;
            }
            return latch.getOurPath();
        }

        @Override
        void release() throws Exception {
            latch.close();
        }

        @Override
        Collection<String> participants() throws Exception {
            List<String> ids = new ArrayList<>();
            for (Participant p : new LeaderLatch(curator, path).getParticipants()) {
                ids.add((p.isLeader() ? "*" : "") + p.getId());
            }
            return ids;
        }
    }
}
