package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// Messages that fail, and requests with replies. The broker has the levels "1s 2s 1s 2s 3s".

// retryToDeadLetter: each message fails three times (twice as a retry) and is a dead letter then.
func retryToDeadLetter(c *run) {
	topic := c.topic("t")
	queues := c.createTopic(topic, 2)
	var lock sync.Mutex
	seen := map[string]int{}
	firstIds := map[int]string{}
	client := c.newPusher("c", consumer.WithMaxReconsumeTimes(2))
	must(client.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: "*"},
		func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			lock.Lock()
			defer lock.Unlock()
			for _, m := range messages {
				seen[fmt.Sprintf("%d:%d", number(m), m.ReconsumeTimes)]++
				if _, known := firstIds[number(m)]; !known {
					firstIds[number(m)] = m.OffsetMsgId
				}
				check(m.Topic == topic, "topic %s", m.Topic)
			}
			return consumer.ConsumeRetryLater, nil
		}))
	must(client.Start())
	c.later(func() { _ = client.Shutdown() })
	c.send(queues, "tag", 0, 4)
	// This client sees its retry topic at a rebalance after its first heartbeat: up to 50 s.
	waitFor(100, "three deliveries of each", func() bool {
		lock.Lock()
		defer lock.Unlock()
		return len(seen) == 12
	})
	dead := "%DLQ%" + c.group("c")
	place := &primitive.MessageQueue{Topic: dead, BrokerName: queues[0].BrokerName, QueueId: 0}
	var found []*primitive.MessageExt
	waitFor(40, "route of "+dead, func() bool { return c.hasRoute(dead) })
	reader := c.newPuller("dead", dead, "*")
	waitFor(40, "dead letters", func() bool {
		result, err := reader.PullFrom(background, place, 0, 32)
		if err != nil || result.Status != primitive.PullFound {
			return false
		}
		found = result.GetMessageExts()
		return len(found) >= 4
	})
	check(len(found) == 4, "%d dead letters", len(found))
	got := map[int]bool{}
	for _, m := range found {
		n := number(m)
		got[n] = true
		check(m.ReconsumeTimes == 3, "message %d: times %d", n, m.ReconsumeTimes)
		check(string(m.Body) == fmt.Sprintf("body-%d", n), "body %s", m.Body)
		check(m.GetProperty("RETRY_TOPIC") == topic, "first topic %s", m.GetProperty("RETRY_TOPIC"))
		check(m.GetProperty("ORIGIN_MESSAGE_ID") == firstIds[n], "first id %s, not %s",
			m.GetProperty("ORIGIN_MESSAGE_ID"), firstIds[n])
		check(m.GetTags() == "tag", "tags %s", m.GetTags())
	}
	check(len(got) == 4, "dead letters %v", got)
	for what, count := range seen {
		check(count == 1, "delivery %s came %d times", what, count)
	}
}

// retryAskedLevel: the context names the delay level of the next time, 1 (1 s).
func retryAskedLevel(c *run) {
	topic := c.topic("t")
	queues := c.createTopic(topic, 1)
	var lock sync.Mutex
	times := map[int][]time.Time{}
	client := c.newPusher("c")
	must(client.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: "*"},
		func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			lock.Lock()
			defer lock.Unlock()
			again := false
			for _, m := range messages {
				times[number(m)] = append(times[number(m)], time.Now())
				again = again || m.ReconsumeTimes == 0
			}
			if again {
				current, _ := primitive.GetConcurrentlyCtx(ctx)
				current.DelayLevelWhenNextConsume = 1
				return consumer.ConsumeRetryLater, nil
			}
			return consumer.ConsumeSuccess, nil
		}))
	must(client.Start())
	c.later(func() { _ = client.Shutdown() })
	second := func(first, end int) func() bool {
		return func() bool {
			lock.Lock()
			defer lock.Unlock()
			for n := first; n < end; n++ {
				if len(times[n]) < 2 {
					return false
				}
			}
			return true
		}
	}
	c.send(queues, "tag", 0, 1) // until this has come again the retry topic is not consumed
	waitFor(100, "the first retry", second(0, 1))
	c.send(queues, "tag", 1, 4)
	waitFor(40, "second times", second(1, 4))
	time.Sleep(1500 * time.Millisecond)
	lock.Lock()
	defer lock.Unlock()
	for n, at := range times {
		if n == 0 {
			continue
		}
		waited := at[1].Sub(at[0])
		check(len(at) == 2 && waited >= 950*time.Millisecond && waited < 9*time.Second,
			"message %d came %d times, after %v", n, len(at), waited)
	}
}

