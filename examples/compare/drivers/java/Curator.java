import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Apache Curator's recipes. Every worker has objects of its own: threads that share one wake each other at every release
 * and all list the contenders again, so that of a thousand hardly any gets on.
 */
public final class Curator implements Driver {
    @Override
    public Client dial(String servers) throws Exception {
        CuratorFramework c = CuratorFrameworkFactory.newClient(servers, Integer.getInteger("ttl"), 30_000, new ExponentialBackoffRetry(1000, 3));
        c.start();
        if (!c.blockUntilConnected(60, TimeUnit.SECONDS)) {
            throw new Exception("no session with " + servers + " within a minute");
        }
        return new CuratorClient(c);
    }

    private static final class CuratorClient implements Client {
        private final CuratorFramework c;
        private volatile Doubt doubt = Doubt.NONE;

        CuratorClient(CuratorFramework c) {
            this.c = c;
            c.getConnectionStateListenable().addListener((client, state) -> { // "strongly recommended"
                if (doubt != Doubt.LOST) {
                    doubt = state == ConnectionState.LOST ? Doubt.LOST : state.isConnected() ? Doubt.NONE : Doubt.UNKNOWN;
                }
            });
        }

        @Override
        public Doubt doubt() { return doubt; }

        private InterProcessMutex mutex(String name) { return new InterProcessMutex(c, "/curator/" + name); }

        private InterProcessReadWriteLock rw(String name) { return new InterProcessReadWriteLock(c, "/curator/" + name); }

        @Override
        public Locker locker(String kind, String[] names, int permits) {
            return switch (kind) {
                case "mutex" -> of(mutex(names[0]));
                case "read" -> of(rw(names[0]).readLock());
                case "write" -> of(rw(names[0]).writeLock());
                case "set" -> of(new InterProcessMultiLock(Arrays.stream(names).<InterProcessLock>map(this::mutex).toList()));
                case "semaphore" -> of(new InterProcessSemaphoreV2(c, "/curator/" + names[0], permits));
                default -> null;
            };
        }

        private static Locker of(InterProcessSemaphoreV2 semaphore) {
            return new Locker() {
                private Lease lease;
                public void lock() throws Exception { lease = semaphore.acquire(); }
                public void unlock() { semaphore.returnLease(lease); }
            };
        }

        private static Locker of(InterProcessLock lock) {
            return new Locker() {
                public void lock() throws Exception { lock.acquire(); }
                public void unlock() throws Exception { lock.release(); }
            };
        }

        @Override
        public void close() { c.close(); }
    }
}
