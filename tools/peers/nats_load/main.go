// nats_load: messages into a JetStream stream, or out of it, by the official client, in turns.
//
//	nats_load -url nats://127.0.0.1:4222 -stream bench -connections 1 -window 64 -bytes 256
//	nats_load -url nats://127.0.0.1:4222 -stream bench -mode read -consumers 8 -fill 200000
//
// It makes the stream, writes a line, and then does a turn for each line "SECONDS RATE" it reads,
// and writes what it counted as a line of JSON. The end of its input ends it.
//
// send: each connection keeps `window` messages open. RATE 0: the next is sent when an answer comes.
// Else message k is due at k / RATE, and its latency is from then on, whatever held it back: what was
// due in the turn is sent, however late.
// batch: of so many messages (-batch), which are stored together or not at all; one answer for all.
// follow: sends, and an ordered consumer that reads them as they come; latencies are from when a
// message was due until it is there.
// read: the stream from its first message on, over and over, by ordered consumers, of which each
// connection has -consumers.
// work: the same by one consumer for all connections, which ask for -batch messages at a time and
// acknowledge each.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const answerWait = 30 * time.Second

// A thread that sleeps until the next message is due keeps its processor for a while: answers need
// another one, however many there are.
const threads = 4

type options struct {
	url, stream, mode                                                  string
	connections, consumers, window, bytes, batch, subjects, fill, once int
}

// What one connection, or one consumer of several, has in a turn.
type share struct {
	messages  int
	failures  map[string]int
	latencies []time.Duration
}

type result struct {
	Seconds  float64            `json:"seconds"`
	Messages int                `json:"messages"`
	Failures map[string]int     `json:"failures"`
	Latency  map[string]float64 `json:"latency_us"`
}

type load struct {
	options
	connections []*nats.Conn
	streams     []jetstream.JetStream
	names       []string
	body        []byte
	made        time.Time
	stored      atomic.Int64 // of follow: answered, and not there yet
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var o options
	flag.StringVar(&o.url, "url", nats.DefaultURL, "of the server")
	flag.StringVar(&o.stream, "stream", "bench", "its subjects are STREAM.0, STREAM.1 ...")
	flag.StringVar(&o.mode, "mode", "send", "send, batch, follow, read or work")
	flag.IntVar(&o.connections, "connections", 1, "of one client each")
	flag.IntVar(&o.consumers, "consumers", 1, "of a connection that reads")
	flag.IntVar(&o.window, "window", 1, "open messages, or batches, of a connection")
	flag.IntVar(&o.bytes, "bytes", 256, "of a body")
	flag.IntVar(&o.batch, "batch", 32, "messages of a batch")
	flag.IntVar(&o.subjects, "subjects", 8, "of the stream")
	flag.IntVar(&o.fill, "fill", 0, "messages put into the stream at the start")
	flag.IntVar(&o.once, "once", 0, "1: a turn ends when all was read once")
	flag.Parse()
	runtime.GOMAXPROCS(max(threads, runtime.NumCPU()))
	l, err := open(o)
	if err != nil {
		return err
	}
	if o.fill > 0 {
		if err := l.fillUp(); err != nil {
			return err
		}
	}
	fmt.Println("{}")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) != 2 {
			return fmt.Errorf("%q is not SECONDS RATE", lines.Text())
		}
		seconds, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			return err
		}
		rate, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			return err
		}
		answer, err := json.Marshal(l.turn(seconds, rate))
		if err != nil {
			return err
		}
		fmt.Println(string(answer))
	}
	return lines.Err()
}

func open(o options) (*load, error) {
	text := strings.Repeat("the quick brown fox ", o.bytes/20+1)
	l := &load{options: o, body: []byte(text)[:o.bytes], made: time.Now()}
	for i := range o.subjects {
		l.names = append(l.names, fmt.Sprintf("%s.%d", o.stream, i))
	}
	for range o.connections {
		connection, err := nats.Connect(o.url)
		if err != nil {
			return nil, err
		}
		stream, err := jetstream.New(connection, jetstream.WithPublishAsyncMaxPending(o.window+1))
		if err != nil {
			return nil, err
		}
		l.connections = append(l.connections, connection)
		l.streams = append(l.streams, stream)
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerWait)
	defer cancel()
	_, err := l.streams[0].CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: o.stream, Subjects: []string{o.stream + ".>"}, Storage: jetstream.FileStorage,
		Replicas: 1, AllowAtomicPublish: o.mode == "batch",
	})
	return l, err
}

