package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

var background = context.Background()
var instances atomic.Int64

// A run is one execution of a scenario: names of its own, clients that are closed at its end, checks.
// A failed check panics; execute turns that into the answer's error.
type run struct {
	name      string
	arguments map[string]string
	details   map[string]any
	closing   []func()
	sender    rocketmq.Producer
	puller    rocketmq.PullConsumer
}

func newRun(name string, arguments map[string]string, details map[string]any) *run {
	if as, given := arguments["as"]; given {
		name = as
	}
	return &run{name: arguments["run"] + "_go_" + name, arguments: arguments, details: details}
}

func (c *run) topic(suffix string) string { return c.name + "_" + suffix }
func (c *run) group(suffix string) string { return "g_" + c.name + "_" + suffix }

func (c *run) later(closing func()) { c.closing = append(c.closing, closing) }

func (c *run) close() {
	for i := len(c.closing) - 1; i >= 0; i-- {
		c.closing[i]()
	}
	c.closing = nil
}

func check(condition bool, format string, values ...any) {
	if !condition {
		panic(fmt.Sprintf(format, values...))
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func waitFor(seconds int, what string, condition func() bool) {
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	for !condition() {
		check(time.Now().Before(end), "waited %d s for %s", seconds, what)
		time.Sleep(20 * time.Millisecond)
	}
}

func instance() string {
	return fmt.Sprintf("go%d-%d", os.Getpid(), instances.Add(1))
}

// What requests are signed with; without an account in the arguments nothing is.
func (c *run) credentials() primitive.Credentials {
	return primitive.Credentials{AccessKey: c.arguments["accessKey"], SecretKey: c.arguments["secretKey"]}
}

func (c *run) newAdmin() admin.Admin {
	options := append(adminTls,
		admin.WithResolver(primitive.NewPassthroughResolver([]string{c.arguments["nameServer"]})),
		admin.WithCredentials(c.credentials()))
	client, err := admin.NewAdmin(options...)
	must(err)
	if !c.credentials().IsEmpty() { // this request alone makes it sign, from then on, what it asks brokers
		_, err = client.GetAllSubscriptionGroup(background, c.arguments["broker"], 3*time.Second)
		must(err)
	}
	return client
}

// Each client of a test must be an instance of its own, or they would share connections and ids.

func (c *run) newProducer(options ...producer.Option) rocketmq.Producer {
	options = append([]producer.Option{
		producer.WithNameServer(primitive.NamesrvAddr{c.arguments["nameServer"]}),
		producer.WithGroupName(c.group("p")),
		producer.WithInstanceName(instance()),
		producer.WithSendMsgTimeout(15 * time.Second),
		producer.WithRetry(2),
		producer.WithCredentials(c.credentials()),
	}, options...)
	client, err := rocketmq.NewProducer(append(options, producerTls...)...)
	must(err)
	must(client.Start())
	c.later(func() { _ = client.Shutdown() })
	return client
}

// The scenario's own producer sends to the queue that each message names.
func (c *run) producer() rocketmq.Producer {
	if c.sender == nil {
		c.sender = c.newProducer(producer.WithQueueSelector(producer.NewManualQueueSelector()))
	}
	return c.sender
}

func (c *run) newPusher(suffix string, options ...consumer.Option) rocketmq.PushConsumer {
	options = append([]consumer.Option{
		consumer.WithNameServer(primitive.NamesrvAddr{c.arguments["nameServer"]}),
		consumer.WithGroupName(c.group(suffix)),
		consumer.WithInstance(instance()),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithConsumeGoroutineNums(4),
		consumer.WithCredentials(c.credentials()),
	}, options...)
	client, err := rocketmq.NewPushConsumer(append(options, consumerTls...)...)
	must(err)
	return client
}

func (c *run) newPuller(suffix, topic, expression string) rocketmq.PullConsumer {
	options := append(consumerTls,
		consumer.WithNameServer(primitive.NamesrvAddr{c.arguments["nameServer"]}),
		consumer.WithGroupName(c.group(suffix)),
		consumer.WithInstance(instance()),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithCredentials(c.credentials()))
	client, err := rocketmq.NewPullConsumer(options...)
	must(err)
	must(client.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: expression}))
	must(client.Start())
	c.later(func() { _ = client.Shutdown() })
	return client
}

// createTopic makes a topic with that many queues and waits until the name server shows them.
func (c *run) createTopic(topic string, queues int) []*primitive.MessageQueue {
	client := c.newAdmin()
	defer client.Close()
	must(client.CreateTopic(background, admin.WithTopicCreate(topic),
		admin.WithBrokerAddrCreate(c.arguments["broker"]),
		admin.WithReadQueueNums(queues), admin.WithWriteQueueNums(queues)))
	var found []*primitive.MessageQueue
	waitFor(15, "route of "+topic, func() bool {
		var err error
		found, err = client.FetchPublishMessageQueues(background, topic)
		return err == nil && len(found) == queues
	})
	sort.Slice(found, func(i, j int) bool { return found[i].QueueId < found[j].QueueId })
	return found
}

