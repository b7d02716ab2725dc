<?php
// A front controller as WordPress has one: every path that is no file comes here.
$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
header('X-Front: yes');
switch (true) {
    case $path === '/' || $path === '/index.php':
        header('Cache-Control: public, max-age=60');
        echo "<h1>Home</h1>\n" . microtime();
        break;
    case $path === '/vars':
        header('Content-Type: text/plain');
        ksort($_SERVER);
        foreach ($_SERVER as $name => $value) {
            if (is_string($value)) echo "$name=$value\n";
        }
        break;
    case $path === '/form':
        header('Content-Type: application/json');
        echo json_encode(['method' => $_SERVER['REQUEST_METHOD'], 'get' => $_GET, 'post' => $_POST]);
        break;
    case $path === '/upload':
        header('Content-Type: application/json');
        $found = [];
        foreach ($_FILES as $name => $file) {
            $found[$name] = [$file['name'], $file['size'], md5_file($file['tmp_name'])];
        }
        echo json_encode($found);
        break;
    case $path === '/raw':
        $hash = hash_init('md5');
        $size = 0;
        $in = fopen('php://input', 'rb');
        while (!feof($in)) {
            $bytes = fread($in, 65536);
            $size += strlen($bytes);
            hash_update($hash, $bytes);
        }
        echo $size . ' ' . hash_final($hash);
        break;
    case $path === '/login':
        session_start();
        $_SESSION['user'] = $_POST['user'] ?? 'nobody';
        setcookie('theme', 'dark', ['path' => '/', 'httponly' => true]);
        header('Location: /account');
        break;
    case $path === '/account':
        session_start();
        echo 'hello ' . ($_SESSION['user'] ?? 'stranger') . ' ' . ($_COOKIE['theme'] ?? '-');
        break;
    case $path === '/stream':
        header('X-Accel-Buffering: no');
        for ($i = 1; $i <= 3; $i++) {
            echo "part $i\n";
            ob_flush();
            flush();
            usleep(300000);
        }
        break;
    case $path === '/large':
        $megabytes = (int) ($_GET['mb'] ?? 1);
        header('Content-Length: ' . ($megabytes << 20));
        for ($i = 0; $i < $megabytes * 16; $i++) echo str_repeat('x', 65536);
        break;
    case $path === '/error':
        error_log("something went\x1b[31m wrong\nand more");
        http_response_code(500);
        echo 'broken';
        break;
    case $path === '/empty':
        http_response_code(204);
        break;
    case $path === '/exit':
        posix_kill(getmypid(), 9);
        break;
    case $path === '/sleep':
        usleep((int) ($_GET['ms'] ?? 1000) * 1000);
        echo 'slept';
        break;
    case $path === '/junk':
        header('Status: abc');
        echo 'x';
        break;
    default:
        http_response_code(404);
        echo "no page $path";
}
