import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;

/** Checks KeyNames with the vectors of ../keys.tsv. */
final class Keys {
    private Keys() {
    }

    /** Checks each line of the file, and returns the number of vectors. */
    static int check(String file) throws Exception {
        int n = 0;
        for (String line : Files.readAllLines(Paths.get(file), StandardCharsets.UTF_8)) {
            if (line.startsWith("#")) {
                continue;
            }
            String[] column = line.split("\t", -1);
            String key = text(column[0]);
            n++;
            if (column[1].isEmpty()) {
                try {
                    KeyNames.path("/f", key, 0);
                } catch (IllegalArgumentException e) {
                    continue;
                }
                throw new IllegalStateException(line + ": is not refused");
            }
            String name = "/" + column[1];
            same(line, "/f" + name, KeyNames.path("/f", key, 0));
            same(line, "/f/" + column[2] + name, KeyNames.path("/f", key, 16));
            same(line, "/f/" + column[3] + name, KeyNames.path("/f", key, 256));
        }
        return n;
    }

    private static void same(String line, String want, String got) {
        if (!want.equals(got)) {
            throw new IllegalStateException(line + ": not " + want + " but " + got);
        }
    }

    /** The text whose UTF-8 is given in hexadecimal; "-" is the empty text. */
    static String text(String hex) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        for (int i = 0; i + 1 < hex.length(); i += 2) {
            bytes.write(Integer.parseInt(hex.substring(i, i + 2), 16));
        }
        return new String(bytes.toByteArray(), StandardCharsets.UTF_8);
    }
}
