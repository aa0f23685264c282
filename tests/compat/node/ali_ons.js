'use strict';
/*
 * ali-ons, a client in JavaScript, told the same as rocketmq_nodejs.js.
 *
 *   NODE_PATH=.../node_modules node ali_ons.js
 */
const { Consumer, Message, Producer } = require('ali-ons');
const { serve } = require('../runner.js');

const OPEN = new Map(); // group -> {consumer, messages}

function base(given) {
  // An HTTP client is wanted in any case, and used where no name server is named.
  return { nameSrv: given.nameServer, httpclient: {}, accessKeyId: 'a', accessKeySecret: 's' };
}

async function send(given) {
  const producer = new Producer({ ...base(given), producerGroup: given.group });
  await producer.ready();
  const sent = [];
  for (let number = 0; number < Number(given.count); number++) {
    const body = `body-${number}`.padEnd(Number(given.size), '.');
    const message = new Message(given.topic, given.tag, body);
    message.keys = [ `k${number}` ];
    sent.push((await producer.send(message)).sendStatus);
  }
  await producer.close();
  return { sent };
}

async function open(given) {
  const consumer = new Consumer({ ...base(given), consumerGroup: given.group });
  const messages = [];
  consumer.on('error', error => console.error(error));
  consumer.subscribe(given.topic, given.tag, async message => {
    const { topic, tags, keys } = message;
    messages.push({ topic, tags, keys, body: message.body.toString() });
    if (message.reconsumeTimes < Number(given.failures)) throw new Error('refused');
  });
  await consumer.ready();
  OPEN.set(given.group, { consumer, messages });
  return {};
}

async function received(given) {
  return { messages: OPEN.get(given.group).messages };
}

async function close(given) {
  await OPEN.get(given.group).consumer.close();
  OPEN.delete(given.group);
  return {};
}

serve({ send, open, received, close });
