package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func sendSync(c *run) {
	topic := c.topic("t")
	queues := c.createTopic(topic, 4)
	sent := map[string]*primitive.SendResult{}
	for n := 0; n < 100; n++ {
		result := checkSent(c.producer().SendSync(background, message(queues[n%4], "tag", n)))
		check(result.QueueOffset == int64(n/4), "queue offset of %d: %v", n, result)
		check(result.MessageQueue.QueueId == n%4, "queue of %d: %v", n, result)
		sent[result.MsgID] = result
	}
	check(len(sent) == 100, "%d different ids", len(sent))
	found := c.pullAll(queues, 100)
	check(len(found) == 100, "found %d", len(found))
	for _, m := range found {
		result := sent[m.MsgId]
		check(result != nil, "id %s was returned by send", m.MsgId)
		check(result.OffsetMsgID == m.OffsetMsgId, "broker's id %s, %s", result.OffsetMsgID, m.OffsetMsgId)
		check(result.QueueOffset == m.QueueOffset, "offset of %v", m)
		check(string(m.Body) == fmt.Sprintf("body-%d", number(m)), "body of %v", m)
		check(m.GetTags() == "tag" && m.GetKeys() == fmt.Sprintf("k%d", number(m)), "tag, key of %v", m)
	}
}

func sendAsync(c *run) {
	topic := c.topic("t")
	queues := c.createTopic(topic, 4)
	var left sync.WaitGroup
	var failure error
	for n := 0; n < 200; n++ {
		left.Add(1)
		err := c.producer().SendAsync(background, func(_ context.Context, result *primitive.SendResult, err error) {
			if err != nil || result.Status != primitive.SendOK {
				failure = fmt.Errorf("%v %v", result, err)
			}
			left.Done()
		}, message(queues[n%4], "tag", n))
		must(err)
	}
	left.Wait()
	must(failure)
	check(len(c.pullAll(queues, 200)) == 200, "count")
}

func sendOneway(c *run) {
	topic := c.topic("t")
	queues := c.createTopic(topic, 2)
	for n := 0; n < 50; n++ {
		must(c.producer().SendOneWay(background, message(queues[n%2], "tag", n)))
	}
	check(len(c.pullAll(queues, 50)) == 50, "count")
}

func sendBatch(c *run) {
	topic := c.topic("t")
	queues := c.createTopic(topic, 1)
	for round := 0; round < 5; round++ {
		batch := []*primitive.Message{}
		for n := 0; n < 20; n++ {
			batch = append(batch, message(queues[0], fmt.Sprintf("t%d", n%3), round*20+n))
		}
		// The client gives the messages of a batch no ids of its own: MsgID stays empty.
		result, err := c.producer().SendSync(background, batch...)
		must(err)
		check(result.Status == primitive.SendOK, "send status of %v", result)
		check(result.QueueOffset == int64(round*20), "offset of the first: %v", result)
		check(len(strings.Split(result.OffsetMsgID, ",")) == 20, "broker's ids: %v", result)
	}
	found := c.pullAll(queues, 100)
	check(len(found) == 100, "found %d", len(found))
	for i, m := range found {
		check(number(m) == i && m.QueueOffset == int64(i), "order at %d: %v", i, m)
		check(m.GetTags() == fmt.Sprintf("t%d", i%20%3), "tag of %v", m)
	}
}

func sendHash(c *run) {
	topic := c.topic("t")
	queues := c.createTopic(topic, 4)
	hashing := c.newProducer(producer.WithGroupName(c.group("hash")),
		producer.WithQueueSelector(producer.NewHashQueueSelector()))
	chosen := map[string]int{}
	for n := 0; n < 60; n++ {
		key := fmt.Sprintf("order-%d", n%6)
		m := message(queues[0], key, n)
		m.Queue = nil
		m.WithShardingKey(key)
		result := checkSent(hashing.SendSync(background, m))
		before, known := chosen[key]
		check(!known || before == result.MessageQueue.QueueId, "one queue for %s", key)
		chosen[key] = result.MessageQueue.QueueId
	}
	last := map[string]int{}
	for _, m := range c.pullAll(queues, 60) {
		check(last[m.GetTags()] <= number(m), "order of %s", m.GetTags())
		last[m.GetTags()] = number(m)
	}
}

func sendProperties(c *run) {
	queues := c.createTopic(c.topic("t"), 1)
	values := map[string]string{
		"chinese":  "订单已支付",
		"emoji":    "🚀 rocket 🎉",
		"quotes":   `say "hi" \ back / slash`,
		"controls": "tab\there, line\nthere",
		"键":        "a key that is not ASCII",
		"json":     `{"a":[1,2,{"b":null}]}`,
		"long":     strings.Repeat("é", 4000),
	}
	m := primitive.NewMessage(queues[0].Topic, []byte("正文 🚀"))
	m.WithTag("标签")
	m.WithKeys([]string{"order-1", "键-2"})
	for key, value := range values {
		m.WithProperty(key, value)
	}
	m.Flag = 77
	m.Queue = queues[0]
	checkSent(c.producer().SendSync(background, m))
	found := c.pullAll(queues, 1)[0]
	for key, value := range values {
		check(found.GetProperty(key) == value, "%s: %q", key, found.GetProperty(key))
	}
	check(found.GetTags() == "标签", "tag %q", found.GetTags())
	check(strings.TrimSpace(found.GetKeys()) == "order-1 键-2", "keys %q", found.GetKeys())
	check(found.Flag == 77, "flag %d", found.Flag)
	check(string(found.Body) == "正文 🚀", "body %q", found.Body)
}

func sendSizes(c *run) {
	queues := c.createTopic(c.topic("t"), 1)
	bodies := [][]byte{}
	source := rand.New(rand.NewSource(1))
	for _, size := range []int{1, 127, 4095, 4096, 4097, 65536, 1 << 20, 4<<20 - 8192} {
		random := make([]byte, size)
		source.Read(random)
		bodies = append(bodies, random, bytes.Repeat([]byte("ab"), (size+1)/2)[:size])
	}
	for _, body := range bodies {
		m := primitive.NewMessage(queues[0].Topic, body)
		m.Queue = queues[0]
		checkSent(c.producer().SendSync(background, m))
	}
	found := c.pullAll(queues, len(bodies))
	check(len(found) == len(bodies), "found %d", len(found))
	for i, m := range found {
		check(bytes.Equal(m.Body, bodies[i]), "body %d of %d bytes", i, len(bodies[i]))
	}
}

func sendAbsentQueue(c *run) {
	queues := c.createTopic(c.topic("t"), 1)
	wrong := *queues[0]
	wrong.QueueId = 9
	// The client gives status 3 for every code it does not know, and no error.
	result, err := c.producer().SendSync(background, message(&wrong, "tag", 0))
	check(err != nil || result.Status != primitive.SendOK, "queue 9 took it: %v", result)
	c.send(queues, "tag", 0, 1)
	time.Sleep(100 * time.Millisecond)
	check(len(c.pullAll(queues, 1)) == 1, "one stored")
}
