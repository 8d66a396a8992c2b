// What a person finds on the page: its numbers, read as a person would read
// them, and its controls, moved as a person would move them.
import assert from "node:assert/strict";
import { until } from "./chrome.mjs";
import { headLine } from "./engine.mjs";

// A number as the page writes it.
export const numberOf = (text) =>
  Number(text.replaceAll("−", "-").replace("∞", "Infinity"));

// In the page: the words of every cell of a heat map, by its keyboard cursor.
function readCells(testid) {
  const stage = document.querySelector(`[data-testid="${testid}"] .heat-stage`);
  if (!stage) return null;
  const size = /(\d+) rows, (\d+) columns/.exec(stage.getAttribute("aria-label"));
  if (!size) return null;
  const tooltip = stage.parentElement.querySelector(".view-tooltip");
  const press = (key, ctrlKey = false) =>
    stage.dispatchEvent(new KeyboardEvent("keydown", { key, ctrlKey, bubbles: true, cancelable: true }));
  press("Escape");
  const cells = [];
  for (let row = 0; row < Number(size[1]); ++row) {
    press(row === 0 ? "Home" : "ArrowDown", row === 0);
    press("Home");
    const line = [];
    for (let col = 0; col < Number(size[2]); ++col) {
      if (col > 0) press("ArrowRight");
      const [value, place] = [...tooltip.children].map((child) => child.textContent);
      line.push({ value, place });
    }
    cells.push(line);
  }
  press("Escape");
  return cells;
}

// Each cell: its number, whether it is said to be masked, and where it is.
export async function panel(page, testid) {
  const cells = await page.evaluate(readCells, testid);
  return cells?.map((line) => line.map(({ value, place }) => ({
    number: numberOf(value.split(" ").at(-1)),
    masked: value.startsWith("masked"),
    place,
  })));
}

// In the page: the exact numbers of a table's cells.
function readTable(testid) {
  const rows = document.querySelectorAll(`[data-testid="${testid}"] tbody tr`);
  return [...rows].map((row) => [...row.querySelectorAll("td")].map((cell) => cell.dataset.value));
}

export async function table(page, testid) {
  const rows = await page.evaluate(readTable, testid);
  return rows.map((row) => row.filter((value) => value !== undefined).map(Number));
}

export const readout = async (page, id) =>
  Number(await page.getByTestId(`readout-${id}`).getAttribute("data-value"));

// Equal, or equal once it is a float32: the page writes as few digits as give
// the same float32.
const alike = (shown, right) =>
  Object.is(shown + 0, right + 0) || Object.is(Math.fround(shown) + 0, right + 0);

// The first difference of two matrices in words; "" if there is none.
export function differing(name, shown, right) {
  if (!shown) return `${name} is not shown`;
  if (shown.length !== right.length) return `${name} has ${shown.length} rows, not ${right.length}`;
  for (let row = 0; row < right.length; ++row) {
    if (shown[row].length !== right[row].length) {
      return `${name} row ${row} has ${shown[row].length} cells, not ${right[row].length}`;
    }
    const col = right[row].findIndex((value, at) => !alike(shown[row][at], value));
    if (col >= 0) return `${name}[${row}][${col}] is ${shown[row][col]}, not ${right[row][col]}`;
  }
  return "";
}

const panelsOf = {
  score: ["q", "k", "score"],
  scale: ["score", "scaled"],
  mask: ["scaled", "masked"],
  normalise: ["logits", "weights"],
  mix: ["weights", "v", "output"],
};

// Opens a stage in large, and the tables of all numbers.
export async function look(page, stage) {
  await page.getByTestId(`open-${stage}`).click();
  const open = await page.locator("#numbers").evaluate((details) => details.open);
  if (!open) await page.getByTestId("numbers").click();
}

// True if a stage's matrices, the rows' and the heads' numbers on the screen are
// those; else the first that is not, in words.
export async function sees(page, stage, right, instead = "weights") {
  const rows = differing("rows-table", await table(page, "rows-table"), right.rows);
  if (rows) return rows;
  const heads = differing("heads-table", await table(page, "heads-table"), right.heads.map(headLine));
  if (heads) return heads;
  for (const name of panelsOf[stage]) {
    const shown = name === "weights" ? instead : name;
    const cells = await panel(page, `panel-${shown}`);
    const numbers = cells?.map((line) => line.map(({ number }) => number));
    const wrong = differing(`panel-${shown}`, numbers, right.panels[shown]);
    if (wrong) return wrong;
    const masks = maskMismatch(shown, cells, right.panels);
    if (masks) return masks;
  }
  return true;
}

// What is excluded is said to be masked, and its weight is exactly 0.
function maskMismatch(name, cells, { logits }) {
  if (!["weights", "contribution", "gradient_weight"].includes(name)) return "";
  for (const [row, line] of cells.entries()) {
    for (const [col, { masked, number }] of line.entries()) {
      if (masked !== (logits[row][col] === -Infinity)) return `${name}[${row}][${col}] masked: ${masked}`;
      if (masked && number !== 0) return `${name}[${row}][${col}] is masked and ${number}`;
    }
  }
  return "";
}

export const shows = (page, stage, right, instead) =>
  until(() => sees(page, stage, right, instead), `${stage} on the screen`);

export const control = (page, field) => page.getByTestId(`control-${field}`);

// Where a control is put away, its drawer is opened.
async function reach(page, field) {
  const input = control(page, field);
  const drawer = input.locator("xpath=ancestor::details");
  if ((await drawer.count()) > 0 && !(await drawer.evaluate((details) => details.open))) {
    await drawer.locator("summary").click();
  }
  return input;
}

// Moves a control: chooses, switches, or types its exact number.
export async function move(page, field, value) {
  const input = await reach(page, field);
  const kind = await input.evaluate((element) => element.type);
  if (kind === "select-one") await input.selectOption(value);
  else if (kind === "checkbox") await input.setChecked(value);
  else {
    const exact = kind === "range" ? page.getByTestId(`control-${field}-number`) : input;
    await exact.fill(String(value));
    await exact.press("Enter");
  }
}

// A state of the page by its address, as a link brings it.
export async function visit(page, hash) {
  await page.evaluate((text) => {
    location.hash = text;
  }, hash);
}

export function assertSame(name, shown, right) {
  assert.equal(differing(name, shown, right), "");
}
