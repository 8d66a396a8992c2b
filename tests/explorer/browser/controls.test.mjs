// Each control of the strip, moved by hand: the numbers on the screen are those
// that gRPC gives for the call that the control stands for.
import assert from "node:assert/strict";
import { test } from "node:test";

import { bench, close, open } from "./chrome.mjs";
import { numbersOf, story } from "./engine.mjs";
import { look, move, sees, shows, visit } from "./screen.mjs";
import { first, settings } from "./settings.mjs";

const text = "Ben saw Anna.";
let source, page;

const all = bench(async ({ server, browser }) => {
  source = await story(server.origin, text, 1);
  page = await open(browser, `${server.url}#${new URLSearchParams({ text })}`);
});

test("the page begins with causal softmax of turned queries and keys", async () => {
  await look(page, "normalise");
  await shows(page, "normalise", await numbersOf(all.engine, source, first()));
});

for (const [stage, start, field, value, call] of settings) {
  test(`${stage}: ${field} ${value}${start && ` after ${start}`}`, async () => {
    await visit(page, `${new URLSearchParams({ text, stage })}&${start}`);
    await look(page, stage);
    const right = await numbersOf(all.engine, source, call({ tokens: source.tokens.length }));
    assert.notEqual(await sees(page, stage, right), true, "not shown before");
    await move(page, field, value);
    await shows(page, stage, right);
  });
}

test("every control has been moved, or is another test's", async () => {
  const moved = new Set(settings.map(([, , field]) => `control-${field}`));
  // Those of files and of views.
  for (const field of ["activation", "alignment", "view", "loss"]) moved.add(`control-${field}`);
  const there = await page.evaluate(() => [...document.querySelectorAll("[data-testid^=control-]")]
    .map((element) => element.dataset.testid).filter((id) => !id.endsWith("-number")));
  assert.deepEqual(there.filter((id) => !moved.has(id)), []);
  assert.ok(there.length > 30);
});

test("nothing was amiss while they were moved", () => close(page));
