// HttpClient of Java, beside restarts: stores and reads until the file of the second argument is there. A refused connection is no error.

import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicLong;

public class Restarts {
    static final HttpClient CLIENT = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    static final AtomicLong ANSWERED = new AtomicLong(), REFUSED = new AtomicLong();

    /** One request, as often as there is no server. A PUT without a response is not repeated by HttpClient. */
    static void ask(HttpRequest request, String value) throws Exception {
        while (true) {
            try {
                var response = CLIENT.send(request, BodyHandlers.ofString());
                boolean isRight = request.method().equals("PUT") || response.body().equals(value);
                if (response.statusCode() != 200 || !isRight) {
                    throw new IllegalStateException(request + ": " + response + ": " + response.body());
                }
                ANSWERED.incrementAndGet();
                return;
            } catch (ConnectException refused) {
                REFUSED.incrementAndGet();
                Thread.sleep(5);
            }
        }
    }

    static void client(URI at, Path end) {
        try {
            for (int round = 0; !Files.exists(end); round++) {
                String value = "value " + round;
                ask(HttpRequest.newBuilder(at).PUT(BodyPublishers.ofString(value)).build(), value);
                ask(HttpRequest.newBuilder(at).build(), value);
            }
        } catch (Exception failed) {
            failed.printStackTrace();
            System.exit(1);
        }
    }

    public static void main(String[] args) throws Exception {
        var threads = new Thread[4];
        for (int n = 0; n < threads.length; n++) {
            var at = URI.create(args[0] + "/java-" + n);
            threads[n] = new Thread(() -> client(at, Path.of(args[1])));
            threads[n].start();
        }
        for (var thread : threads) {
            thread.join();
        }
        System.out.println(ANSWERED + " answered, " + REFUSED + " refused");
    }
}
