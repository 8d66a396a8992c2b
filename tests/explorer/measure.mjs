// Figures of the page, as JSON; no test, as they are of one machine. After
// tests/explorer/run.sh, in the copy that it made:
//
//   ATTN_BIN=BIN node build/tools/explorer/tree/tests/explorer/measure.mjs
import { launch, open } from "./browser/chrome.mjs";
import { Server } from "./browser/server.mjs";

const loads = 7;
const panned = 120;
const settled = 2000;
const middle = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];
const round = (value) => Math.round(10 * value) / 10;

// When the body says that the first matrix is there, and when it is painted.
function watchFirst() {
  addEventListener("DOMContentLoaded", () => {
    new MutationObserver((_, observer) => {
      if (!document.body.classList.contains("ready")) return;
      observer.disconnect();
      requestAnimationFrame(() => setTimeout(() => {
        window.firstMap = performance.now();
      }));
    }).observe(document.body, { attributes: true });
  });
}

// From the navigation to the painted heat map, in milliseconds, without a cache.
// A window that has just been opened still makes its own parts.
async function firstMap(browser, url) {
  const page = await open(browser, "about:blank", { init: watchFirst });
  await page.waitForTimeout(settled);
  await page.goto(url);
  await page.waitForFunction(() => window.firstMap > 0);
  const time = await page.evaluate(() => window.firstMap);
  await page.context().close();
  return time;
}

// Bytes that a first visit transfers, headers and all, until everything is shown.
async function weight(browser, url) {
  const page = await open(browser, "about:blank");
  const session = await page.context().newCDPSession(page);
  const kinds = new Map();
  const sizes = { page: 0, answers: 0 };
  await session.send("Network.enable");
  session.on("Network.responseReceived", ({ requestId, response, type }) =>
    kinds.set(requestId, /\/v1\/|\/story|\/readyz/.test(response.url) || type === "Fetch" ? "answers" : "page"));
  session.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => {
    sizes[kinds.get(requestId) ?? "page"] += encodedDataLength;
  });
  await page.goto(url);
  await page.locator("#curve svg").waitFor();
  await page.waitForLoadState("networkidle");
  await page.context().close();
  return sizes;
}

// Frames a second while a field of 32768 x 32768 is dragged, once its tiles came.
async function panning(browser, url) {
  const page = await open(browser, `${url}#source=long&rotary=0&longTokens=32768`);
  const begun = Date.now();
  const idle = () => page.waitForFunction(() =>
    document.querySelector(".tile-map")?.getAttribute("aria-busy") === "false", null, { timeout: 300_000 });
  await idle();
  const overview = Date.now() - begun;
  await page.locator(".tile-stage").focus();
  for (let press = 0; press < 6; ++press) await page.keyboard.press("+");
  await page.waitForTimeout(300);
  await idle();
  await page.evaluate(() => {
    window.frames = [];
    const note = (time) => {
      window.frames.push(time);
      requestAnimationFrame(note);
    };
    requestAnimationFrame(note);
  });
  const box = await page.locator(".tile-stage").boundingBox();
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  await page.mouse.move(x, y);
  await page.mouse.down();
  for (let step = 0; step < panned; ++step) {
    const angle = (2 * Math.PI * step) / panned;
    await page.mouse.move(x + 160 * Math.sin(angle), y + 120 * (1 - Math.cos(angle)));
  }
  await page.mouse.up();
  const gaps = await page.evaluate(() => window.frames.slice(1).map((time, at) => time - window.frames[at]));
  await page.context().close();
  const longest = Math.max(...gaps);
  return { overview_ms: overview, frames_per_second: round(1000 / middle(gaps)), longest_frame_ms: round(longest) };
}

const server = await Server.start();
const browser = await launch();
const times = [];
for (let load = 0; load < loads; ++load) times.push(await firstMap(browser, server.url));
const bytes = await weight(browser, server.url);
const long = await panning(browser, server.url);
await browser.close();
await server.stop();
console.log(JSON.stringify({
  first_heat_map_ms: { median: round(middle(times)), all: times.map(round) },
  transferred_bytes: bytes,
  field_of_32768: long,
}, null, 2));
