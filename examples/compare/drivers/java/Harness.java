import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/** Speaks the line protocol of lock/lock.go, or holds a lock as claims/holders.go does. Usage: Harness DRIVER [hold SERVERS LOCK], with -Dttl=MILLISECONDS */
public final class Harness {
    public static void main(String[] args) throws Exception {
        Driver driver = (Driver) Class.forName(args[0]).getDeclaredConstructor().newInstance();
        if (args.length > 1) {
            hold(driver.dial(args[2]), args[3]);
            System.exit(0);
        }
        Running running = null;
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.trim().split(" ");
            String answer;
            try {
                switch (words[0]) {
                    case "start":
                        running = new Running(driver, words);
                        running.start();
                        answer = "ready";
                        break;
                    case "measure":
                        answer = "measured " + running.measure(Long.parseLong(words[1]));
                        break;
                    default:
                        running.stop();
                        answer = "stopped";
                }
            } catch (IllegalStateException e) {
                answer = "failed " + e.getMessage();
            } catch (Exception e) {
                answer = "failed " + e.toString().replace('\n', ' ');
            }
            System.out.println(answer);
            System.out.flush();
        }
        System.exit(0); // also if a client has left threads running
    }

    private static void hold(Driver.Client client, String name) throws Exception {
        Driver.Locker lock = client.locker(name);
        System.out.println("waiting");
        lock.lock();
        System.out.println("granted token=0");
        for (; client.doubt() != Driver.Doubt.LOST; Thread.sleep(5)) {
            if (client.doubt() == Driver.Doubt.NONE) {
                System.out.println("write token=0");
            }
        }
        System.out.println("lost");
    }
}
