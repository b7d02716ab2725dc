<?php
// What a client of the cluster does here: it counts in many keys, remembers what was acknowledged, and reports.

function check(bool $is, string $what): void
{
    if (!$is) {
        throw new RuntimeException($what);
    }
}

/** Works until told to stop: $increase counts in a key, $look gives a key's value. */
function serve(string $what, callable $increase, callable $look): never
{
    [$acknowledged, $done, $errors] = [[], 0, []];
    $report = function (string $what) use (&$done, &$errors): void {
        echo json_encode(['done' => $done, 'errors' => $errors, 'what' => $what]), "\n";
        flush();
        [$done, $errors] = [0, []];
    };
    stream_set_blocking(STDIN, false);
    for ($number = 0; ; $number = ($number + 1) % 200) {
        $line = fgets(STDIN);
        if ($line !== false && trim($line) === 'stop') {
            break;
        }
        if ($line !== false) {
            $report('');
        } elseif (feof(STDIN)) {
            exit(1);
        }
        $key = "count:$number";
        try {
            $value = $increase($key);
            check(is_int($value), 'no number: ' . json_encode($value));
            // A count never goes back: what was acknowledged is there.
            if ($value <= ($acknowledged[$key] ?? 0)) {
                $errors[] = "LOST $key: $value after {$acknowledged[$key]}";
            }
            $acknowledged[$key] = $value;
            $done++;
        } catch (Throwable $error) {
            $errors[] = substr(get_class($error) . ': ' . $error->getMessage(), 0, 300);
            usleep(10000);
        }
    }
    $lost = 0;
    foreach ($acknowledged as $key => $value) {
        if ((int) $look($key) < $value) {
            fwrite(STDERR, "lost: $key\n");
            $lost = 1;
        }
    }
    $report($what);
    exit($lost);
}
