//go:build !master

package main

import (
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// What the client's last release, v2.1.2, does not have, or names otherwise than its master (master.go).

const undecided = primitive.UnknowState

var adminTls []admin.AdminOption
var producerTls []producer.Option
var consumerTls []consumer.Option
