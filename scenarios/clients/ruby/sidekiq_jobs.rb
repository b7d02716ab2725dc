# Sidekiq: a thousand jobs, some that fail and are tried again, some for later.
require 'sidekiq'
require 'sidekiq/api'

# Otherwise it warns of each job.
Redis.sadd_returns_boolean = false

url = { url: "redis://127.0.0.1:#{ENV.fetch('REDIS_PORT')}/0" }
Sidekiq.configure_client { |config| config.redis = url }
Sidekiq.configure_server { |config| config.redis = url }

# What the jobs of this scenario do: count.
class Count
  include Sidekiq::Worker

  def perform(number)
    Sidekiq.redis { |redis| redis.incrby('sum', number) }
  end
end

# A job that fails the first time.
class FailsOnce
  include Sidekiq::Worker
  sidekiq_retry_in { 0 }

  def perform
    Sidekiq.redis { |redis| raise 'the first time' if redis.incr('tries') == 1 }
  end
end

# The worker loads this file too.
unless Sidekiq.server?
  Sidekiq.redis(&:flushall)
  1000.times { |number| Count.perform_async(number) }
  Count.perform_in(1, 1_000_000)
  FailsOnce.perform_async
  worker = Process.spawn('sidekiq', '-r', File.expand_path(__FILE__), '-c', '5', out: File::NULL, err: File::NULL)
  expected = (0...1000).sum + 1_000_000
  sum = tries = 0
  begin
    600.times do
      sum, tries = Sidekiq.redis { |redis| [redis.get('sum').to_i, redis.get('tries').to_i] }
      break if sum == expected && tries >= 2

      sleep 0.1
    end
  ensure
    Process.kill('TERM', worker)
    Process.wait(worker)
  end
  abort "the jobs made #{sum} instead of #{expected}, and #{tries} tries instead of 2" unless sum == expected && tries == 2
  abort 'some are left' unless Sidekiq::Queue.new.size.zero? && Sidekiq::ScheduledSet.new.size.zero?
  puts "Sidekiq #{Sidekiq::VERSION}: 1000 jobs, one for later and one that failed once: ok"
end
