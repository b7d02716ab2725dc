// go-redis: ClusterClient, or a plain client behind the proxy. It counts in many keys, remembers what was acknowledged, and reports.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

type counting struct {
	sync.Mutex
	acknowledged map[string]int64
	done         int
	errors       []string
	isOver       bool
}

func (c *counting) note(key string, value int64, err error) {
	c.Lock()
	defer c.Unlock()
	switch {
	case err != nil:
		c.errors = append(c.errors, err.Error())
	case value <= c.acknowledged[key]:
		// A count never goes back: what was acknowledged is there.
		c.errors = append(c.errors, fmt.Sprintf("LOST %s: %d after %d", key, value, c.acknowledged[key]))
	default:
		c.acknowledged[key] = value
		c.done++
	}
}

func (c *counting) report(what string) {
	c.Lock()
	defer c.Unlock()
	if c.errors == nil {
		c.errors = []string{}
	}
	line, _ := json.Marshal(map[string]any{"done": c.done, "errors": c.errors, "what": what})
	fmt.Println(string(line))
	c.done, c.errors = 0, nil
}

func (c *counting) over() bool {
	c.Lock()
	defer c.Unlock()
	return c.isOver
}

func must(err error, what string) {
	if err != nil {
		fmt.Fprintln(os.Stderr, what, err)
		os.Exit(1)
	}
}

func connect() redis.UniversalClient {
	if os.Args[1] == "proxy" {
		return redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Getenv("PROXY_PORT")})
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: strings.Split(os.Getenv("NODES"), ",")})
	masters := 0
	var lock sync.Mutex
	must(client.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		lock.Lock()
		defer lock.Unlock()
		masters++
		return master.Ping(ctx).Err()
	}), "masters")
	if masters != 3 {
		must(fmt.Errorf("%d masters", masters), "masters")
	}
	must(client.ForEachSlave(ctx, func(ctx context.Context, replica *redis.Client) error { return replica.Ping(ctx).Err() }), "replicas")
	reader := redis.NewClusterClient(&redis.ClusterOptions{Addrs: strings.Split(os.Getenv("NODES"), ","), ReadOnly: true, RouteRandomly: true})
	defer reader.Close()
	must(client.Set(ctx, "{p}read", 1, 0).Err(), "set")
	for range 100 {
		if reader.Get(ctx, "{p}read").Err() == nil {
			return client
		}
		time.Sleep(20 * time.Millisecond)
	}
	must(fmt.Errorf("never there"), "read of a replica")
	return client
}

func main() {
	client := connect()
	_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for number := range 100 {
			pipe.Set(ctx, fmt.Sprint("pipe:", number), number, 0)
		}
		return nil
	})
	must(err, "pipeline")
	_, err = client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Incr(ctx, "{t}a")
		pipe.Get(ctx, "{t}a")
		return nil
	})
	must(err, "transaction")
	must(client.Watch(ctx, func(tx *redis.Tx) error {
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Set(ctx, "{t}b", 1, 0).Err() })
		return err
	}, "{t}b"), "watch")
	must(redis.NewScript("return redis.call('GET', KEYS[1])").Run(ctx, client, []string{"pipe:7"}).Err(), "script")

	count := &counting{acknowledged: map[string]int64{}}
	var group sync.WaitGroup
	for place := range 4 {
		group.Add(1)
		go func() {
			defer group.Done()
			for !count.over() {
				for number := place; number < 200; number += 4 {
					key := fmt.Sprint("count:", number)
					value, err := client.Incr(ctx, key).Result()
					count.note(key, value, err)
				}
			}
		}()
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() && lines.Text() != "stop" {
		count.report("")
	}
	count.Lock()
	count.isOver = true
	count.Unlock()
	group.Wait()
	lost := 0
	for key, value := range count.acknowledged {
		found, err := client.Get(ctx, key).Int64()
		if err != nil || found < value {
			fmt.Fprintln(os.Stderr, "lost:", key, found, err)
			lost = 1
		}
	}
	count.report("go-redis " + redis.Version())
	os.Exit(lost)
}
