// Runs scenarios with the official Go client on demand, one process for a whole test session.
//
// A request is one line of standard input, fields separated by tabs, values URL-encoded:
//
//	17 \t send_sync \t nameServer=127.0.0.1:9876 \t run=a1b2
//
// Its answer is one line of JSON on standard output, in the order of completion:
//
//	{"id":"17","name":"send_sync","ok":true,"error":null,"details":{...},"seconds":0.8}
//
// "list" answers with all names. The end of standard input ends the process. Four scenarios run at a
// time; each has topics and groups of its own. The same words as in ../java, so that one test drives both.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"runtime/debug"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/rlog"
)

type scenario func(c *run)

var scenarios = map[string]scenario{
	"admin_topics":                  adminTopics,
	"delays":                        delays,
	"live_close":                    liveClose,
	"live_counts":                   liveCounts,
	"live_open":                     liveOpen,
	"live_send":                     liveSend,
	"offset_after_broker_restart":   offsetAfter,
	"offset_before_broker_restart":  offsetBefore,
	"offset_kept_by_client_restart": offsetClientRestart,
	"ordered_close":                 orderedClose,
	"ordered_open":                  orderedOpen,
	"orderly_hand_over":             orderlyHandOver,
	"orderly_suspend":               orderlySuspend,
	"pull_from":                     pullFrom,
	"pull_poll":                     pullPoll,
	"push_broadcasting":             pushBroadcasting,
	"push_from_first":               pushFromFirst,
	"push_one_consumer":             pushOne,
	"push_orderly":                  pushOrderly,
	"push_sql_filter":               pushSql,
	"push_tag_filter":               pushTags,
	"push_three_consumers":          pushThree,
	"replica_close":                 replicaClose,
	"replica_open":                  replicaOpen,
	"replica_resume":                func(c *run) { readerOf(c).client.Resume() },
	"replica_suspend":               func(c *run) { readerOf(c).client.Suspend() },
	"replica_wait":                  replicaWait,
	"request_reply":                 requestReply,
	"retry_asked_level":             retryAskedLevel,
	"retry_to_dead_letter":          retryToDeadLetter,
	"send_async":                    sendAsync,
	"send_batch":                    sendBatch,
	"send_hash_selector":            sendHash,
	"send_oneway":                   sendOneway,
	"send_properties":               sendProperties,
	"send_sizes":                    sendSizes,
	"send_sync":                     sendSync,
	"send_to_absent_queue":          sendAbsentQueue,
	"trace_send_and_consume":        traceSendAndConsume,
	"transaction":                   transaction,
	"transaction_end":               transactionEnd,
	"transaction_open":              transactionOpen,
}

type answer struct {
	Id      string         `json:"id"`
	Name    string         `json:"name"`
	Ok      bool           `json:"ok"`
	Error   *string        `json:"error"`
	Details map[string]any `json:"details"`
	Seconds float64        `json:"seconds"`
}

func main() {
	rlog.SetLogLevel("error")
	answers := os.Stdout
	os.Stdout = os.Stderr // libraries may print; only answers appear on the real one
	var lock sync.Mutex
	slots := make(chan struct{}, 4)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 1<<20)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "\t")
		go func() {
			slots <- struct{}{}
			result := execute(fields)
			<-slots
			text, _ := json.Marshal(result)
			lock.Lock()
			defer lock.Unlock()
			fmt.Fprintln(answers, string(text))
		}()
	}
}

func execute(fields []string) (result answer) {
	begin := time.Now()
	result = answer{Id: fields[0], Name: fields[1], Details: map[string]any{}}
	defer func() { result.Seconds = float64(time.Since(begin).Milliseconds()) / 1000 }()
	if fields[1] == "list" {
		names := []string{}
		for name := range scenarios {
			names = append(names, name)
		}
		sort.Strings(names)
		result.Details["scenarios"] = strings.Join(names, " ")
		result.Ok = true
		return result
	}
	arguments := map[string]string{}
	for _, field := range fields[2:] {
		name, value, _ := strings.Cut(field, "=")
		decoded, err := url.QueryUnescape(strings.ReplaceAll(value, "+", "%2B"))
		if err == nil {
			arguments[name] = decoded
		}
	}
	c := newRun(fields[1], arguments, result.Details)
	defer c.close()
	defer func() {
		if failure := recover(); failure != nil {
			text := fmt.Sprintf("%v\n%s", failure, debug.Stack())
			result.Error = &text
			result.Ok = false
		}
	}()
	body, known := scenarios[fields[1]]
	if !known {
		panic("no such scenario: " + fields[1])
	}
	body(c)
	result.Ok = true
	return result
}
