<?php
// phpredis: its RedisCluster, or a plain client behind the proxy.
require __DIR__ . '/counting.php';

if ($argv[1] === 'cluster') {
    $client = new RedisCluster(null, explode(',', getenv('NODES')), 5, 5);
    check(count($client->_masters()) === 3, 'masters');
} else {
    $client = new Redis();
    $client->connect('127.0.0.1', (int) getenv('PROXY_PORT'), 5);
}
check($client->mset(['{p}1' => '1', '{p}2' => '2']) && $client->mget(['{p}1', '{p}2']) === ['1', '2'], 'mget');
$client->del('{p}n');
check($client->multi()->incr('{p}n')->get('{p}n')->exec() === [1, '1'], 'transaction');
check($client->eval("return redis.call('INCRBY', KEYS[1], ARGV[1])", ['{p}n', '5'], 1) === 6, 'script');
check($client->hSet('{p}h', 'field', 'value') !== false && $client->hGetAll('{p}h') === ['field' => 'value'], 'hash');
if ($argv[1] !== 'cluster') {
    $pipe = $client->pipeline();
    for ($number = 0; $number < 100; $number++) {
        $pipe->set("pipe:$number", $number);
    }
    check($pipe->exec() === array_fill(0, 100, true), 'pipeline');
}
serve('phpredis ' . phpversion('redis'), fn ($key) => $client->incr($key), fn ($key) => $client->get($key));
