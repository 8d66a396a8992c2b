// @ts-check
// Tensors as the page holds them, and as protobuf's JSON mapping has them.

/**
 * A dense tensor in row-major order. float16 and bfloat16 are widened to
 * float32; int64 is a Float64Array where each element is a safe integer, and a
 * BigInt64Array otherwise; bool is 0 or 1.
 * @typedef {Float32Array | Float64Array | Uint8Array | Int8Array | Int32Array |
 *     BigInt64Array} TensorData
 * @typedef {'f32' | 'f16' | 'bf16' | 'f64' | 'bool' | 'i8' | 'i32' | 'i64'}
 *     DType
 * @typedef {{dtype: DType, shape: number[], data: TensorData}} Tensor
 */

/**
 * What a caller may leave out or write more shortly.
 * @typedef {{dtype?: string, shape: readonly number[],
 *     data: TensorData | readonly number[]}} TensorLike
 */

/**
 * attention.v1.Tensor in protobuf's JSON mapping.
 * @typedef {{dtype?: string, shape?: (string | number)[], data?: string,
 *     layout?: string}} TensorJson
 */

/**
 * Each element type: its name on the wire, its size in bytes, how its bytes
 * become elements and back.
 * @typedef {{wire: string, bytes: number,
 *     read: (bytes: Uint8Array) => TensorData,
 *     write: (data: ArrayLike<number | bigint>) => Uint8Array}} DTypeRow
 */

const littleEndian = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

/**
 * Element types by their short name, in the order of the wire's enum.
 * @type {Readonly<Record<DType, DTypeRow>>}
 */
export const DTYPES = Object.freeze({
  f32: plainRow('DATA_TYPE_F32', Float32Array),
  f16: halfRow('DATA_TYPE_F16', halfToFloat, floatToHalf),
  bf16: halfRow('DATA_TYPE_BF16', bfloatToFloat, floatToBfloat),
  f64: plainRow('DATA_TYPE_F64', Float64Array),
  bool: {
    wire: 'DATA_TYPE_BOOL',
    bytes: 1,
    read: (bytes) => bytes.map((byte) => (byte === 0 ? 0 : 1)),
    write: (data) => Uint8Array.from(data, (x) => (x ? 1 : 0)),
  },
  i8: plainRow('DATA_TYPE_I8', Int8Array),
  i32: plainRow('DATA_TYPE_I32', Int32Array),
  i64: {
    wire: 'DATA_TYPE_I64',
    bytes: 8,
    read: (bytes) => narrowed(new BigInt64Array(aligned(bytes, 8))),
    write: (data) => bytesOf(BigInt64Array.from(data, (x) => BigInt(x))),
  },
});

/**
 * @param {string} wire
 * @param {typeof Float32Array | typeof Float64Array | typeof Int8Array |
 *     typeof Int32Array} ArrayType
 * @returns {DTypeRow}
 */
function plainRow(wire, ArrayType) {
  const bytes = ArrayType.BYTES_PER_ELEMENT;
  return {
    wire,
    bytes,
    read: (raw) => new ArrayType(aligned(raw, bytes)),
    write: (data) =>
        bytesOf(ArrayType.from(/** @type {ArrayLike<number>} */ (data))),
  };
}

/**
 * @param {string} wire
 * @param {(bits: number) => number} widen
 * @param {(value: number) => number} narrow
 * @returns {DTypeRow}
 */
function halfRow(wire, widen, narrow) {
  return {
    wire,
    bytes: 2,
    read: (raw) => Float32Array.from(new Uint16Array(aligned(raw, 2)), widen),
    write: (data) =>
        bytesOf(Uint16Array.from(data, (value) => narrow(Number(value)))),
  };
}

/**
 * Little-endian bytes as a buffer of their own in the machine's order, since a
 * typed array must begin at a multiple of its element.
 * @param {Uint8Array} bytes
 * @param {number} size
 * @returns {ArrayBuffer}
 */
function aligned(bytes, size) {
  const copy = new Uint8Array(bytes.length);
  copy.set(bytes);
  return littleEndian ? copy.buffer : swapped(copy, size).buffer;
}

