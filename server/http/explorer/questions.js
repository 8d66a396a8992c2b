// @ts-check
// The smaller questions about one head of one source, each a request.

import {real, windowOf} from './answers.js';
import {decodeTensor, encodeTensor, matrixAt} from './tensors.js';

/** @typedef {import('./sources.js').Source} Source */
/** @typedef {import('./answers.js').Matrix} Matrix */

// Cells of a head in the grid, each way.
const GRID_CELLS = 48;
const SWEEP_POINTS = 31;
const SWEEP_RANGE = [0.05, 20];
// Scores of all heads above which the sweep takes fewer points.
const SWEEP_SCORES = 2 ** 20;

/** @param {number} points @returns {number[]} Evenly spaced in the logarithm. */
function temperatures(points) {
  const [low, high] = SWEEP_RANGE;
  return Array.from({length: points}, (_, index) =>
      Number((low * (high / low) ** (index / (points - 1))).toPrecision(6)));
}

/** The smaller questions about one head of one source. */
export class Questions {
  /**
   * @param {import('./api.js').Api} api
   * @param {Source} source
   * @param {{head: number, batch: number}} which
   * @param {AbortSignal} signal
   */
  constructor(api, source, {head, batch}, signal) {
    this.api = api;
    this.signal = signal;
    this.head = head;
    this.batch = batch;
    this.source = source;
    const {q, k, v} = source;
    this.tensors = {q, k, v};
  }

  /** @param {object} call @param {string} view @param {object} [more] */
  #inspect(call, view, more = {}) {
    return this.api.inspect({
      ...call,
      ...this.tensors,
      views: [`INSPECT_VIEW_${view}`],
      window: windowOf(this.batch, this.head),
      ...more,
    }, this.signal);
  }

  /** @param {object} call @param {string} name */
  async logits(call, name) {
    const {logits} = await this.#inspect(call, 'LOGITS');
    return {[name]: matrixAt(decodeTensor(logits), 0, 0)};
  }

  /** @param {object} call @param {string} name */
  async maskedLogits(call, name) {
    const {maskedLogits} = await this.#inspect(call, 'MASKED_LOGITS');
    return {[name]: matrixAt(decodeTensor(maskedLogits), 0, 0)};
  }

  /** @param {object} call */
  async output(call) {
    const answer = await this.#attend(call, ['OUTPUT_OUTPUT', 'OUTPUT_LSE']);
    const lse = decodeTensor(answer.lse);
    const [, heads, queries] = lse.shape;
    const begin = (this.batch * heads + this.head) * queries;
    return {
      output: matrixAt(decodeTensor(answer.output), this.batch, this.head),
      lse: Array.from(lse.data.slice(begin, begin + queries), Number),
    };
  }

  /** @param {object} call @param {string[]} outputs */
  #attend(call, outputs) {
    return this.api.attend({...call, ...this.tensors, outputs}, this.signal);
  }

  /** @param {object} call */
  async sweep(call) {
    const {queryHeads, batches, queries, keys} = this.source;
    const many = queryHeads * batches * queries * keys > SWEEP_SCORES;
    const answer = await this.api.inspect({
      ...call,
      ...this.tensors,
      sweepTemperatures: temperatures(many ? 11 : SWEEP_POINTS),
    }, this.signal);
    const sweep = (answer.sweep ?? []).map((/** @type {any} */ point) => ({
      x: real(point.temperature),
      y: real(this.#mine(point.headStatistics)?.meanEntropy),
    }));
    return {sweep};
  }

  /** @param {any[]} heads */
  #mine(heads) {
    return (heads ?? []).find((one) => real(one.batch) === this.batch &&
                                       real(one.head) === this.head);
  }

  /** @param {object} call */
  async heads(call) {
    const {queries, keys} = this.source;
    const tile = (/** @type {number} */ extent) =>
        String(Math.max(1, Math.ceil(extent / GRID_CELLS)));
    const whole = queries <= GRID_CELLS && keys <= GRID_CELLS;
    const tiles = whole ? {} : {
      tiles: {
        queryTile: tile(queries),
        keyTile: tile(keys),
        pooling: 'POOLING_MAX',
      },
    };
    const answer = await this.#inspect(call, 'WEIGHTS', {
      views: ['INSPECT_VIEW_WEIGHTS', 'INSPECT_VIEW_MASKED_LOGITS'],
      window: {batch: windowOf(this.batch, 0).batch},
      ...tiles,
    });
    const weights = decodeTensor(answer.weights);
    const logits = decodeTensor(answer.maskedLogits);
    const heads = Array.from({length: this.source.queryHeads}, (_, head) => ({
      head,
      matrix: matrixAt(weights, 0, head),
      masked: excludedTiles(matrixAt(logits, 0, head)),
    }));
    const headStatistics = (answer.headStatistics ?? []).filter(
        (/** @type {any} */ one) => real(one.batch) === this.batch);
    return {heads, headStatistics};
  }

  /** @param {object} call @param {string} loss */
  async gradient(call, loss) {
    const dOutput = await this.#cotangent(call, loss);
    const answer = await this.#inspect(call, 'GRADIENT_WEIGHT', {dOutput});
    return {gradient: matrixAt(decodeTensor(answer.gradientWeight), 0, 0)};
  }

  /** The loss's slope at the output. @param {object} call @param {string} loss */
  async #cotangent(call, loss) {
    if (loss === 'file') return this.source.extras.get('d_output');
    const {output} = await this.#attend(call, ['OUTPUT_OUTPUT']);
    // Of half the squared length, the slope is the output itself.
    if (loss === 'square') return output;
    const {dtype, shape, data} = decodeTensor(output);
    return encodeTensor({dtype, shape, data: Array(data.length).fill(1)});
  }
}

/** @param {Matrix} logits @returns {Uint8Array} 1 where a tile has no key. */
function excludedTiles(logits) {
  return Uint8Array.from(
      logits.data, (x) => (x === -Infinity || Number.isNaN(x) ? 1 : 0));
}
