import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Apache Curator's mutex. Each worker has a mutex object of its own. If threads share one, each release wakes all of
 * them, and all list the contenders again: of a thousand threads, hardly any makes progress.
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
            c.getConnectionStateListenable().addListener((client, state) -> { // Curator calls such a listener "strongly recommended"
                if (doubt != Doubt.LOST) {
                    doubt = state == ConnectionState.LOST ? Doubt.LOST : state.isConnected() ? Doubt.NONE : Doubt.UNKNOWN;
                }
            });
        }

        @Override
        public Doubt doubt() { return doubt; }

        @Override
        public Locker locker(String name) {
            InterProcessMutex mutex = new InterProcessMutex(c, "/curator/" + name);
            return new Locker() {
                public void lock() throws Exception { mutex.acquire(); }
                public void unlock() throws Exception { mutex.release(); }
            };
        }

        @Override
        public void close() { c.close(); }
    }
}
