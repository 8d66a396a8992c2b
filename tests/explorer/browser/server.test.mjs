// A server that goes away and comes back, and one that asks for a token.
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { close, launch, open, until } from "./chrome.mjs";
import { connect, numbersOf, story } from "./engine.mjs";
import { look, move, shows } from "./screen.mjs";
import { Server } from "./server.mjs";
import { first } from "./settings.mjs";

const text = "Ben saw Anna.";
const hash = `#${new URLSearchParams({ text })}`;
const colder = { spec: { ...first().spec, temperatures: [0.3] } };
let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

// Runs with a server that is stopped, whatever happens.
async function withServer(flags, action) {
  const server = await Server.start(...flags);
  try {
    await action(server);
  } finally {
    await server.stop();
  }
}

const numbers = async (server, call, options) => {
  const engine = connect(server.address, options);
  try {
    return await numbersOf(engine, await story(server.origin, text, 1, options?.token), call);
  } finally {
    engine.close();
  }
};

test("a server that goes away is said so; when it is back, the page goes on", async () => {
  let page;
  let port;
  const connection = () => page.getByTestId("connection").textContent();
  await withServer([], async (server) => {
    page = await open(browser, server.url + hash);
    port = new URL(server.url).port;
    await look(page, "normalise");
    await shows(page, "normalise", await numbers(server, first()));
    assert.match(await connection(), /Connected/);
  });
  await move(page, "temperature", 0.3);
  await until(async () => /cannot be reached/.test(await connection()), "said so");
  // What was there stays on the screen.
  assert.ok(await page.getByTestId("panel-weights").isVisible());
  await withServer([`--http-address=127.0.0.1:${port}`], async (server) => {
    await until(async () => /^Connected/.test(await connection()), "connected again");
    await shows(page, "normalise", await numbers(server, colder));
    // Each request that was refused is told by the browser itself.
    await close(page, /ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|status of 503/);
  });
});

test("a server with tokens asks for one, and not again", async () => {
  const folder = await mkdtemp(join(tmpdir(), "attn-explorer-"));
  const token = "correct-horse-battery-staple";
  await writeFile(join(folder, "tokens"), `visitor ${token}\n`, { mode: 0o600 });
  await withServer([`--auth-token-file=${join(folder, "tokens")}`], async (server) => {
    const page = await open(browser, server.url + hash);
    const dialog = page.getByTestId("token-dialog");
    await dialog.waitFor();
    await page.getByTestId("token").fill("wrong");
    await page.getByTestId("token-use").click();
    await dialog.waitFor();
    await page.getByTestId("token").fill(token);
    await page.keyboard.press("Enter");
    await look(page, "normalise");
    await shows(page, "normalise", await numbers(server, first(), { token }));
    await page.reload();
    await look(page, "normalise");
    await shows(page, "normalise", await numbers(server, first(), { token }));
    assert.equal(await dialog.isVisible(), false);
    assert.equal(page.watch.urls.some((url) => url.includes(token)), false);
    await close(page, /status of 401/);
  });
  await rm(folder, { recursive: true });
});
