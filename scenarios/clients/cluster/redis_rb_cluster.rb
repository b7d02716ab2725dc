# redis-rb: its client of clusters, or a plain one behind the proxy. It counts in many keys, remembers what was acknowledged, and reports.
require "json"
require "redis"

def check(is, what)
  raise what unless is
end

in_cluster = ARGV[0] == "cluster"
nodes = ENV.fetch("NODES").split(",").map { |node| "redis://#{node}" }
connect = -> { in_cluster ? Redis.new(cluster: nodes, timeout: 5) : Redis.new(port: ENV.fetch("PROXY_PORT").to_i, timeout: 5) }
client = connect.call
client.mset("{p}1", "1", "{p}2", "2")
check(client.mget("{p}1", "{p}2") == %w[1 2], "mget")
client.del("{p}n")
check(client.multi { |tx| tx.incr("{p}n"); tx.get("{p}n") } == [1, "1"], "transaction")
check(client.eval("return redis.call('INCRBY', KEYS[1], ARGV[1])", keys: ["{p}n"], argv: ["5"]) == 6, "script")
check(client.pipelined { |pipe| 100.times { |number| pipe.set("{q}#{number}", number) } } == ["OK"] * 100, "pipeline")
if in_cluster
  begin
    client.mget("a", "b")
    raise "keys of two slots"
  rescue Redis::BaseError => error
    check(error.message =~ /slot|node/i, error.message)
  end
end

acknowledged = {}
done = 0
errors = []
lock = Mutex.new
is_over = false
threads = 4.times.map do |place|
  Thread.new do
    own = connect.call
    until is_over
      (place...200).step(4) do |number|
        key = "count:#{number}"
        begin
          value = own.incr(key)
          lock.synchronize do
            # A count never goes back: what was acknowledged is there.
            errors << "LOST #{key}: #{value} after #{acknowledged[key]}" if value <= acknowledged.fetch(key, 0)
            acknowledged[key] = value
            done += 1
          end
        rescue Redis::Cluster::Node::ReloadNeeded
          # It was sent to a master that the node it asked for the list did not know yet. This client does not ask again by itself; the
          # command was not sent.
          sleep 0.01
          retry
        rescue StandardError => error
          lock.synchronize { errors << "#{error.class}: #{error.message}"[0, 300] }
          sleep 0.01
        end
      end
    end
  end
end
report = lambda do |what|
  lock.synchronize do
    puts JSON.generate(done: done, errors: errors, what: what)
    $stdout.flush
    done, errors = 0, []
  end
end
$stdin.each_line do |line|
  break if line.strip == "stop"
  report.call("")
end
is_over = true
threads.each { |thread| thread.join(30) }
lost = acknowledged.reject { |key, value| client.get(key).to_i >= value }
warn "lost: #{lost}" unless lost.empty?
report.call("redis-rb #{Redis::VERSION}")
exit(lost.empty? ? 0 : 1)
