// The Open Inference Protocol by @grpc/grpc-js, as a client of KServe or Triton
// speaks it.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { status } from "@grpc/grpc-js";
import { connect, load } from "./connection.mjs";
import { attention, bytesOf, draw, expectClose, numbersOf } from "./formulas.mjs";

const client = connect(load("inference/open_inference.proto").inference.GRPCInferenceService);
after(() => client.close());

const tensors = { q: draw(1, 5, 8), k: draw(2, 5, 8), v: draw(3, 5, 4) };
const request = (model) => ({
  model_name: model,
  inputs: Object.entries(tensors).map(([name, rows]) => ({
    name,
    datatype: "FP32",
    shape: [1, 1, rows.length, rows[0].length],
  })),
  raw_input_contents: Object.values(tensors).map(bytesOf),
});

test("ServerLive, ServerReady and ModelReady", async () => {
  assert.equal((await client.call("ServerLive", {})).live, true);
  assert.equal((await client.call("ServerReady", {})).ready, true);
  assert.equal((await client.call("ModelReady", { name: "attention" })).ready, true);
});

test("ModelMetadata names inputs and outputs", async () => {
  const { inputs, outputs } = await client.call("ModelMetadata", { name: "attention" });
  assert.deepEqual(inputs.map(({ name }) => name), ["q", "k", "v"]);
  assert.ok(outputs.some(({ name }) => name === "output"));
});

test("ModelInfer with raw contents", async () => {
  const { q, k, v } = tensors;
  for (const [model, causal] of [["attention", false], ["mask_causal", true]]) {
    const response = await client.call("ModelInfer", request(model));
    assert.deepEqual(response.outputs.map(({ name }) => name), ["output"]);
    assert.deepEqual(response.outputs[0].shape, [1, 1, 5, 4]);
    const [raw] = response.raw_output_contents;
    expectClose(numbersOf(raw), attention(q, k, v, { causal }));
  }
});

test("ModelInfer of a model that there is not is NOT_FOUND", async () => {
  await assert.rejects(client.call("ModelInfer", request("no-such-model")), {
    code: status.NOT_FOUND,
  });
});
