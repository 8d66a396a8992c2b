// The standard health protocol by the package grpc-health-check.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import grpc from "@grpc/grpc-js";
import { service } from "grpc-health-check";
import { connect, soon } from "./connection.mjs";

const client = connect(grpc.makeClientConstructor(service, "grpc.health.v1.Health"));
after(() => client.close());

test("Check of the server and of its service is SERVING", async () => {
  for (const name of ["", "attention.v1.AttentionService"]) {
    const response = await client.call("check", { service: name });
    assert.equal(response.status, "SERVING");
  }
});

test("Check of a service that there is not is NOT_FOUND", async () => {
  await assert.rejects(client.call("check", { service: "no.such.Service" }), {
    code: grpc.status.NOT_FOUND,
  });
});

test("Watch tells the state at once and stays open until it is cancelled", async () => {
  const watch = client.watch({ service: "" }, soon());
  const code = new Promise((resolve) => watch.on("error", (error) => resolve(error.code)));
  const response = await new Promise((resolve) => watch.once("data", resolve));
  assert.equal(response.status, "SERVING");
  watch.cancel();
  assert.equal(await code, grpc.status.CANCELLED);
});

test("Watch of a service that there is not is SERVICE_UNKNOWN", async () => {
  const watch = client.watch({ service: "no.such.Service" }, soon());
  watch.on("error", () => {});
  const response = await new Promise((resolve) => watch.once("data", resolve));
  assert.equal(response.status, "SERVICE_UNKNOWN");
  watch.cancel();
});
