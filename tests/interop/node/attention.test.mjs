// AttentionService by @grpc/grpc-js and @grpc/proto-loader.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { status } from "@grpc/grpc-js";
import { connect, load, soon } from "./connection.mjs";
import { attention, bytesOf, draw, expectClose, numbersOf, tensorOf } from "./formulas.mjs";

const service = load("attention/v1/attention.proto").attention.v1.AttentionService;
const client = connect(service);
after(() => client.close());

const q = draw(1, 5, 8);
const k = draw(2, 5, 8);
const v = draw(3, 5, 4);
const call = { q: tensorOf(q), k: tensorOf(k), v: tensorOf(v) };
const causal = { ...call, spec: { masks: [{ causal: {} }] } };

test("Attend gives the output of its formula", async () => {
  const response = await client.call("Attend", causal);
  assert.deepEqual(response.output.shape, [1, 1, 5, 4]);
  expectClose(numbersOf(response.output.data), attention(q, k, v, { causal: true }));
  assert.ok(response.report.kernel);
});

test("an error names the field in BadRequest", async () => {
  const bad = { ...call, v: tensorOf(v.slice(1)) };
  await assert.rejects(client.call("Attend", bad), (error) => {
    assert.equal(error.code, status.INVALID_ARGUMENT);
    assert.match(error.details, /^v\.shape: got /);
    const [details] = error.metadata.get("grpc-status-details-bin");
    assert.ok(details.includes("google.rpc.BadRequest"));
    return true;
  });
});

test("a deadline that has passed is DEADLINE_EXCEEDED", async () => {
  const late = new Promise((resolve) => {
    client.Attend(call, { deadline: Date.now() - 1000 }, resolve);
  });
  assert.equal((await late).code, status.DEADLINE_EXCEEDED);
});

test("AttendBackward of ones gives d_v as the sums of weights", async () => {
  const ones = v.map((row) => row.map(() => 1));
  const response = await client.call("AttendBackward", { ...call, d_output: tensorOf(ones) });
  const units = k.map((_, i) => k.map((_, j) => Number(i === j)));
  const weights = attention(q, k, units);
  const sums = k.map((_, j) => weights.reduce((sum, row) => sum + row[j], 0));
  expectClose(numbersOf(response.d_v.data), sums.map((sum) => v[0].map(() => sum)));
});

test("GetServerInfo and Plan", async () => {
  const info = await client.call("GetServerInfo", {});
  assert.ok(info.kernels.includes("reference"));
  const infoOf = ({ dtype, shape }) => ({ dtype, shape });
  const plan = await client.call("Plan", {
    q: infoOf(call.q),
    k: infoOf(call.k),
    v: infoOf(call.v),
  });
  assert.ok(info.kernels.includes(plan.kernel));
});

// Sends messages on one stream; the answers by the number of their call.
function exchange(messages) {
  return new Promise((resolve, reject) => {
    const stream = client.AttendStream(soon());
    const answers = new Map();
    stream.on("data", (message) => {
      const number = Number(message.call);
      answers.set(number, [...(answers.get(number) ?? []), message]);
    });
    stream.on("error", reject);
    stream.on("end", () => resolve(answers));
    messages.forEach((message) => stream.write(message));
    stream.end();
  });
}

test("AttendStream answers many calls, and the stream goes on after one fails", async () => {
  const bad = { ...call, v: tensorOf(v.slice(1)) };
  const answers = await exchange([
    { call: 1, request: call },
    { call: 2, request: bad },
    { call: 3, request: causal },
  ]);
  assert.deepEqual([...answers.keys()].sort(), [1, 2, 3]);
  const outputOf = (number) => numbersOf(answers.get(number)[0].response.output.data);
  expectClose(outputOf(1), attention(q, k, v));
  expectClose(outputOf(3), attention(q, k, v, { causal: true }));
  assert.equal(answers.get(2)[0].status.code, status.INVALID_ARGUMENT);
});

test("AttendStream takes a call in chunks and answers in chunks", async () => {
  const rows = 1100;
  const wide = [draw(4, rows, 16), draw(5, 3, 16), draw(6, 3, 16)];
  const [wideQ, wideK, wideV] = wide.map(tensorOf);
  const empty = (tensor) => ({ ...tensor, data: Buffer.alloc(0) });
  const chunks = [["Q", wideQ], ["K", wideK], ["V", wideV]].flatMap(([slot, { data }]) => {
    const half = data.length >> 1;
    return [0, half].map((offset) => ({
      call: 7,
      chunk: {
        tensor: `TENSOR_SLOT_${slot}`,
        offset,
        data: data.subarray(offset, offset === 0 ? half : data.length),
      },
    }));
  });
  const header = { q: empty(wideQ), k: empty(wideK), v: empty(wideV) };
  const answers = await exchange([{ call: 7, header, max_message_bytes: 65536 }, ...chunks]);
  const [first, ...rest] = answers.get(7);
  assert.deepEqual(first.header.output.shape, [1, 1, rows, 16]);
  assert.ok(rest.length >= 2, "an answer of 70400 bytes in messages of 65536");
  const data = Buffer.concat(rest.map((message) => message.chunk.data));
  assert.equal(data.length, bytesOf(wide[0]).length);
  expectClose(numbersOf(data), attention(...wide));
});
