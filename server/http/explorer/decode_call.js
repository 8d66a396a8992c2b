// @ts-check
// A source as a decode sees it: the same sequence as one causal call, and each
// of its tokens alone.

import {contextOf} from './answers.js';
import {decoded} from './sources.js';
import {buildCall} from './spec.js';
import {encodeTensor} from './tensors.js';

/** @typedef {import('./answers.js').Result} Result */
/** @typedef {import('./tensors.js').Tensor} Tensor */

const F32_BYTES = 4;

/**
 * What is decoded. All tensors are of one batch entry, as f32: steps take no
 * f64.
 * @typedef {object} DecodeCall
 * @property {string} key Equal for equal calls.
 * @property {number} tokens
 * @property {object} spec
 * @property {object[]} inputs
 * @property {{q: Tensor, k: Tensor, v: Tensor}} tensors
 * @property {number} keep Keys that a window never forgets.
 */

/** Why a source cannot be decoded; "" if it can. @param {Result} result */
export function undecodable({source}) {
  if (source.queries !== source.keys) {
    return 'A decode needs one key for each query, and this source has ' +
        `${source.queries} queries and ${source.keys} keys.`;
  }
  return source.queries === 0 ? 'There is no token to decode.' : '';
}

/** @param {Result} result @returns {DecodeCall} */
export function decodeCallOf({state, source, batch}) {
  // A token sees those before it. The last key stands below the last query, in
  // a step as in the whole sequence.
  const decode = {
    ...state, causal: true, alignment: 'bottom_right', padding: 0};
  const {spec, inputs} = buildCall(decode, {...contextOf(source), batches: 1});
  const streams = state.pattern === 'streaming';
  return {
    key: JSON.stringify([source.key, batch, spec, inputs]),
    tokens: source.queries,
    spec,
    inputs,
    tensors: {
      q: entryOf(source.q, batch),
      k: entryOf(source.k, batch),
      v: entryOf(source.v, batch),
    },
    keep: streams ? Number(state.patternCount) : 0,
  };
}

/** One batch entry as f32. @param {object} json @param {number} batch @returns {Tensor} */
function entryOf(json, batch) {
  const {shape, data} = decoded(json);
  const [, heads, rows, width] = shape;
  const size = heads * rows * width;
  const part = data.slice(batch * size, (batch + 1) * size);
  return {
    dtype: 'f32',
    shape: [1, heads, rows, width],
    data: Float32Array.from(part, Number),
  };
}

/** One row of every head: [1, H, 1, D]. @param {Tensor} tensor @param {number} row @returns {Tensor} */
export function rowOf({shape, data}, row) {
  const [, heads, rows, width] = shape;
  const part = new Float32Array(heads * width);
  for (let head = 0; head < heads; ++head) {
    const begin = (head * rows + row) * width;
    for (let i = 0; i < width; ++i) {
      part[head * width + i] = Number(data[begin + i]);
    }
  }
  return {dtype: 'f32', shape: [1, heads, 1, width], data: part};
}

/** The call in whole. @param {DecodeCall} call */
export function wholeRequest({spec, inputs, tensors}) {
  return {
    spec,
    inputs,
    q: encodeTensor(tensors.q),
    k: encodeTensor(tensors.k),
    v: encodeTensor(tensors.v),
  };
}

/** What OpenSession is asked for. @param {DecodeCall} call */
export function openRequest({spec, inputs, tensors}) {
  const {q, k, v} = tensors;
  return {
    spec,
    inputs,
    qHeads: q.shape[1],
    kvHeads: k.shape[1],
    qDim: q.shape[3],
    kDim: k.shape[3],
    vDim: v.shape[3],
    kvDtype: 'DATA_TYPE_F32',
  };
}

/** q, k and v of one token. @param {DecodeCall} call @param {number} row */
export function tokenOf({tensors}, row) {
  return {
    q: [encodeTensor(rowOf(tensors.q, row))],
    k: [encodeTensor(rowOf(tensors.k, row))],
    v: [encodeTensor(rowOf(tensors.v, row))],
  };
}

/**
 * Bytes of q, k and v that a step sends, and those that the same row takes
 * without a session: its q, and every key and value up to it.
 * @param {DecodeCall} call
 * @param {number} row
 */
export function bytesOfRow({tensors}, row) {
  const width = (/** @type {Tensor} */ {shape}) => shape[1] * shape[3];
  const pair = width(tensors.k) + width(tensors.v);
  return {
    step: F32_BYTES * (width(tensors.q) + pair),
    call: F32_BYTES * (width(tensors.q) + (row + 1) * pair),
  };
}

/**
 * How a step's output differs from the whole call's row.
 * @param {Tensor} step [1, H, 1, D]
 * @param {Tensor} whole [1, H, S, D]
 * @param {number} row
 */
export function difference(step, whole, row) {
  const right = rowOf(whole, row).data;
  let [equal, largest, size] = [0, 0, 0];
  for (let i = 0; i < right.length; ++i) {
    const [a, b] = [Number(step.data[i]), Number(right[i])];
    if (Number.isFinite(b)) size = Math.max(size, Math.abs(b));
    if (Object.is(a, b)) ++equal;
    // NaN in one of them alone is the largest difference that there is.
    else largest = Math.max(largest, Math.abs(a - b) || 0,
                            Number.isNaN(a) !== Number.isNaN(b) ? Infinity : 0);
  }
  // Sums of the same terms in another order differ by a few units in the last
  // of 24 bits.
  return {equal, count: right.length, largest,
          agrees: largest <= 2 ** -16 * size};
}