// ---- a turn

func (l *load) turn(seconds, rate float64) result {
	loops := len(l.streams)
	if l.mode == "read" {
		loops *= l.consumers
	}
	shares := make([]share, loops)
	queue, err := l.workQueue()
	if err != nil {
		return result{Failures: map[string]int{err.Error(): 1}}
	}
	followed, err := l.startFollowing()
	if err != nil {
		return result{Failures: map[string]int{err.Error(): 1}}
	}
	begin := time.Now()
	end := begin.Add(time.Duration(seconds * float64(time.Second)))
	var all sync.WaitGroup
	for i := range shares {
		shares[i].failures = map[string]int{}
		all.Add(1)
		go func() {
			defer all.Done()
			// The connections' schedules lie between each other.
			apart := time.Duration(0)
			step := time.Duration(0)
			if rate > 0 {
				step = time.Duration(float64(time.Second) * float64(len(l.streams)) / rate)
				apart = step * time.Duration(i) / time.Duration(len(l.streams))
			}
			switch l.mode {
			case "read":
				l.read(i%len(l.streams), end, &shares[i])
			case "work":
				l.work(i, queue, end, &shares[i])
			case "batch":
				l.sendBatches(i, begin.Add(apart), end, step, &shares[i])
			default:
				l.send(i, begin.Add(apart), end, step, &shares[i])
			}
		}()
	}
	all.Wait()
	if followed != nil {
		shares = append(shares, followed.end(l.stored.Load()))
	}
	return summed(shares, time.Since(begin))
}

func summed(shares []share, took time.Duration) result {
	sum := result{Seconds: took.Seconds(), Failures: map[string]int{}, Latency: map[string]float64{}}
	var latencies []time.Duration
	for _, each := range shares {
		sum.Messages += each.messages
		for name, count := range each.failures {
			sum.Failures[name] += count
		}
		latencies = append(latencies, each.latencies...)
	}
	if len(latencies) > 0 {
		slices.Sort(latencies)
		for name, part := range map[string]float64{"p50": 0.5, "p99": 0.99, "p99.9": 0.999} {
			at := min(len(latencies)-1, int(part*float64(len(latencies))))
			sum.Latency[name] = float64(latencies[at].Nanoseconds()) / 1e3
		}
	}
	return sum
}

// Sleeps by the kernel's own timer: Go's waits whole milliseconds when nothing else happens. False: it
// is so long after the end that it is not worth sending.
func sleepUntil(due, end time.Time) bool {
	if left := time.Until(due); left > 0 {
		wait := syscall.NsecToTimespec(left.Nanoseconds())
		_ = syscall.Nanosleep(&wait, nil)
	}
	return time.Now().Before(end.Add(answerWait))
}

// ---- sends

type pending struct {
	future jetstream.PubAckFuture
	due    time.Time
}

func (l *load) send(at int, begin, end time.Time, step time.Duration, counted *share) {
	runtime.LockOSThread() // of sleepUntil
	defer runtime.UnlockOSThread()
	// The one that is waited for is not in the channel any more.
	open := make(chan pending, max(0, l.window-1))
	slots := make(chan struct{}, l.window)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for each := range open {
			select {
			case <-each.future.Ok():
				if l.mode == "follow" {
					l.stored.Add(1)
					break
				}
				counted.messages++
				counted.latencies = append(counted.latencies, time.Since(each.due))
			case err := <-each.future.Err():
				counted.failures[err.Error()]++
			case <-time.After(answerWait):
				counted.failures["no answer"]++
			}
			<-slots
		}
	}()
	failed, late := 0, 0
	for number := 0; ; number++ {
		due := dueAt(begin, step, number)
		if !due.Before(end) {
			break
		}
		if !sleepUntil(due, end) {
			late++
			continue
		}
		slots <- struct{}{}
		if step == 0 {
			due = time.Now()
		}
		name := l.names[(number*len(l.streams)+at)%len(l.names)]
		future, err := l.streams[at].PublishAsync(name, l.bodyDue(due))
		if err != nil {
			failed++
			<-slots
			continue
		}
		open <- pending{future, due}
	}
	close(open)
	<-done
	if failed > 0 {
		counted.failures["not sent"] += failed
	}
	if late > 0 {
		counted.failures["not sent in time"] += late
	}
}

