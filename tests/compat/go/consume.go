package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

func pushOne(c *run) {
	queues := c.createTopic(c.topic("t"), 4)
	r := newReceiver()
	c.startPusher("c", c.topic("t"), "*", r)
	c.send(queues, "tag", 0, 300)
	r.expectExactlyOnce(0, 300, 40)
}

// Which queues a Go consumer owns cannot be asked; what each receives tells.
func pushThree(c *run) {
	topic := c.topic("t")
	queues := c.createTopic(topic, 6)
	receivers := []*receiver{newReceiver(), newReceiver(), newReceiver()}
	for _, r := range receivers {
		c.startPusher("c", topic, "*", r)
	}
	// Probes until they spread over all three; only then is the state steady.
	shares := func() [3]int {
		return [3]int{receivers[0].total(), receivers[1].total(), receivers[2].total()}
	}
	sent := 0
	waitFor(60, "equal shares", func() bool {
		before := shares()
		c.send(queues, "probe", sent, sent+6)
		sent += 6
		time.Sleep(500 * time.Millisecond)
		after := shares()
		return after[0]-before[0] == 2 && after[1]-before[1] == 2 && after[2]-before[2] == 2
	})
	c.send(queues, "tag", sent, sent+600)
	waitFor(40, "600 messages", func() bool { return len(since(receivers, sent)) == 600 })
	time.Sleep(time.Second)
	for n, count := range since(receivers, sent) {
		check(count == 1, "message %d came %d times", n, count)
	}
}

// since adds up what the receivers got, from message number `first` on.
func since(receivers []*receiver, first int) map[int]int {
	counts := map[int]int{}
	for _, r := range receivers {
		r.lock.Lock()
		for n, count := range r.counts {
			if n >= first {
				counts[n] += count
			}
		}
		r.lock.Unlock()
	}
	return counts
}

func pushTags(c *run) {
	queues := c.createTopic(c.topic("t"), 2)
	r := newReceiver()
	c.startPusher("c", c.topic("t"), "A || C", r)
	c.send(queues, "B", 100, 150)
	c.send(queues, "A", 0, 50)
	c.send(queues, "C", 50, 100)
	r.expectExactlyOnce(0, 100, 40)
}

func pushSql(c *run) {
	queues := c.createTopic(c.topic("t"), 2)
	c.send(queues, "B", 100, 150)
	c.send(queues, "A", 0, 20)
	r := newReceiver()
	client := c.newPusher("c")
	selector := consumer.MessageSelector{
		Type:       consumer.SQL92,
		Expression: "TAGS = 'A' AND n NOT BETWEEN 60 AND 99 OR n IN ('40', '41')",
	}
	must(client.Subscribe(c.topic("t"), selector, r.listen))
	must(client.Start())
	c.later(func() { _ = client.Shutdown() })
	waitFor(40, "the early ones", func() bool { return r.total() == 20 })
	c.send(queues, "A", 60, 99)
	c.send(queues, "A", 20, 40)
	c.send(queues, "B", 40, 42)
	r.expectExactlyOnce(0, 42, 40)
}

func pushFromFirst(c *run) {
	queues := c.createTopic(c.topic("t"), 2)
	c.send(queues, "tag", 0, 50)
	r := newReceiver()
	c.startPusher("c", c.topic("t"), "*", r)
	r.expectExactlyOnce(0, 50, 40)
}

func pushBroadcasting(c *run) {
	queues := c.createTopic(c.topic("t"), 4)
	receivers := []*receiver{newReceiver(), newReceiver()}
	for _, r := range receivers {
		c.startPusher("c", c.topic("t"), "*", r, consumer.WithConsumerModel(consumer.BroadCasting))
	}
	c.send(queues, "tag", 0, 100)
	for _, r := range receivers {
		r.expectExactlyOnce(0, 100, 40)
	}
}

func pushOrderly(c *run) {
	queues := c.createTopic(c.topic("t"), 4)
	r := newReceiver()
	var lock sync.Mutex
	next := map[int]int64{}
	wrong := 0
	client := c.newPusher("c", consumer.WithConsumerOrder(true))
	must(client.Subscribe(c.topic("t"), consumer.MessageSelector{},
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			lock.Lock()
			defer lock.Unlock()
			for _, m := range messages {
				if m.QueueOffset != next[m.Queue.QueueId] {
					wrong++
				}
				next[m.Queue.QueueId] = m.QueueOffset + 1
				r.took(m)
			}
			return consumer.ConsumeSuccess, nil
		}))
	must(client.Start())
	c.later(func() { _ = client.Shutdown() })
	c.send(queues, "tag", 0, 200)
	r.expectExactlyOnce(0, 200, 60)
	check(wrong == 0, "%d out of order", wrong)
}

func pullFrom(c *run) {
	queues := c.createTopic(c.topic("t"), 2)
	c.send(queues[:1], "tag", 0, 50)
	puller := c.newPuller("c", c.topic("t"), "*")
	expect := func(what string, queue *primitive.MessageQueue, offset int64, status primitive.PullStatus, next, max int64) {
		result, err := puller.PullFrom(background, queue, offset, 32)
		must(err)
		check(result.Status == status && result.NextBeginOffset == next && result.MinOffset == 0 &&
			result.MaxOffset == max, "%s: %v", what, result)
	}
	expect("first", queues[0], 0, primitive.PullFound, 32, 50)
	expect("second", queues[0], 32, primitive.PullFound, 50, 50)
	expect("end", queues[0], 50, primitive.PullNoNewMsg, 50, 50)
	expect("beyond", queues[0], 99, primitive.PullOffsetIllegal, 50, 50)
	expect("empty", queues[1], 0, primitive.PullNoNewMsg, 0, 0)
}

