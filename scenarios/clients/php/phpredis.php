<?php
// phpredis: what PHP's frameworks do with it, and sessions with locks.
ob_start();
$port = (int) getenv('REDIS_PORT');
$redis = new Redis();
$redis->pconnect('127.0.0.1', $port);
$redis->flushAll();

function check($what, $found, $expected)
{
    if ($found !== $expected) {
        ob_end_flush();
        echo "$what: ", var_export($found, true), ' instead of ', var_export($expected, true), "\n";
        exit(1);
    }
}

check('set', $redis->set('k', 'v', ['nx', 'ex' => 100]), true);
check('set again', $redis->set('k', 'w', ['nx']), false);
check('mget', $redis->mget(['k', 'none']), ['v', false]);
check('multi', $redis->multi()->incr('n')->incrBy('n', 5)->get('n')->exec(), [1, 6, '6']);
$pipe = $redis->pipeline();
for ($number = 0; $number < 1000; $number++) {
    $pipe->set("key:$number", $number);
}
check('pipeline', count(array_filter($pipe->exec())), 1000);
$redis->setOption(Redis::OPT_SCAN, Redis::SCAN_RETRY);
$cursor = null;
$found = 0;
while ($keys = $redis->scan($cursor, 'key:*', 100)) {
    $found += count($keys);
}
check('scan', $found, 1000);
$redis->setOption(Redis::OPT_SERIALIZER, Redis::SERIALIZER_PHP);
$redis->set('object', ['a' => [1, 2]]);
check('object', $redis->get('object'), ['a' => [1, 2]]);
$redis->setOption(Redis::OPT_SERIALIZER, Redis::SERIALIZER_NONE);
$redis->hMSet('h', ['a' => 1, 'b' => 2]);
check('hash', $redis->hGetAll('h'), ['a' => '1', 'b' => '2']);
$redis->zAdd('z', 1, 'one', 2.5, 'two');
check('sorted set', $redis->zRange('z', 0, -1, true), ['one' => 1.0, 'two' => 2.5]);
check('restore', $redis->restore('copy', 0, $redis->dump('z')), true);
check('eval', $redis->eval('return {KEYS[1], ARGV[1]}', ['a', 'b'], 1), ['a', 'b']);
check('evalsha', $redis->evalSha(str_repeat('f', 40), [], 0), false);
check('its error', strtok($redis->getLastError(), ' '), 'NOSCRIPT');
$id = $redis->xAdd('s', '*', ['f' => 'v']);
$redis->xGroup('CREATE', 's', 'g', '0');
check('stream', $redis->xReadGroup('g', 'me', ['s' => '>']), ['s' => [$id => ['f' => 'v']]]);
$redis->rPush('queue', 'job');
check('brpop', [$redis->brPop(['queue'], 1), $redis->brPop(['queue'], 1)], [['queue', 'job'], []]);

foreach (['use_cookies' => '0', 'cache_limiter' => '', 'save_handler' => 'redis',
    'save_path' => "tcp://127.0.0.1:$port?prefix=session:"] as $name => $value) {
    ini_set("session.$name", $value);
}
ini_set('redis.session.locking_enabled', '1');
session_id('abc');
session_start();
$_SESSION['user'] = 42;
check('a lock', $redis->exists('session:abc_LOCK'), 1);
session_write_close();
check('no lock', $redis->exists('session:abc_LOCK'), 0);
session_id('abc');
session_start();
check('session', $_SESSION['user'], 42);
session_destroy();
check('no session', $redis->exists('session:abc'), 0);
ob_end_flush();
echo 'phpredis ', phpversion('redis'), ": ok\n";