// Of message `number`; without a step now.
func dueAt(begin time.Time, step time.Duration, number int) time.Time {
	if step == 0 {
		return time.Now()
	}
	return begin.Add(step * time.Duration(number))
}

// The body; who follows finds in it when it was due.
func (l *load) bodyDue(due time.Time) []byte {
	if l.mode != "follow" {
		return l.body
	}
	body := slices.Clone(l.body)
	binary.BigEndian.PutUint64(body, uint64(due.Sub(l.made)))
	return body
}

// ---- a consumer that follows

type following struct {
	connection *nats.Conn
	messages   jetstream.MessagesContext
	taken      atomic.Int64
	counted    share
	done       chan struct{}
}

// Of what is sent from now on; nil in other modes.
func (l *load) startFollowing() (*following, error) {
	if l.mode != "follow" {
		return nil, nil
	}
	l.stored.Store(0)
	ctx, cancel := context.WithTimeout(context.Background(), answerWait)
	defer cancel()
	connection, err := nats.Connect(l.url)
	if err != nil {
		return nil, err
	}
	stream, err := jetstream.New(connection)
	if err != nil {
		return nil, err
	}
	consumer, err := stream.OrderedConsumer(
		ctx, l.stream, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverNewPolicy})
	if err != nil {
		return nil, err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return nil, err
	}
	f := &following{connection: connection, messages: messages, done: make(chan struct{})}
	f.counted.failures = map[string]int{}
	go func() {
		defer close(f.done)
		for {
			message, err := messages.Next()
			if err != nil { // it was stopped
				return
			}
			due := l.made.Add(time.Duration(binary.BigEndian.Uint64(message.Data())))
			f.counted.latencies = append(f.counted.latencies, time.Since(due))
			f.taken.Add(1)
		}
	}()
	return f, nil
}

// When so many are there.
func (f *following) end(stored int64) share {
	patience := time.Now().Add(answerWait)
	for f.taken.Load() < stored && time.Now().Before(patience) {
		time.Sleep(100 * time.Microsecond)
	}
	missing := stored - f.taken.Load()
	f.messages.Stop()
	<-f.done
	f.connection.Close()
	f.counted.messages = int(f.taken.Load())
	if missing > 0 {
		f.counted.failures["did not come"] = int(missing)
	}
	return f.counted
}

// ---- batches: the last message of one is asked for, and its answer is for all

func (l *load) sendBatches(at int, begin, end time.Time, step time.Duration, counted *share) {
	var all sync.WaitGroup
	var lock sync.Mutex
	for worker := range l.window {
		all.Add(1)
		go func() {
			defer all.Done()
			step := step * time.Duration(l.window*l.batch)
			for number := 0; ; number++ {
				apart := step * time.Duration(worker) / time.Duration(l.window)
				due := dueAt(begin.Add(apart), step, number)
				if !due.Before(end) {
					return
				}
				err := errors.New("not sent in time")
				if sleepUntil(due, end) {
					err = l.sendBatch(at, fmt.Sprintf("%d-%d-%d-%d", os.Getpid(), at, worker, due.UnixNano()))
				}
				lock.Lock()
				if err != nil {
					counted.failures[err.Error()] += l.batch
				} else {
					counted.messages += l.batch
					counted.latencies = append(counted.latencies, time.Since(due))
				}
				lock.Unlock()
			}
		}()
	}
	all.Wait()
}

