// What is taken away from the page: links, pictures, numbers; and two settings
// beside each other.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import { bench, close, open, until } from "./chrome.mjs";
import { numbersOf, story } from "./engine.mjs";
import { npy, stored } from "./files.mjs";
import { assertSame, control, differing, look, move, panel, shows, table } from "./screen.mjs";
import { first, turned } from "./settings.mjs";

const text = "Ben saw Anna.";
let source, usual;
const all = bench(async ({ server, engine }) => {
  source = await story(server.origin, text, 1);
  usual = await numbersOf(engine, source, first());
});
const start = (more = "", options) =>
  open(all.browser, `${all.server.url}#${new URLSearchParams({ text })}&${more}`, options);

test("a link brings all of the page back", async () => {
  const page = await start("", { permissions: ["clipboard-read", "clipboard-write"] });
  await page.getByTestId("pick-layer").selectOption("2");
  await page.getByTestId("pick-head").selectOption("4");
  const moved = { score: "cosine", norm: "rms", scaleMode: "custom", scale: 6.5, softcapOn: true,
    softcap: 4.5, causal: false, padding: 1, bias: "alibi", slope: 0.3, temperature: 0.8,
    normalizer: "entmax", alpha: 1.7, topK: 3 };
  for (const [field, value] of Object.entries(moved)) await move(page, field, value);
  await look(page, "mask");
  const lengths = [source.tokens.length - 1];
  const call = {
    spec: {
      score: { cosine: { scale: 6.5 } },
      transforms: [{ norm: { kind: "NORM_KIND_RMS" } }, turned],
      softcap: 4.5,
      biases: [{ alibi: { slopes: Array(8).fill(0.3) } }],
      temperatures: [0.8],
      sparsifiers: [{ top_k: { k: 3 } }],
      normalizer: { entmax: { alpha: 1.7 } },
    },
    q_lengths: lengths,
    kv_lengths: lengths,
  };
  const other = await story(all.server.origin, text, 2);
  const right = await numbersOf(all.engine, other, call, { head: 4 });
  await shows(page, "mask", right);
  await page.getByTestId("link").click();
  await until(async () => /copied/.test(await page.getByTestId("notice").textContent()), "notice");
  const link = await page.evaluate(() => navigator.clipboard.readText());
  await close(page);

  const again = await open(all.browser, link);
  await again.getByTestId("numbers").click();
  await shows(again, "mask", right);
  for (const [field, value] of Object.entries(moved)) {
    const input = control(again, field);
    if (typeof value === "boolean") assert.equal(await input.isChecked(), value, field);
    else if (typeof value === "string") assert.equal(await input.inputValue(), value, field);
    else assert.equal(Number(await again.getByTestId(`control-${field}-number`).inputValue()), value, field);
  }
  assert.equal(await again.getByTestId("story-text").inputValue(), text);
  await again.getByTestId("reset").click();
  await shows(again, "mask", await numbersOf(all.engine, other, first(), { head: 4 }));
  await close(again);
});

test("a link that says nonsense opens the page all the same", async () => {
  const page = await start("temperature=hot&normalizer=magic&nothing=1&topK=-3&layer=1");
  await look(page, "normalise");
  await shows(page, "normalise", usual);
  await close(page);
});

const save = async (page, kind) => {
  await page.getByTestId("exports").click();
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByTestId(`export-${kind}`).click(),
  ]);
  assert.equal(download.suggestedFilename(), `attention.${kind}`);
  return readFile(await download.path());
};

test("an exported .npz holds the numbers on the screen", async () => {
  const page = await start();
  await look(page, "normalise");
  await shows(page, "normalise", usual);
  await until(() => page.locator("#curve svg").isVisible(), "all answers");
  const members = stored(await save(page, "npz"));
  for (const [name, right] of Object.entries(usual.panels)) {
    const { shape, values } = npy(members.get(`${name}.npy`));
    assert.deepEqual(shape, [right.length, right[0].length], name);
    const [rows, cols] = shape;
    const shown = Array.from({ length: rows }, (_, row) => values.slice(row * cols, (row + 1) * cols));
    assertSame(name, shown, right);
  }
  const entropy = npy(members.get("row_entropy.npy"));
  assertSame("row_entropy", [entropy.values], [usual.rows.map((row) => row[2])]);
  await close(page);
});

