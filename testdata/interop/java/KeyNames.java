import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.zip.CRC32;

/** Finds the node of a key (docs/keyed.md). A Java team copies this file. */
final class KeyNames {
    private static final int MAX_KEY = 512;
    // Matches each name that looks like a contender of a known library.
    private static final Pattern CONTENDER = Pattern.compile("(?s)(?:.*(?:lock-|latch-|lease-|__lock__|__rlock__|__READ__|__WRIT__)|x-[-0-9a-f][0-9a-f]*-)([0-9]{10}|-[0-9]{9,10})");

    private KeyNames() {
    }

    /** The path of the node of a key; fanout is as the family declares it: 0, 16 or 256. */
    public static String path(String family, String key, int fanout) {
        byte[] utf8 = key.getBytes(StandardCharsets.UTF_8);
        if (utf8.length > MAX_KEY) {
            throw new IllegalArgumentException("the key is " + utf8.length + " bytes long: at most " + MAX_KEY + " are allowed");
        }
        if (!key.equals(new String(utf8, StandardCharsets.UTF_8))) {
            throw new IllegalArgumentException("the key has half of a surrogate pair, which is no character");
        }
        CRC32 crc = new CRC32();
        crc.update(utf8);
        String dir = fanout == 0 ? "" : String.format(fanout == 16 ? "/%x" : "/%02x", crc.getValue() % fanout);
        return family + dir + "/" + name(key);
    }

    /** The name of the node of a key. */
    public static String name(String key) {
        if (key.isEmpty()) {
            return "%";
        }
        int taken = -1;
        if (contends(key)) {
            taken = key.length() - 1;
        } else if (Arrays.asList(".", "..", "locks", "leases").contains(key)) {
            taken = 0;
        }
        StringBuilder name = new StringBuilder();
        for (int i = 0; i < key.length(); ) {
            int c = key.codePointAt(i);
            String text = new String(Character.toChars(c));
            // The characters that ZooKeeper refuses, and all beyond the basic plane.
            boolean refused = c < 0x20 || c >= 0x7f && c < 0xa0 || c == '/' || c >= 0xd800 && c <= 0xf8ff || c >= 0xfff0;
            if (i == taken || c == '%' || refused) {
                for (byte b : text.getBytes(StandardCharsets.UTF_8)) {
                    name.append(String.format("%%%02X", b));
                }
            } else {
                name.append(text);
            }
            i += text.length();
        }
        return name.toString();
    }

    private static boolean contends(String key) {
        Matcher m = CONTENDER.matcher(key);
        if (!m.matches()) {
            return false;
        }
        long number = Long.parseLong(m.group(1)); // a contender's number has 32 bits
        return number == (int) number;
    }
}
