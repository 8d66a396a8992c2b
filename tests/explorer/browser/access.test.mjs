// Who can use the page: by keyboard, by screen reader, on a phone, in the dark.
import assert from "node:assert/strict";
import { test } from "node:test";
import axe from "axe-core";

import { bench, close, open, until } from "./chrome.mjs";
import { look, panel } from "./screen.mjs";

const all = bench();
const sources = ["story", "example", "toy", "file"];
const presets = { story: "", example: "&rotary=0&causal=0", toy: "&rotary=0&causal=0", file: "" };
const phone = { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true };

async function start(source, options) {
  const page = await open(all.browser, `${all.server.url}#source=${source}${presets[source]}`, options);
  if (source !== "file") await page.locator("#curve svg").waitFor();
  return page;
}

// Opens every drawer, so that everything is there.
const openAll = (page) => page.evaluate(() => {
  for (const details of document.querySelectorAll("details:not(.menu)")) details.open = true;
});

const background = (page) => page.evaluate(() => {
  const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number);
  return (r + g + b) / 3;
});

test("the page is light or dark as the system is, or as the button says", async () => {
  const page = await start("example", { colorScheme: "dark" });
  assert.ok((await background(page)) < 60);
  await page.getByTestId("theme").click();
  assert.ok((await background(page)) > 200);
  await page.reload();
  await page.locator("#curve svg").waitFor();
  assert.ok((await background(page)) > 200, "kept");
  await page.getByTestId("theme").click();
  assert.ok((await background(page)) < 60);
  await close(page);
});

test("a heat map is drawn anew for the dark", async () => {
  const page = await start("example");
  const corner = () => page.locator("[data-testid=panel-weights] canvas").evaluate((canvas) => canvas.toDataURL());
  const light = await corner();
  await page.getByTestId("theme").click();
  await until(async () => (await corner()) !== light, "drawn anew");
  await close(page);
});

test("a phone's width needs no scrolling sideways", async () => {
  for (const source of sources) {
    const page = await start(source, phone);
    await openAll(page);
    for (const stage of ["score", "mask", "mix"]) {
      await look(page, stage);
      await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve))));
      const wide = await page.evaluate(() => {
        const { scrollWidth } = document.documentElement;
        return scrollWidth > innerWidth ? `${scrollWidth} of ${innerWidth}` : "";
      });
      assert.equal(wide, "", `${source}, ${stage}`);
      assert.equal(await page.evaluate(() => innerWidth), 360, `${source} is not shrunk`);
    }
    await close(page);
  }
});

// In the page: what has the focus, and how it is marked.
const focused = (page) => page.evaluate(() => {
  const element = document.activeElement;
  if (!element || element === document.body) return null;
  window.focusOrder ??= new Map();
  if (!window.focusOrder.has(element)) window.focusOrder.set(element, window.focusOrder.size);
  const { outlineStyle, boxShadow, borderColor } = getComputedStyle(element);
  const name = element.dataset.testid ?? element.id ?? "";
  return {
    at: window.focusOrder.get(element),
    name: name || `${element.tagName}.${element.className.baseVal ?? element.className}`,
    marked: outlineStyle !== "none" || boxShadow !== "none" || borderColor !== "",
  };
});

test("Tab reaches everything in order, and leaves it again", async () => {
  const page = await start("toy");
  await openAll(page);
  // What can be reached: shown, enabled, and not taken out of the order.
  const wanted = await page.evaluate(() => {
    const query = "a[href], button, input, select, textarea, summary, [tabindex]";
    return [...document.querySelectorAll(query)].filter((element) =>
      element.tabIndex >= 0 && !element.disabled && element.checkVisibility({ visibilityProperty: true }))
      .map((element) => element.dataset.testid ?? element.id ?? element.tagName);
  });
  const order = [];
  await page.evaluate(() => document.body.focus());
  for (let presses = 0; presses < 3 * wanted.length; ++presses) {
    await page.keyboard.press("Tab");
    const now = await focused(page);
    // Past the last, the focus leaves the page.
    if (!now || (order.length > 0 && now.at === 0)) break;
    assert.equal(now.at, order.length, `${now.name} comes once`);
    assert.ok(now.marked, `${now.name} is seen to have the focus`);
    order.push(now.name);
  }
  assert.equal(order.length, wanted.length, `reached ${order.join(" ")}\nof ${wanted.join(" ")}`);
  for (const id of ["story", "example", "toy"]) assert.ok(order.includes(`source-${id}`), id);
  await close(page);
});

