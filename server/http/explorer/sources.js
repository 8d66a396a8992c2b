// @ts-check
// Where q, k and v come from: a sentence through the story model, the worked
// example, a toy typed by hand, a file, or a long sequence (long_source.js).

import {decodeTensor, encodeTensor} from './tensors.js';

/** @typedef {import('./state.js').Patch} Patch */
/** @typedef {import('./tensors.js').Tensor} Tensor */
/** @typedef {{kind: string, summary: string}} HeadNote */

/**
 * One attention call's tensors and what is known of them.
 * @typedef {object} Source
 * @property {string} kind As state.source.
 * @property {string} key Equal for equal tensors.
 * @property {number} batches
 * @property {number} queryHeads
 * @property {number} kvHeads
 * @property {number} queries
 * @property {number} keys
 * @property {object} q In the JSON mapping, [B, Hq, Sq, d_k].
 * @property {object} k
 * @property {object} v
 * @property {string[]} queryLabels
 * @property {string[]} keyLabels
 * @property {ReadonlyMap<string, object>} extras
 * @property {number} layers
 * @property {HeadNote[]} headNotes One for each query head, or none.
 * @property {import('./long_source.js').Kept} [kept] Where the tensors lie on
 *     the server: too long to be shown whole.
 */

/** From here on a matrix is explored by tiles. */
export const LARGEST_WHOLE = 512;

/** Tensors of a file, beside q, k and v, that stages can use. */
export const EXTRA_NAMES = [
  'score_weight', 'score_v', 'score_query_weight', 'score_key_weight',
  'score_query_bias', 'log_scale', 'bias', 'mask', 'sink', 'head_gate',
  'd_output',
];

// The five-token example of the handbook: its rows are probabilities.
const PUBLISHED = [
  0.1234, 0.2426, 0.2145, 0.0651, 0.3545,
  0.2248, 0.1815, 0.1580, 0.2645, 0.1712,
  0.2517, 0.1531, 0.1539, 0.2708, 0.1704,
  0.1666, 0.2220, 0.1869, 0.1256, 0.2990,
  0.1575, 0.2351, 0.2459, 0.2124, 0.1491,
];

/** @param {number} count @param {string} [word] @returns {string[]} */
export function numbered(count, word = '') {
  return Array.from({length: count}, (_, index) => `${word}${index}`);
}

/**
 * A source of tensors of one head each.
 * @param {string} kind
 * @param {string} key
 * @param {{q: Tensor, k: Tensor, v: Tensor}} tensors
 * @param {Partial<Source>} [more]
 * @returns {Source}
 */
export function sourceOf(kind, key, {q, k, v}, more = {}) {
  return {
    kind,
    key,
    batches: q.shape[0],
    queryHeads: q.shape[1],
    kvHeads: k.shape[1],
    queries: q.shape[2],
    keys: k.shape[2],
    q: encodeTensor(q),
    k: encodeTensor(k),
    v: encodeTensor(v),
    queryLabels: numbered(q.shape[2]),
    keyLabels: numbered(k.shape[2]),
    extras: new Map(),
    layers: 1,
    headNotes: [],
    ...more,
  };
}

/** @param {number[][]} rows @returns {Tensor} */
function oneHead(rows) {
  return {
    dtype: 'f64',
    shape: [1, 1, rows.length, rows[0].length],
    data: Float64Array.from(rows.flat()),
  };
}

/** @param {number} size @returns {number[][]} */
function identity(size) {
  return Array.from({length: size}, (_, row) =>
      Array.from({length: size}, (_, column) => (row === column ? 1 : 0)));
}

/**
 * Queries whose scaled products with unit keys are the logarithms of the
 * published weights: softmax gives the weights back, and unit values show them
 * once more in the output.
 * @returns {Source}
 */
export function exampleSource() {
  const size = Math.sqrt(PUBLISHED.length);
  const rows = Array.from({length: size}, (_, row) =>
      PUBLISHED.slice(row * size, (row + 1) * size)
          .map((weight) => Math.log(weight) * Math.sqrt(size)));
  const labels = Array.from({length: size}, (_, token) => `token ${token + 1}`);
  return sourceOf(
      'example', 'example',
      {q: oneHead(rows), k: oneHead(identity(size)), v: oneHead(identity(size))},
      {queryLabels: labels, keyLabels: labels});
}

/** @param {string} text Rows by ";", elements by ",". @returns {number[][]} */
export function parseMatrix(text) {
  return text.split(';').map((row) => row.split(',').map(Number));
}

/** @param {number[][]} rows @returns {string} */
export function formatMatrix(rows) {
  return rows.map((row) => row.join(',')).join(';');
}

/** @param {string} name @param {string} text @returns {number[][]} */
function toyMatrix(name, text) {
  const rows = parseMatrix(text);
  const even = rows.every((row) => row.length === rows[0].length);
  if (!even || rows.flat().some((value) => !Number.isFinite(value))) {
    throw new Error(`${name} is "${text}"; expected rows of numbers of one ` +
                    'length, like 1,0;0,1');
  }
  return rows;
}

