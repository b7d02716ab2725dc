<?php
// Predis: its client of clusters, or a plain one behind the proxy.
require 'Predis/autoload.php';
require __DIR__ . '/counting.php';

$isCluster = $argv[1] === 'cluster';
$nodes = array_map(fn ($node) => "tcp://$node", explode(',', getenv('NODES')));
$client = $isCluster ? new Predis\Client($nodes, ['cluster' => 'redis']) : new Predis\Client(['port' => (int) getenv('PROXY_PORT')]);
$client->mset(['{p}1' => '1', '{p}2' => '2']);
check($client->mget(['{p}1', '{p}2']) === ['1', '2'], 'mget');
$client->del(['{p}n']);
check($client->eval("return redis.call('INCRBY', KEYS[1], ARGV[1])", 1, '{p}n', '5') === 5, 'script');
$client->hset('{p}h', 'field', 'value');
check($client->hgetall('{p}h') === ['field' => 'value'], 'hash');
$answers = $client->pipeline(function ($pipe) {
    for ($number = 0; $number < 100; $number++) {
        $pipe->set("{q}$number", $number);
    }
});
check(count($answers) === 100 && $client->get('{q}7') === '7', 'pipeline');
if (!$isCluster) {
    check($client->transaction(fn ($tx) => $tx->incr('{p}n')) === [6], 'transaction');
}
serve('Predis ' . Predis\Client::VERSION, fn ($key) => $client->incr($key), fn ($key) => $client->get($key));
