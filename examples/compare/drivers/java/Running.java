import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;

/** A running load as in lock/lock.go, with one thread per worker. Its words are those of the line that starts it. */
final class Running {
    private final Driver driver;
    private final String[] words;
    private final List<Driver.Client> clients = new ArrayList<>();
    private final List<Thread> threads = new ArrayList<>();
    private final AtomicInteger[] inside;
    private final AtomicLong overlaps = new AtomicLong();
    private final AtomicReference<String> first = new AtomicReference<>("");
    private final int workers;
    private final long hold;
    private final Object mutex = new Object(); // guards the next three lines
    private final long[] each; // cycles by worker
    private final long[] since; // by worker: when its wait began; 0 while it does not wait
    private long cycles, errors, longest;
    private volatile boolean stopped;

    Running(Driver driver, String[] words) {
        this.driver = driver;
        this.words = words;
        workers = Integer.parseInt(words[4]);
        each = new long[workers];
        since = new long[workers];
        hold = Long.parseLong(words[6]);
        inside = new AtomicInteger[Integer.parseInt(words[5])];
        Arrays.setAll(inside, i -> new AtomicInteger());
    }

    void start() throws Exception {
        try {
            for (int i = 0; i < Integer.parseInt(words[3]); i++) {
                clients.add(driver.dial(words[1]));
            }
            for (int i = 0; i < workers; i++) {
                int worker = i;
                Driver.Locker locker = clients.get(i % clients.size()).locker(words[2] + "-" + i % inside.length);
                threads.add(new Thread(() -> work(worker, locker)));
            }
        } catch (Exception e) {
            close();
            throw e;
        }
        threads.forEach(Thread::start);
        long end = System.nanoTime() + Long.parseLong(words[8]);
        for (long done = 0; done < workers; Thread.sleep(1)) {
            synchronized (mutex) {
                done = cycles;
            }
            if (System.nanoTime() > end) {
                throw new IllegalStateException(done + " cycles of " + workers + " workers in time; the first error: " + first.get());
            }
        }
        Thread.sleep(Long.parseLong(words[7]) / 1_000_000);
    }

    String measure(long nanos) throws Exception {
        long begin, cyclesBefore, errorsBefore;
        synchronized (mutex) {
            Arrays.fill(each, 0);
            longest = 0;
            cyclesBefore = cycles;
            errorsBefore = errors;
            begin = System.nanoTime();
        }
        Thread.sleep(nanos / 1_000_000);
        synchronized (mutex) {
            long now = System.nanoTime(), waited = longest;
            for (long began : since) {
                waited = began == 0 ? waited : Math.max(waited, now - began);
            }
            return "{\"Window\":" + (now - begin) + ",\"Total\":" + cycles + ",\"Cycles\":" + (cycles - cyclesBefore)
                + ",\"Errors\":" + (errors - errorsBefore) + ",\"Overlaps\":" + overlaps.get() + ",\"Longest\":" + waited
                + ",\"Each\":" + Arrays.toString(each) + ",\"First\":\"" + first.get().replaceAll("[\\p{Cntrl}\"\\\\]", " ") + "\"}";
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

    private void work(int i, Driver.Locker locker) {
        try {
            while (!stopped) {
                cycle(i, locker, inside[i % inside.length]);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void cycle(int i, Driver.Locker locker, AtomicInteger holders) throws InterruptedException {
        try {
            synchronized (mutex) {
                since[i] = System.nanoTime();
            }
            locker.lock();
            if (holders.incrementAndGet() > 1) {
                overlaps.incrementAndGet();
            }
            waited(i);
            if (hold > 0) {
                Thread.sleep(hold / 1_000_000, (int) (hold % 1_000_000));
            }
            holders.decrementAndGet();
            locker.unlock();
            synchronized (mutex) {
                cycles++;
                each[i]++;
            }
        } catch (Exception e) {
            waited(i);
            first.compareAndSet("", e.toString());
            synchronized (mutex) {
                errors++;
            }
            Thread.sleep(10);
        }
    }

    private void waited(int i) {
        synchronized (mutex) {
            longest = since[i] == 0 ? longest : Math.max(longest, System.nanoTime() - since[i]);
            since[i] = 0;
        }
    }
}
