import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.RetryOneTime;

/**
 * Takes each lock that the generated class Locks has, and says "got" or "held" and its name, and then how many of the vectors of
 * ../keys.tsv it agrees with. Arguments: vectors, server, root, keys.
 */
public final class Names {
    public static void main(String[] args) throws Exception {
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(args[1], new RetryOneTime(100))) {
            client.start();
            Locks locks = new Locks(client, args[2]);
            Method[] methods = Locks.class.getMethods();
            Arrays.sort(methods, Comparator.comparing(Method::getName));
            for (Method m : methods) {
                if (m.getDeclaringClass() != Locks.class || m.getReturnType() == String.class) {
                    continue;
                }
                boolean keyed = m.getReturnType() != LeaderLatch.class && m.getParameterCount() > 0 && m.getParameterTypes()[0] == String.class;
                for (String key : keyed ? args[3].split(",") : new String[] {"java"}) {
                    List<Object> given = new ArrayList<>();
                    for (Class<?> type : m.getParameterTypes()) {
                        given.add(type == int.class ? (Object) 2 : key);
                    }
                    Object lock = m.invoke(locks, given.toArray());
                    System.out.println((take(lock) ? "got " : "held ") + m.getName() + (keyed ? " " + key : ""));
                }
            }
            try {
                locks.shopNamedMutex("unheard of");
                System.out.println("got an unknown name");
            } catch (IllegalArgumentException e) {
                System.out.println("refused " + e.getMessage());
            }
            System.out.println("keys " + keys(locks, args[0]));
        }
    }

    private static int keys(Locks locks, String file) throws Exception {
        int same = 0;
        for (String line : Files.readAllLines(Paths.get(file), StandardCharsets.UTF_8)) {
            if (line.startsWith("#")) {
                continue;
            }
            String[] column = line.split("\t", -1);
            String key = Keys.text(column[0]);
            String got = "";
            try {
                got = locks.shopOrderKeyedPathOf(key) + locks.shopWideKeyedPathOf("a", key) + locks.shopWiderKeyedPathOf(key);
            } catch (IllegalArgumentException e) {
                // It has no node.
            }
            String name = "/" + column[1];
            String want = column[1].isEmpty() ? "" : locks.shopOrderKeyedPath() + name + locks.shopWideKeyedPath("a") + "/" + column[2] + name
                    + locks.shopWiderKeyedPath() + "/" + column[3] + name;
            if (!want.equals(got)) {
                throw new IllegalStateException(line + ": not " + want + " but " + got);
            }
            same++;
        }
        return same;
    }

    private static boolean take(Object lock) throws Exception {
        if (lock instanceof InterProcessMutex) {
            return mutex((InterProcessMutex) lock);
        }
        if (lock instanceof InterProcessReadWriteLock) {
            InterProcessReadWriteLock both = (InterProcessReadWriteLock) lock;
            return mutex(both.readLock()) && mutex(both.writeLock());
        }
        if (lock instanceof InterProcessSemaphoreV2) {
            InterProcessSemaphoreV2 semaphore = (InterProcessSemaphoreV2) lock;
            Lease permit = semaphore.acquire(0, TimeUnit.SECONDS);
            if (permit != null) {
                semaphore.returnLease(permit);
            }
            return permit != null;
        }
        try (LeaderLatch latch = (LeaderLatch) lock) {
            latch.start();
            String leader;
            do { // until the first candidate is known: another program, or this one
                leader = latch.getLeader().getId();
            } while (leader.isEmpty());
            return leader.equals("java");
        }
    }

    private static boolean mutex(InterProcessMutex lock) throws Exception {
        boolean held = lock.acquire(0, TimeUnit.SECONDS);
        if (held) {
            lock.release();
        }
        return held;
    }
}
