'use strict';
/*
 * rocketmq-nodejs, which is RocketMQ's C++ client as a module of Node, told what to do line by line
 * as ../runner.py says. The end of standard input ends the process.
 *
 *   NODE_PATH=.../node_modules node rocketmq_nodejs.js
 */
const { Producer, PushConsumer } = require('rocketmq-nodejs');
const { serve } = require('../runner.js');

const OPEN = new Map(); // group -> {consumer, messages}

/* Messages 0, 1 .. of bodies that begin with body-0, body-1 ..; the status of each. */
async function send(given) {
  const producer = new Producer(given.group, {
    nameServer: given.nameServer, sendMessageTimeout: 60000, logLevel: 'warn',
  });
  await producer.start();
  const sent = [];
  for (let number = 0; number < Number(given.count); number++) {
    const body = `body-${number}`.padEnd(Number(given.size), '.');
    const options = { tags: given.tag, keys: `k${number}` };
    sent.push((await producer.send(given.topic, body, options)).statusStr);
  }
  await producer.shutdown();
  return { sent };
}

/*
 * failures: so many deliveries of each message are refused. The module sends all back that it got in
 * one batch when one of them is refused: those before it come again, too.
 */
async function open(given) {
  const consumer = new PushConsumer(given.group, {
    nameServer: given.nameServer, logLevel: 'warn',
  });
  const messages = [];
  const refused = new Map();
  consumer.subscribe(given.topic, given.tag);
  consumer.on('message', (message, ack) => {
    const { topic, tags, keys, body } = message;
    messages.push({ topic, tags, keys, body });
    const times = refused.get(keys) ?? 0;
    refused.set(keys, times + 1);
    ack.done(times >= Number(given.failures));
  });
  await consumer.start();
  OPEN.set(given.group, { consumer, messages });
  return {};
}

async function received(given) {
  return { messages: OPEN.get(given.group).messages };
}

async function close(given) {
  await OPEN.get(given.group).consumer.shutdown();
  OPEN.delete(given.group);
  return {};
}

serve({ send, open, received, close });
