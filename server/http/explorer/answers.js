// @ts-check
// The main answer about one head of one source: its logits and weights with
// their statistics; and what all answers have in common.

import {buildCall} from './spec.js';
import {decodeTensor, matrixAt} from './tensors.js';

/** @typedef {import('./state.js').Patch} Patch */
/** @typedef {import('./sources.js').Source} Source */
/** @typedef {{rows: number, cols: number, data: Float32Array | Float64Array}} Matrix */

/**
 * Of the chosen head; the vectors have one element for each query.
 * @typedef {Record<'entropy' | 'peakWeight' | 'topKey' | 'visibleKeys' |
 *     'entropyRatio' | 'effectiveKeys' | 'logitMin' | 'logitMax' | 'logitMean' |
 *     'logitStd' | 'contribution', number[]>} Rows
 */

/**
 * @typedef {object} Detail
 * @property {Matrix} [score] Before any scale.
 * @property {Matrix} [scaled] After scale and cap.
 * @property {Matrix} [masked] After biases and masks, before the temperature.
 * @property {Matrix} [output]
 * @property {Matrix} [gradient] Weight x gradient.
 * @property {number[]} [lse]
 * @property {{head: number, matrix: Matrix, masked: Uint8Array}[]} [heads]
 * @property {any[]} [headStatistics] Of every head of the batch entry.
 * @property {{x: number, y: number}[]} [sweep]
 * @property {Record<string, string>} errors What could not be had, and why.
 */

/**
 * What the server said of one setting.
 * @typedef {object} Result
 * @property {Patch} state
 * @property {Source} source
 * @property {number} head
 * @property {number} batch
 * @property {Matrix} logits Final ones; -Infinity where a key is excluded.
 * @property {Uint8Array} excluded
 * @property {Matrix} raw Scores after scale, before cap, biases and masks.
 * @property {Matrix} weights
 * @property {Matrix} contribution
 * @property {Rows} rows
 * @property {any} statistics Of the head.
 * @property {any} report
 * @property {Detail} [detail] Comes later.
 * @property {number} milliseconds From the wish to the weights.
 */

const ROW_FIELDS = /** @type {(keyof Rows)[]} */ ([
  'entropy', 'peakWeight', 'topKey', 'visibleKeys', 'entropyRatio',
  'effectiveKeys', 'logitMin', 'logitMax', 'logitMean', 'logitStd',
  'contribution',
]);

/**
 * The JSON mapping leaves zeros out, and writes what is not finite in words.
 * @param {any} value
 * @returns {number}
 */
export function real(value) {
  return value === undefined ? 0 : Number(value);
}

/** @param {Source} source @returns {import('./spec.js').Context} */
export function contextOf(source) {
  const {queryHeads, batches, queries, keys, extras} = source;
  return {queryHeads, batches, queries, keys, extras};
}

/** @param {unknown} error @returns {string} */
export function messageOf(error) {
  return error instanceof Error ? error.message : String(error);
}

/**
 * @param {import('./api.js').Api} api
 * @param {Patch} state
 * @param {Source} source
 * @param {AbortSignal} [signal]
 * @returns {Promise<Result>}
 */
export async function computeWeights(api, state, source, signal) {
  const started = performance.now();
  const head = Math.min(Number(state.head), source.queryHeads - 1);
  const batch = Math.min(Number(state.batch), source.batches - 1);
  const {q, k, v} = source;
  const answer = await api.inspect({
    ...buildCall(state, contextOf(source)),
    q, k, v,
    views: [
      'INSPECT_VIEW_LOGITS', 'INSPECT_VIEW_MASKED_LOGITS',
      'INSPECT_VIEW_WEIGHTS', 'INSPECT_VIEW_CONTRIBUTION',
    ],
    window: windowOf(batch, head),
  }, signal);
  const first = (/** @type {any} */ tensor) =>
      matrixAt(decodeTensor(tensor), 0, 0);
  const logits = first(answer.maskedLogits);
  const statistics = (answer.headStatistics ?? []).find(
      (/** @type {any} */ one) =>
          real(one.batch) === batch && real(one.head) === head) ?? {};
  return {
    state, source, head, batch, logits,
    excluded: excludedOf(logits),
    raw: first(answer.logits),
    weights: first(answer.weights),
    contribution: first(answer.contribution),
    rows: rowsOf(answer.rowStatistics, batch, head),
    statistics,
    report: answer.report ?? {},
    milliseconds: performance.now() - started,
  };
}

/** @param {number} batch @param {number} head */
export function windowOf(batch, head) {
  return {
    batch: {begin: String(batch), end: String(batch + 1)},
    head: {begin: String(head), end: String(head + 1)},
  };
}

/** @param {Matrix} logits @returns {Uint8Array} 1 where a key is excluded. */
export function excludedOf(logits) {
  return Uint8Array.from(logits.data, (x) => (x === -Infinity ? 1 : 0));
}

/**
 * @param {any} message RowStatistics.
 * @param {number} batch
 * @param {number} head
 * @returns {Rows}
 */
export function rowsOf(message, batch, head) {
  const rows = /** @type {Rows} */ ({});
  for (const name of ROW_FIELDS) {
    const {shape, data} = decodeTensor(message[name]);
    const begin = (batch * shape[1] + head) * shape[2];
    rows[name] = Array.from(data.slice(begin, begin + shape[2]), Number);
  }
  return rows;
}
