// SPDX-License-Identifier: Apache-2.0

// redigo: go run redigo.go ADDRESS. Ends with status 0 when all of it held.
package main

import (
	"fmt"
	"log"
	"os"
	"reflect"
	"strings"
	"sync"

	"github.com/gomodule/redigo/redis"
)

func equal(got, want interface{}) {
	if !reflect.DeepEqual(got, want) {
		log.Panicf("got %#v, not %#v", got, want)
	}
}

func must(value interface{}, err error) interface{} {
	if err != nil {
		log.Panic(err)
	}
	return value
}

func main() {
	pool := &redis.Pool{MaxActive: 8, Wait: true, Dial: func() (redis.Conn, error) {
		return redis.Dial("tcp", os.Args[1])
	}}
	defer pool.Close()
	c := pool.Get()
	defer c.Close()

	begun := must(redis.Values(c.Do("ONCE.BEGIN", "go", "a", "FP", "100 EUR"))).([]interface{})
	equal(begun[0], "EXECUTE")
	equal(begun[2:], []interface{}{int64(1), nil, nil})
	fence := begun[1]
	equal(must(c.Do("ONCE.COMPLETE", "go", "a", fence, 201, "ch_1")), "OK")
	again := must(redis.Values(c.Do("ONCE.BEGIN", "go", "a", "FP", "100 EUR"))).([]interface{})
	equal(again, []interface{}{"REPLAY", int64(201), []byte("ch_1")})
	_, err := c.Do("ONCE.COMPLETE", "go", "none", 1, 201, "x")
	if err == nil || !strings.HasPrefix(err.Error(), "NOTFOUND") {
		log.Panic(err)
	}

	// Pipelined by hand.
	for i := 0; i < 300; i++ {
		if err := c.Send("SET", fmt.Sprint("go-", i), i, "NX", "EX", 60); err != nil {
			log.Panic(err)
		}
	}
	must(nil, c.Flush())
	for i := 0; i < 300; i++ {
		equal(must(c.Receive()), "OK")
	}
	_, err = redis.String(c.Do("SET", "go-1", "theirs", "NX", "EX", 60))
	equal(err, redis.ErrNil)
	equal(must(redis.String(c.Do("GET", "go-299"))), "299")

	// Many goroutines ask for one key: one executes, and all get its answer.
	var group sync.WaitGroup
	var mutex sync.Mutex
	executed := 0
	for i := 0; i < 64; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			c := pool.Get()
			defer c.Close()
			verdict := must(redis.Values(c.Do("ONCE.BEGIN", "go", "raced", "WAIT", 20000))).([]interface{})
			if verdict[0] == "EXECUTE" {
				mutex.Lock()
				executed++
				mutex.Unlock()
				must(c.Do("ONCE.COMPLETE", "go", "raced", verdict[1], 200, "won"))
			} else {
				equal(verdict, []interface{}{"REPLAY", int64(200), []byte("won")})
			}
		}()
	}
	group.Wait()
	equal(executed, 1)
	fmt.Println("redigo: all held")
}
