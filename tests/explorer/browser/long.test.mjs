// A sequence of 32768 tokens, of which the server computes what is looked at.
import assert from "node:assert/strict";
import { test } from "node:test";

import { bench, close, open, until } from "./chrome.mjs";
import { connect, matrix, tensor, vector } from "./engine.mjs";
import { safetensors } from "./files.mjs";
import { differing, numberOf, readout } from "./screen.mjs";

const all = bench();
const tokens = 32768;
const part = 512;

// Remembers what the page said while it was at work.
function rememberProgress() {
  window.said = [];
  addEventListener("DOMContentLoaded", () => {
    new MutationObserver(() => {
      window.said.push(document.getElementById("long-status").textContent);
      const tiles = document.querySelector(".tile-map");
      if (tiles?.getAttribute("aria-busy") === "true") window.said.push("tiles are on their way");
    }).observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true });
  });
}

// A layer's tensors as gRPC gives them, by name.
async function layer(name) {
  const layers = connect(all.server.address, { service: "LayerService" });
  const { tensors } = await layers.call("GetLayer", { name });
  layers.close();
  return Object.fromEntries(tensors.map(({ name, tensor }) => [name, tensor]));
}

// The final logits and weights of one query on all keys.
async function rowOf(name, row) {
  const { k, v } = await layer(`${name}.kv`);
  const queries = await layer(`${name}.q${Math.floor(row / part / 8)}`);
  const all_ = queries[`p${Math.floor(row / part) % 8}`];
  const wide = 4 * all_.shape[3];
  const at = (row % part) * wide;
  const q = { ...all_, shape: [1, 1, 1, all_.shape[3]], data: all_.data.subarray(at, at + wide) };
  const views = ["INSPECT_VIEW_MASKED_LOGITS", "INSPECT_VIEW_WEIGHTS"];
  const masks = [{ causal: { alignment: "ALIGNMENT_BOTTOM_RIGHT" } }];
  const answer = await all.engine.call("Inspect", { spec: { masks }, q, k, v, views, kv_lengths: [row + 1] });
  const [logits] = matrix(answer.masked_logits, 0, 0);
  const [weights] = matrix(answer.weights, 0, 0);
  const of = (field) => vector(answer.row_statistics[field], 0, 0)[0];
  return { logits, weights, peak: of("peak_weight"), top: of("top_key"), visible: of("visible_keys"),
    entropy: of("entropy") };
}

// A part of the scores by the very question that the page must have asked.
async function cell(name, row, col, view, field) {
  const q = { layer: `${name}.q${Math.floor(row / part / 8)}`, tensor: `p${Math.floor(row / part) % 8}` };
  const place = row % part;
  const answer = await all.engine.call("Inspect", {
    spec: { masks: [{ causal: { alignment: "ALIGNMENT_BOTTOM_RIGHT" } }] },
    kv_lengths: [row - place + part],
    q_layer: q,
    k_layer: { layer: `${name}.kv`, tensor: "k" },
    v_layer: { layer: `${name}.kv`, tensor: "v" },
    views: [view],
    window: { query: { begin: place, end: place + 1 }, key: { begin: col, end: col + 1 } },
  });
  return matrix(answer[field], 0, 0)[0][0];
}

const status = (page) => page.locator(".tile-status").first().textContent();
const idle = (page) => until(async () =>
  (await page.locator(".tile-map").getAttribute("aria-busy")) === "false", "tiles have come", 120);

// What the pointer reads at a place from 0 to 1 of the largest square in the middle
// of the plot, which all of the field fills.
async function readAt(page, x, y) {
  const canvas = page.locator(".tile-stage canvas");
  await canvas.evaluate((element) => element.scrollIntoView({ block: "center" }));
  const box = await canvas.boundingBox();
  const [width, height] = [box.width - 44, box.height - 18];
  const side = Math.min(width, height);
  const place = [box.x + 44 + (width - side) / 2 + side * x, box.y + 18 + (height - side) / 2 + side * y];
  // A pointer that rests reads nothing new.
  await page.mouse.move(place[0], place[1] - 2);
  await page.mouse.move(...place);
  const [value, where] = await page.locator(".tile-map .view-tooltip:not([hidden]) div").allTextContents();
  return { value, place: where };
}

// The same, once it is as it should be.
async function readOnce(page, x, y, right) {
  let read;
  await until(async () => {
    read = await readAt(page, x, y);
    return right(read) || read;
  }, `read at ${x}, ${y}`);
  return read;
}

const single = ({ value, place }) => /^row \d+, key \d+$/.test(place) && value !== "not here yet";

