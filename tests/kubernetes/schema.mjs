// Holds objects against the published schemas of their kinds:
//
//   node schema.mjs OBJECTS.json WORK
//
// OBJECTS.json has [{name, mistake, object}]: those with a mistake must be refused.
// Values are held by the schemas' own validators, fields that there are not by their
// TypeScript types. WORK holds node_modules. The last line is "N passed, N failed".
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [input, work] = process.argv.slice(2);
const cases = JSON.parse(readFileSync(input, "utf8"));
const source = join(work, "source");

function packageOf(apiVersion) {
  return apiVersion.startsWith("monitoring.coreos.com/")
    ? "@kubernetes-models/prometheus-operator"
    : "kubernetes-models";
}

const module = ({ apiVersion, kind }) => `${packageOf(apiVersion)}/${apiVersion}/${kind}`;

/** What the validator of the object's kind says against it. */
async function invalid(object) {
  const file = join(work, "node_modules", `${module(object)}.js`);
  const model = (await import(pathToFileURL(file)))[object.kind];
  try {
    new model(object).validate();
    return [];
  } catch (error) {
    return [error.message];
  }
}

function write(index, object) {
  const type = `I${object.kind}`;
  writeFileSync(
    join(source, `case_${index}.ts`),
    `import type { ${type} } from "${module(object)}";\n` +
      `export const object: ${type} = ${JSON.stringify(object, null, 1)};\n`,
  );
}

/** The compiler's errors by number of the case. */
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
    const match = line.match(/case_(\d+)\.ts\(\d+,\d+\): (.*)/);
    if (match) errors.set(Number(match[1]), match[2]);
    else if (/error TS/.test(line)) throw new Error(line);
  }
  return errors;
}

rmSync(source, { recursive: true, force: true });
mkdirSync(source, { recursive: true });
cases.forEach(({ object }, index) => write(index, object));
const mistyped = compile();
let passed = 0;
let failed = 0;
for (const [index, { name, mistake, object }] of cases.entries()) {
  const faults = await invalid(object);
  if (mistyped.has(index)) faults.push(mistyped.get(index));
  const holds = mistake ? faults.length > 0 : faults.length === 0;
  if (holds) passed += 1;
  else failed += 1;
  const what = mistake ? `${mistake} is refused` : "is as its schema says";
  console.log(`${holds ? "ok" : "FAILED"} ${name}: ${what}`);
  if (!holds) for (const fault of faults) console.log(`  ${fault}`);
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 || passed === 0 ? 1 : 0);