/** @param {Patch} state @returns {Source} */
export function toySource(state) {
  const q = toyMatrix('Q', String(state.toyQ));
  const k = toyMatrix('K', String(state.toyK));
  const v = toyMatrix('V', String(state.toyV));
  return sourceOf('toy', `toy ${state.toyQ} ${state.toyK} ${state.toyV}`,
                  {q: oneHead(q), k: oneHead(k), v: oneHead(v)}, {
                    queryLabels: numbered(q.length, 'q'),
                    keyLabels: numbered(k.length, 'k'),
                  });
}

/** Sentences through the story model; answers are kept by sentence. */
export class StorySources {
  /** @param {import('./api.js').Api} api */
  constructor(api) {
    this.api = api;
    /** @type {Promise<any> | undefined} */
    this.info = undefined;
    this.text = '';
    /** @type {any} */
    this.answer = undefined;
  }

  /** @returns {Promise<any>} What the model is; asked once. */
  describe() {
    this.info ??= this.api.storyInfo().catch((error) => {
      this.info = undefined;
      throw error;
    });
    return this.info;
  }

  /**
   * @param {Patch} state
   * @param {AbortSignal} signal
   * @returns {Promise<Source>}
   */
  async load(state, signal) {
    const text = String(state.text);
    const info = this.describe();
    if (!this.answer || this.text !== text) {
      const answer = this.api.story(text, signal);
      // Both are waited for, so that neither fails unseen.
      await Promise.all([info, answer]);
      this.answer = await answer;
      this.text = text;
    }
    const {layers, heads, kvHeads, headNotes} = await info;
    const layer = Math.min(Number(state.layer), layers - 1);
    const labels = this.answer.tokens.map(
        (/** @type {{text: string}} */ token) => shown(token.text));
    return {
      kind: 'story',
      key: `story ${layer} ${text}`,
      batches: 1,
      queryHeads: heads,
      kvHeads,
      queries: labels.length,
      keys: labels.length,
      ...this.answer.layers[layer],
      queryLabels: labels,
      keyLabels: labels,
      extras: new Map(),
      layers,
      headNotes: headNotes?.[layer] ?? [],
    };
  }
}

/** A token's text with what has no width made visible. @param {string} text */
function shown(text) {
  if (text.trim() === '<s>') return '<s>';
  return text.replaceAll('\n', '⏎').replace(/^ (?=.)/, '·').replaceAll(' ', '·');
}

/** A file's tensors, by the names that this page knows. */
const ALIASES = {
  q: ['q', 'query', 'queries', 'Q'],
  k: ['k', 'key', 'keys', 'K'],
  v: ['v', 'value', 'values', 'V'],
};

/**
 * @param {File} file
 * @returns {Promise<{tensors: {q: Tensor, k: Tensor, v: Tensor},
 *     extras: Map<string, object>, name: string}>}
 */
export async function readFile(file) {
  const {readNpz, readSafetensors} = await import('./files.js');
  const bytes = await file.arrayBuffer();
  const named = file.name.endsWith('.safetensors') ? await readSafetensors(bytes)
                                                   : await readNpz(bytes);
  const tensors = {
    q: tensorOf(named, 'q'),
    k: tensorOf(named, 'k'),
    v: tensorOf(named, 'v'),
  };
  /** @type {Map<string, object>} */
  const extras = new Map();
  for (const name of EXTRA_NAMES) {
    const tensor = named.get(name);
    if (tensor) extras.set(name, encodeTensor(tensor));
  }
  return {tensors, extras, name: file.name};
}

/**
 * @param {Map<string, Tensor>} named
 * @param {'q' | 'k' | 'v'} which
 * @returns {Tensor}
 */
function tensorOf(named, which) {
  const name = ALIASES[which].find((alias) => named.has(alias));
  const tensor = name === undefined ? undefined : named.get(name);
  if (!tensor) {
    const has = [...named.keys()].slice(0, 12).join(', ') || 'nothing';
    throw new Error(`the file has ${has}; expected tensors named q, k and v`);
  }
  const rank = tensor.shape.length;
  if (rank < 2 || rank > 4) {
    throw new Error(`${name} has ${rank} axes; expected [batch, head, ` +
                    'sequence, feature], or without the first one or two');
  }
  const shape = [...Array(4 - rank).fill(1), ...tensor.shape];
  return {dtype: tensor.dtype, shape, data: tensor.data};
}

/** @type {WeakMap<object, Tensor>} */
const decodedTensors = new WeakMap();

/** Decoded once, however often it is drawn. @param {object} json @returns {Tensor} */
export function decoded(json) {
  const known = decodedTensors.get(json) ?? decodeTensor(/** @type {any} */ (json));
  decodedTensors.set(json, known);
  return known;
}
