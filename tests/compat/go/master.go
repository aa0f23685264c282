//go:build master

package main

import (
	"os"

	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// The client's master, as master.mod has it: released.go for the last release.

const undecided = primitive.UnkonwnState

// WithTls changes what all clients of a process share: a process has TLS, or it has none.
var byTls = len(os.Args) > 1 && os.Args[1] == "tls"

var adminTls = []admin.AdminOption{admin.WithTls(byTls)}
var producerTls = []producer.Option{producer.WithTls(byTls)}
var consumerTls = []consumer.Option{consumer.WithTls(byTls)}
