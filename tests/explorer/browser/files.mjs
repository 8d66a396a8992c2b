// Files of tensors, made and read here by their formats' definitions.
import { writeNpz } from "../../../server/http/explorer/files.js";

const word = (bytes, at) => bytes.readUInt32LE(at);
const half = (bytes, at) => bytes.readUInt16LE(at);

// The members of a ZIP file without compression, by its central directory.
export function stored(bytes) {
  const end = bytes.lastIndexOf(Buffer.from("PK\x05\x06", "latin1"));
  const members = new Map();
  let at = word(bytes, end + 16);
  for (let count = half(bytes, end + 10); count > 0; --count) {
    const size = word(bytes, at + 24);
    const name = bytes.toString("utf8", at + 46, at + 46 + half(bytes, at + 28));
    const local = word(bytes, at + 42);
    const begin = local + 30 + half(bytes, local + 26) + half(bytes, local + 28);
    if (half(bytes, at + 10) !== 0) throw new Error(`${name} is compressed`);
    members.set(name, bytes.subarray(begin, begin + size));
    at += 46 + half(bytes, at + 28) + half(bytes, at + 30) + half(bytes, at + 32);
  }
  return members;
}

const types = { "<f4": Float32Array, "<f8": Float64Array, "<i4": Int32Array };

// {shape, values} of a .npy member, version 1.0.
export function npy(bytes) {
  if (bytes.toString("latin1", 0, 6) !== "\x93NUMPY") throw new Error("not .npy");
  const begin = 10 + half(bytes, 8);
  const header = bytes.toString("latin1", 10, begin);
  const [, type] = /'descr': '([^']+)'/.exec(header);
  const [, shape] = /'shape': \(([^)]*)\)/.exec(header);
  if (!/'fortran_order': False/.test(header)) throw new Error(header);
  const data = bytes.buffer.slice(bytes.byteOffset + begin, bytes.byteOffset + bytes.length);
  return {
    shape: shape.split(",").filter((part) => part.trim()).map(Number),
    values: Array.from(new types[type](data)),
  };
}

const names = { DATA_TYPE_F32: ["F32", "f32", Float32Array], DATA_TYPE_F64: ["F64", "f64", Float64Array],
  DATA_TYPE_BOOL: ["BOOL", "bool", Uint8Array] };

// A file of a name for an input of the page.
const upload = (name, buffer) => ({ name, mimeType: "application/octet-stream", buffer });

// `tensors` are as gRPC takes them, by name.
export function safetensors(name, tensors) {
  const header = {};
  const parts = [];
  let at = 0;
  for (const [key, { dtype, shape, data }] of Object.entries(tensors)) {
    header[key] = { dtype: names[dtype][0], shape, data_offsets: [at, at + data.length] };
    at += data.length;
    parts.push(data);
  }
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return upload(name, Buffer.concat([length, text, ...parts]));
}

export async function npz(name, tensors) {
  const map = new Map(Object.entries(tensors).map(([key, { dtype, shape, data }]) => {
    const [, type, Elements] = names[dtype];
    const bytes = data.buffer.slice(data.byteOffset, data.byteOffset + data.length);
    return [key, { dtype: type, shape, data: new Elements(bytes) }];
  }));
  const blob = writeNpz(map);
  return upload(name, Buffer.from(await blob.arrayBuffer()));
}
