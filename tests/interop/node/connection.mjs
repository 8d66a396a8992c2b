// Clients of the server in ATTN_ADDRESS, over TLS if ATTN_TLS_CA names a CA.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const address = process.env.ATTN_ADDRESS;
const ca = process.env.ATTN_TLS_CA;
const protos = fileURLToPath(new URL("../../../proto", import.meta.url));

const credentials = ca
  ? grpc.credentials.createSsl(readFileSync(ca))
  : grpc.credentials.createInsecure();
const options = {
  "grpc.max_receive_message_length": -1,
  ...(ca && { "grpc.ssl_target_name_override": process.env.ATTN_TLS_SERVER_NAME }),
};

// What every call is given: a deadline.
export const soon = () => ({ deadline: Date.now() + 120_000 });

export function load(file) {
  return grpc.loadPackageDefinition(
    loader.loadSync(file, { includeDirs: [protos], keepCase: true, enums: String, longs: Number }),
  );
}

// A client whose unary methods give promises, by `call`.
export function connect(Service) {
  const client = new Service(address, credentials, options);
  client.call = (method, request, metadata = new grpc.Metadata()) =>
    promisify(client[method].bind(client))(request, metadata, soon());
  return client;
}
