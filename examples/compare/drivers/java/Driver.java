/** What lock/lock.go says, in Java. */
interface Driver {
    Client dial(String servers) throws Exception;

    interface Client extends AutoCloseable {
        Locker locker(String name) throws Exception;

        /** What the library says of its locks, where it is asked to: they are lost, or nobody knows. */
        default Doubt doubt() { return Doubt.NONE; }
    }

    enum Doubt { NONE, UNKNOWN, LOST }

    interface Locker {
        void lock() throws Exception;

        void unlock() throws Exception;
    }
}
