'use strict';
/*
 * RocketMQ 5's Node client (gRPC), told what to do line by line as ../runner.py says.
 *
 *   NODE_PATH=.../node_modules node main.js
 *
 * What is told to it is the same as to ../grpc_java; ../grpc_clients.py tells it. The end of
 * standard input ends the process.
 */
const {
  ConsumeResult, FilterExpression, Producer, PushConsumer, SimpleConsumer,
} = require('rocketmq-client-nodejs');
const {
  TransactionResolution,
} = require('rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb');
const { serve } = require('../runner.js');

const OPEN = new Map(); // name that was given -> {client, ...}

function base(given) {
  const options = { endpoints: given.endpoints, namespace: '', requestTimeout: 60000 };
  if (given.accessKey) {
    options.sessionCredentials = { accessKey: given.accessKey, accessSecret: given.secretKey };
  }
  return options;
}

function message(given, number) {
  const options = {
    topic: given.topic,
    body: Buffer.from(`body-${number}`),
    keys: [ `k${number}` ],
    properties: new Map([[ 'n', String(number) ]]),
  };
  if (given.tag) options.tag = given.tag;
  if (given.groups) {
    const groups = given.groups.split(',');
    options.messageGroup = groups[number % groups.length];
  }
  if (given.delayMs) options.delay = Number(given.delayMs);
  return options;
}

function shown(view) {
  return {
    id: view.messageId,
    topic: view.topic,
    body: view.body.toString(),
    tag: view.tag || null,
    keys: view.keys.join(' '),
    group: view.messageGroup || null,
    n: Number(view.properties.get('n')),
    attempt: view.deliveryAttempt,
    atMs: Date.now(),
  };
}

async function send(given) {
  const producer = new Producer({ ...base(given), topics: [ given.topic ] });
  await producer.startup();
  const ids = [];
  for (let number = 0; number < Number(given.count); number++) {
    ids.push((await producer.send(message(given, number))).messageId);
  }
  await producer.shutdown();
  return { ids };
}

/* outcome: commit, rollback, or open: even numbers are committed when asked about, others undone. */
async function transact(given) {
  const asked = new Map();
  const checker = {
    async check(view) {
      const number = Number(view.properties.get('n'));
      asked.set(number, (asked.get(number) ?? 0) + 1);
      return number % 2 === 0 ? TransactionResolution.COMMIT : TransactionResolution.ROLLBACK;
    },
  };
  const producer = new Producer({ ...base(given), topics: [ given.topic ], checker });
  await producer.startup();
  OPEN.set(given.as, { client: producer, asked });
  for (let number = 0; number < Number(given.count); number++) {
    const transaction = producer.beginTransaction();
    await producer.send(message(given, number), transaction);
    if (given.outcome === 'commit') await transaction.commit();
    if (given.outcome === 'rollback') await transaction.rollback();
  }
  return {};
}

async function asked(given) {
  return { asked: Object.fromEntries(OPEN.get(given.as).asked) };
}

/* failures: so many deliveries of each message are refused. */
async function pushOpen(given) {
  const messages = [];
  const consumer = new PushConsumer({
    ...base(given),
    consumerGroup: given.group,
    subscriptions: new Map([[ given.topic, new FilterExpression(given.tag || '*') ]]),
    messageListener: {
      async consume(view) {
        messages.push(shown(view));
        const refused = view.deliveryAttempt <= Number(given.failures || 0);
        return refused ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
      },
    },
  });
  await consumer.startup();
  OPEN.set(given.as, { client: consumer, messages });
  return {};
}

async function pushReceived(given) {
  return { messages: OPEN.get(given.as).messages };
}

async function simpleOpen(given) {
  const consumer = new SimpleConsumer({
    ...base(given),
    consumerGroup: given.group,
    subscriptions: new Map([[ given.topic, new FilterExpression(given.tag || '*') ]]),
    awaitDuration: 5000,
  });
  await consumer.startup();
  OPEN.set(given.as, { client: consumer });
  return {};
}

async function simpleReceive(given) {
  const { client } = OPEN.get(given.as);
  const views = await client.receive(Number(given.batch), Number(given.invisibleMs));
  if (given.ack === 'True') {
    for (const view of views) await client.ack(view);
  }
  return { messages: views.map(shown) };
}

async function close(given) {
  const { client } = OPEN.get(given.as);
  OPEN.delete(given.as);
  await client.shutdown();
  return {};
}

serve({
  send, transact, asked, close,
  push_open: pushOpen, push_received: pushReceived,
  simple_open: simpleOpen, simple_receive: simpleReceive,
});
