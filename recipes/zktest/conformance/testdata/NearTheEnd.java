import java.io.File;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.server.DataTree;
import org.apache.zookeeper.server.persistence.FileSnap;

/**
 * Writes a snapshot in which /q has had 2^31-3 children, which would take days
 * to create one by one. Usage: NearTheEnd dataDir
 */
public final class NearTheEnd {
    public static void main(String[] args) throws Exception {
        DataTree tree = new DataTree();
        tree.createNode("/q", new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, 0, 1, 1, 1);
        tree.createNode("/q/x", new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, 0, Integer.MAX_VALUE - 2, 2, 1);
        tree.deleteNode("/q/x", 3);
        tree.lastProcessedZxid = 3;
        File dir = new File(args[0], "version-2");
        dir.mkdirs();
        FileSnap snap = new FileSnap(dir);
        snap.serialize(tree, new ConcurrentHashMap<>(), new File(dir, "snapshot.3"), true);
        snap.close();
        System.exit(0);
    }
}
