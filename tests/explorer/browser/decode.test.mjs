// A decode against a session: what each step sends, gives and leaves in the
// cache, as gRPC has it; its controls; errors; who cannot use a mouse.
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import axe from "axe-core";

import { bench, close, open, until } from "./chrome.mjs";
import { connect, fromJson, numbersOf, story, tensor, values } from "./engine.mjs";
import { safetensors } from "./files.mjs";
import { differing, move, panel } from "./screen.mjs";
import { Server } from "./server.mjs";
import { first, turned } from "./settings.mjs";

const text = "Anna saw Ben, and Ben saw Anna.";
const floatBytes = 4;
const alignment = "ALIGNMENT_BOTTOM_RIGHT";
const spec = { transforms: [turned], masks: [{ causal: { alignment } }] };
const phone = { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true };

let source, sessions, right, heads, kvHeads, dim;
const all = bench(async ({ server, engine }) => {
  source = await story(server.origin, text, 1);
  [[, heads, , dim], [, kvHeads]] = [source.q.shape, source.k.shape];
  right = await numbersOf(engine, source, first());
  sessions = connect(server.address, { service: "SessionService" });
  const { close } = engine;
  engine.close = () => (sessions.close(), close());
});

const start = async ({ server = all.server, hash = new URLSearchParams({ text }), ...options } = {}) => {
  const page = await open(all.browser, `${server.url}#${hash}`, options);
  await page.locator("#curve svg").waitFor();
  return page;
};
const press = (page, id) => page.getByTestId(`decode-${id}`).click();
const status = (page) => page.getByTestId("decode-status").textContent();
const problem = (page) => page.getByTestId("decode-problem").textContent();
const value = async (page, id) => Number(await page.getByTestId(`decode-${id}`).getAttribute("data-value"));
const says = (page, pattern) =>
  until(async () => pattern.test(await status(page)) || `${await status(page)}; ${await problem(page)}`, `${pattern}`);
const fails = (page, pattern) =>
  until(async () => pattern.test(await problem(page)) || `${await problem(page)}; ${await status(page)}`, `${pattern}`);

// Sessions that are on the server, of this test alone: the others close theirs.
const listed = async (calls = sessions) => (await calls.call("ListSessions", {})).sessions;
// What a test that failed has left is not the next one's.
afterEach(async () => {
  for (const { session_id } of await listed()) await sessions.call("CloseSession", { session_id });
});
const gone = () => until(async () => (await listed()).length === 0, "no session is left");

async function openSession(page) {
  await page.getByTestId("decode").click();
  await press(page, "open");
  await says(page, /A session is open/);
}

async function step(page, count = 1) {
  for (; count > 0; --count) {
    const before = await status(page);
    await press(page, "step");
    await until(async () => (await status(page)) !== before || (await problem(page)) !== "", "a step");
  }
}

// Rows [row, row + 1) of every head of a tensor of gRPC.
function rowOf({ shape, dtype, data }, row) {
  const [, count, rows, width] = shape;
  const bytes = width * floatBytes;
  const part = Array.from({ length: count }, (_, head) => {
    const begin = (head * rows + row) * bytes;
    return data.subarray(begin, begin + bytes);
  });
  return { dtype, shape: [1, count, 1, width], data: Buffer.concat(part) };
}

// The triangle as it must be after so many rows.
function filled(weights, length) {
  return weights.map((line, row) => line.map((weight, key) => (key <= row && row < length ? weight : null)));
}

async function triangle(page) {
  const cells = await panel(page, "decode-triangle");
  return cells.map((line) => line.map(({ number, masked }) => (masked ? null : number)));
}

const seesRows = (page, weights, length) => until(async () => {
  const shown = await triangle(page);
  const expected = filled(weights, length);
  const holes = shown.some((line, row) => line.some((cell, key) => (cell === null) !== (expected[row][key] === null)));
  if (holes) return `other cells are seen than of ${length} rows`;
  const plain = (lines) => lines.map((line) => line.map((cell) => cell ?? 0));
  return differing("triangle", plain(shown), plain(expected)) || true;
}, `${length} rows`);

const kinds = (page) => page.getByTestId("decode-blocks").locator("li")
  .evaluateAll((items) => items.map(({ dataset }) => `${dataset.kind} ${dataset.tokens}`));