/**
 * @param {ArrayBufferView<ArrayBuffer> & {BYTES_PER_ELEMENT: number}} data
 * @returns {Uint8Array}
 */
function bytesOf(data) {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return littleEndian ? bytes : swapped(bytes, data.BYTES_PER_ELEMENT);
}

/**
 * Reverses the bytes of each element in place.
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @param {number} size
 */
function swapped(bytes, size) {
  for (let i = 0; i < bytes.length; i += size) {
    bytes.subarray(i, i + size).reverse();
  }
  return bytes;
}

/**
 * @param {BigInt64Array<ArrayBuffer>} wide
 * @returns {TensorData}
 */
function narrowed(wide) {
  const limit = BigInt(Number.MAX_SAFE_INTEGER);
  const safe = wide.every((x) => x <= limit && x >= -limit);
  return safe ? Float64Array.from(wide, Number) : wide;
}

const word = new DataView(new ArrayBuffer(4));

/** @param {number} bits of IEEE 754 binary16 */
export function halfToFloat(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1024 + fraction) * 2 ** (exponent - 25);
}

/**
 * The nearest binary16, the even one of two.
 * @param {number} value
 */
export function floatToHalf(value) {
  if (Number.isNaN(value)) return 0x7e00;
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const size = Math.abs(value);
  // Half way from the largest binary16, 65504, to what would follow it.
  if (size >= 65520) return sign | 0x7c00;
  const power = Math.max(Math.floor(Math.log2(size)), -14);
  const units = roundToEven(size * 2 ** (10 - power));
  if (units === 0) return sign;
  // A carry into the next power of two goes into the exponent by itself, and
  // so does a missing leading bit, that of a subnormal.
  return sign | ((power + 14) * 1024 + units);
}

/** @param {number} x at least 0 */
function roundToEven(x) {
  const floor = Math.floor(x);
  const rest = x - floor;
  if (rest !== 0.5) return rest > 0.5 ? floor + 1 : floor;
  return floor % 2 === 0 ? floor : floor + 1;
}

/** @param {number} bits of bfloat16 */
export function bfloatToFloat(bits) {
  word.setUint32(0, bits * 65536);
  return word.getFloat32(0);
}

/**
 * The nearest bfloat16, the even one of two.
 * @param {number} value
 */
export function floatToBfloat(value) {
  if (Number.isNaN(value)) return 0x7fc0;
  word.setFloat32(0, value);
  const bits = word.getUint32(0);
  return Math.floor((bits + 0x7fff + ((bits >>> 16) & 1)) / 65536) & 0xffff;
}

/**
 * The short name of an element type, given that or the wire's name.
 * @param {string} name
 * @returns {DType}
 */
export function dtypeOf(name) {
  for (const [dtype, row] of Object.entries(DTYPES)) {
    if (name === dtype || name === row.wire) {
      return /** @type {DType} */ (dtype);
    }
  }
  const known = Object.keys(DTYPES).join(', ');
  throw new TypeError(`dtype is '${name}'; expected one of ${known}`);
}

/**
 * The number of elements of a shape.
 * @param {readonly number[]} shape
 */
export function elementCount(shape) {
  for (const extent of shape) {
    if (!Number.isSafeInteger(extent) || extent < 0) {
      throw new RangeError(
          `shape is [${shape}]; expected whole numbers of at least 0`,
      );
    }
  }
  return shape.reduce((product, extent) => product * extent, 1);
}

/**
 * Bytes, little-endian and row-major, as a tensor.
 * @param {DType} dtype
 * @param {readonly number[]} shape
 * @param {Uint8Array} bytes
 * @returns {Tensor}
 */
export function tensorFromBytes(dtype, shape, bytes) {
  const expected = elementCount(shape) * DTYPES[dtype].bytes;
  if (bytes.length !== expected) {
    throw new RangeError(
        `data has ${bytes.length} bytes; expected ${expected} for ${
            dtype} of ` +
            `shape [${shape}]`,
    );
  }
  return {dtype, shape: [...shape], data: DTYPES[dtype].read(bytes)};
}

/**
 * The elements as bytes, little-endian and row-major.
 * @param {TensorLike} tensor
 * @returns {Uint8Array}
 */
