// JSON in and out by `buf curl`, which learns the schema by reflection. BUF is
// the program.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import path from "node:path";
import { test } from "node:test";
import { attention, draw, expectClose, numbersOf, tensorOf } from "./formulas.mjs";

const url = `http://${process.env.ATTN_ADDRESS}`;
const healthProtos = path.join(
  path.dirname(createRequire(import.meta.url).resolve("grpc-health-check/package.json")),
  "proto",
);

function curl(method, ...flags) {
  const command = ["curl", "--protocol=grpc", "--http2-prior-knowledge", ...flags];
  return spawnSync(process.env.BUF, [...command, `${url}/${method}`], {
    encoding: "utf8",
    timeout: 120_000,
  });
}

// The parsed answer; fails with what buf said.
function answer(method, request, ...flags) {
  const { status, stdout, stderr } = curl(method, `--data=${request}`, ...flags);
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout);
}

const q = draw(1, 4, 8);
const k = draw(2, 4, 8);
const v = draw(3, 4, 6);
const jsonOf = (rows) => {
  const tensor = tensorOf(rows);
  return { ...tensor, data: tensor.data.toString("base64") };
};
const call = { q: jsonOf(q), k: jsonOf(k), v: jsonOf(v) };
const service = "attention.v1.AttentionService";

// gRPC 1.51 has reflection v1alpha only; buf looks for v1 first and goes on to it.
for (const flags of [[], ["--reflect-protocol=grpc-v1alpha"]]) {
  test(`services are listed by reflection ${flags}`, () => {
    const { status, stdout, stderr } = spawnSync(
      process.env.BUF,
      ["curl", "--protocol=grpc", "--http2-prior-knowledge", ...flags, "--list-services", url],
      { encoding: "utf8", timeout: 120_000 },
    );
    assert.equal(status, 0, stderr);
    assert.ok(stdout.split("\n").includes(service));
  });
}

test("Attend in JSON", () => {
  const request = JSON.stringify({ ...call, spec: { masks: [{ causal: {} }] } });
  const { output, report } = answer(`${service}/Attend`, request);
  assert.deepEqual(output.shape, ["1", "1", "4", "6"]);
  expectClose(
    numbersOf(Buffer.from(output.data, "base64")),
    attention(q, k, v, { causal: true }),
  );
  assert.ok(report.kernel);
});

test("AttendStream in JSON, a message after another", () => {
  const messages = [1, 2].map((number) => JSON.stringify({ call: number, request: call }));
  const { status, stdout, stderr } = curl(
    `${service}/AttendStream`,
    `--data=${messages.join("\n")}`,
  );
  assert.equal(status, 0, stderr);
  const answers = stdout.split(/(?<=^\})\n/m).filter(Boolean).map((text) => JSON.parse(text));
  assert.deepEqual(answers.map((one) => one.call).sort(), ["1", "2"]);
  for (const { response } of answers) {
    expectClose(numbersOf(Buffer.from(response.output.data, "base64")), attention(q, k, v));
  }
});

test("an error is told with its code and its words", () => {
  const { status, stderr } = curl(`${service}/Attend`, `--data=${JSON.stringify({ q: call.q })}`);
  assert.notEqual(status, 0);
  const error = JSON.parse(stderr);
  assert.equal(error.code, "invalid_argument");
  assert.match(error.message, /^k: got /);
  assert.ok(error.details.some(({ type }) => type === "google.rpc.BadRequest"));
});

test("GetServerInfo without a message", () => {
  const { kernels } = answer(`${service}/GetServerInfo`, "{}");
  assert.ok(kernels.includes("reference"));
});

test("the health service by the standard's schema", () => {
  const schema = `--schema=${healthProtos}`;
  const { status } = answer("grpc.health.v1.Health/Check", "{}", schema);
  assert.equal(status, "SERVING");
});
