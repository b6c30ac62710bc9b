// Runs SQL queries on a trace by Perfetto's trace_processor, without a network.
//
// usage: node query.js DIR TRACE SQL...
//
// DIR has engine_bundle.js and trace_processor.wasm, as Perfetto's user interface loads them into a web worker. Prints one
// JSON array for each query, of rows, which are objects; integers beyond 2^53 become strings.
'use strict';
const fs = require('fs');
const path = require('path');
const vm = require('vm');

// Messages of trace_processor.proto.
const APPEND = 1, FINALIZE = 2, QUERY = 3;
const CELL = {NULL: 1, VARINT: 2, FLOAT64: 3, STRING: 4};
const PORTION = 32 << 20;

function varint(value) {
  const bytes = [];
  let rest = BigInt(value);
  for (; rest > 0x7fn; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  return Buffer.from([...bytes, Number(rest)]);
}
const number = (field, value) => Buffer.concat([varint(field << 3), varint(value)]);
const message = (field, ...parts) => {
  const body = Buffer.concat(parts.map((part) => Buffer.from(part)));
  return Buffer.concat([varint((field << 3) | 2), varint(body.length), body]);
};

class Reader {
  constructor(bytes) { this.bytes = bytes; this.at = 0; }
  get more() { return this.at < this.bytes.length; }
  varint() {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.bytes[this.at++];
      if (byte === undefined) throw new RangeError('truncated');
      value |= BigInt(byte & 0x7f) << shift;
      if (!(byte & 0x80)) return BigInt.asUintN(64, value);
    }
  }
  take(length) {
    if (this.at + length > this.bytes.length) throw new RangeError('truncated');
    return this.bytes.subarray(this.at, (this.at += length));
  }
  *fields() {
    while (this.more) {
      const tag = Number(this.varint());
      const value = [
        () => this.varint(), () => this.take(8), () => this.take(Number(this.varint())), null, null, () => this.take(4),
      ][tag & 7]();
      yield [tag >>> 3, value];
    }
  }
}

/** Returns the values of a batch's cells, in order. */
function cells(batch) {
  let kinds = [], integers = [], floats = [], texts = [];
  for (const [field, value] of new Reader(batch).fields()) {
    if (field === 1) kinds = [...value];
    if (field === 2) for (const reader = new Reader(value); reader.more;) integers.push(BigInt.asIntN(64, reader.varint()));
    if (field === 3) for (let at = 0; at < value.length; at += 8) floats.push(value.readDoubleLE(at));
    if (field === 5) texts = value.toString('utf8').split('\0');
  }
  const plain = (integer) => (Number.isSafeInteger(Number(integer)) ? Number(integer) : String(integer));
  return kinds.map((kind) => {
    switch (kind) {
      case CELL.NULL: return null;
      case CELL.VARINT: return plain(integers.shift());
      case CELL.FLOAT64: return floats.shift();
      case CELL.STRING: return texts.shift();
      default: throw new Error(`a cell of kind ${kind}`);
    }
  });
}

/** Collects the replies to one request. */
class Answer {
  constructor() { this.columns = []; this.cells = []; }
  /** Returns true if the answer is complete. */
  take(reply) {
    const fields = [...new Reader(reply).fields()];
    const of = (name) => fields.filter(([field]) => field === name).map(([, value]) => value);
    for (const fatal of of(5)) throw new Error(fatal.toString());
    for (const result of of(201)) for (const [field, value] of new Reader(result).fields()) {
      if (field === 2) throw new Error(value.toString());
    }
    const results = of(203);
    let isLast = results.length === 0;
    for (const result of results) for (const [field, value] of new Reader(result).fields()) {
      if (field === 1) this.columns.push(value.toString());
      if (field === 2) throw new Error(value.toString());
      if (field !== 3) continue;
      for (const cell of cells(value)) this.cells.push(cell);
      isLast ||= [...new Reader(value).fields()].some(([field, value]) => field === 6 && value);
    }
    return isLast;
  }
  rows() {
    const rows = [], width = this.columns.length;
    for (let at = 0; at < this.cells.length; at += width) {
      rows.push(Object.fromEntries(this.columns.map((name, index) => [name, this.cells[at + index]])));
    }
    return rows;
  }
}

/** Loads the engine, and returns the port through which requests and replies pass once it is ready. */
async function engine(dir) {
  const load = (url) => fs.readFileSync(path.join(dir, path.basename(String(url))));
  const port = {onmessage: null, postMessage: null};
  const worker = {
    console: {log() {}, warn() {}, error: console.error},
    // Of this realm: the engine tests for them by instanceof.
    Uint8Array, ArrayBuffer, TypeError, RangeError, Error, Promise,
    WebAssembly, TextDecoder, TextEncoder, URL, Response, setTimeout, clearTimeout, performance, crypto: globalThis.crypto,
    location: {href: 'http://localhost/engine_bundle.js'},
    fetch: async (url) => new Response(load(url), {headers: {'Content-Type': 'application/wasm'}}),
    XMLHttpRequest: class {
      open(method, url) { this.url = url; }
      send() { const body = load(this.url); this.status = 200; this.response = body.buffer.slice(body.byteOffset, body.byteOffset + body.byteLength); }
    },
    WorkerGlobalScope: function () {}, importScripts() {},
  };
  worker.self = worker;
  vm.createContext(worker);
  vm.runInContext(load('engine_bundle.js').toString(), worker);
  worker.onmessage({data: port});
  // The engine is loaded by now, and initializes itself in promises that are settled by then.
  await new Promise((resolve) => setTimeout(resolve, 100));
  return port;
}

async function main([dir, trace, ...queries]) {
  const port = await engine(dir);
  let sequence = 0, pending = Buffer.alloc(0), answer, done, failed;
  port.postMessage = (bytes) => {
    pending = Buffer.concat([pending, Buffer.from(bytes)]);
    try {
      for (;;) {
        const reader = new Reader(pending);
        let reply;
        try { reader.varint(); reply = reader.take(Number(reader.varint())); } catch { return; }
        pending = pending.subarray(reader.at);
        if (answer.take(reply)) done();
      }
    } catch (error) { failed(error); }
  };
  const ask = (request, ...fields) => new Promise((resolve, reject) => {
    [answer, done, failed] = [new Answer(), resolve, reject];
    const bytes = message(1, number(1, sequence++), number(2, request), ...fields);
    port.onmessage({data: new Uint8Array(bytes)});
  });
  const bytes = fs.readFileSync(trace);
  for (let at = 0; at < bytes.length; at += PORTION) await ask(APPEND, message(101, bytes.subarray(at, at + PORTION)));
  await ask(FINALIZE);
  for (const query of queries) {
    await ask(QUERY, message(103, message(1, query)));
    console.log(JSON.stringify(answer.rows()));
  }
  process.exit(0);
}

main(process.argv.slice(2)).catch((error) => { console.error(error.message); process.exit(1); });
process.on('uncaughtException', (error) => { console.error(error.stack); process.exit(1); });