// requestReply: a producer asks, a consumer answers.
func requestReply(c *run) {
	topic := c.topic("t")
	c.createTopic(topic, 2)
	// Answers are matched to producers by their heartbeats: a Go producer sends its first one late.
	replier := c.newProducer(producer.WithGroupName(c.group("replier")))
	client := c.newPusher("c")
	must(client.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: "*"},
		func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, m := range messages {
				reply, err := consumer.CreateReplyMessage(m, nil)
				must(err)
				reply.Body = []byte("reply to " + string(m.Body)) // the client forgets to set it
				if _, err = replier.SendSync(background, reply); err != nil {
					c.details["reply failed"] = err.Error()
					return consumer.ConsumeRetryLater, nil
				}
				c.details["replied to"] = reply.GetProperty("REPLY_TO_CLIENT")
			}
			return consumer.ConsumeSuccess, nil
		}))
	must(client.Start())
	c.later(func() { _ = client.Shutdown() })
	asker := c.newProducer(producer.WithGroupName(c.group("asker")))
	answered := 0
	limit := time.Now().Add(60 * time.Second)
	for answered < 5 {
		body := fmt.Sprintf("question %d", answered)
		reply, err := asker.Request(background, 5*time.Second,
			primitive.NewMessage(topic, []byte(body)))
		if err != nil { // the producer's heartbeat or the consumer's first pull may not be there yet
			check(time.Now().Before(limit), "no reply: %v, %v", err, c.details)
			continue
		}
		check(string(reply.Body) == "reply to "+body, "reply %s", reply.Body)
		check(reply.GetProperty("CORRELATION_ID") != "", "correlation of %v", reply)
		answered++
	}
}

// delays: by level, and by the properties of timed messages, for which this client has no method.
func delays(c *run) {
	topic := c.topic("t")
	queues := c.createTopic(topic, 2)
	levels := []int{1, 2, 5}
	waits := []int64{1000, 2000, 3000}
	due := map[int]int64{}
	for n := 0; n < 18; n++ {
		m := message(queues[n%2], "tag", n)
		now := time.Now().UnixMilli()
		switch {
		case n < 9:
			m.WithDelayTimeLevel(levels[n%3])
			due[n] = now + waits[n%3]
		case n%3 == 0:
			m.WithProperty("TIMER_DELAY_SEC", "2")
			due[n] = now + 2000
		case n%3 == 1:
			m.WithProperty("TIMER_DELAY_MS", "2000")
			due[n] = now + 2000
		default:
			due[n] = now + 2500
			m.WithProperty("TIMER_DELIVER_MS", strconv.FormatInt(due[n], 10))
		}
		checkSent(c.producer().SendSync(background, m))
	}
	found := map[int]bool{}
	for _, m := range c.pullAll(queues, 18) {
		n := number(m)
		late := m.StoreTimestamp - due[n]
		check(!found[n], "message %d came twice", n)
		found[n] = true
		check(late >= 0 && late < 10000, "message %d is %d ms late", n, late)
		check(string(m.Body) == fmt.Sprintf("body-%d", n), "body %s", m.Body)
		check(m.Topic == topic && m.Queue.QueueId == n%2, "message %d in %s", n, m.Queue)
		check(m.GetTags() == "tag", "tags %s", m.GetTags())
		check(m.GetProperty("REAL_TOPIC") == topic, "real topic %s", m.GetProperty("REAL_TOPIC"))
		if n < 9 {
			level := strconv.Itoa(levels[n%3])
			check(m.GetProperty("DELAY") == level, "level %s", m.GetProperty("DELAY"))
		}
	}
	check(len(found) == 18, "%d messages", len(found))
}

// traceSendAndConsume: three messages, of which the consumer fails the second once. Answers with ids.
func traceSendAndConsume(c *run) {
	topic := c.topic("t")
	queues := c.createTopic(topic, 1)
	tracing := &primitive.TraceConfig{
		Access:       primitive.Local,
		NamesrvAddrs: primitive.NamesrvAddr{c.arguments["nameServer"]},
		Credentials:  c.credentials(),
	}
	var lock sync.Mutex
	seen := map[string]int{}
	client := c.newPusher("c", consumer.WithTrace(tracing))
	must(client.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: "*"},
		func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			lock.Lock()
			defer lock.Unlock()
			m := messages[0]
			seen[fmt.Sprintf("%d:%d", number(m), m.ReconsumeTimes)]++
			current, _ := primitive.GetConcurrentlyCtx(ctx)
			current.DelayLevelWhenNextConsume = 1
			if number(m) == 1 && m.ReconsumeTimes == 0 {
				return consumer.ConsumeRetryLater, nil
			}
			return consumer.ConsumeSuccess, nil
		}))
	must(client.Start())
	sender := c.newProducer(producer.WithGroupName(c.group("p")), producer.WithTrace(tracing),
		producer.WithQueueSelector(producer.NewManualQueueSelector()))
	for n := 0; n < 3; n++ {
		result := checkSent(sender.SendSync(background, message(queues[0], "tag", n)))
		c.details[fmt.Sprintf("id%d", n)] = result.MsgID
		c.details[fmt.Sprintf("offsetId%d", n)] = result.OffsetMsgID
	}
	// This client sees its retry topic at a rebalance after its first heartbeat: up to 50 s.
	waitFor(100, "four deliveries", func() bool {
		lock.Lock()
		defer lock.Unlock()
		return len(seen) == 4
	})
	time.Sleep(7 * time.Second) // traces are sent every five
	must(client.Shutdown())
	c.details["topic"] = topic
	c.details["producerGroup"] = c.group("p")
	c.details["consumerGroup"] = c.group("c")
}
