// Where queries and keys come from: sentence, worked example, toy, files.
import assert from "node:assert/strict";
import { test } from "node:test";

import { bench, close, open, until } from "./chrome.mjs";
import { numbersOf, story, tensor } from "./engine.mjs";
import { npz, safetensors } from "./files.mjs";
import { look, move, panel, readout, shows } from "./screen.mjs";
import { turned } from "./settings.mjs";

const all = bench();
const start = (hash = "", options) => open(all.browser, `${all.server.url}#${hash}`, options);
// A source without what fits the story alone.
const plain = (source) => `source=${source}&rotary=0&causal=0`;
const alignment = "ALIGNMENT_TOP_LEFT";

test("a sentence is typed; layer and head are chosen", async () => {
  const page = await start();
  const text = "The cat saw Peter. Peter slept.";
  await page.getByTestId("story-text").fill(text);
  await page.getByTestId("pick-layer").selectOption("3");
  await page.getByTestId("pick-head").selectOption("5");
  await look(page, "score");
  const source = await story(all.server.origin, text, 3);
  const spec = { transforms: [turned], masks: [{ causal: { alignment } }] };
  const right = await numbersOf(all.engine, source, { spec }, { head: 5 });
  await shows(page, "score", right);
  const cells = await panel(page, "panel-score");
  source.tokens.forEach(({ text: token }, row) => {
    const letters = token.trim() || "␣";
    assert.ok(cells[row][0].place.includes(letters), `${cells[row][0].place} names ${token}`);
  });
  await close(page);
});

// The five tokens of the handbook: rows are probabilities to four digits.
const published = [
  ["0.1234", "0.2426", "0.2145", "0.0651", "0.3545"],
  ["0.2248", "0.1815", "0.1580", "0.2645", "0.1712"],
  ["0.2517", "0.1531", "0.1539", "0.2708", "0.1704"],
  ["0.1666", "0.2220", "0.1869", "0.1256", "0.2990"],
  ["0.1575", "0.2351", "0.2459", "0.2124", "0.1491"],
];

// Remembers what is written on canvases.
function rememberText() {
  const { fillText } = CanvasRenderingContext2D.prototype;
  window.written = [];
  CanvasRenderingContext2D.prototype.fillText = function write(text, ...place) {
    window.written.push({ canvas: this.canvas, text });
    return fillText.call(this, text, ...place);
  };
}

const writtenIn = (page, testid) => page.evaluate((id) => {
  const canvas = document.querySelector(`[data-testid="${id}"] canvas`);
  return window.written.filter((one) => one.canvas === canvas).map((one) => one.text);
}, testid);

test("the worked example shows the published digits", async () => {
  const page = await start(plain("example"), { init: rememberText });
  const digits = published.flat();
  await until(async () => (await writtenIn(page, "panel-weights")).length > 0, "digits");
  const written = await writtenIn(page, "panel-weights");
  assert.deepEqual(written.filter((text) => /^\d\.\d{4}$/.test(text)).slice(-25), digits);
  const weights = await panel(page, "panel-weights");
  assert.deepEqual(weights.flat().map(({ number }) => number.toFixed(4)), digits);
  await look(page, "mix");
  await until(async () => Boolean(await panel(page, "panel-output")), "output");
  const output = await panel(page, "panel-output");
  assert.deepEqual(output.flat().map(({ number }) => number.toFixed(4)), digits);
  // Of the last row, by the definition of entropy; digits are rounded.
  const entropy = published[4].map(Number).reduce((sum, p) => sum - p * Math.log(p), 0);
  const near = (shown, right) => assert.ok(Math.abs(shown - right) < 5e-4, `${shown}, not ${right}`);
  near(await readout(page, "entropy"), entropy);
  near(await readout(page, "share"), entropy / Math.log(5));
  near(await readout(page, "peak"), 0.2459);
  assert.equal(await readout(page, "top"), 2);
  assert.equal(await readout(page, "visible"), 5);
  await close(page);
});

const one = (rows) => tensor([1, 1, rows.length, rows[0].length], rows.flat());

