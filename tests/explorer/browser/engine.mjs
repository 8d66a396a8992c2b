// The same numbers by gRPC: no line of the page takes part in these.
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const protos = fileURLToPath(new URL("../../../proto", import.meta.url));

function load(file) {
  const options = { includeDirs: [protos], keepCase: true, enums: String, longs: Number, defaults: true };
  return grpc.loadPackageDefinition(loader.loadSync(file, options)).attention.v1;
}

// Every method of a service as a function that gives a promise.
export function connect(address, { token, service = "AttentionService" } = {}) {
  const file = service.replace("Service", "").toLowerCase();
  const Service = load(`attention/v1/${file}.proto`)[service];
  const client = new Service(address, grpc.credentials.createInsecure(), {
    "grpc.max_receive_message_length": -1,
    "grpc.max_send_message_length": -1,
  });
  const metadata = new grpc.Metadata();
  if (token) metadata.set("authorization", `Bearer ${token}`);
  const call = (name, request) =>
    promisify(client[name].bind(client))(request, metadata, { deadline: Date.now() + 120_000 });
  return { call, close: () => client.close() };
}

const arrays = {
  DATA_TYPE_F32: Float32Array,
  DATA_TYPE_F64: Float64Array,
  DATA_TYPE_I64: BigInt64Array,
  DATA_TYPE_BOOL: Uint8Array,
};

export function tensor(shape, values, dtype = "DATA_TYPE_F64") {
  return { dtype, shape, data: Buffer.from(arrays[dtype].from(values).buffer) };
}

// A tensor of the JSON mapping, as gRPC takes it.
export const fromJson = ({ dtype, shape, data }) => ({
  dtype,
  shape: shape.map(Number),
  data: Buffer.from(data, "base64"),
});

// All elements as numbers, and the part of the first indices.
export function values({ dtype, data }) {
  const bytes = data.buffer.slice(data.byteOffset, data.byteOffset + data.length);
  return Array.from(new arrays[dtype](bytes), Number);
}

export function matrix(tensor, ...index) {
  const { shape } = tensor;
  const [rows, cols] = shape.slice(-2);
  const place = index.reduce((sum, i, axis) => sum * shape[axis] + i, 0);
  const all = values(tensor).slice(place * rows * cols, (place + 1) * rows * cols);
  return Array.from({ length: rows }, (_, row) => all.slice(row * cols, (row + 1) * cols));
}

export function vector(tensor, batch, head) {
  const [, heads, rows] = tensor.shape;
  const begin = (batch * heads + head) * rows;
  return values(tensor).slice(begin, begin + rows);
}

// A sentence's tensors, by the server's own answer.
export async function story(origin, text, layer, token) {
  const answer = await fetch(`${origin}/explorer/story`, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...(token && { Authorization: `Bearer ${token}` }) },
    body: JSON.stringify({ text }),
  });
  const { tokens, layers } = await answer.json();
  const { q, k, v } = layers[layer];
  return { tokens, q: fromJson(q), k: fromJson(k), v: fromJson(v) };
}

// The spec up to a stage. The score alone has no scale.
function upTo(stage, { spec, q_lengths, kv_lengths, inputs }) {
  const { score, transforms, softcap, biases, masks, score_program } = spec;
  if (stage === "score") return { spec: { score: unscaled(score), transforms }, inputs };
  const scaled = { score, transforms, ...(softcap && { softcap }) };
  if (stage === "scale") return { spec: scaled, inputs };
  return { spec: { ...scaled, biases, masks, score_program }, q_lengths, kv_lengths, inputs };
}

function unscaled(score = { dot: {} }) {
  const [[kind, { learned_scale: _, ...rest }]] = Object.entries(score);
  const fixed = ["additive", "concat", "trilinear"].includes(kind);
  return { [kind]: fixed ? rest : { ...rest, scale: 1 } };
}

const rowFields = ["peak_weight", "top_key", "entropy", "entropy_ratio", "visible_keys",
  "effective_keys", "lse", "logit_min", "logit_max", "logit_mean", "logit_std", "contribution"];

// Everything that the page shows of a call on one head. `source` has q, k and v,
// `call` the spec as the proto has it, and lengths and inputs.
export async function numbersOf(engine, source, call, { batch = 0, head = 0, loss } = {}) {
  const { q, k, v } = source;
  const ask = (part, view) => engine.call("Inspect", { ...part, q, k, v, views: view });
  const [score, scaled, masked, all, attend] = await Promise.all([
    ask(upTo("score", call), ["INSPECT_VIEW_LOGITS"]),
    ask(upTo("scale", call), ["INSPECT_VIEW_MASKED_LOGITS"]),
    ask(upTo("mask", call), ["INSPECT_VIEW_MASKED_LOGITS"]),
    ask(call, ["INSPECT_VIEW_WEIGHTS", "INSPECT_VIEW_MASKED_LOGITS", "INSPECT_VIEW_CONTRIBUTION"]),
    engine.call("Attend", { ...call, q, k, v, outputs: ["OUTPUT_OUTPUT", "OUTPUT_LSE"] }),
  ]);
  const shared = Math.floor((head * k.shape[1]) / q.shape[1]);
  const panels = {
    q: matrix(q, batch, head),
    k: matrix(k, batch, shared),
    v: matrix(v, batch, shared),
    score: matrix(score.logits, batch, head),
    scaled: matrix(scaled.masked_logits, batch, head),
    masked: matrix(masked.masked_logits, batch, head),
    logits: matrix(all.masked_logits, batch, head),
    weights: matrix(all.weights, batch, head),
    contribution: matrix(all.contribution, batch, head),
    output: matrix(attend.output, batch, head),
  };
  if (loss) panels.gradient_weight = await gradient(engine, { ...call, q, k, v }, attend, loss, batch, head);
  const columns = { ...all.row_statistics, lse: attend.lse };
  const rows = rowFields.map((name) => vector(columns[name], batch, head));
  const heads = all.head_statistics.filter((one) => one.batch === batch);
  return { panels, rows: rows[0].map((_, row) => rows.map((column) => column[row])), heads, report: all.report };
}

async function gradient(engine, call, { output }, loss, batch, head) {
  const slopes = {
    // The slope of half the square is the output.
    square: () => output,
    sum: () => tensor(output.shape, values(output).fill(1), output.dtype),
  };
  const d_output = slopes[loss]?.() ?? loss;
  const views = ["INSPECT_VIEW_GRADIENT_WEIGHT"];
  const answer = await engine.call("Inspect", { ...call, views, d_output });
  return matrix(answer.gradient_weight, batch, head);
}

// The head's line in the table of heads, in its order.
export const headLine = (one) => [one.mean_entropy, one.mean_entropy_ratio, one.mean_peak_weight,
  one.max_peak_weight, one.mean_visible_keys, one.mean_effective_keys, one.top_key,
  one.top_key_share, one.saturated_rows, one.logit_min, one.logit_max, one.logit_mean,
  one.logit_std, one.mean_contribution];
