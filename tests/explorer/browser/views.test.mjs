// What shows the numbers beside the strip: hovering and keys, hatching, heads,
// arcs, the curve, contributions and gradients, words.
import assert from "node:assert/strict";
import { test } from "node:test";

import { bench, close, open, until } from "./chrome.mjs";
import { numbersOf, story } from "./engine.mjs";
import { assertSame, look, move, numberOf, readout, shows } from "./screen.mjs";
import { first, turned } from "./settings.mjs";

const text = "Anna saw Ben, and Ben saw Anna.";
let source, usual;
const all = bench(async ({ server, engine }) => {
  source = await story(server.origin, text, 1);
  usual = await numbersOf(engine, source, first());
});
const start = (more = "") =>
  open(all.browser, `${all.server.url}#${new URLSearchParams({ text })}&${more}`);
const near = (shown, right, most) =>
  assert.ok(Math.abs(shown - right) <= most, `${shown} is not within ${most} of ${right}`);
const places = /row (\d+).*column (\d+)/;

test("hovering reads the exact value of the cell under the pointer", async () => {
  const page = await start();
  await look(page, "normalise");
  await shows(page, "normalise", usual);
  const stage = page.locator("[data-testid=panel-weights] .heat-stage");
  await stage.scrollIntoViewIfNeeded();
  const box = await stage.boundingBox();
  const seen = new Set();
  for (let step = 0; step < 64; ++step) {
    const [x, y] = [(step % 8) + 0.5, Math.floor(step / 8) + 0.5];
    await page.mouse.move(box.x + (box.width * x) / 8, box.y + (box.height * y) / 8);
    const tooltip = page.locator("[data-testid=panel-weights] .view-tooltip");
    if (!(await tooltip.isVisible())) continue;
    const [value, place] = await tooltip.locator("div").allTextContents();
    const [, row, col] = places.exec(place).map(Number);
    assertSame(place, [[numberOf(value.split(" ").at(-1))]], [[usual.panels.weights[row][col]]]);
    // The read-outs follow the row.
    assert.equal(await readout(page, "peak"), usual.rows[row][0]);
    seen.add(`${row} ${col}`);
  }
  assert.ok(seen.size > 10, `${seen.size} cells were read`);
  await close(page);
});

