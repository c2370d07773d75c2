import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
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
    private final int workers;
    private final long hold;
    private final Object mutex = new Object(); // of the next three lines
    private final long[] each; // cycles by worker
    private final long[] since; // by worker: when its wait began; 0 while it does not wait
    private long cycles, errors, longest;
    private volatile boolean stopped;

    Running(Driver driver, Map<String, String> words) {
        this.driver = driver;
        this.words = words;
        workers = number("workers");
        each = new long[workers];
        since = new long[workers];
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
            for (int i = 0; i < workers; i++) {
                int worker = i;
                Driver.Locker locker = clients.get(i % clients.size()).locker(words.get("name") + "-" + i % inside.length);
                threads.add(new Thread(() -> work(worker, locker)));
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
            Arrays.fill(each, 0);
            longest = 0;
            cyclesBefore = cycles;
            errorsBefore = errors;
            begin = System.nanoTime();
        }
        Thread.sleep(micros / 1000);
        synchronized (mutex) {
            long now = System.nanoTime(), waited = longest;
            for (long began : since) {
                waited = began == 0 ? waited : Math.max(waited, now - began);
            }
            return "us=" + (now - begin) / 1000 + " total=" + cycles + " cycles=" + (cycles - cyclesBefore)
                + " errors=" + (errors - errorsBefore) + " overlaps=" + overlaps.get() + " longest=" + waited / 1000
                + " each=" + Arrays.stream(each).mapToObj(Long::toString).collect(Collectors.joining(","))
                + " first=" + Harness.escape(first.get());
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
                Thread.sleep(hold / 1000, (int) (hold % 1000) * 1000);
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