test("a toy is edited by hand", async () => {
  const page = await start();
  await page.getByTestId("source-toy").click();
  await look(page, "mix");
  const q = [[2, 0], [0, 2], [2, 2], [-2, 1]];
  const k = [[2, 0], [0, 2], [1, 1], [-1, 2]];
  const v = [[1, 0], [0, 1], [1, 1], [-1, 0]];
  const check = async () => {
    const right = await numbersOf(all.engine, { q: one(q), k: one(k), v: one(v) }, { spec: {} });
    await shows(page, "mix", right);
  };
  await check();
  q[1][0] = -1.25;
  k[3][1] = 0.5;
  v[2][0] = 4;
  await page.getByTestId("toy-q-1-0").fill("-1.25");
  await page.getByTestId("toy-k-3-1").fill("0.5");
  await page.getByTestId("toy-v-2-0").fill("4");
  await check();
  await page.getByTestId("toy-add-token").click();
  await page.getByTestId("toy-add-feature").click();
  for (const rows of [q, k, v]) {
    for (const row of rows) row.push(0);
    rows.push([0, 0, 0]);
  }
  q[4][2] = 1;
  k[0][2] = 3;
  await page.getByTestId("toy-q-4-2").fill("1");
  await page.getByTestId("toy-k-0-2").fill("3");
  await check();
  await page.getByTestId("toy-remove-feature").click();
  await page.getByTestId("toy-remove-token").click();
  for (const rows of [q, k, v]) {
    rows.pop();
    for (const row of rows) row.pop();
  }
  await check();
  await close(page);
});

// Numbers that look like nothing in particular.
const wave = (shape, phase, dtype = "DATA_TYPE_F32") => {
  const count = shape.reduce((product, extent) => product * extent, 1);
  const numbers = Array.from({ length: count }, (_, at) => 1.5 * Math.sin(1 + phase + 2.3 * at));
  return tensor(shape, numbers, dtype);
};

// More keys than queries, two batch entries, grouped heads.
const grouped = {
  q: wave([2, 4, 3, 4], 0),
  k: wave([2, 2, 5, 4], 1),
  v: wave([2, 2, 5, 6], 2),
  bias: wave([3, 5], 3),
  mask: tensor([3, 5], [1, 0, 1, 1, 0, 0, 1, 0, 1, 1, 1, 1, 1, 0, 0], "DATA_TYPE_BOOL"),
  sink: wave([4], 4),
  d_output: wave([2, 4, 3, 6], 5),
};

const drop = async (page, { name, buffer }) => {
  const transfer = await page.evaluateHandle(([name, base64]) => {
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    const transfer = new DataTransfer();
    transfer.items.add(new File([bytes], name));
    return transfer;
  }, [name, buffer.toString("base64")]);
  await page.dispatchEvent("body", "drop", { dataTransfer: transfer });
};

test("an .npz is dropped; what it has can be chosen", async () => {
  const page = await start();
  await drop(page, await npz("grouped.npz", grouped));
  await page.getByTestId("pick-batch").selectOption("1");
  await page.getByTestId("pick-head").selectOption("3");
  assert.match(await page.getByTestId("file-name").textContent(), /grouped\.npz/);
  const which = { batch: 1, head: 3 };
  const check = async (stage, call, more = {}, instead) => {
    await look(page, stage);
    await shows(page, stage, await numbersOf(all.engine, grouped, call, { ...which, ...more }), instead);
  };
  await check("normalise", { spec: {} });
  await move(page, "bias", "dense");
  const biases = [{ dense: { tensor: { input: 0 } } }];
  await check("mask", { spec: { biases }, inputs: [grouped.bias] });
  await move(page, "bias", "none");
  await move(page, "pattern", "dense");
  const dense = { dense: { tensor: { input: 0 } } };
  await check("mask", { spec: { masks: [dense] }, inputs: [grouped.mask] });
  await move(page, "pattern", "none");
  await move(page, "causal", true);
  await check("mask", { spec: { masks: [{ causal: { alignment: "ALIGNMENT_BOTTOM_RIGHT" } }] } });
  await move(page, "alignment", "top_left");
  await check("mask", { spec: { masks: [{ causal: { alignment } }] } });
  await move(page, "causal", false);
  await move(page, "sinkOn", true);
  const normalizer = { softmax: { sink: { input: 0 } } };
  await check("normalise", { spec: { normalizer }, inputs: [grouped.sink] });
  await move(page, "sinkOn", false);
  await move(page, "view", "gradient");
  await move(page, "loss", "file");
  await check("normalise", { spec: {} }, { loss: grouped.d_output }, "gradient_weight");
  await close(page);
});

