// @ts-check
// Sequences too long to be sent with each request: their tensors are kept on
// the server as layers, the queries in parts, so that a strip of the scores is
// a small request which computes nothing but its own rows.

import {encodeTensor} from './tensors.js';
import {numbered, sourceOf} from './sources.js';

/** @typedef {import('./tensors.js').Tensor} Tensor */
/** @typedef {import('./sources.js').Source} Source */

/**
 * Tensors on the server.
 * @typedef {object} Kept
 * @property {string} name The layers are `name.kv` and `name.q0`, `name.q1`...
 * @property {number} part Queries in each tensor; the last may have fewer.
 * @property {number} perLayer Tensors in each layer of queries.
 */

// Rows of one part: a strip of so many rows of 32768 keys takes the engine some
// ten milliseconds.
const PART = 512;
const PARTS_PER_LAYER = 8;
const FEATURES = 16;
// Part of the layers' names; to be changed with what is made below.
const RECIPE = 'explorer.long1';

/**
 * Numbers from 0 to 1, the same for the same seed (Marsaglia's xorshift32).
 * @param {number} seed
 * @returns {() => number}
 */
function randomNumbers(seed) {
  let word = seed | 0 || 1;
  return () => {
    word ^= word << 13;
    word ^= word >>> 17;
    word ^= word << 5;
    return (word >>> 0) / 4294967296;
  };
}

/**
 * Rows that show what long sequences show: nearness at several ranges, passages
 * on recurring topics, and a few landmarks that everything looks at.
 * @param {number} tokens
 * @returns {{q: Tensor, k: Tensor, v: Tensor}}
 */
export function syntheticTensors(tokens) {
  const random = randomNumbers(20171);
  const topics = Array.from({length: 9}, () =>
      Array.from({length: 6}, () => 2 * random() - 1));
  const shape = [1, 1, tokens, FEATURES];
  const make = () => new Float32Array(tokens * FEATURES);
  const [q, k, v] = [make(), make(), make()];
  const wavelengths = [64, 509, 4099, 4 * tokens];
  let topic = topics[0];
  let left = 0;
  for (let token = 0; token < tokens; ++token) {
    if (left-- === 0) {
      topic = topics[Math.floor(random() * topics.length)];
      left = 120 + Math.floor(random() * tokens / 12);
    }
    const row = token * FEATURES;
    wavelengths.forEach((length, pair) => {
      const angle = 2 * Math.PI * token / length;
      for (const side of [q, k]) {
        side[row + 2 * pair] = 2 * Math.cos(angle);
        side[row + 2 * pair + 1] = 2 * Math.sin(angle);
      }
    });
    topic.forEach((value, place) => {
      q[row + 8 + place] = 3 * value;
      k[row + 8 + place] = 3 * value + 0.4 * (random() - 0.5);
    });
    q[row + 14] = 2;
    k[row + 14] = random() < 1 / 300 ? 12 : 0;
    q[row + 15] = random() - 0.5;
    k[row + 15] = random() - 0.5;
    for (let place = 0; place < FEATURES; ++place) {
      v[row + place] = 2 * random() - 1;
    }
  }
  return {
    q: {dtype: 'f32', shape, data: q},
    k: {dtype: 'f32', shape, data: k},
    v: {dtype: 'f32', shape, data: v},
  };
}

/**
 * One head of tensors of any size, as layers on the server.
 * @param {import('./api.js').Api} api
 * @param {{q: Tensor, k: Tensor, v: Tensor}} tensors Of one batch and head.
 * @param {string} name
 * @param {(share: number) => void} progress
 * @param {AbortSignal} signal
 * @returns {Promise<Kept>}
 */
async function keep(api, tensors, name, progress, signal) {
  const kept = {name, part: PART, perLayer: PARTS_PER_LAYER};
  const named = (/** @type {string} */ key, /** @type {Tensor} */ tensor) =>
      ({name: key, tensor: encodeTensor(tensor)});
  const layerCount = layersOf(tensors.q.shape[2]);
  for (let layer = 0; layer < layerCount; ++layer) {
    const parts = [];
    for (let place = 0; place < PARTS_PER_LAYER; ++place) {
      const part = layer * PARTS_PER_LAYER + place;
      const rows = rowsOf(tensors.q, part * PART, (part + 1) * PART);
      if (rows) parts.push(named(`p${place}`, rows));
    }
    await api.putLayer(`${name}.q${layer}`, {tensors: parts}, signal);
    progress((layer + 1) / (layerCount + 1));
  }
  // The keys go last: where they are, everything is.
  await api.putLayer(
      `${name}.kv`,
      {tensors: [named('k', tensors.k), named('v', tensors.v)]}, signal);
  progress(1);
  return kept;
}

/** @param {number} queries */
function layersOf(queries) {
  return Math.ceil(queries / (PART * PARTS_PER_LAYER));
}