test("an exported drawing has the digits of its cells", async () => {
  const page = await start("source=example&rotary=0&causal=0");
  await until(async () => Boolean(await panel(page, "panel-weights")), "weights");
  const weights = await panel(page, "panel-weights");
  const svg = (await save(page, "svg")).toString();
  const kind = await page.evaluate((source) => {
    const root = new DOMParser().parseFromString(source, "image/svg+xml").documentElement;
    const texts = [...root.querySelectorAll("text")].map((one) => one.textContent);
    return { name: root.tagName, wrong: root.querySelector("parsererror") !== null, texts };
  }, svg);
  assert.deepEqual([kind.name, kind.wrong], ["svg", false]);
  const digits = kind.texts.filter((one) => /^\d\.\d{4}$/.test(one));
  assert.deepEqual(digits.slice(-25), weights.flat().map(({ number }) => number.toFixed(4)));
  assert.ok(kind.texts.includes("Weights"));
  await close(page);
});

test("an exported picture is the matrices beside each other", async () => {
  const page = await start();
  await look(page, "normalise");
  await shows(page, "normalise", usual);
  const png = await save(page, "png");
  const picture = await page.evaluate(async (base64) => {
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
    const canvas = new OffscreenCanvas(image.width, image.height);
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const { data } = context.getImageData(0, 0, image.width, image.height);
    const half = image.width / 2;
    const colours = [new Set(), new Set()];
    new Uint32Array(data.buffer).forEach((colour, at) => colours[Number(at % image.width >= half)].add(colour));
    return { width: image.width, height: image.height, colours: colours.map((set) => set.size) };
  }, png.toString("base64"));
  const [width] = await page.locator("[data-testid=panels]").evaluate((panels) => [panels.clientWidth]);
  // Two pixels for each of the page's, and both matrices in it.
  assert.ok(picture.width > width, `${picture.width} pixels of ${width}`);
  assert.ok(picture.colours.every((count) => count > 30), picture.colours.join());
  await close(page);
});

const numbers = (cells) => cells?.map((line) => line.map(({ number }) => number));
const measures = ["mean_entropy", "mean_entropy_ratio", "mean_peak_weight", "max_peak_weight",
  "mean_visible_keys", "mean_effective_keys", "mean_contribution"];

test("two settings are compared, swapped, linked and put away", async () => {
  const page = await start();
  await look(page, "normalise");
  await shows(page, "normalise", usual);
  await page.getByTestId("compare-pin").click();
  await move(page, "normalizer", "sparsemax");
  await move(page, "windowOn", true);
  const window = { left: 4, right: 0, alignment: "ALIGNMENT_TOP_LEFT" };
  const spec = { ...first().spec, masks: [...first().spec.masks, { window }], normalizer: { sparsemax: {} } };
  const other = await numbersOf(all.engine, source, { spec });
  const seen = async (target, a, b) => {
    const difference = b.panels.weights.map((row, i) => row.map((value, j) => value - a.panels.weights[i][j]));
    for (const [name, right] of [["a", a.panels.weights], ["b", b.panels.weights], ["difference", difference]]) {
      const wrong = differing(name, numbers(await panel(target, `compare-${name}`)), right);
      if (wrong) return wrong;
    }
    const right = measures.map((name) => [a.heads[0][name], b.heads[0][name], b.heads[0][name] - a.heads[0][name]]);
    return differing("compare-table", await table(target, "compare-table"), right) || true;
  };
  await until(() => seen(page, usual, other), "compared");
  assert.match(await page.getByTestId("compare-settings").textContent(), /B: .*Normaliser sparsemax/);
  await page.waitForFunction(() => location.hash.includes("sparsemax"));
  const link = page.url();
  const again = await open(all.browser, link);
  await until(() => seen(again, usual, other), "compared by a link");
  await close(again);
  await page.getByTestId("compare-swap").click();
  await until(() => seen(page, other, usual), "swapped");
  assert.equal(await control(page, "normalizer").inputValue(), "softmax");
  await page.getByTestId("compare-stop").click();
  await until(async () => !(await page.getByTestId("compare-a").isVisible()), "put away");
  await close(page);
});
