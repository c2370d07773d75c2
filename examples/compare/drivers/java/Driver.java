/** The driver of lock/lock.go, in Java. */
interface Driver {
    Client dial(String servers) throws Exception;

    interface Client extends AutoCloseable {
        Locker locker(String name) throws Exception;

        /** Whether the library reports its locks as lost or unknown. NONE if it does not, or if the driver does not ask. */
        default Doubt doubt() { return Doubt.NONE; }
    }

    enum Doubt { NONE, UNKNOWN, LOST }

    interface Locker {
        void lock() throws Exception;

        void unlock() throws Exception;
    }
}
