/** What lock/lock.go says, in Java. */
interface Driver {
    Client dial(String servers) throws Exception;

    interface Client extends AutoCloseable {
        /** Null where there is no such lock. names has one name, but for a set. */
        Locker locker(String kind, String[] names, int permits) throws Exception;
    }

    interface Locker {
        void lock() throws Exception;

        void unlock() throws Exception;
    }
}
