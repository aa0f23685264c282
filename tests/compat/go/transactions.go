package main

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// Transactions. The broker looks every three seconds for those that are a second old, and asks producers that
// it has had a heartbeat of.

// A decider is asked by number: at the send, and each time the broker asks.
type decider struct {
	lock   sync.Mutex
	asked  map[int]int
	atSend func(number int) primitive.LocalTransactionState
	later  func(number, times int) primitive.LocalTransactionState
}

func (d *decider) ExecuteLocalTransaction(m *primitive.Message) primitive.LocalTransactionState {
	n, err := strconv.Atoi(m.GetProperty("n"))
	must(err)
	return d.atSend(n)
}

func (d *decider) CheckLocalTransaction(m *primitive.MessageExt) primitive.LocalTransactionState {
	d.lock.Lock()
	defer d.lock.Unlock()
	n := number(m)
	d.asked[n]++
	return d.later(n, d.asked[n])
}

func (d *decider) times(n int) int {
	d.lock.Lock()
	defer d.lock.Unlock()
	return d.asked[n]
}

// newTransactionProducer starts a producer that the broker knows. Its first heartbeat may be 30 s away;
// a consumer that starts sends one for all clients of its instance.
func (c *run) newTransactionProducer(topic string, d *decider) rocketmq.TransactionProducer {
	name := instance()
	options := append(producerTls,
		producer.WithNameServer(primitive.NamesrvAddr{c.arguments["nameServer"]}),
		producer.WithGroupName(c.group("tx")),
		producer.WithInstanceName(name),
		producer.WithSendMsgTimeout(15*time.Second),
		producer.WithCredentials(c.credentials()),
		producer.WithQueueSelector(producer.NewManualQueueSelector()))
	client, err := rocketmq.NewTransactionProducer(d, options...)
	must(err)
	must(client.Start())
	c.later(func() { _ = client.Shutdown() })
	c.startPusher("heard", topic, "*", newReceiver(), consumer.WithInstance(name))
	return client
}

func sendHalf(client rocketmq.TransactionProducer, queues []*primitive.MessageQueue, n int) {
	result, err := client.SendMessageInTransaction(background, message(queues[n%len(queues)], "tag", n))
	must(err)
	check(result.Status == primitive.SendOK, "send status of %v", result)
}

// transaction: committed, rolled back, and the same when asked once or twice.
func transaction(c *run) {
	queues := c.createTopic(c.topic("t"), 2)
	d := &decider{asked: map[int]int{}}
	d.atSend = func(n int) primitive.LocalTransactionState {
		switch n % 5 {
		case 0:
			return primitive.CommitMessageState
		case 1:
			return primitive.RollbackMessageState
		}
		return undecided
	}
	d.later = func(n, times int) primitive.LocalTransactionState {
		switch {
		case n%5 == 4 && times < 2:
			return undecided
		case n%5 == 3:
			return primitive.RollbackMessageState
		}
		return primitive.CommitMessageState
	}
	client := c.newTransactionProducer(c.topic("t"), d)
	for n := 0; n < 20; n++ {
		sendHalf(client, queues, n)
	}
	waitFor(90, "checks of what is to be rolled back", func() bool {
		return d.times(3) > 0 && d.times(8) > 0 && d.times(13) > 0 && d.times(18) > 0
	})
	found := c.pullAll(queues, 12)
	time.Sleep(4 * time.Second)
	again := c.pullAll(queues, 12)
	check(len(found) == 12 && len(again) == 12, "%d, later %d messages", len(found), len(again))
	seen := map[int]bool{}
	for _, m := range found {
		n := number(m)
		check(!seen[n] && n%5 != 1 && n%5 != 3, "message %d", n)
		seen[n] = true
		check(string(m.Body) == fmt.Sprintf("body-%d", n), "body %s", m.Body)
		check(m.GetTags() == "tag", "tags %s", m.GetTags())
		check(m.GetProperty("PGROUP") == c.group("tx"), "group %s", m.GetProperty("PGROUP"))
		check(m.SysFlag&12 == 8, "sys flag %d", m.SysFlag)
		check(m.Queue.QueueId == n%2, "queue of %d: %v", n, m.Queue)
		check(m.PreparedTransactionOffset < m.CommitLogOffset, "prepared offset of %v", m)
		times := d.times(n)
		check(times == []int{0, 0, 1, 0, 2}[n%5], "%d was asked about %d times", n, times)
		told := m.GetProperty("TRANSACTION_CHECK_TIMES")
		check(told == []string{"", "", "1", "", "2"}[n%5], "%d has %q in it", n, told)
	}
}

// Between these two the broker is restarted.
type openTransactions struct {
	c      *run
	d      *decider
	queues []*primitive.MessageQueue
	lock   sync.Mutex
	knows  bool
}

var opened sync.Map

func transactionOpen(c *run) {
	o := &openTransactions{c: newRun("", c.arguments, map[string]any{}), d: &decider{asked: map[int]int{}}}
	opened.Store(c.arguments["as"], o)
	o.queues = o.c.createTopic(o.c.topic("t"), 2)
	o.d.atSend = func(int) primitive.LocalTransactionState { return undecided }
	o.d.later = func(n, _ int) primitive.LocalTransactionState {
		o.lock.Lock()
		defer o.lock.Unlock()
		switch {
		case !o.knows:
			o.d.asked[n] = 0
			return undecided
		case n%2 == 1:
			return primitive.RollbackMessageState
		}
		return primitive.CommitMessageState
	}
	client := o.c.newTransactionProducer(o.c.topic("t"), o.d)
	for n := 0; n < 20; n++ {
		sendHalf(client, o.queues, n)
	}
}

func transactionEnd(c *run) {
	value, _ := opened.LoadAndDelete(c.arguments["as"])
	o := value.(*openTransactions)
	defer o.c.close()
	o.lock.Lock()
	o.knows = true
	o.lock.Unlock()
	waitFor(90, "questions about all twenty", func() bool {
		for n := 0; n < 20; n++ {
			if o.d.times(n) == 0 {
				return false
			}
		}
		return true
	})
	o.c.pullAll(o.queues, 10)
	time.Sleep(4 * time.Second)
	found := o.c.pullAll(o.queues, 10)
	seen := map[int]int{}
	for _, m := range found {
		seen[number(m)]++
		check(number(m)%2 == 0, "message %d", number(m))
		check(string(m.Body) == fmt.Sprintf("body-%d", number(m)), "body %s", m.Body)
	}
	check(len(seen) == 10, "messages %v", seen)
	check(c.arguments["once"] == "false" || len(found) == 10, "messages %v", seen)
}
