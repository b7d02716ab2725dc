// go-redis: pipelines, transactions, scripts, streams, subscriptions, many goroutines.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

func check(what string, found, expected any) {
	if !reflect.DeepEqual(found, expected) {
		fmt.Printf("%s: %#v instead of %#v\n", what, found, expected)
		os.Exit(1)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// What TLS is spoken with: REDIS_CA is the authority of the store's certificate, if it speaks TLS.
func secure() *tls.Config {
	file := os.Getenv("REDIS_CA")
	if file == "" {
		return nil
	}
	authorities := x509.NewCertPool()
	check("authority", authorities.AppendCertsFromPEM(must(os.ReadFile(file))), true)
	return &tls.Config{RootCAs: authorities}
}

func run(protocol int) {
	client := redis.NewClient(&redis.Options{
		Addr:      "127.0.0.1:" + os.Getenv("REDIS_PORT"),
		Protocol:  protocol,
		TLSConfig: secure(),
	})
	defer client.Close()
	must(client.FlushAll(ctx).Result())

	check("set", must(client.Set(ctx, "k", "v", time.Minute).Result()), "OK")
	check("get", must(client.Get(ctx, "k").Result()), "v")
	_, err := client.Get(ctx, "none").Result()
	check("no key", errors.Is(err, redis.Nil), true)
	must(client.HSet(ctx, "h", map[string]any{"a": 1, "b": 2}).Result())
	check("hgetall", must(client.HGetAll(ctx, "h").Result()), map[string]string{"a": "1", "b": "2"})
	must(client.ZAdd(ctx, "z", redis.Z{Score: 1, Member: "one"}, redis.Z{Score: 2.5, Member: "two"}).Result())
	check("zrange", must(client.ZRangeWithScores(ctx, "z", 0, -1).Result()),
		[]redis.Z{{Score: 1, Member: "one"}, {Score: 2.5, Member: "two"}})

	must(client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for number := range 1000 {
			pipe.Set(ctx, fmt.Sprint("key:", number), number, 0)
		}
		return nil
	}))
	iterator, count := client.Scan(ctx, 0, "key:*", 100).Iterator(), 0
	for iterator.Next(ctx) {
		count++
	}
	check("scan", count, 1000)

	// Many that add one by reading, adding and writing: all must count.
	var group sync.WaitGroup
	for range 8 {
		group.Add(1)
		go func() {
			defer group.Done()
			for added := 0; added < 25; {
				err := client.Watch(ctx, func(tx *redis.Tx) error {
					now, err := tx.Get(ctx, "sum").Int()
					if err != nil && !errors.Is(err, redis.Nil) {
						return err
					}
					_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
						return pipe.Set(ctx, "sum", now+1, 0).Err()
					})
					return err
				}, "sum")
				if err == nil {
					added++
				} else if !errors.Is(err, redis.TxFailedErr) {
					panic(err)
				}
			}
		}()
	}
	group.Wait()
	check("sum", must(client.Get(ctx, "sum").Int()), 200)

	script := redis.NewScript("return redis.call('INCRBY', KEYS[1], ARGV[1])")
	check("script", must(script.Run(ctx, client, []string{"sum"}, 5).Int()), 205)

	id := must(client.XAdd(ctx, &redis.XAddArgs{Stream: "s", Values: []string{"a", "1"}}).Result())
	must(client.XGroupCreate(ctx, "s", "g", "0").Result())
	read := must(client.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "me", Streams: []string{"s", ">"}}).Result())
	check("xreadgroup", read[0].Messages[0].ID, id)

	subscription := client.Subscribe(ctx, "news")
	defer subscription.Close()
	must(subscription.Receive(ctx))
	check("receivers", must(client.Publish(ctx, "news", "hello").Result()), int64(1))
	check("message", must(subscription.ReceiveMessage(ctx)).Payload, "hello")

	go func() {
		time.Sleep(100 * time.Millisecond)
		client.RPush(ctx, "queue", "job")
	}()
	check("blpop", must(client.BLPop(ctx, 5*time.Second, "queue").Result()), []string{"queue", "job"})
	fmt.Printf("go-redis %s, RESP%d: ok\n", redis.Version(), protocol)
}

func main() {
	run(2)
	run(3)
}
