import java.nio.charset.StandardCharsets;
import java.util.UUID;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;

/** Creates below one path what Curator programs keep besides locks. */
final class Others {
    private Others() {
    }

    static void create(CuratorFramework c, String path) throws Exception {
        QueueSerializer<String> text = new QueueSerializer<String>() {
            @Override
            public byte[] serialize(String item) {
                return item.getBytes(StandardCharsets.UTF_8);
            }

            @Override
            public String deserialize(byte[] bytes) {
                return new String(bytes, StandardCharsets.UTF_8);
            }
        };
        var queue = QueueBuilder.builder(c, null, text, path + "/queue").buildQueue();
        queue.start();
        queue.put("one");
        queue.flushPuts(10, java.util.concurrent.TimeUnit.SECONDS);
        var priority = QueueBuilder.builder(c, null, text, path + "/priority").buildPriorityQueue(1);
        priority.start();
        priority.put("one", 7);
        priority.flushPuts(10, java.util.concurrent.TimeUnit.SECONDS);
        var ids = QueueBuilder.builder(c, null, text, path + "/ids").buildIdQueue();
        ids.start();
        ids.put("one", "id-1");
        ids.flushPuts(10, java.util.concurrent.TimeUnit.SECONDS);
        new SimpleDistributedQueue(c, path + "/simple").offer(new byte[] {1});
        new GroupMember(c, path + "/group", "member-1").start();
        new DistributedBarrier(c, path + "/barrier").setBarrier();
        new SharedCount(c, path + "/count", 5).start();
        new DistributedAtomicLong(c, path + "/atomic", new RetryNTimes(3, 100)).increment();
        // As ServiceDiscoveryImpl registers an instance; the tests do not install its jar.
        c.create().creatingParentContainersIfNeeded().withMode(CreateMode.EPHEMERAL).forPath(path + "/services/web/" + UUID.randomUUID(), "{}".getBytes(StandardCharsets.UTF_8));
        Thread waits = new Thread(() -> {
            try {
                new DistributedDoubleBarrier(c, path + "/double", 2).enter();
            } catch (Exception e) {
                // the wait ends with the program
            }
        });
        waits.setDaemon(true);
        waits.start();
    }
}
