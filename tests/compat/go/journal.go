package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// Members of one group in processes of their own that may be killed, as in OrderlyJournal.java: each
// writes what it does to one file, line by line, before its listener goes on.
//
//	begin who queue offset number
//	end who queue offset number

var journalled sync.Map

func orderedOpen(c *run) {
	who := c.arguments["who"]
	journal, err := os.OpenFile(c.arguments["file"], os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	must(err)
	write := func(what string, m *primitive.MessageExt) {
		line := fmt.Sprintf("%s %s %d %d %d\n", what, who, m.Queue.QueueId, m.QueueOffset, number(m))
		_, err := journal.WriteString(line) // one system call
		must(err)
	}
	client := c.newPusher("c", consumer.WithGroupName(c.arguments["group"]), consumer.WithConsumerOrder(true))
	must(client.Subscribe(c.arguments["topic"], consumer.MessageSelector{},
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, m := range messages {
				write("begin", m)
				time.Sleep(2 * time.Millisecond)
				write("end", m)
			}
			return consumer.ConsumeSuccess, nil
		}))
	must(client.Start())
	journalled.Store(who, func() { must(client.Shutdown()) })
}

func orderedClose(c *run) {
	closing, _ := journalled.LoadAndDelete(c.arguments["who"])
	closing.(func())()
}
