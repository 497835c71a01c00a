// The loop inside each JavaScript driver: driving.py says what it is for and what the lines mean.

"use strict";

const readline = require("node:readline");

const PART_BYTES = 5 << 20; // the shortest part S3 takes

async function serve(driver) {
  process.stdout.write(JSON.stringify({ result: "ready" }) + "\n");
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { call, args } = JSON.parse(line);
    let reply;
    try {
      reply = { result: (await driver[call](...args)) ?? null };
    } catch (error) {
      reply = { error: `${error.name}: ${error.code ?? ""} ${error.message}` };
    }
    process.stdout.write(JSON.stringify(reply) + "\n");
  }
}

module.exports = { PART_BYTES, serve };