test("the page's first matrix asks for no session", async () => {
  const page = await start();
  await page.getByTestId("decode").click();
  await page.getByTestId("decode-open").waitFor();
  assert.ok(!page.watch.urls.some((url) => /sessions|step/.test(url)));
  await close(page);
});

test("each step sends one token, and shows what gRPC says of it", async () => {
  const page = await start();
  const sent = [];
  page.on("response", async (response) => {
    if (!response.url().endsWith("/v1/step")) return;
    sent.push({ request: response.request().postDataJSON(), answer: await response.json() });
  });
  await openSession(page);
  const [info] = await listed();
  assert.deepEqual([info.q_heads, info.kv_heads, info.q_dim, info.k_dim, info.v_dim, info.lengths.length],
    [heads, kvHeads, dim, dim, dim, 1]);
  assert.equal(info.idle_timeout_ms, 120_000);
  const beside = await sessions.call("OpenSession",
    { spec, q_heads: heads, kv_heads: kvHeads, q_dim: dim, idle_timeout_ms: 120_000 });
  const { output } = await all.engine.call("Attend", { spec, q: source.q, k: source.k, v: source.v });
  const weights = right.panels.weights;
  for (let row = 0; row < 4; ++row) {
    await step(page);
    await until(async () => sent.length === row + 1, "the answer");
    const token = { q: [rowOf(source.q, row)], k: [rowOf(source.k, row)], v: [rowOf(source.v, row)] };
    const { request, answer } = sent[row];
    for (const name of ["q", "k", "v"]) {
      assert.equal(request[name].length, 1);
      assert.deepEqual(fromJson(request[name][0]), token[name][0], name);
    }
    const by = await sessions.call("Step",
      { session_id: beside.session_id, epoch: beside.epoch, step: row, position: row, ...token });
    assert.deepEqual(fromJson(answer.output[0]).data, by.output[0].data, "the bits of gRPC");
    const pairs = values(by.output[0]).map((x, i) => [x, values(rowOf(output, row))[i]]);
    const largest = Math.max(...pairs.map(([a, b]) => Math.abs(a - b)));
    assert.equal(await value(page, "agreement"), largest);
    const equal = pairs.filter(([a, b]) => Object.is(a, b)).length;
    const words = await page.getByTestId("decode-agreement").textContent();
    assert.match(words, new RegExp(`${equal} of ${heads * dim} numbers equal`));
    assert.match(words, equal === heads * dim ? /^the same bits/ : /^agrees/);
    assert.equal(await value(page, "sent"), floatBytes * dim * (heads + 2 * kvHeads));
    assert.equal(await value(page, "without"), floatBytes * dim * (heads + 2 * kvHeads * (row + 1)));
    const { session } = await sessions.call("GetSession", { session_id: info.session_id });
    assert.equal(session.lengths[0], row + 1);
    assert.equal(await value(page, "held"), session.bytes);
    assert.deepEqual(await kinds(page), [`own ${row + 1}`]);
    await seesRows(page, weights, row + 1);
  }
  await sessions.call("CloseSession", { session_id: beside.session_id });
  await close(page);
  await gone();
});

test("the last token is the last step", async () => {
  const page = await start();
  await openSession(page);
  await step(page, source.tokens.length);
  await says(page, /That was the last token/);
  await seesRows(page, right.panels.weights, source.tokens.length);
  assert.equal(await page.getByTestId("decode-step").getAttribute("aria-disabled"), "true");
  await page.getByTestId("decode-step").focus();
  await page.keyboard.press("Enter");
  await press(page, "fork");
  await says(page, /Session B has/);
  for (const { lengths } of await listed()) assert.equal(lengths[0], source.tokens.length);
  await close(page);
  await gone();
});

test("a decode plays and stops", async () => {
  const page = await start();
  await openSession(page);
  await press(page, "play");
  assert.equal(await page.getByTestId("decode-play").textContent(), "Pause");
  await says(page, /has 3 of/);
  await press(page, "play");
  await until(async () => (await page.getByTestId("decode-play").textContent()) === "Play", "stopped");
  const length = Number(/has (\d+) of/.exec(await status(page))[1]);
  // It goes on from where it stopped, by one.
  await step(page);
  await says(page, new RegExp(`has ${length + 1} of`));
  assert.equal((await listed())[0].lengths[0], length + 1);
  await close(page);
  await gone();
});

