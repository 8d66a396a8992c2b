// @ts-check
// Tensors in files: .npy, .npz and .safetensors. Files are not trusted; each
// error is one line that names what is wrong.

import {dtypeOf, elementCount, impliedDtype, tensorBytes, tensorFromBytes} from './tensors.js';
import {readZip, writeZip} from './zip.js';

/**
 * @typedef {import('./tensors.js').Tensor} Tensor
 * @typedef {import('./tensors.js').TensorLike} TensorLike
 * @typedef {import('./tensors.js').DType} DType
 * @typedef {{u2IsBf16?: boolean}} NpyOptions NumPy has no bfloat16: some tools
 *     store its bits as 'u2'
 */

/** Elements of .npy by their description without the order of bytes.
 * @type {Readonly<Record<string, DType>>} */
const npyTypes = {
  f2: 'f16',
  f4: 'f32',
  f8: 'f64',
  i1: 'i8',
  i4: 'i32',
  i8: 'i64',
  b1: 'bool',
  V2: 'bf16'
};

/** @type {Readonly<Record<string, DType>>} */
const safetensorsTypes = {
  F16: 'f16',
  BF16: 'bf16',
  F32: 'f32',
  F64: 'f64',
  I8: 'i8',
  I32: 'i32',
  I64: 'i64',
  BOOL: 'bool'
};

const npyMagic = '\x93NUMPY';

/** @param {Uint8Array} bytes */
function latin1(bytes) {
  return Array.from(bytes, (byte) => String.fromCharCode(byte)).join('');
}

/**
 * @param {Uint8Array | ArrayBuffer} file
 * @param {NpyOptions} [options]
 * @returns {Tensor}
 */
export function readNpy(file, options = {}) {
  const bytes = file instanceof Uint8Array ? file : new Uint8Array(file);
  if (latin1(bytes.subarray(0, 6)) !== npyMagic || bytes.length < 10) {
    throw new TypeError('file is not a .npy: it does not begin as one');
  }
  const major = bytes[6];
  if (major < 1 || major > 3) {
    throw new TypeError(`.npy has version ${major}; expected 1 to 3`);
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const begin = major === 1 ? 10 : 12;
  const length = major === 1 ? view.getUint16(8, true) :
      view.byteLength >= 12  ? view.getUint32(8, true) :
                               Infinity;
  if (begin + length > bytes.length) {
    throw new RangeError(
        `.npy has ${bytes.length} bytes; its header alone needs ` +
            `${begin + length}`,
    );
  }
  const {dtype, shape} =
      npyHeader(latin1(bytes.subarray(begin, begin + length)), options);
  return tensorFromBytes(dtype, shape, bytes.subarray(begin + length));
}

/**
 * The header is the literal of a Python dict with three known keys.
 * @param {string} text
 * @param {NpyOptions} options
 */
function npyHeader(text, options) {
  const descr = /'descr'\s*:\s*'([^']*)'/.exec(text)?.[1];
  const fortran = /'fortran_order'\s*:\s*(True|False)/.exec(text)?.[1];
  const extents = /'shape'\s*:\s*\(([\d\s,L]*)\)/.exec(text)?.[1];
  if (fortran === undefined || extents === undefined) {
    throw new TypeError(`.npy has the header ${text.trim().slice(0, 200)}`);
  }
  const dtype = npyDtype(descr, options);
  if (fortran === 'True') {
    throw new TypeError(
        'fortran_order is True; expected C order: save ' +
            'numpy.ascontiguousarray(array)',
    );
  }
  const shape = extents.split(',')
                    .map((part) => part.trim())
                    .filter((part) => part !== '')
                    .map((part) => Number.parseInt(part, 10));
  return {dtype, shape};
}

/**
 * @param {string | undefined} descr
 * @param {NpyOptions} options
 * @returns {DType}
 */
function npyDtype(descr, options) {
  const [, order, kind] = /^([<>|=]?)(.*)$/.exec(descr ?? '') ?? [];
  if (order === '>') {
    throw new TypeError(`descr is '${descr}'; expected little-endian elements`);
  }
  if (kind === 'u2' && options.u2IsBf16) return 'bf16';
  const dtype = Object.hasOwn(npyTypes, kind) ? npyTypes[kind] : undefined;
  if (!dtype) {
    throw new TypeError(
        `descr is ${descr === undefined ? 'not a text' : `'${descr}'`}; ` +
            `expected one of ${Object.keys(npyTypes).join(', ')}`,
    );
  }
  return dtype;
}

/**
 * The arrays of an archive by name, without `.npy`.
 * @param {ArrayBuffer} file
 * @param {NpyOptions} [options]
 * @returns {Promise<Map<string, Tensor>>}
 */