func (c *run) hasRoute(topic string) bool {
	client := c.newAdmin()
	defer client.Close()
	found, err := client.FetchPublishMessageQueues(background, topic)
	return err == nil && len(found) > 0
}

func message(queue *primitive.MessageQueue, tag string, number int) *primitive.Message {
	m := primitive.NewMessage(queue.Topic, []byte(fmt.Sprintf("body-%d", number)))
	m.WithTag(tag)
	m.WithKeys([]string{fmt.Sprintf("k%d", number)})
	m.WithProperty("n", strconv.Itoa(number))
	m.Queue = queue
	return m
}

func number(m *primitive.MessageExt) int {
	n, err := strconv.Atoi(m.GetProperty("n"))
	must(err)
	return n
}

func checkSent(result *primitive.SendResult, err error) *primitive.SendResult {
	must(err)
	check(result.Status == primitive.SendOK, "send status of %v", result)
	check(result.MsgID != "" && result.OffsetMsgID != "", "ids of %v", result)
	return result
}

// send sends messages numbered first..end-1, spread over the queues.
func (c *run) send(queues []*primitive.MessageQueue, tag string, first, end int) {
	for n := first; n < end; n++ {
		checkSent(c.producer().SendSync(background, message(queues[n%len(queues)], tag, n)))
	}
}

// pullAll reads a topic from the start of each queue until `count` messages are found.
func (c *run) pullAll(queues []*primitive.MessageQueue, count int) []*primitive.MessageExt {
	if c.puller == nil {
		c.puller = c.newPuller("pull", queues[0].Topic, "*")
	}
	found := []*primitive.MessageExt{}
	next := make([]int64, len(queues))
	atEnd := make([]bool, len(queues))
	behind := len(queues)
	limit := time.Now().Add(30 * time.Second)
	for behind > 0 || len(found) < count {
		check(time.Now().Before(limit), "%s: %d of %d", queues[0].Topic, len(found), count)
		for i, queue := range queues {
			// This client's pull at the end of a queue is held for 20 s.
			if behind > 0 && atEnd[i] {
				continue
			}
			result, err := c.puller.PullFrom(background, queue, next[i], 32)
			must(err)
			next[i] = result.NextBeginOffset
			atEnd[i] = next[i] >= result.MaxOffset
			if result.Status == primitive.PullFound {
				found = append(found, result.GetMessageExts()...)
			}
		}
		behind = 0
		for _, end := range atEnd {
			if !end {
				behind++
			}
		}
	}
	return found
}

// A receiver counts what arrives, by message number; several consumers may share one.
type receiver struct {
	lock   sync.Mutex
	counts map[int]int
}

func newReceiver() *receiver { return &receiver{counts: map[int]int{}} }

func (r *receiver) took(m *primitive.MessageExt) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.counts[number(m)]++
}

func (r *receiver) listen(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	for _, m := range messages {
		r.took(m)
	}
	return consumer.ConsumeSuccess, nil
}

func (r *receiver) total() int {
	r.lock.Lock()
	defer r.lock.Unlock()
	total := 0
	for _, count := range r.counts {
		total += count
	}
	return total
}

func (r *receiver) missing(first, end int) []int {
	r.lock.Lock()
	defer r.lock.Unlock()
	missing := []int{}
	for n := first; n < end; n++ {
		if r.counts[n] == 0 {
			missing = append(missing, n)
		}
	}
	return missing
}

// expectExactlyOnce waits for numbers first..end-1, a second more for duplicates, and compares.
func (r *receiver) expectExactlyOnce(first, end, seconds int) {
	limit := time.Now().Add(time.Duration(seconds) * time.Second)
	for len(r.missing(first, end)) > 0 {
		check(time.Now().Before(limit), "missing after %d s: %v", seconds, r.missing(first, end))
		time.Sleep(20 * time.Millisecond)
	}
	time.Sleep(time.Second)
	r.lock.Lock()
	defer r.lock.Unlock()
	for n, count := range r.counts {
		check(count == 1 && n >= first && n < end, "message %d came %d times", n, count)
	}
}

func (c *run) startPusher(suffix, topic, expression string, r *receiver, options ...consumer.Option) rocketmq.PushConsumer {
	client := c.newPusher(suffix, options...)
	must(client.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: expression}, r.listen))
	must(client.Start())
	c.later(func() { _ = client.Shutdown() })
	return client
}