test("rolled back, the rows are forgotten, and come again", async () => {
  const page = await start();
  await openSession(page);
  await step(page, 5);
  const output = await page.getByTestId("decode-agreement").textContent();
  await page.getByTestId("decode-row").fill("4");
  await press(page, "rollback");
  await says(page, /has 4 of/);
  await seesRows(page, right.panels.weights, 4);
  const [info] = await listed();
  assert.deepEqual([info.lengths[0], info.epoch, info.next_step], [4, 2, 5]);
  await step(page);
  await seesRows(page, right.panels.weights, 5);
  assert.equal(await page.getByTestId("decode-agreement").textContent(), output);
  // A click into the triangle chooses the row.
  const stage = page.locator("[data-testid=decode-triangle] .heat-stage");
  await stage.focus();
  for (const key of ["Home", "ArrowDown", "ArrowDown", "Enter"]) await page.keyboard.press(key);
  const wanted = Number(await page.getByTestId("decode-row").inputValue());
  assert.ok(wanted > 0 && wanted < 5, `${wanted}`);
  await press(page, "rollback");
  await says(page, new RegExp(`has ${wanted} of`));
  for (const wrong of ["-1", "40", ""]) {
    await page.getByTestId("decode-row").fill(wrong);
    await press(page, "rollback");
    await fails(page, new RegExp(`expected 0 to ${wanted}`));
  }
  await page.getByTestId("decode-row").fill("0");
  await press(page, "rollback");
  await says(page, /The cache is empty/);
  assert.equal((await listed())[0].lengths[0], 0);
  await close(page);
  await gone();
});

test("a fork shares the cache until one of the two writes to it", async () => {
  const page = await start();
  await openSession(page);
  await step(page, 3);
  await press(page, "fork");
  await says(page, /Session B has 3 of/);
  assert.deepEqual(await kinds(page), ["shared 3"]);
  const infos = await listed();
  assert.deepEqual(infos.map(({ own_bytes }) => own_bytes), [0, 0]);
  await step(page);
  await says(page, /Session B has 4 of/);
  assert.deepEqual(await kinds(page), ["own 4"]);
  await seesRows(page, right.panels.weights, 4);
  assert.match(await page.getByTestId("decode-agreement").textContent(), /^(the same bits|agrees)/);
  await press(page, "session-0");
  await says(page, /Session A has 3 of/);
  await seesRows(page, right.panels.weights, 3);
  const lengths = (await listed()).map(({ lengths }) => lengths[0]).sort();
  assert.deepEqual(lengths, [3, 4]);
  await press(page, "close");
  await says(page, /has 4 of/);
  assert.deepEqual((await listed()).map(({ lengths }) => lengths[0]), [4]);
  await press(page, "close");
  await says(page, /The session is closed/);
  await page.getByTestId("decode-open").waitFor();
  await gone();
  await close(page);
});

test("beyond 64 tokens there is another block, and a window lets the first ones go", async () => {
  const long = "Anna saw Ben. ".repeat(25);
  const { tokens } = await story(all.server.origin, long, 1);
  assert.ok(tokens.length > 200, `${tokens.length} tokens`);
  const hash = new URLSearchParams({ text: long, windowOn: "1", left: "8" });
  const page = await start({ hash });
  await openSession(page);
  await step(page, 65);
  assert.deepEqual(await kinds(page), ["own 64", "own 1"]);
  const [{ bytes }] = await listed();
  assert.equal(await value(page, "held"), bytes);
  const block = bytes / 2;
  await step(page, 200 - 65);
  const [later] = await listed();
  const released = 4 - later.bytes / block;
  assert.ok(released >= 1, `${later.bytes} bytes of blocks of ${block}`);
  const shown = await kinds(page);
  assert.deepEqual(shown.slice(0, released), Array(released).fill("released 64"));
  assert.deepEqual(shown.slice(released), [...Array(3 - released).fill("own 64"), "own 8"]);
  assert.match(await page.getByTestId("decode-agreement").textContent(), /^(the same bits|agrees)/);
  await close(page);
  await gone();
});