test("the first Tab offers to skip to the matrices", async () => {
  const page = await start("example");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "panels-part");
  await close(page);
});

test("controls are moved by keys alone", async () => {
  const page = await start("example");
  const temperature = page.getByTestId("control-temperature");
  await temperature.focus();
  await page.keyboard.press("End");
  const number = page.getByTestId("control-temperature-number");
  await until(async () => Number(await number.inputValue()) === 20, "20");
  // So hot that all is even.
  await until(async () => {
    const weights = await panel(page, "panel-weights");
    return weights.flat().every(({ number }) => Math.abs(number - 0.2) < 0.02);
  }, "even weights");
  await page.getByTestId("control-causal").focus();
  await page.keyboard.press("Space");
  await until(async () => {
    const weights = await panel(page, "panel-weights");
    return weights[0][0].number === 1 && weights[0][1].masked;
  }, "causal");
  await page.getByTestId("control-normalizer").focus();
  await page.keyboard.press("End");
  await until(async () => /identity/.test(page.url()), "the last normaliser");
  await close(page);
});

// What one can do something with.
const active = new Set(["button", "link", "textbox", "combobox", "slider", "spinbutton", "switch",
  "checkbox", "listbox", "option", "application", "DisclosureTriangle", "menuitem"]);

test("everything has a role and a name of its own", async () => {
  const page = await start("toy");
  await openAll(page);
  const session = await page.context().newCDPSession(page);
  const { nodes } = await session.send("Accessibility.getFullAXTree");
  const found = [];
  for (const node of nodes) {
    if (node.ignored) continue;
    const [role, name] = [node.role?.value ?? "", (node.name?.value ?? "").trim()];
    const focusable = node.properties?.some(({ name, value }) => name === "focusable" && value.value);
    if (!focusable || role === "RootWebArea") continue;
    assert.notEqual(role, "generic", `${name} has a role`);
    if (!active.has(role)) continue;
    assert.notEqual(name, "", `a ${role} has a name`);
    // Choices are told apart by what they are choices of.
    if (role !== "option") found.push(`${role} ${name}`);
  }
  // Two of a name cannot be told apart.
  const twice = found.filter((words, at) => found.indexOf(words) !== at);
  assert.deepEqual(twice, []);
  for (const words of ["slider Temperature", "combobox Normaliser", "switch Causal",
    "spinbutton Queries, token 0, feature 0", "button Copy link"]) {
    assert.ok(found.includes(words), `${words} among ${found.join("; ")}`);
  }
  await close(page);
});

async function violations(page) {
  await page.evaluate(axe.source);
  const found = await page.evaluate(async () => {
    const { violations } = await window.axe.run(document, { resultTypes: ["violations"] });
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target).join(" ")}`);
  });
  return found;
}

for (const [source, colorScheme, options] of [
  ["story", "light", {}], ["toy", "dark", {}], ["example", "light", phone], ["file", "dark", phone]]) {
  const words = `${source}, ${colorScheme}, ${options.viewport ? "narrow" : "wide"}`;
  test(`axe finds nothing amiss: ${words}`, async () => {
    const page = await start(source, { ...options, colorScheme });
    await openAll(page);
    if (source === "toy") await page.getByTestId("compare-pin").click();
    assert.deepEqual(await violations(page), []);
    await close(page);
  });
}
