// HttpClient of Java: every way to store and read a value, whole and cut off. Says what did not hold.

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;

public class WithHttpClient {
    static final HttpClient CLIENT = HttpClient.newHttpClient();
    static String at;

    static HttpRequest request(String method, String key, BodyPublisher body, String... fields) {
        var builder = HttpRequest.newBuilder(URI.create(at + "/" + key)).method(method, body);
        return (fields.length == 0 ? builder : builder.headers(fields)).build();
    }

    static HttpResponse<byte[]> send(String method, String key, BodyPublisher body, String... fields) throws Exception {
        return CLIENT.send(request(method, key, body, fields), BodyHandlers.ofByteArray());
    }

    static int put(String key, String value, String... fields) throws Exception {
        return send("PUT", key, BodyPublishers.ofString(value), fields).statusCode();
    }

    static HttpResponse<byte[]> get(String key, String... fields) throws Exception {
        return send("GET", key, BodyPublishers.noBody(), fields);
    }

    static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }

    static void whole(byte[] value) throws Exception {
        Files.write(Path.of("value"), value);
        check(send("PUT", "file", BodyPublishers.ofFile(Path.of("value"))).statusCode() == 200, "a file");
        check(Arrays.equals(get("file").body(), value), "the file");
        // A stream of unknown length is sent in chunks.
        var pieces = BodyPublishers.ofInputStream(() -> new ByteArrayInputStream(value));
        check(send("PUT", "pieces", pieces).statusCode() == 200, "pieces");
        check(Arrays.equals(get("pieces").body(), value), "the pieces");
        var part = get("file", "Range", "bytes=100-199");
        check(part.statusCode() == 206 && Arrays.equals(part.body(), Arrays.copyOfRange(value, 100, 200)), "a range");
    }

    static void conditional() throws Exception {
        var tag = send("PUT", "register", BodyPublishers.ofString("one")).headers().firstValue("etag").orElseThrow();
        check(get("register", "If-None-Match", tag).statusCode() == 304, "not changed");
        check(put("register", "two", "If-None-Match", "*") == 412, "create only");
        check(put("register", "two", "If-Match", tag) == 200, "the version seen");
        check(put("register", "three", "If-Match", tag) == 412, "an old version");
        check(new String(get("register").body()).equals("two"), "the register");
    }

    // An upload leaves the old value, a download leaves a server that answers.
    static void cutOff(byte[] value) throws Exception {
        check(put("cut", "old") == 200, "the old value");
        var breaking = BodyPublishers.ofInputStream(() -> new InputStream() {
            private int left = 1 << 20;

            @Override
            public int read() throws IOException {
                if (left == 0) throw new IOException("broken");
                left -= 1;
                return 'x';
            }
        });
        try {
            send("PUT", "cut", breaking);
            throw new AssertionError("an upload that breaks off is answered");
        } catch (IOException expected) {
            check(new String(get("cut").body()).equals("old"), "the value after an upload that broke off");
        }
        var answer = CLIENT.send(request("GET", "file", BodyPublishers.noBody()), BodyHandlers.ofInputStream());
        try (var body = answer.body()) {
            check(Arrays.equals(body.readNBytes(1000), Arrays.copyOf(value, 1000)), "the beginning");
        }
        check(new String(get("cut").body()).equals("old"), "the value after a download that broke off");
    }

    static void turn(int n) {
        try {
            var key = "many/" + n % 5 + "/" + n;
            check(put(key, key) == 200, "one of many");
            check(new String(get(key).body()).equals(key), "the one of many");
            check(send("DELETE", key, BodyPublishers.noBody()).statusCode() == 200, "one removed");
            check(get(key).statusCode() == 404, "one gone");
        } catch (Exception error) {
            throw new AssertionError(error);
        }
    }

    public static void main(String[] args) throws Exception {
        at = args[0];
        var value = new byte[8 << 20];
        new Random().nextBytes(value);
        whole(value);
        conditional();
        cutOff(value);
        var turns = IntStream.range(0, 40).mapToObj(n -> CompletableFuture.runAsync(() -> turn(n)));
        CompletableFuture.allOf(turns.toArray(CompletableFuture[]::new)).join();
        System.out.println("held");
    }
}