test("numbers of f64 are decoded as f32, and agree with a call of the same", async () => {
  const page = await start({ hash: "source=example&rotary=0&causal=0" });
  await openSession(page);
  await step(page, 5);
  await says(page, /That was the last token/);
  assert.match(await page.getByTestId("decode-agreement").textContent(), /^(the same bits|agrees)/);
  await close(page);
  await gone();
});

test("another head has other weights in the same session; another setting ends it", async () => {
  const page = await start();
  await openSession(page);
  await step(page, 3);
  const [{ session_id: id }] = await listed();
  await page.getByTestId("pick-head").selectOption("5");
  const other = await numbersOf(all.engine, source, first(), { head: 5 });
  await seesRows(page, other.panels.weights, 3);
  assert.deepEqual((await listed()).map(({ session_id }) => session_id), [id]);
  await move(page, "temperature", 0.3);
  await says(page, /changed, so the session was closed/);
  await gone();
  await press(page, "open");
  await says(page, /A session is open/);
  await step(page, 2);
  const colder = { spec: { ...first().spec, temperatures: [0.3] } };
  const cold = await numbersOf(all.engine, source, colder, { head: 5 });
  await seesRows(page, cold.panels.weights, 2);
  await close(page);
  await gone();
});

test("what the server does not decode is refused by name", async () => {
  const page = await open(all.browser, `${all.server.url}#source=file&rotary=0`);
  const part = (...shape) => tensor(shape, Array(shape.reduce((a, b) => a * b)).fill(1), "DATA_TYPE_F32");
  const [q, k, v, bias] = [part(1, 1, 3, 2), part(1, 1, 3, 2), part(1, 1, 3, 2), part(3, 3)];
  await page.getByTestId("file-input").setInputFiles(safetensors("biased.safetensors", { q, k, v, bias }));
  await page.locator("#curve svg").waitFor();
  // It would have to grow with the sequence.
  await move(page, "bias", "dense");
  await page.getByTestId("decode").click();
  await until(async () => {
    await press(page, "open");
    return /spec\.biases\[0\]/.test(await problem(page)) || (await status(page));
  }, "refused");
  await close(page, /status of 400/);
  await gone();
});

test("what has other keys than queries is no decode", async () => {
  const page = await open(all.browser, `${all.server.url}#source=toy&rotary=0&causal=0&toyQ=1,0`);
  await page.locator("#curve svg").waitFor();
  await page.getByTestId("decode").click();
  await says(page, /1 queries and 4 keys/);
  assert.equal(await page.getByTestId("decode-open").isVisible(), false);
  await page.getByTestId("source-example").click();
  await page.getByTestId("decode-open").waitFor();
  assert.equal(await status(page), "");
  await close(page);
});

test("the session is closed as the view is left", async () => {
  const page = await start();
  await openSession(page);
  await step(page);
  await page.getByTestId("decode").click();
  await gone();
  // By another source, and by another page.
  await page.getByTestId("decode").click();
  await press(page, "open");
  await says(page, /A session is open/);
  await page.getByTestId("source-example").click();
  await says(page, /closed/);
  await gone();
  await press(page, "open");
  await says(page, /A session is open/);
  assert.equal((await listed()).length, 1);
  await page.goto("about:blank");
  await gone();
  await close(page);
});

// Another's answer would have to come between: the answer is as the gateway's.
test("a session that is busy may be stepped again, and the server is still there", async () => {
  const page = await start();
  await openSession(page);
  await step(page);
  const busy = {
    code: 14, message: "session: a step of it is being computed",
    details: [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "SESSION_BUSY", domain: "attention.v1" }],
  };
  await page.route("**/v1/step", (route) => route.fulfill({ status: 503, json: busy }));
  await press(page, "step");
  await fails(page, /Another step of this session is being computed/);
  await page.getByTestId("decode-again").waitFor();
  assert.match(await page.getByTestId("connection").textContent(), /^Connected/);
  await page.unroute("**/v1/step");
  await step(page);
  await says(page, /has 2 of/);
  await page.getByTestId("decode-again").waitFor({ state: "hidden" });
  await close(page, /status of 503/);
  await gone();
});