func (l *load) sendBatch(at int, id string) error {
	connection := l.connections[at]
	for number := 1; number <= l.batch; number++ {
		message := &nats.Msg{
			Subject: l.names[number%len(l.names)], Data: l.body,
			Header: nats.Header{"Nats-Batch-Id": {id}, "Nats-Batch-Sequence": {strconv.Itoa(number)}},
		}
		if number < l.batch {
			if err := connection.PublishMsg(message); err != nil {
				return err
			}
			continue
		}
		message.Header.Set("Nats-Batch-Commit", "1")
		answer, err := connection.RequestMsg(message, answerWait)
		if err != nil {
			return err
		}
		var told struct {
			Error *struct {
				Description string `json:"description"`
			} `json:"error"`
			Count int `json:"count"`
		}
		if err := json.Unmarshal(answer.Data, &told); err != nil {
			return err
		}
		if told.Error != nil {
			return errors.New(told.Error.Description)
		}
		if told.Count != l.batch {
			return fmt.Errorf("%d of %d messages of a batch", told.Count, l.batch)
		}
	}
	return nil
}

// ---- reads

func (l *load) fillUp() error {
	const open = 256
	futures := make(chan jetstream.PubAckFuture, open)
	failed := make(chan error, 1)
	stream, err := jetstream.New(l.connections[0], jetstream.WithPublishAsyncMaxPending(2*open))
	if err != nil {
		return err
	}
	go func() {
		defer close(failed)
		for each := range futures {
			select {
			case <-each.Ok():
			case err := <-each.Err():
				failed <- err
				return
			}
		}
	}()
	for number := range l.fill {
		future, err := stream.PublishAsync(l.names[number%len(l.names)], l.body)
		if err != nil {
			return err
		}
		select {
		case futures <- future:
		case err := <-failed:
			return err
		}
	}
	close(futures)
	return <-failed
}

func (l *load) read(at int, end time.Time, counted *share) {
	for time.Now().Before(end) {
		if err := l.readOnce(at, end, counted); err != nil {
			counted.failures[err.Error()]++
			return
		}
		if l.once != 0 {
			return
		}
	}
}

// From the first message to the last that is there at the beginning.
func (l *load) readOnce(at int, end time.Time, counted *share) error {
	ctx, cancel := context.WithTimeout(context.Background(), answerWait)
	defer cancel()
	stream, err := l.streams[at].Stream(ctx, l.stream)
	if err != nil {
		return err
	}
	last := stream.CachedInfo().State.LastSeq
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		message, err := messages.Next(jetstream.NextMaxWait(answerWait))
		if err != nil {
			return err
		}
		if len(message.Data()) != l.bytes {
			return fmt.Errorf("a body of %d bytes", len(message.Data()))
		}
		counted.messages++
		info, err := message.Metadata()
		if err != nil {
			return err
		}
		if info.Sequence.Stream >= last || time.Now().After(end) {
			return nil
		}
	}
}

// ---- work

// A consumer of this turn's own, by its name; none in other modes.
func (l *load) workQueue() (string, error) {
	if l.mode != "work" {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerWait)
	defer cancel()
	name := fmt.Sprintf("work-%d", time.Now().UnixNano())
	_, err := l.streams[0].CreateConsumer(ctx, l.stream, jetstream.ConsumerConfig{
		Durable: name, AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: -1,
	})
	return name, err
}

// Until the end, or until there is nothing more.
func (l *load) work(at int, name string, end time.Time, counted *share) {
	ctx, cancel := context.WithTimeout(context.Background(), answerWait)
	defer cancel()
	consumer, err := l.streams[at].Consumer(ctx, l.stream, name)
	for err == nil && time.Now().Before(end) {
		var batch jetstream.MessageBatch
		if batch, err = consumer.FetchNoWait(l.batch); err != nil {
			break
		}
		some := 0
		for message := range batch.Messages() {
			some++
			if failed := message.Ack(); failed != nil {
				counted.failures[failed.Error()]++
			} else {
				counted.messages++
			}
		}
		if err = batch.Error(); some == 0 {
			break
		}
	}
	if err != nil {
		counted.failures[err.Error()]++
	}
}
