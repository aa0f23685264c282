package main

import (
	"context"
	"strconv"
	"sync"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// A push consumer that stays up while the test ends the master it reads from, as in
// ReplicaScenarios.java: "replica_open" starts it under a name, "replica_suspend" and "replica_resume"
// end and begin its pulls, "replica_wait" waits until the bodies "0" to count - 1 have come,
// "replica_close" shuts it down and tells how often each came. Routes are read every 30 s, and this
// client has no setting for that.

type replicaReader struct {
	client rocketmq.PushConsumer
	lock   sync.Mutex
	counts map[int]int
}

var replicaReaders sync.Map

func readerOf(c *run) *replicaReader {
	found, _ := replicaReaders.Load(c.arguments["as"])
	return found.(*replicaReader)
}

func replicaOpen(c *run) {
	reader := &replicaReader{counts: map[int]int{}}
	reader.client = c.newPusher("c", consumer.WithGroupName(c.arguments["group"]))
	must(reader.client.Subscribe(c.arguments["topic"], consumer.MessageSelector{},
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			reader.lock.Lock()
			defer reader.lock.Unlock()
			for _, m := range messages {
				number, err := strconv.Atoi(string(m.Body))
				must(err)
				reader.counts[number]++
			}
			return consumer.ConsumeSuccess, nil
		}))
	must(reader.client.Start())
	replicaReaders.Store(c.arguments["as"], reader)
}

func replicaWait(c *run) {
	reader := readerOf(c)
	count, err := strconv.Atoi(c.arguments["count"])
	must(err)
	waitFor(150, c.arguments["count"]+" messages", func() bool {
		reader.lock.Lock()
		defer reader.lock.Unlock()
		return len(reader.counts) >= count
	})
}

func replicaClose(c *run) {
	reader := readerOf(c)
	replicaReaders.Delete(c.arguments["as"])
	must(reader.client.Shutdown())
	twice := map[string]int{}
	for number, count := range reader.counts {
		if count > 1 {
			twice[strconv.Itoa(number)] = count
		}
	}
	c.details["numbers"] = len(reader.counts)
	c.details["twice"] = twice
}
