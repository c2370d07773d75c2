import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/** Speaks lock/protocol.go, or holds a lock as claims/roles.go does. Usage: Harness DRIVER [hold SERVERS LOCK], with -Dttl=MILLISECONDS */
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
            Map<String, String> words = words(line);
            String answer;
            try {
                switch (words.get("")) {
                    case "start":
                        running = new Running(driver, words);
                        running.start();
                        answer = "ready";
                        break;
                    case "measure":
                        answer = "measured " + running.measure(Long.parseLong(words.get("us")));
                        break;
                    default:
                        running.stop();
                        answer = "stopped";
                }
            } catch (IllegalStateException e) {
                answer = "failed " + escape(e.getMessage());
            } catch (Exception e) {
                answer = "failed " + escape(e.toString());
            }
            System.out.println(answer);
            System.out.flush();
        }
        System.exit(0); // whatever threads a client has left
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

    static String escape(String s) {
        return URLEncoder.encode(s, StandardCharsets.UTF_8);
    }

    private static Map<String, String> words(String line) {
        Map<String, String> all = new HashMap<>();
        for (String word : line.trim().split(" ")) {
            String[] pair = word.split("=", 2);
            all.put(pair.length == 1 ? "" : pair[0], URLDecoder.decode(pair[pair.length - 1], StandardCharsets.UTF_8));
        }
        return all;
    }
}