test("a cursor is moved by keys, is said aloud, and chooses a row", async () => {
  const page = await start();
  await look(page, "normalise");
  await shows(page, "normalise", usual);
  const stage = page.locator("[data-testid=panel-weights] .heat-stage");
  await stage.focus();
  for (const key of ["Home", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"]) {
    await page.keyboard.press(key);
  }
  const live = page.locator("[data-testid=panel-weights] [aria-live]");
  await until(async () => (await live.textContent()).startsWith("row 3"), "said");
  const said = await live.textContent();
  assert.match(said, /^row 3 “.*”, column 1 “.*”: weights /);
  assertSame(said, [[numberOf(said.split(" ").at(-1))]], [[usual.panels.weights[3][1]]]);
  await page.keyboard.press("Enter");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Tab");
  await until(async () => (await readout(page, "peak")) === usual.rows[3][0], "row 3 is read out");
  assert.match(await page.getByTestId("row-name").textContent(), /^Row 3/);
  await close(page);
});

// In the page: how many colours there are inside of each cell of a heat map.
function coloursOfCells(testid) {
  const stage = document.querySelector(`[data-testid="${testid}"] .heat-stage`);
  const canvas = stage.querySelector("canvas");
  const mark = stage.querySelector(".heat-cursor");
  const press = (key, ctrlKey) => stage.dispatchEvent(new KeyboardEvent("keydown", { key, ctrlKey }));
  const [, rows, cols] = /(\d+) rows, (\d+) columns/.exec(stage.getAttribute("aria-label")).map(Number);
  const copy = document.createElement("canvas");
  [copy.width, copy.height] = [canvas.width, canvas.height];
  const context = copy.getContext("2d", { willReadFrequently: true });
  context.drawImage(canvas, 0, 0);
  const ratio = canvas.width / canvas.clientWidth;
  const counts = [];
  press("Escape");
  press("Home", true);
  for (let row = 0; row < rows; ++row) {
    press("Home");
    const line = [];
    for (let col = 0; col < cols; ++col) {
      if (col > 0) press("ArrowRight");
      const [x, y, width, height] = ["left", "top", "width", "height"].map(
        (name) => Math.round(parseFloat(mark.style[name]) * ratio));
      const { data } = context.getImageData(x + 2, y + 2, width - 4, height - 4);
      const colours = new Set(new Uint32Array(data.buffer));
      line.push(colours.size);
    }
    counts.push(line);
    press("ArrowDown");
  }
  press("Escape");
  return counts;
}

test("masked cells are hatched, and only they", async () => {
  const page = await start("windowOn=1&left=3");
  await until(() => page.locator("[data-testid=panel-weights] canvas").isVisible(), "weights");
  await page.waitForFunction(() => document.body.classList.contains("ready"));
  const count = source.tokens.length;
  assert.ok(count > 8, "cells have no digits in them");
  const counts = await page.evaluate(coloursOfCells, "panel-weights");
  for (let row = 0; row < count; ++row) {
    for (let col = 0; col < count; ++col) {
      const masked = col > row || col < row - 3;
      assert.equal(counts[row][col] > 1, masked, `cell ${row}, ${col}`);
    }
  }
  await close(page);
});

test("the heads of the layer say their entropy, and are chosen", async () => {
  const page = await start();
  const cards = page.locator("#heads button");
  await until(async () => (await cards.count()) === usual.heads.length, "heads");
  for (const [head, { mean_entropy_ratio }] of usual.heads.entries()) {
    const name = await cards.nth(head).getAttribute("aria-label");
    assert.match(name, new RegExp(`^Head ${head} `));
    assert.match(name, new RegExp(`entropy ${Math.round(100 * mean_entropy_ratio)} % of the maximum`));
  }
  await cards.nth(6).click();
  const right = await numbersOf(all.engine, source, first(), { head: 6 });
  await look(page, "normalise");
  await shows(page, "normalise", right);
  assert.equal(await cards.nth(6).getAttribute("aria-pressed"), "true");
  assert.equal(await cards.nth(0).getAttribute("aria-pressed"), "false");
  assert.equal(await page.getByTestId("pick-head").inputValue(), "6");
  assert.equal(await readout(page, "head-entropy"), right.heads[6].mean_entropy);
  assert.equal(await readout(page, "head-peak"), right.heads[6].mean_peak_weight);
  await close(page);
});

test("arcs name the strongest keys of each token, and choose its row", async () => {
  const page = await start();
  const options = page.locator("#arcs [role=option]");
  const count = source.tokens.length;
  await until(async () => (await options.count()) === count, "tokens");
  for (let row = 0; row < count; ++row) {
    const weights = usual.panels.weights[row];
    const words = await options.nth(row).getAttribute("aria-label");
    const arcs = [...words.split(" attends to ")[1].matchAll(/“[^”]*” \((\d+)\) ([\d.e−]+)/g)];
    const order = weights.map((_, key) => key).filter((key) => weights[key] > 0)
      .sort((a, b) => weights[b] - weights[a]).slice(0, arcs.length);
    assert.ok(arcs.length > 0, words);
    arcs.forEach(([, key, value], at) => {
      // Equal weights may come in any order.
      assert.equal(weights[key], weights[order[at]], words);
      near(numberOf(value), weights[key], at === 0 ? 1e-7 : 0.005 * weights[key]);
    });
  }
  await options.nth(4).click();
  await until(async () => (await readout(page, "peak")) === usual.rows[4][0], "row 4 is read out");
  await close(page);
});

test("the curve has the engine's entropies, and sets the temperature", async () => {
  const page = await start();
  const curve = page.locator("#curve svg");
  await curve.waitFor();
  await curve.focus();
  const tooltip = page.locator("#curve .view-tooltip div");
  const points = [];
  await page.keyboard.press("Home");
  for (;;) {
    const [y, x] = (await tooltip.allTextContents()).map((line) => numberOf(line.split(" ").at(-1)));
    if (points.at(-1)?.x === x) break;
    points.push({ x, y });
    await page.keyboard.press("ArrowRight");
  }
  assert.ok(points.length > 10);
  const { sweep } = await all.engine.call("Inspect", {
    ...first(), q: source.q, k: source.k, v: source.v, sweep_temperatures: points.map(({ x }) => x) });
  points.forEach(({ x, y }, at) =>
    assertSame(`at ${x}`, [[y]], [[sweep[at].head_statistics[0].mean_entropy]]));
  await page.keyboard.press("Home");
  await page.keyboard.press("Enter");
  const temperature = Number(points[0].x.toPrecision(3));
  const number = page.getByTestId("control-temperature-number");
  await until(async () => Number(await number.inputValue()) === temperature, "temperature");
  await close(page);
});

test("contributions and gradients stand beside weights, with a note", async () => {
  const page = await start();
  await look(page, "normalise");
  const note = page.getByTestId("view-note");
  assert.match(await note.textContent(), /not an explanation/);
  await move(page, "view", "contribution");
  await shows(page, "normalise", usual, "contribution");
  for (const loss of ["square", "sum"]) {
    await move(page, "view", "gradient");
    await move(page, "loss", loss);
    const right = await numbersOf(all.engine, source, first(), { loss });
    await shows(page, "normalise", right, "gradient_weight");
  }
  assert.match(await note.textContent(), /slope of the loss/);
  await close(page);
});

test("words say what changed and what the engine measured of it", async () => {
  const page = await start();
  const explain = page.getByTestId("explain");
  await until(async () => /mean entropy is/.test(await explain.textContent()), "introduction");
  const before = usual.heads[0];
  assert.ok((await explain.textContent()).includes(`${before.mean_entropy.toFixed(3)} nats`));
  await until(() => page.locator("#curve svg").isVisible(), "all answers");
  const spec = { ...first().spec, temperatures: [3] };
  const now = (await numbersOf(all.engine, source, { spec })).heads[0];
  await move(page, "temperature", 3);
  const words = `Mean entropy rose from ${before.mean_entropy.toFixed(3)} to ${now.mean_entropy.toFixed(3)} nats`;
  await until(async () => (await explain.textContent()).includes(words), words);
  const said = await explain.textContent();
  assert.match(said, /^Temperature: 1 → 3\. Dividing by more /);
  assert.ok(said.includes(`from ${before.mean_peak_weight.toFixed(3)} to ${now.mean_peak_weight.toFixed(3)}`), said);
  await close(page);
});

test("the server's warnings and report are shown as they come", async () => {
  const page = await start("scaleMode=custom&scale=0.125&padding=2");
  const lengths = [source.tokens.length - 2];
  const spec = { score: { dot: { scale: 0.125 } }, transforms: [turned],
    masks: [{ causal: { alignment: "ALIGNMENT_TOP_LEFT" } }] };
  const { report } = await numbersOf(all.engine, source, { spec, q_lengths: lengths, kv_lengths: lengths });
  const kinds = report.warnings.map(({ kind }) => kind);
  assert.ok(kinds.includes("WARNING_KIND_DOUBLE_SCALING"), kinds.join());
  const shown = page.locator("[data-testid=warnings] li");
  await until(async () => (await shown.count()) === report.warnings.length, "warnings");
  assert.deepEqual(await shown.allTextContents(), report.warnings.map(({ message }) => message));
  await page.getByTestId("numbers").click();
  assert.equal(await page.getByTestId("report-pipeline").textContent(), report.pipeline);
  assert.equal(await page.getByTestId("report-kernel").textContent(), report.kernel);
  assert.equal(await page.getByTestId("report-scale").textContent(), String(report.effective_scale));
  assert.equal(await page.getByTestId("report-masked").textContent(), String(report.fully_masked_rows));
  await close(page);
});

test("a call that the server refuses is said in its words", async () => {
  const page = await start();
  await move(page, "scoreProgram", "score +");
  const problem = page.getByTestId("problem");
  const refused = numbersOf(all.engine, source, { spec: { ...first().spec, score_program: { source: "score +" } } });
  const { details } = await refused.then(() => assert.fail("not refused"), (error) => error);
  await until(async () => (await problem.isVisible()) && (await problem.textContent()) === details, details);
  await move(page, "scoreProgram", "score + 1");
  await until(async () => !(await problem.isVisible()), "gone");
  // The browser itself writes of the answer 400.
  await close(page, /status of 400/);
});
