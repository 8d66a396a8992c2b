// Types every dashboard, and the same with a mistake in it:
//
//   node check.mjs DASHBOARDS WORK
//
// WORK holds node_modules and board.ts. The last line is "N passed, N failed".
import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { refused, unseen } from "./mistakes.mjs";

const [dashboards, work] = process.argv.slice(2);
const source = join(work, "source");
// On one line with the file's first, so that lines of errors are the file's own.
const head = 'import type { Board } from "../board.ts"; export const board: Board = ';

/** The compiler's errors by file name. */
function compile() {
  const errors = new Map();
  let output = "";
  try {
    execFileSync(join(work, "node_modules/.bin/tsc"), ["--project", work]);
  } catch (error) {
    if (!error.stdout?.length) throw error;
    output = error.stdout.toString();
  }
  for (const line of output.split("\n")) {
    const match = line.match(/^(?:.*\/)?([^/(]+)\.ts(\(\d+,\d+\): .*)/);
    if (match) errors.set(match[1], [...(errors.get(match[1]) ?? []), match[2]]);
    else if (/error TS/.test(line)) throw new Error(line);
  }
  return errors;
}

function write(name, text) {
  writeFileSync(join(source, `${name}.ts`), `${head}${text}`);
}

/** Plants each mistake in the file; gives their names by file. */
function plant(mistakes, prefix, text) {
  return Object.entries(mistakes).map(([name, change], index) => {
    const dashboard = JSON.parse(text);
    change(dashboard);
    const changed = JSON.stringify(dashboard);
    if (changed === JSON.stringify(JSON.parse(text)))
      throw new Error(`${name}: changes nothing`);
    write(`${prefix}_${index}`, changed);
    return [name, `${prefix}_${index}`];
  });
}

rmSync(source, { recursive: true, force: true });
mkdirSync(source, { recursive: true });
const files = readdirSync(dashboards).filter((name) => name.endsWith(".json"));
for (const file of files)
  write(file.replace(".json", ""), readFileSync(join(dashboards, file), "utf8"));
const whole = readFileSync(join(dashboards, "overview.json"), "utf8");
const wrong = plant(refused, "refused", whole);
const overlooked = plant(unseen, "unseen", whole);
const errors = compile();

for (const [file, lines] of errors)
  if (!/^(refused|unseen)_/.test(file) && !files.includes(`${file}.json`))
    throw new Error(`${file}.ts${lines[0]}`);

let passed = 0;
let failed = 0;
function check(holds, words) {
  if (holds) passed += 1;
  else failed += 1;
  console.log(`${holds ? "ok" : "FAILED"} ${words}`);
}
if (files.length === 0) check(false, `there are no dashboards in ${dashboards}`);
for (const file of files) {
  const found = errors.get(file.replace(".json", "")) ?? [];
  check(found.length === 0, `${file} is as the schema says`);
  for (const line of found) console.log(`  ${file}${line}`);
}
for (const [name, file] of wrong) check(errors.has(file), `${name} is refused`);
for (const [name, file] of overlooked)
  check(!errors.has(file), `${name} is beyond the types`);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