const learned = {
  q: wave([2, 5, 4], 0, "DATA_TYPE_F64"),
  k: wave([2, 5, 4], 1, "DATA_TYPE_F64"),
  v: wave([2, 5, 3], 2, "DATA_TYPE_F64"),
  score_query_weight: wave([4, 3], 3, "DATA_TYPE_F64"),
  score_key_weight: wave([4, 3], 4, "DATA_TYPE_F64"),
  score_query_bias: wave([3], 5, "DATA_TYPE_F64"),
  score_v: wave([3], 6, "DATA_TYPE_F64"),
};
// As the file has them, and with the batch axis that it leaves out.
const batched = Object.fromEntries(["q", "k", "v"].map((name) =>
  [name, { ...learned[name], shape: [1, ...learned[name].shape] }]));
const input = (at) => ({ input: at });

// name, more tensors of the file, their score, chosen activation
const learnedScores = [
  ["bilinear", { score_weight: wave([4, 4], 7, "DATA_TYPE_F64") },
    { bilinear: { weight: input(0) } }],
  ["concat", { score_weight: wave([8, 3], 8, "DATA_TYPE_F64") },
    { concat: { weight: input(0), v: input(1), activation: "ACTIVATION_GELU" } }, "gelu"],
  ["trilinear", { score_weight: wave([12], 9, "DATA_TYPE_F64") },
    { trilinear: { weight: input(0) } }],
  ["additive", {}, { additive: { query_weight: input(2), key_weight: input(3), query_bias: input(4),
    v: input(1), activation: "ACTIVATION_RELU" } }, "relu"],
];

test("a .safetensors brings learned scores", async () => {
  const page = await start(plain("file"));
  for (const [name, more, score, activation] of learnedScores) {
    // The weight of the file before has not the shape that the next score needs.
    await move(page, "score", "dot");
    await page.getByTestId("file-input").setInputFiles(
      safetensors(`${name}.safetensors`, { ...learned, ...more }));
    await move(page, "score", name);
    if (activation) await move(page, "activation", activation);
    await look(page, "score");
    const inputs = [more.score_weight ?? learned.score_v, learned.score_v, learned.score_query_weight,
      learned.score_key_weight, learned.score_query_bias];
    await shows(page, "score", await numbersOf(all.engine, batched, { spec: { score }, inputs }));
  }
  await close(page);
});

test("gates and learned scales of a file are used", async () => {
  const page = await start(plain("file"));
  const own = { ...learned, head_gate: wave([2], 1, "DATA_TYPE_F64"), log_scale: wave([2], 2, "DATA_TYPE_F64") };
  await page.getByTestId("file-input").setInputFiles(safetensors("gated.safetensors", own));
  const spec = { score: { dot: { learned_scale: { log_scale: input(0) } } }, head_gate: input(1) };
  const right = await numbersOf(all.engine, batched, { spec, inputs: [own.log_scale, own.head_gate] });
  for (const stage of ["scale", "mix"]) {
    await look(page, stage);
    await shows(page, stage, right);
  }
  await close(page);
});

test("a file without queries, and one that is none, are refused in words", async () => {
  const page = await start(plain("file"));
  const problem = page.getByTestId("problem");
  await page.getByTestId("file-input").setInputFiles(safetensors("only.safetensors", { k: learned.k }));
  await until(async () => /the file has k; expected tensors named q, k and v/.test(await problem.textContent()), "problem");
  await drop(page, { name: "words.npz", buffer: Buffer.from("these are words and not an archive") });
  await until(async () => /not a ZIP archive/.test(await problem.textContent()), "problem");
  await close(page);
});