test("a session that is gone is said to be, and another can be opened", async () => {
  const page = await start();
  await openSession(page);
  await step(page, 2);
  const [{ session_id }] = await listed();
  await sessions.call("CloseSession", { session_id });
  await press(page, "step");
  await fails(page, /does not have this session any more/);
  await press(page, "again");
  await says(page, /A session is open/);
  assert.equal(await problem(page), "");
  await step(page);
  await seesRows(page, right.panels.weights, 1);
  await close(page, /status of 404/);
  await gone();
});

// Runs with a server of its own.
async function withServer(flags, action) {
  const server = await Server.start(...flags);
  const calls = connect(server.address, { service: "SessionService" });
  try {
    await action(server, calls);
  } finally {
    calls.close();
    await server.stop();
  }
}

test("a session that expired is said to have, and lives as long as the server allows", async () => {
  await withServer(["--session-idle-timeout=2s"], async (server, calls) => {
    const page = await start({ server });
    await page.getByTestId("decode").click();
    await press(page, "open");
    await says(page, /forgotten 2 s after/);
    await until(async () => (await listed(calls)).length === 0, "expired");
    await press(page, "step");
    await fails(page, /The session is gone: nobody stepped/);
    await page.getByTestId("decode-again").waitFor();
    // The first question was for longer than the server allows.
    await close(page, /status of 40[04]/);
  });
});

test("memory that is short is said to be, with the server's bound", async () => {
  await withServer(["--max-session-bytes=4096"], async (server) => {
    const page = await start({ server });
    await openSession(page);
    await press(page, "step");
    await fails(page, /no memory left for keys and values.*--max-session-bytes/);
    await page.getByTestId("decode-again").waitFor();
    await close(page, /status of 429/);
  });
});

test("a decode is gone through by keys, and told aloud", async () => {
  const page = await start();
  await page.getByTestId("decode").focus();
  await page.keyboard.press("Enter");
  await page.getByTestId("decode-open").waitFor();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await says(page, /A session is open/);
  const focus = () => page.evaluate(() => document.activeElement.dataset.testid);
  assert.equal(await focus(), "decode-step", "the button that was pressed is gone");
  await page.keyboard.press("Enter");
  await says(page, /has 1 of/);
  await page.keyboard.press("Space");
  await says(page, /has 2 of/);
  assert.equal(await focus(), "decode-step");
  const live = page.locator("#decode-body > [aria-live]");
  await until(async () => (await live.textContent()) === (await status(page)), "said");
  const order = [];
  for (let presses = 0; presses < 5; ++presses) {
    await page.keyboard.press("Tab");
    order.push(await focus());
  }
  assert.deepEqual(order, ["decode-play", "decode-rollback", "decode-row", "decode-fork", "decode-close"]);
  await page.keyboard.press("Enter");
  await says(page, /The session is closed/);
  assert.equal(await focus(), "decode-open");
  await close(page);
  await gone();
});

for (const [colorScheme, options] of [["light", {}], ["dark", phone]]) {
  const words = `${colorScheme}, ${options.viewport ? "narrow" : "wide"}`;
  test(`nothing is cut off, and axe finds nothing amiss: ${words}`, async () => {
    const page = await start({ ...options, colorScheme });
    await openSession(page);
    await step(page, 3);
    await press(page, "fork");
    await step(page, 1);
    await until(async () => (await kinds(page)).length > 0, "blocks");
    const cut = await page.evaluate(() => {
      const wide = [...document.querySelectorAll("#decode-part *")].filter((element) => {
        if (!element.checkVisibility() || element.closest(".view-hidden, .block-fill, .heat-stage")) return false;
        const { left, right } = element.getBoundingClientRect();
        return left < 0 || right > innerWidth || element.scrollWidth > element.clientWidth + 1 &&
          getComputedStyle(element).display !== "inline";
      });
      return wide.map(({ tagName, className }) => `${tagName}.${className}`);
    });
    assert.deepEqual(cut, []);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    await page.evaluate(axe.source);
    const found = await page.evaluate(async () => {
      const { violations } = await window.axe.run("#decode-part", { resultTypes: ["violations"] });
      return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target).join(" ")}`);
    });
    assert.deepEqual(found, []);
    await close(page);
    await gone();
  });
}
