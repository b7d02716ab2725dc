import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;

/** What a client of the cluster does here: it counts in many keys, remembers what was acknowledged, and reports. */
final class Counting {
    static final int KEYS = 200;
    static final int THREADS = 4;

    interface Increase {
        long of(String key) throws Exception;
    }

    interface Look {
        String at(String key) throws Exception;
    }

    private final Map<String, Long> acknowledged = new ConcurrentHashMap<>();
    private long done;
    private List<String> errors = new ArrayList<>();
    private volatile boolean isOver;

    private synchronized void note(String key, long value) {
        // A count never goes back: what was acknowledged is there.
        long before = acknowledged.getOrDefault(key, 0L);
        if (value <= before) errors.add("LOST " + key + ": " + value + " after " + before);
        acknowledged.put(key, value);
        done++;
    }

    private synchronized void fail(Exception error) {
        String text = error.toString();
        for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) text += ": " + cause;
        errors.add(text.substring(0, Math.min(300, text.length())));
    }

    private synchronized void report(String what) {
        StringBuilder line = new StringBuilder("{\"done\": " + done + ", \"what\": " + quoted(what) + ", \"errors\": [");
        for (int index = 0; index < errors.size(); index++) line.append(index > 0 ? ", " : "").append(quoted(errors.get(index)));
        System.out.println(line.append("]}"));
        done = 0;
        errors = new ArrayList<>();
    }

    private static String quoted(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"").replaceAll("[\\x00-\\x1f]", " ") + '"';
    }

    private void loop(int place, Increase increase) {
        while (!isOver) {
            for (int number = place; number < KEYS; number += THREADS) {
                String key = "count:" + number;
                try {
                    note(key, increase.of(key));
                } catch (Exception error) {
                    fail(error);
                }
            }
        }
    }

    /** Works in threads, each with its own keys, until told to stop. */
    static void serve(String what, Increase increase, Look look) throws Exception {
        Counting counting = new Counting();
        List<Thread> threads = new ArrayList<>();
        for (int place = 0; place < THREADS; place++) {
            int own = place;
            Thread thread = new Thread(() -> counting.loop(own, increase));
            thread.setDaemon(true);
            thread.start();
            threads.add(thread);
        }
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null && !line.equals("stop"); line = lines.readLine()) counting.report("");
        counting.isOver = true;
        for (Thread thread : threads) thread.join(30_000);
        int lost = 0;
        for (Map.Entry<String, Long> one : new TreeMap<>(counting.acknowledged).entrySet()) {
            String found = look.at(one.getKey());
            if (found == null || Long.parseLong(found) < one.getValue()) {
                System.err.println("lost: " + one + ", found " + found);
                lost = 1;
            }
        }
        counting.report(what);
        System.exit(lost);
    }

    static void check(boolean is, String what) {
        if (!is) throw new AssertionError(what);
    }
}
