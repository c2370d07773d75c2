import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;

/** A load under way: lock/load.go in Java, with a thread a worker. */
final class Running {
    private final Driver driver;
    private final Map<String, String> words;
    private final List<Driver.Client> clients = new ArrayList<>();
    private final List<Thread> threads = new ArrayList<>();
    private final AtomicInteger[] inside;
    private final AtomicLong overlaps = new AtomicLong();
    private final AtomicReference<String> first = new AtomicReference<>("");
    private final int workers, rate, reads;
    private final long hold;
    private final Object mutex = new Object(); // of the next five
    private final Map<Long, Long> waits = new TreeMap<>();
    private long[] each; // cycles by worker
    private long[] since; // by worker: when its wait began; 0 while it does not wait
    private long cycles, errors;
    private volatile boolean stopped;

    Running(Driver driver, Map<String, String> words) {
        this.driver = driver;
        this.words = words;
        workers = number("workers");
        rate = number("rate");
        each = new long[workers];
        since = new long[workers];
        reads = number("reads");
        hold = number("hold");
        inside = new AtomicInteger[number("locks")];
        Arrays.setAll(inside, i -> new AtomicInteger());
    }

    private int number(String name) {
        return Integer.parseInt(words.getOrDefault(name, "0"));
    }

    void start() throws Exception {
        try {
            for (int i = 0; i < number("clients"); i++) {
                clients.add(driver.dial(words.get("servers")));
            }
            List<Worker> all = new ArrayList<>();
            for (int i = 0; i < workers; i++) {
                Worker w = new Worker(i, 0);
                for (int n = 1; n < number("stream"); n++) {
                    w.stations.add(new Worker(i, n));
                }
                all.add(w);
            }
            long begin = System.nanoTime();
            for (Worker w : all) {
                w.begin = begin;
                threads.add(new Thread(w));
            }
        } catch (Exception e) {
            close();
            throw e;
        }
        threads.forEach(Thread::start);
        long end = System.nanoTime() + number("limit") * 1000L;
        for (long done = 0; done < workers; Thread.sleep(1)) {
            synchronized (mutex) {
                done = cycles;
            }
            if (System.nanoTime() > end) {
                throw new IllegalStateException(done + " cycles of " + workers + " workers in time" + (first.get().isEmpty() ? "" : "; the first error: " + first.get()));
            }
        }
        Thread.sleep(number("warm") / 1000);
    }

    String measure(long micros) throws Exception {
        long begin, cyclesBefore, errorsBefore;
        synchronized (mutex) {
            waits.clear();
            Arrays.fill(each, 0);
            cyclesBefore = cycles;
            errorsBefore = errors;
            begin = System.nanoTime();
        }
        Thread.sleep(micros / 1000);
        synchronized (mutex) {
            long longest = waits.keySet().stream().reduce(0L, Math::max);
            for (long began : since) {
                longest = began == 0 ? longest : Math.max(longest, (System.nanoTime() - began) / 1000);
            }
            StringBuilder s = new StringBuilder();
            s.append("us=").append((System.nanoTime() - begin) / 1000).append(" total=").append(cycles).append(" cycles=").append(cycles - cyclesBefore)
                .append(" errors=").append(errors - errorsBefore).append(" overlaps=").append(overlaps.get())
                .append(" longest=").append(longest).append(" each=").append(Arrays.stream(each).mapToObj(Long::toString).collect(Collectors.joining(",")))
                .append(" first=").append(Harness.escape(first.get())).append(" waits=");
            waits.forEach((value, count) -> s.append(value).append(':').append(count).append(','));
            return s.toString();
        }
    }

    void stop() throws Exception {
        stopped = true;
        for (Thread t : threads) {
            t.join();
        }
        close();
    }

    private void close() throws Exception {
        for (Driver.Client c : clients) {
            c.close();
        }
    }

    private final class Worker implements Runnable {
        private final int i;
        private final List<Worker> stations = new ArrayList<>(List.of(this)); // of a stream, by turns
        private final int[] locks = new int[Math.max(1, number("set"))];
        private final Driver.Locker[] lockers; // of a read-write lock the writer's, then the reader's
        private final int[] weights;
        private final int limit;
        private long begin;

        Worker(int i, int n) throws Exception {
            this.i = i;
            Arrays.setAll(locks, k -> (i + n * workers + k) % inside.length);
            Arrays.sort(locks);
            String kind = words.get("kind");
            boolean rw = kind.equals("rw");
            limit = rw ? workers : kind.equals("semaphore") ? number("permits") : 1;
            weights = rw ? new int[] {limit, 1} : new int[] {1};
            String[] names = Arrays.stream(locks).mapToObj(k -> words.get("name") + "-" + k).toArray(String[]::new);
            String[] kinds = rw ? new String[] {"write", "read"} : new String[] {kind};
            lockers = new Driver.Locker[kinds.length];
            for (int k = 0; k < kinds.length; k++) {
                lockers[k] = clients.get(i % clients.size()).locker(kinds[k], names, number("permits"));
                if (lockers[k] == null) {
                    throw new UnsupportedOperationException(driver.getClass().getName() + " has no " + kinds[k]);
                }
            }
        }

        @Override
        public void run() {
            try {
                for (int n = 0; !stopped; n++) {
                    stations.get(n % stations.size()).cycle(n);
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }

        private void waits(long began) {
            synchronized (mutex) {
                since[i] = began;
            }
        }

        private void cycle(int n) throws InterruptedException {
            long intended = System.nanoTime();
            if (rate > 0) {
                intended = begin + ((long) n * workers + i) * 1_000_000_000L / rate;
                long early = intended - System.nanoTime();
                if (early > 0) {
                    Thread.sleep(early / 1_000_000, (int) (early % 1_000_000));
                }
            }
            int turn = lockers.length > 1 && (n + i) % reads != 0 ? 1 : 0;
            try {
                waits(intended);
                lockers[turn].lock();
                waits(0);
                long wait = (System.nanoTime() - intended) / 1000;
                for (int k : locks) {
                    if (inside[k].addAndGet(weights[turn]) > limit) {
                        overlaps.incrementAndGet();
                    }
                }
                if (hold > 0) {
                    Thread.sleep(hold / 1000, (int) (hold % 1000) * 1000);
                }
                for (int k : locks) {
                    inside[k].addAndGet(-weights[turn]);
                }
                lockers[turn].unlock();
                // Three digits, as the histogram that reads it has.
                int shift = Math.max(0, 64 - Long.numberOfLeadingZeros(wait) - 11);
                synchronized (mutex) {
                    waits.merge(wait >> shift << shift, 1L, Long::sum);
                    cycles++;
                    each[i]++;
                }
            } catch (Exception e) {
                waits(0);
                first.compareAndSet("", e.toString());
                synchronized (mutex) {
                    errors++;
                }
                Thread.sleep(10);
            }
        }
    }
}
