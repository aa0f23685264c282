package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// Queues in order, through failures and from one member to the next.

// orderlySuspend: a message that fails holds up its queue, and comes again before what follows it.
func orderlySuspend(c *run) {
	queues := c.createTopic(c.topic("t"), 1)
	c.send(queues, "tag", 0, 20)
	var lock sync.Mutex
	seen := []int{}
	refusals := 0
	client := c.newPusher("c", consumer.WithConsumerOrder(true), consumer.WithSuspendCurrentQueueTimeMillis(100*time.Millisecond))
	must(client.Subscribe(c.topic("t"), consumer.MessageSelector{},
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			lock.Lock()
			defer lock.Unlock()
			if number(messages[0]) == 7 && refusals < 3 {
				refusals++
				return consumer.SuspendCurrentQueueAMoment, nil
			}
			for _, m := range messages {
				seen = append(seen, number(m))
			}
			return consumer.ConsumeSuccess, nil
		}))
	must(client.Start())
	c.later(func() { _ = client.Shutdown() })
	waitFor(60, "all messages", func() bool {
		lock.Lock()
		defer lock.Unlock()
		return len(seen) >= 20
	})
	lock.Lock()
	defer lock.Unlock()
	for i, n := range seen {
		check(i == n, "order %v", seen)
	}
	check(len(seen) == 20 && refusals == 3, "%d messages, refused %d times", len(seen), refusals)
}

// A ledger is written by all members: no queue goes on behind a gap, and none has two members inside.
type ledger struct {
	lock    sync.Mutex
	newest  map[int]int64
	inside  map[int]string
	numbers map[int]bool
	owners  map[string]bool
	wrong   string
}

func (l *ledger) begin(who string, m *primitive.MessageExt) {
	l.lock.Lock()
	defer l.lock.Unlock()
	queue := m.Queue.QueueId
	if other := l.inside[queue]; other != "" {
		l.wrong = fmt.Sprintf("%s in queue %d while %s was there", who, queue, other)
	}
	if newest, known := l.newest[queue]; known && m.QueueOffset > newest+1 || !known && m.QueueOffset > 0 {
		l.wrong = fmt.Sprintf("queue %d: %d after %d", queue, m.QueueOffset, newest)
	}
	if newest, known := l.newest[queue]; !known || m.QueueOffset > newest {
		l.newest[queue] = m.QueueOffset
	}
	l.inside[queue] = who
	l.owners[who] = true
}

func (l *ledger) end(m *primitive.MessageExt) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.inside[m.Queue.QueueId] = ""
	l.numbers[number(m)] = true
}

func (l *ledger) count() (messages, owners int) {
	l.lock.Lock()
	defer l.lock.Unlock()
	return len(l.numbers), len(l.owners)
}

func (c *run) newOrdered(who string, l *ledger) rocketmq.PushConsumer {
	client := c.newPusher("c", consumer.WithConsumerOrder(true))
	must(client.Subscribe(c.topic("t"), consumer.MessageSelector{},
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, m := range messages {
				l.begin(who, m)
				time.Sleep(2 * time.Millisecond)
				l.end(m)
			}
			return consumer.ConsumeSuccess, nil
		}))
	must(client.Start())
	return client
}

// orderlyHandOver: a second member comes, takes queues over, and has them all when the first leaves.
func orderlyHandOver(c *run) {
	queues := c.createTopic(c.topic("t"), 4)
	l := &ledger{newest: map[int]int64{}, inside: map[int]string{}, numbers: map[int]bool{}, owners: map[string]bool{}}
	sent := 0
	goOn := func(seconds int, what string, done func(messages, owners int) bool) {
		limit := time.Now().Add(time.Duration(seconds) * time.Second)
		for {
			messages, owners := l.count()
			if done(messages, owners) {
				return
			}
			check(time.Now().Before(limit), "waited %d s for %s: %d of %d", seconds, what, messages, sent)
			c.send(queues, "tag", sent, sent+8)
			sent += 8
			time.Sleep(100 * time.Millisecond)
		}
	}
	first := c.newOrdered("first", l)
	goOn(60, "the first", func(messages, owners int) bool { return messages > 40 && owners == 1 })
	second := c.newOrdered("second", l)
	c.later(func() { _ = second.Shutdown() })
	goOn(90, "the second", func(messages, owners int) bool { return owners == 2 })
	must(first.Shutdown())
	c.send(queues, "tag", sent, sent+80)
	sent += 80
	waitFor(120, "all messages", func() bool {
		messages, _ := l.count()
		return messages == sent
	})
	l.lock.Lock()
	defer l.lock.Unlock()
	check(l.wrong == "", "%s", l.wrong)
	c.details["sent"] = sent
}
