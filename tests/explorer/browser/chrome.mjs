// Pages in Debian's Chromium, each watched: what its console says, what it
// throws, and where its requests go.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import { chromium } from "playwright-core";

import { connect } from "./engine.mjs";
import { Server } from "./server.mjs";

// A container has neither a sandbox of user namespaces nor a large /dev/shm.
const args = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"];

export const launch = () =>
  chromium.launch({
    executablePath: process.env.ATTN_CHROMIUM ?? "/usr/bin/chromium",
    args,
    chromiumSandbox: false,
  });

// What a file of tests needs: a server, calls of its engine, a browser, and what
// else `ready` makes with them.
export function bench(ready = () => {}) {
  const all = {};
  before(async () => {
    all.server = await Server.start();
    all.engine = connect(all.server.address);
    all.browser = await launch();
    await ready(all);
  });
  after(async () => {
    await all.browser?.close();
    all.engine?.close();
    await all.server?.stop();
  });
  return all;
}

// A page in a context of its own. `page.watch` has what went wrong; `init` runs
// in it first.
export async function open(browser, url, { init, ...options } = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    colorScheme: "light",
    ...options,
  });
  const page = await context.newPage();
  // A machine may have more to do than this.
  page.setDefaultTimeout(120_000);
  page.watch = watch(page, new URL(url).origin);
  if (init) await page.addInitScript(init);
  await page.goto(url);
  return page;
}

function watch(page, origin) {
  const found = { complaints: [], strangers: [], urls: [] };
  page.on("console", (message) => {
    const type = message.type();
    if (type === "error" || type === "warning") found.complaints.push(`${type}: ${message.text()}`);
  });
  page.on("pageerror", (error) => found.complaints.push(`thrown: ${error}`));
  page.context().on("request", (request) => {
    const url = request.url();
    found.urls.push(url);
    const own = new URL(url).origin === origin || /^(data:|blob:|about:blank)/.test(url);
    if (!own) found.strangers.push(url);
  });
  return found;
}

// Closes the page; nothing may have gone wrong but what is `allowed`.
export async function close(page, allowed = /(?!)/) {
  const { complaints, strangers, urls } = page.watch;
  await page.context().close();
  assert.deepEqual(
    complaints.filter((text) => !allowed.test(text)),
    [],
    "the console stays empty",
  );
  assert.deepEqual(strangers, [], "no request leaves the server");
  assert.ok(urls.length > 0);
}

// Waits until `question` gives something true, or fails with what it gave last.
export async function until(question, words, seconds = Number(process.env.ATTN_PATIENCE ?? 120)) {
  const end = Date.now() + 1000 * seconds;
  for (;;) {
    const answer = await question();
    if (answer === true) return;
    if (Date.now() > end) {
      assert.fail(`${words}: ${typeof answer === "string" ? answer : JSON.stringify(answer)}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 40));
  }
}
