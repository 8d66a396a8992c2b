// client/examples/node/quick_start.mjs as its README tells to run it.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { attention, expectClose } from "./formulas.mjs";

const example = fileURLToPath(
  new URL("../../../client/examples/node/quick_start.mjs", import.meta.url),
);
const run = (address) =>
  spawnSync(process.execPath, [example, address], { encoding: "utf8", timeout: 120_000 });

test("quick_start prints the output of its formula", () => {
  const { status, stdout, stderr } = run(process.env.ATTN_ADDRESS);
  assert.equal(status, 0, stderr);
  const [numbers, kernel] = stdout.trim().split(" by the kernel ");
  assert.ok(kernel);
  const q = [[1, 0], [0, 1], [1, 1]];
  const v = [[1, 2], [3, 4], [5, 6]];
  expectClose(numbers.split(" ").map(Number), attention(q, q, v, { causal: true }));
});

test("quick_start says in one line that no server answers", () => {
  const { status, stderr } = run("127.0.0.1:1");
  assert.equal(status, 1);
  assert.match(stderr, /^14 UNAVAILABLE: [^\n]*\n$/);
});
