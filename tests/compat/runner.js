'use strict';
/* The other side of runner.py in a process of Node: serve({name: async given => details, ..}). */
const readline = require('node:readline');

async function answer(scenarios, line) {
  const [ id, name, ...words ] = line.split('\t');
  const given = Object.fromEntries(words.map(word => {
    const at = word.indexOf('=');
    return [ word.slice(0, at), decodeURIComponent(word.slice(at + 1)) ];
  }));
  const began = Date.now();
  const result = { id, name, ok: true, error: null, details: {} };
  try {
    result.details = await scenarios[name](given);
  } catch (failure) {
    result.ok = false;
    result.error = failure.stack;
    for (let cause = failure.cause; cause; cause = cause.cause) {
      result.error += `\ncause: ${cause.stack}`;
    }
  }
  result.seconds = (Date.now() - began) / 1000;
  process.stdout.write(JSON.stringify(result) + '\n');
}

exports.serve = scenarios => {
  const lines = readline.createInterface({ input: process.stdin });
  lines.on('line', line => answer(scenarios, line));
  lines.on('close', () => process.exit(0));
};
