import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.CreateMode;

/** A lock, an election, a transaction and a watch with Curator. Usage: Contend host:port */
public final class Contend {
    private static final int WAIT = 300; // seconds; only a limit, which no check relies on

    private static CuratorFramework client(String address) throws Exception {
        CuratorFramework c = CuratorFrameworkFactory.newClient(address, 40_000, 40_000, new RetryOneTime(100));
        c.start();
        check(c.blockUntilConnected(WAIT, TimeUnit.SECONDS), "connect");
        return c;
    }

    private static void check(boolean condition, String what) {
        if (!condition) {
            System.err.println("failed: " + what);
            System.exit(1);
        }
    }

    private static void lock(CuratorFramework a, CuratorFramework b) throws Exception {
        InterProcessMutex first = new InterProcessMutex(a, "/curator/lock");
        InterProcessMutex second = new InterProcessMutex(b, "/curator/lock");
        check(first.acquire(WAIT, TimeUnit.SECONDS), "first lock");
        check(!second.acquire(200, TimeUnit.MILLISECONDS), "second lock while held");
        CountDownLatch got = new CountDownLatch(1);
        Thread t = new Thread(() -> {
            try {
                second.acquire();
                got.countDown();
                second.release();
            } catch (Exception e) {
                e.printStackTrace();
            }
        });
        t.start();
        while (first.getParticipantNodes().size() < 2) {
            Thread.onSpinWait();
        }
        check(got.getCount() == 1, "exclusion");
        first.release();
        check(got.await(WAIT, TimeUnit.SECONDS), "hand-over");
        t.join();

        InterProcessReadWriteLock rw = new InterProcessReadWriteLock(a, "/curator/rw");
        check(rw.readLock().acquire(WAIT, TimeUnit.SECONDS), "read lock");
        check(!new InterProcessReadWriteLock(b, "/curator/rw").writeLock().acquire(200, TimeUnit.MILLISECONDS), "write lock under a reader");
        rw.readLock().release();

        InterProcessSemaphoreV2 sem = new InterProcessSemaphoreV2(a, "/curator/sem", 1);
        Lease lease = sem.acquire(WAIT, TimeUnit.SECONDS);
        check(lease != null, "semaphore");
        check(new InterProcessSemaphoreV2(b, "/curator/sem", 1).acquire(200, TimeUnit.MILLISECONDS) == null, "full semaphore");
        sem.returnLease(lease);
        System.out.println("ok lock");
    }

    private static void election(CuratorFramework a, CuratorFramework b) throws Exception {
        LeaderLatch first = new LeaderLatch(a, "/curator/leader", "a");
        LeaderLatch second = new LeaderLatch(b, "/curator/leader", "b");
        first.start();
        check(first.await(WAIT, TimeUnit.SECONDS), "first leader");
        second.start();
        while (second.getParticipants().size() < 2) {
            Thread.onSpinWait();
        }
        check(!second.hasLeadership(), "one leader");
        check(second.getLeader().getId().equals("a"), "the leader's name");
        first.close();
        check(second.await(WAIT, TimeUnit.SECONDS), "second leader");
        second.close();
        System.out.println("ok election");
    }

    // CuratorCache uses a persistent recursive watch.
    private static void watch(CuratorFramework a, CuratorFramework b) throws Exception {
        BlockingQueue<String> seen = new LinkedBlockingQueue<>();
        try (CuratorCache cache = CuratorCache.build(a, "/curator/watched")) {
            cache.listenable().addListener((type, before, after) ->
                seen.add(type + " " + (after != null ? after : before).getPath()));
            CountDownLatch ready = new CountDownLatch(1);
            cache.listenable().addListener(org.apache.curator.framework.recipes.cache.CuratorCacheListener.builder()
                .forInitialized(ready::countDown).build());
            cache.start();
            check(ready.await(WAIT, TimeUnit.SECONDS), "cache");
            b.create().creatingParentsIfNeeded().forPath("/curator/watched/x", "1".getBytes());
            expect(seen, "NODE_CREATED /curator/watched/x");
            b.setData().forPath("/curator/watched/x", "2".getBytes());
            expect(seen, "NODE_CHANGED /curator/watched/x");
            b.delete().forPath("/curator/watched/x");
            expect(seen, "NODE_DELETED /curator/watched/x");
        }
        System.out.println("ok watch");
    }

    private static void expect(BlockingQueue<String> seen, String want) throws Exception {
        String got = seen.poll(WAIT, TimeUnit.SECONDS);
        while (got != null && !got.equals(want)) {
            got = seen.poll(WAIT, TimeUnit.SECONDS);
        }
        check(got != null, "event " + want);
    }

    private static void transaction(CuratorFramework a) throws Exception {
        a.create().creatingParentContainersIfNeeded().withProtection()
            .withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath("/curator/box/p-");
        a.transaction().forOperations(a.transactionOp().create().forPath("/curator/t"),
            a.transactionOp().check().withVersion(0).forPath("/curator/t"), a.transactionOp().delete().forPath("/curator/t"));
        try {
            a.transaction().forOperations(a.transactionOp().create().forPath("/curator/u"), a.transactionOp().delete().forPath("/nosuch"));
            check(false, "a transaction that must fail");
        } catch (org.apache.zookeeper.KeeperException.NoNodeException e) {
            check(a.checkExists().forPath("/curator/u") == null, "rollback");
        }
        System.out.println("ok transaction");
    }

    public static void main(String[] args) throws Exception {
        try (CuratorFramework a = client(args[0]); CuratorFramework b = client(args[0])) {
            lock(a, b);
            election(a, b);
            transaction(a);
            watch(a, b);
        }
    }
}