export async function readNpz(file, options = {}) {
  /** @type {Map<string, Tensor>} */
  const tensors = new Map();
  for (const {name, bytes} of await readZip(file)) {
    if (!name.endsWith('.npy')) {
      throw new TypeError(`member '${name}' is not a .npy`);
    }
    const array = name.slice(0, -'.npy'.length);
    if (tensors.has(array)) throw new TypeError(`array '${array}' comes twice`);
    tensors.set(array, named(array, () => readNpy(bytes, options)));
  }
  return tensors;
}

/**
 * Puts the tensor's name in front of what is wrong with it.
 * @template T
 * @param {string} name
 * @param {() => T} read
 * @returns {T}
 */
function named(name, read) {
  try {
    return read();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new TypeError(`array '${name}': ${reason}`);
  }
}

/**
 * @param {ArrayBuffer} file
 * @returns {Map<string, Tensor>}
 */
export function readSafetensors(file) {
  const bytes = new Uint8Array(file);
  const length = bytes.length < 8 ?
      Infinity :
      Number(new DataView(file).getBigUint64(0, true));
  if (8 + length > bytes.length) {
    throw new RangeError(
        `.safetensors has ${bytes.length} bytes; its header alone needs ` +
            `${8 + length}`,
    );
  }
  const header = safetensorsHeader(bytes.subarray(8, 8 + length));
  const payload = bytes.subarray(8 + length);
  /** @type {Map<string, Tensor>} */
  const tensors = new Map();
  for (const [name, entry] of Object.entries(header)) {
    if (name === '__metadata__') continue;
    tensors.set(name, named(name, () => safetensor(entry, payload)));
  }
  return tensors;
}

/**
 * @param {Uint8Array} bytes
 * @returns {Record<string, unknown>}
 */
function safetensorsHeader(bytes) {
  let header;
  try {
    header = JSON.parse(new TextDecoder('utf-8', {fatal: true}).decode(bytes));
  } catch (error) {
    throw new TypeError(`.safetensors has a header that is not JSON: ${error}`);
  }
  if (typeof header !== 'object' || header === null || Array.isArray(header)) {
    throw new TypeError('.safetensors has a header that is not an object');
  }
  return header;
}

/**
 * @param {any} entry
 * @param {Uint8Array} payload
 */
function safetensor(entry, payload) {
  const type = String(entry?.dtype);
  if (!Object.hasOwn(safetensorsTypes, type)) {
    throw new TypeError(
        `dtype is '${type}'; expected one of ` +
            Object.keys(safetensorsTypes).join(', '),
    );
  }
  if (!Array.isArray(entry.shape)) throw new TypeError('shape is not a list');
  elementCount(entry.shape);
  const [begin, end] =
      Array.isArray(entry.data_offsets) ? entry.data_offsets : [NaN, NaN];
  const inside = Number.isSafeInteger(begin) && Number.isSafeInteger(end) &&
      begin >= 0 && begin <= end && end <= payload.length;
  if (!inside) {
    throw new RangeError(
        `data_offsets are [${
            entry.data_offsets}]; expected two numbers of 0 to ` +
            payload.length,
    );
  }
  return tensorFromBytes(
      safetensorsTypes[type], entry.shape, payload.subarray(begin, end));
}

/**
 * A tensor as the bytes of a .npy, version 1.
 * @param {TensorLike} tensor
 * @returns {Uint8Array<ArrayBuffer>}
 */
export function writeNpy(tensor) {
  const data = tensorBytes(tensor);
  const dtype = npyDtypeOf(tensor);
  const shape = tensor.shape.length === 1 ? `${tensor.shape[0]},` :
                                            tensor.shape.join(', ');
  const text = `{'descr': '${dtype}', 'fortran_order': False, ` +
      `'shape': (${shape}), }`;
  // The data begin at a multiple of 64 bytes, after a line's end.
  const begin = Math.ceil((10 + text.length + 1) / 64) * 64;
  const header = `${text.padEnd(begin - 11)}\n`;
  const bytes = new Uint8Array(begin + data.length);
  const start = `${npyMagic}\x01\x00`;
  bytes.set(Array.from(start, (c) => c.charCodeAt(0)));
  new DataView(bytes.buffer).setUint16(8, header.length, true);
  bytes.set(new TextEncoder().encode(header), 10);
  bytes.set(data, begin);
  return bytes;
}

/** @param {TensorLike} tensor */
function npyDtypeOf(tensor) {
  const dtype = dtypeOf(tensor.dtype ?? impliedDtype(tensor.data));
  const kinds = Object.keys(npyTypes);
  const kind =
      /** @type {string} */ (kinds.find((name) => npyTypes[name] === dtype));
  return kind === 'b1' || kind === 'i1' ? `|${kind}` : `<${kind}`;
}

/**
 * @param {ReadonlyMap<string, TensorLike>} tensors
 * @returns {Blob}
 */
export function writeNpz(tensors) {
  return writeZip([...tensors].map(
      ([name, tensor]) => ({name: `${name}.npy`, bytes: writeNpy(tensor)})));
}