export function tensorBytes(tensor) {
  const dtype = dtypeOf(tensor.dtype ?? impliedDtype(tensor.data));
  const count = elementCount(tensor.shape);
  if (tensor.data.length !== count) {
    throw new RangeError(
        `data has ${tensor.data.length} elements; expected ${
            count} for shape ` +
            `[${tensor.shape}]`,
    );
  }
  return DTYPES[dtype].write(tensor.data);
}

/**
 * The element type of data that come without one.
 * @param {TensorData | readonly number[]} data
 * @returns {DType}
 */
export function impliedDtype(data) {
  if (data instanceof Float64Array) return 'f64';
  if (data instanceof Uint8Array) return 'bool';
  if (data instanceof Int8Array) return 'i8';
  if (data instanceof Int32Array) return 'i32';
  if (data instanceof BigInt64Array) return 'i64';
  return 'f32';
}

/**
 * A tensor of a response.
 * @param {TensorJson} json
 * @returns {Tensor}
 */
export function decodeTensor(json) {
  const dtype = dtypeOf(json.dtype ?? 'DATA_TYPE_UNSPECIFIED');
  const shape = (json.shape ?? []).map(Number);
  return tensorFromBytes(dtype, shape, fromBase64(json.data ?? ''));
}

/**
 * A tensor for a request: f32 where no dtype is given and the array's type
 * does not say another.
 * @param {TensorLike} tensor
 * @returns {{dtype: string, shape: string[], data: string}}
 */
export function encodeTensor(tensor) {
  const dtype = dtypeOf(tensor.dtype ?? impliedDtype(tensor.data));
  return {
    dtype: DTYPES[dtype].wire,
    shape: tensor.shape.map(String),
    data: toBase64(tensorBytes(tensor)),
  };
}

/**
 * One element.
 * @param {{shape: readonly number[], data: ArrayLike<number | bigint>}} tensor
 * @param {...number} index one for each axis
 * @returns {number}
 */
export function at(tensor, ...index) {
  const {shape} = tensor;
  const inside = index.every((i, axis) => i >= 0 && i < shape[axis]);
  if (index.length !== shape.length || !inside) {
    throw new RangeError(`index is [${index}]; the shape is [${shape}]`);
  }
  const offset = index.reduce((sum, i, axis) => sum * shape[axis] + i, 0);
  return Number(tensor.data[offset]);
}

/**
 * The last two axes at the given indices of the others; a view, not a copy,
 * where the data allow it.
 * @param {Tensor} tensor
 * @param {...number} index one for each axis but two
 * @returns {{rows: number, cols: number, data: Float32Array | Float64Array}}
 */
export function matrixAt(tensor, ...index) {
  const {shape, data} = tensor;
  const inside = index.every((i, axis) => i >= 0 && i < shape[axis]);
  if (shape.length < 2 || index.length !== shape.length - 2 || !inside) {
    throw new RangeError(`index is [${index}]; the shape is [${shape}]`);
  }
  const [rows, cols] = shape.slice(-2);
  const number = index.reduce((sum, i, axis) => sum * shape[axis] + i, 0);
  const begin = number * rows * cols;
  if (data instanceof Float32Array || data instanceof Float64Array) {
    return {rows, cols, data: data.subarray(begin, begin + rows * cols)};
  }
  const part = data.slice(begin, begin + rows * cols);
  return {rows, cols, data: Float64Array.from(part, Number)};
}

/** @param {string} text */
export function fromBase64(text) {
  const plain = atob(text.replaceAll('-', '+').replaceAll('_', '/'));
  const bytes = new Uint8Array(plain.length);
  for (let i = 0; i < plain.length; ++i) bytes[i] = plain.charCodeAt(i);
  return bytes;
}

/** @param {Uint8Array} bytes */
export function toBase64(bytes) {
  // A call takes only so many arguments.
  const step = 0x8000;
  const parts = [];
  for (let i = 0; i < bytes.length; i += step) {
    parts.push(String.fromCharCode(...bytes.subarray(i, i + step)));
  }
  return btoa(parts.join(''));
}
