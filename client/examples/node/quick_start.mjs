// The smallest Node client: three tokens attend to those before them.
import { fileURLToPath } from "node:url";
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const address = process.argv[2] ?? "127.0.0.1:8001";
const proto = fileURLToPath(new URL("../../../proto", import.meta.url));
const schema = loader.loadSync("attention/v1/attention.proto", {
  includeDirs: [proto],
  keepCase: true,
  enums: String,
});
const { attention } = grpc.loadPackageDefinition(schema);
const client = new attention.v1.AttentionService(
  address,
  grpc.credentials.createInsecure(),
  { "grpc.max_receive_message_length": -1 },
);

// [batch, heads, tokens, features]; typed arrays are little-endian here.
const tensor = (values) => ({
  dtype: "DATA_TYPE_F32",
  shape: [1, 1, 3, 2],
  data: new Uint8Array(Float32Array.from(values).buffer),
});
const request = {
  spec: { masks: [{ causal: {} }] },
  q: tensor([1, 0, 0, 1, 1, 1]),
  k: tensor([1, 0, 0, 1, 1, 1]),
  v: tensor([1, 2, 3, 4, 5, 6]),
};

client.Attend(request, { deadline: Date.now() + 60_000 }, (error, response) => {
  client.close();
  if (error) return console.error(error.message), (process.exitCode = 1);
  const bytes = Uint8Array.from(response.output.data);
  const output = new Float32Array(bytes.buffer);
  console.log(...output, "by the kernel", response.report.kernel);
});