test("32768 tokens: progress, pooled tiles, single scores as by gRPC", async () => {
  const page = await open(all.browser, `${all.server.url}#source=long&rotary=0&longTokens=${tokens}`,
    { init: rememberProgress });
  await page.locator(".tile-stage").waitFor({ timeout: 120_000 });
  await until(async () => /each cell is \d+ × \d+/.test(await status(page)), "coarse tiles");
  const coarse = await readOnce(page, 0.2, 0.8, ({ value }) => /^largest logit/.test(value));
  assert.match(coarse.place, /^rows \d+–\d+, keys \d+–\d+$/);
  // Above the diagonal there is nothing to see.
  await readOnce(page, 0.9, 0.1, ({ value }) => value === "masked");
  const said = await page.evaluate(() => window.said);
  assert.ok(said.some((words) => /Sending the sequence to the server: \d+ %/.test(words)), "sending is said");
  assert.ok(said.includes("tiles are on their way"));

  const name = `explorer.long1.${tokens}`;
  await page.locator(".tile-stage").focus();
  for (let press = 0; press < 24; ++press) await page.keyboard.press("+");
  await until(async () => /each cell is one element/.test(await status(page)), "single cells");
  const cells = new Set();
  for (let step = 0; step < 9; ++step) {
    const { value, place } = await readOnce(
      page, 0.1 + 0.4 * (step % 3), 0.1 + 0.4 * Math.floor(step / 3), single);
    const [row, col] = /^row (\d+), key (\d+)$/.exec(place).slice(1).map(Number);
    cells.add(place);
    if (col > row) {
      assert.equal(value, "masked", place);
      continue;
    }
    const shown = numberOf(value.split(" ").at(-1));
    const right = await cell(name, row, col, "INSPECT_VIEW_MASKED_LOGITS", "masked_logits");
    assert.equal(differing(place, [[shown]], [[right]]), "");
    const { logits } = await rowOf(name, row);
    assert.ok(Math.abs(shown - logits[col]) < 1e-4, `${shown}, alone ${logits[col]}`);
  }
  assert.ok(cells.size > 4, "different cells were read");

  // A row that is clicked is read out.
  const { place } = await readAt(page, 0.5, 0.5);
  const row = Number(/^row (\d+)/.exec(place)[1]);
  await page.mouse.down();
  await page.mouse.up();
  const right = await rowOf(name, row);
  await until(async () => (await readout(page, "visible")) === right.visible, "the row is read");
  assert.equal(await readout(page, "top"), right.top);
  assert.ok(Math.abs((await readout(page, "peak")) - right.peak) < 1e-5);
  assert.ok(Math.abs((await readout(page, "entropy")) - right.entropy) < 1e-4);
  await close(page);
});

test("looks and poolings of a long sequence change what its cells say", async () => {
  const page = await open(all.browser, `${all.server.url}#source=long&rotary=0&longTokens=1024`);
  await page.locator(".tile-stage").waitFor();
  await page.getByTestId("long-look").selectOption("weights");
  await page.locator(".tile-map select").selectOption("sum");
  await until(async () => /^sum weight/.test((await readAt(page, 0.3, 0.7)).value), "sums");
  await idle(page);
  const { value, place } = await readAt(page, 0.3, 0.7);
  const [rowBegin, rowEnd, keyBegin, keyEnd] =
    /^rows (\d+)–(\d+), keys (\d+)–(\d+)$/.exec(place).slice(1).map(Number);
  const name = "explorer.long1.1024";
  let right = 0;
  for (let row = rowBegin; row <= rowEnd; ++row) {
    const { weights } = await rowOf(name, row);
    for (let key = keyBegin; key <= keyEnd; ++key) right += weights[key];
  }
  const shown = numberOf(value.split(" ").at(-1));
  assert.ok(Math.abs(shown - right) <= 1e-4 * (1 + right), `${value} at ${place}, not ${right}`);
  // Without the mask there is something above the diagonal.
  assert.equal((await readAt(page, 0.9, 0.1)).value, "sum weight 0");
  await page.getByTestId("control-causal").click();
  await until(async () => numberOf((await readAt(page, 0.9, 0.1)).value.split(" ").at(-1)) > 0, "seen");
  await close(page);
});

test("a long file's tensors are kept on the server until the page is left", async () => {
  const shape = [1, 1, 600, 4];
  const wave = (phase) => tensor(shape, Array.from({ length: 2400 }, (_, at) => Math.sin(phase + at)), "DATA_TYPE_F32");
  const page = await open(all.browser, `${all.server.url}#source=file&rotary=0&causal=0`);
  await page.getByTestId("file-input").setInputFiles(
    safetensors("long.safetensors", { q: wave(1), k: wave(2), v: wave(3) }));
  await page.locator(".tile-stage").waitFor();
  const layers = connect(all.server.address, { service: "LayerService" });
  const kept = async () => {
    const { layers: found } = await layers.call("ListLayers", {});
    return found.filter(({ name }) => name.startsWith("explorer.file.")).length;
  };
  assert.ok((await kept()) > 0);
  await page.goto("about:blank");
  await until(async () => (await kept()) === 0, "forgotten");
  layers.close();
  await close(page);
});