func pullPoll(c *run) {
	queues := c.createTopic(c.topic("t"), 4)
	c.send(queues, "A", 0, 100)
	c.send(queues, "B", 100, 200)
	puller := c.newPuller("c", c.topic("t"), "B")
	r := newReceiver()
	waitFor(40, "100 messages", func() bool {
		request, err := puller.Poll(background, time.Second)
		if err == nil {
			for _, m := range request.GetMsgList() {
				r.took(m)
			}
			puller.ACK(background, request, consumer.ConsumeSuccess)
		}
		return r.total() >= 100
	})
	r.expectExactlyOnce(100, 200, 5)
}

func adminTopics(c *run) {
	topic := c.topic("t")
	c.createTopic(topic, 3)
	client := c.newAdmin()
	defer client.Close()
	contains := func() bool {
		list, err := client.FetchAllTopicList(background)
		must(err)
		for _, name := range list.TopicList {
			if name == topic {
				return true
			}
		}
		return false
	}
	check(contains(), "%s is listed", topic)
	groups, err := client.GetAllSubscriptionGroup(background, c.arguments["broker"], 3*time.Second)
	must(err)
	check(len(groups.SubscriptionGroupTable) > 0, "groups")
	must(client.DeleteTopic(background, admin.WithTopicDelete(topic),
		admin.WithBrokerAddrDelete(c.arguments["broker"]),
		admin.WithNameSrvAddr([]string{c.arguments["nameServer"]})))
	waitFor(15, "deletion of "+topic, func() bool { return !contains() })
}

func offsetClientRestart(c *run) {
	topic := c.topic("t")
	queues := c.createTopic(topic, 4)
	c.send(queues, "tag", 0, 100)
	first := newReceiver()
	consumer := c.startPusher("c", topic, "*", first)
	first.expectExactlyOnce(0, 100, 40)
	must(consumer.Shutdown())
	c.send(queues, "tag", 100, 150)
	again := newReceiver()
	c.startPusher("c", topic, "*", again)
	again.expectExactlyOnce(100, 150, 60)
}

func offsetBefore(c *run) {
	topic := c.topic("t")
	queues := c.createTopic(topic, 4)
	c.send(queues, "tag", 0, 100)
	r := newReceiver()
	client := c.startPusher("c", topic, "*", r)
	r.expectExactlyOnce(0, 100, 40)
	must(client.Shutdown())
	c.send(queues, "tag", 100, 120)
}

func offsetAfter(c *run) {
	topic := c.topic("t")
	queues := c.createTopic(topic, 4) // the same again: no change
	check(len(c.pullAll(queues, 120)) == 120, "stored")
	c.send(queues, "tag", 120, 140)
	r := newReceiver()
	c.startPusher("c", topic, "*", r)
	r.expectExactlyOnce(100, 140, 60)
}

// A live run stays open under its name while the test does something to the broker.
type live struct {
	c      *run
	r      *receiver
	queues []*primitive.MessageQueue
	next   int
	pusher rocketmq.PushConsumer
	lastId string
}

var lives sync.Map

func liveOpen(c *run) {
	l := &live{c: newRun("", c.arguments, map[string]any{}), r: newReceiver()}
	topic := l.c.topic("t")
	l.queues = l.c.createTopic(topic, 4)
	l.pusher = l.c.startPusher("c", topic, "*", l.r)
	lives.Store(c.arguments["as"], l)
	c.details["topic"] = topic
	c.details["consumerGroup"] = l.c.group("c")
}

// liveCounts answers with how often each number came, once all from "first" on came "least" times.
func liveCounts(c *run) {
	value, _ := lives.Load(c.arguments["as"])
	l := value.(*live)
	limit := func(name string, otherwise int) int {
		if text, given := c.arguments[name]; given {
			n, err := strconv.Atoi(text)
			must(err)
			return n
		}
		return otherwise
	}
	least := limit("least", 1)
	waitFor(limit("seconds", 60), fmt.Sprintf("%d times each", least), func() bool {
		l.r.lock.Lock()
		defer l.r.lock.Unlock()
		for n := limit("first", 0); n < l.next; n++ {
			if l.r.counts[n] < least {
				return false
			}
		}
		return true
	})
	time.Sleep(time.Second)
	l.r.lock.Lock()
	defer l.r.lock.Unlock()
	words := []string{}
	for n := 0; n < l.next; n++ {
		words = append(words, fmt.Sprintf("%d:%d", n, l.r.counts[n]))
	}
	c.details["counts"] = strings.Join(words, " ")
}

// With a broker that was just restarted the first sends may need some attempts; a restart may take the
// latest commits of offsets with it, so messages arrive at least once.
func liveSend(c *run) {
	value, _ := lives.Load(c.arguments["as"])
	l := value.(*live)
	count := 100
	if text, given := c.arguments["count"]; given {
		var err error
		count, err = strconv.Atoi(text)
		must(err)
	}
	end := l.next + count
	limit := time.Now().Add(60 * time.Second)
	for l.next < end {
		m := message(l.queues[l.next%len(l.queues)], "tag", l.next)
		result, err := l.c.producer().SendSync(background, m)
		if err == nil && result.Status == primitive.SendOK {
			l.lastId = result.OffsetMsgID
			l.next++
			continue
		}
		check(time.Now().Before(limit), "still failing: %v %v", result, err)
		time.Sleep(200 * time.Millisecond)
	}
	waitFor(60, "all messages", func() bool { return len(l.r.missing(0, end)) == 0 })
	c.details["lastOffsetId"] = l.lastId
	c.details["sent"] = l.next
	c.details["received"] = l.r.total()
}

func liveClose(c *run) {
	value, _ := lives.LoadAndDelete(c.arguments["as"])
	value.(*live).c.close()
}