/**
 * @param {Tensor} tensor [1, 1, S, D]
 * @param {number} begin
 * @param {number} end
 * @returns {Tensor | null} Null if there are none.
 */
function rowsOf(tensor, begin, end) {
  const [, , rows, features] = tensor.shape;
  const last = Math.min(end, rows);
  if (begin >= last) return null;
  const data = tensor.data.slice(begin * features, last * features);
  return {dtype: tensor.dtype, shape: [1, 1, last - begin, features], data};
}

/**
 * @param {Source} source
 * @param {Kept} kept
 * @returns {Source} Without tensors of its own.
 */
function withoutTensors(source, kept) {
  return {...source, q: {}, k: {}, v: {}, kept};
}

/** The layers that the server has. @param {import('./api.js').Api} api */
async function layerNames(api) {
  const names = new Set();
  let token = '';
  do {
    const page = await api.listLayers(token);
    for (const layer of page.layers ?? []) names.add(layer.name);
    token = page.nextPageToken ?? '';
  } while (token);
  return names;
}

/**
 * A synthetic sequence; made and sent only if the server does not have it yet.
 * @param {import('./api.js').Api} api
 * @param {number} tokens
 * @param {(share: number) => void} progress
 * @param {AbortSignal} signal
 * @returns {Promise<Source>}
 */
export async function longSource(api, tokens, progress, signal) {
  const name = `${RECIPE}.${tokens}`;
  const names = await layerNames(api);
  let kept = {name, part: PART, perLayer: PARTS_PER_LAYER};
  const there = names.has(`${name}.kv`) &&
      numbered(layersOf(tokens), `${name}.q`).every((layer) => names.has(layer));
  if (!there) {
    kept = await keep(api, syntheticTensors(tokens), name, progress, signal);
  }
  const empty = /** @type {Tensor} */ (
      {dtype: 'f32', shape: [1, 1, 0, FEATURES], data: new Float32Array(0)});
  const source =
      sourceOf('long', name, {q: empty, k: empty, v: empty});
  return withoutTensors({...source, queries: tokens, keys: tokens}, kept);
}

/**
 * One head of a file's tensors.
 * @param {import('./api.js').Api} api
 * @param {Source} source
 * @param {{q: Tensor, k: Tensor, v: Tensor}} tensors
 * @param {{batch: number, head: number}} which
 * @param {(share: number) => void} progress
 * @param {AbortSignal} signal
 * @returns {Promise<Source>}
 */
export async function keptFile(api, source, tensors, which, progress, signal) {
  const kvHead = Math.floor(which.head * source.kvHeads / source.queryHeads);
  const one = {
    q: headOf(tensors.q, which.batch, which.head),
    k: headOf(tensors.k, which.batch, kvHead),
    v: headOf(tensors.v, which.batch, kvHead),
  };
  const name = `explorer.file.${crypto.getRandomValues(new Uint32Array(1))[0]}`;
  const kept = await keep(api, one, name, progress, signal);
  const key = `${source.key} batch ${which.batch} head ${which.head}`;
  return withoutTensors({...source, key}, kept);
}

/**
 * @param {Tensor} tensor
 * @param {number} batch
 * @param {number} head
 * @returns {Tensor}
 */
function headOf(tensor, batch, head) {
  const [, heads, rows, features] = tensor.shape;
  const size = rows * features;
  const begin = (batch * heads + head) * size;
  const data = tensor.data.slice(begin, begin + size);
  return {dtype: tensor.dtype, shape: [1, 1, rows, features], data};
}

/**
 * Asks the server to forget a file's layers.
 * @param {import('./api.js').Api} api
 * @param {Source} source
 */
export async function forget(api, source) {
  if (!source.kept || source.kind !== 'file') return;
  const name = source.kept.name;
  const layers = [...numbered(layersOf(source.queries), `${name}.q`), `${name}.kv`];
  await Promise.allSettled(layers.map((layer) => api.deleteLayer(layer)));
}

/**
 * The parts that some queries lie in.
 * @param {Kept} kept
 * @param {number} queries Of the whole sequence.
 * @param {number} begin
 * @param {number} end
 * @returns {{layer: string, tensor: string, first: number, count: number,
 *     begin: number, end: number}[]} `first` and `count` of the part; `begin`
 *     and `end` within it.
 */
export function partsOf(kept, queries, begin, end) {
  const parts = [];
  for (let part = Math.floor(begin / kept.part); part * kept.part < end; ++part) {
    const first = part * kept.part;
    const count = Math.min(kept.part, queries - first);
    parts.push({
      layer: `${kept.name}.q${Math.floor(part / kept.perLayer)}`,
      tensor: `p${part % kept.perLayer}`,
      first,
      count,
      begin: Math.max(begin - first, 0),
      end: Math.min(end - first, count),
    });
  }
  return parts;
}
