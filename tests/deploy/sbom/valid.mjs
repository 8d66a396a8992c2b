// Holds bills of materials against CycloneDX's own schema, by its library.
//
//   node valid.mjs FILE...
//
// Prints the names of those that are not valid. Exit code 0 if all could be read.
import { readFileSync } from "node:fs";
import { Spec, Validation } from "@cyclonedx/cyclonedx-library";

const validator = new Validation.JsonStrictValidator(Spec.Version.v1dot5);
for (const file of process.argv.slice(2)) {
  const faults = await validator.validate(readFileSync(file, "utf8"));
  if (faults !== null) console.log(file);
}
