// @ts-check
// Brings tiles and keeps the last ones; needs no page.

import {bandCells, bandCount, stripKey, stripsOf, tileCells, tileKey, tileSide} from './tile_plan.js';

/**
 * @typedef {import('./tile_plan.js').TileId} TileId
 * @typedef {import('./tile_plan.js').Size} Size
 * @typedef {import('./tile_plan.js').Strip} Strip
 * @typedef {'max' | 'mean' | 'sum'} Pooling
 * @typedef {{rows: number, cols: number, data: Float32Array | Float64Array}}
 *     Pooled
 * @typedef {(request: import('./tile_plan.js').Ranges & {tile: number,
 *     pooling: Pooling, signal: AbortSignal}) => Promise<Pooled>} LoadStrip
 * @typedef {{id: TileId, rows: number, cols: number, values: Float32Array,
 *     ready: boolean[], version: number}} Tile ready: which bands have come;
 *     version grows with each
 */

/**
 * Events: 'change' when a part of a tile has come, 'progress' {done, total},
 * 'failure' {error}.
 */
export class TileLoader extends EventTarget {
  /**
   * @param {Size & {loadStrip: LoadStrip, pooling: Pooling, capacity?: number,
   *     parallel?: number}} options capacity: of tiles
   */
  constructor(options) {
    super();
    this.size = {rows: options.rows, cols: options.cols};
    this.loadStrip = options.loadStrip;
    this.pooling = options.pooling;
    // 128 tiles are 32 MiB of values.
    this.capacity = options.capacity ?? 128;
    // Two cores of a server are kept busy, and others are not kept waiting.
    this.parallel = options.parallel ?? 2;
    /** @type {Map<string, Tile>} The one used last is the last. */
    this.tiles = new Map();
    /** @type {TileId[]} */
    this.wanted = [];
    /** @type {Map<string, {strip: Strip, abort: AbortController}>} */
    this.running = new Map();
    /** @type {Set<string>} */
    this.failed = new Set();
    /** @type {Map<number, [number, number]>} */
    this.ranges = new Map();
  }

  /**
   * Asks for tiles, the most urgent first. What runs for others is aborted.
   * @param {readonly TileId[]} ids
   */
  want(ids) {
    this.wanted = [...ids];
    const keys = new Set(ids.map(tileKey));
    for (const [key, {strip, abort}] of [...this.running]) {
      if (idsOf(strip).some((id) => keys.has(tileKey(id)))) continue;
      abort.abort();
      this.running.delete(key);
    }
    for (const key of keys) this.#touch(key);
    this.#start();
  }

  /** Tries again what has failed. */
  retry() {
    this.failed.clear();
    this.#start();
  }

  /** Forgets all tiles. @param {Pooling} pooling of those to come */
  reset(pooling) {
    this.#abortAll();
    this.pooling = pooling;
    this.tiles.clear();
    this.failed.clear();
    this.ranges.clear();
    this.#start();
  }

  /** Ends all requests. */
  close() {
    this.wanted = [];
    this.#abortAll();
  }

  /** A tile of which at least a part has come. @param {TileId} id */
  get(id) {
    return this.tiles.get(tileKey(id));
  }

  /**
   * The least and the largest value of a level so far.
   * @param {number} level
   */
  rangeOf(level) {
    return this.ranges.get(level);
  }

  /**
   * The value of the cell over an element, at a level.
   * @param {number} level
   * @param {{row: number, col: number}} element
   * @returns {number | undefined} undefined: it has not come
   */
  valueAt(level, element) {
    const row = Math.floor(element.row / 2 ** level);
    const col = Math.floor(element.col / 2 ** level);
    const tile = this.get({
      level,
      row: Math.floor(row / tileSide),
      col: Math.floor(col / tileSide)
    });
    const inside = row % tileSide;
    if (!tile?.ready[Math.floor(inside / bandCells(level))]) return undefined;
    return tile.values[inside * tile.cols + (col % tileSide)];
  }

  /** @param {string} key */
  #touch(key) {
    const tile = this.tiles.get(key);
    if (!tile) return;
    this.tiles.delete(key);
    this.tiles.set(key, tile);
  }

  #abortAll() {
    for (const {abort} of this.running.values()) abort.abort();
    this.running.clear();
  }

  /** What is wanted and has neither come nor failed. */
  #missing() {
    return stripsOf(
        this.wanted, this.size, (id, band) => !this.get(id)?.ready[band]);
  }

  /**
   * Whether a running request brings a part of a strip.
   * @param {Strip} strip
   */
  #isRunning(strip) {
    return [...this.running.values()].some(
        ({strip: other}) => other.level === strip.level &&
            other.tileRow === strip.tileRow && other.band === strip.band &&
            other.colBegin < strip.colEnd && strip.colBegin < other.colEnd);
  }

  #start() {
    const missing = this.#missing();
    for (const strip of missing) {
      if (this.running.size >= this.parallel) break;
      const key = stripKey(strip);
      if (this.failed.has(key) || this.#isRunning(strip)) continue;
      this.#load(key, strip);
    }
    this.#report(missing.length);
  }

  /** @param {number} missing */
  #report(missing) {
    const all =
        this.wanted.reduce((sum, id) => sum + bandCount(id, this.size), 0);
    const come = this.wanted.reduce(
        (sum, id) => sum + (this.get(id)?.ready.filter(Boolean).length ?? 0),
        0);
    this.dispatchEvent(new CustomEvent('progress', {
      detail: {
        done: come,
        total: all,
        failed: this.failed.size,
        idle: missing === 0 || this.running.size === 0
      }
    }));
  }

  /** @param {string} key @param {Strip} strip */
  async #load(key, strip) {
    const abort = new AbortController();
    const entry = {strip, abort};
    this.running.set(key, entry);
    const {queryBegin, queryEnd, keyBegin, keyEnd, tile} = strip;
    try {
      const pooled = await this.loadStrip({
        queryBegin,
        queryEnd,
        keyBegin,
        keyEnd,
        tile,
        pooling: this.pooling,
        signal: abort.signal
      });
      if (!abort.signal.aborted) this.#keep(strip, pooled);
    } catch (error) {
      if (!abort.signal.aborted) {
        this.failed.add(key);
        this.dispatchEvent(new CustomEvent('failure', {detail: {error}}));
      }
    }
    // After a reset another request may have this key.
    if (this.running.get(key) === entry) this.running.delete(key);
    this.#start();
  }

  /** Puts the parts of a strip into its tiles. @param {Strip} strip
   * @param {Pooled} pooled */
  #keep(strip, pooled) {
    const rows = Math.ceil((strip.queryEnd - strip.queryBegin) / strip.tile);
    const cols = Math.ceil((strip.keyEnd - strip.keyBegin) / strip.tile);
    if (pooled.rows !== rows || pooled.cols !== cols ||
        pooled.data.length !== rows * cols) {
      throw new RangeError(
          `strip is ${pooled.rows} x ${pooled.cols}; expected ${rows} x ${
              cols}`,
      );
    }
    const first = strip.band * bandCells(strip.level);
    for (const id of idsOf(strip)) {
      const tile = this.#tileFor(id);
      const offset = (id.col - strip.colBegin) * tileSide;
      for (let row = 0; row < rows; ++row) {
        const begin = row * cols + offset;
        tile.values.set(
            pooled.data.subarray(begin, begin + tile.cols),
            (first + row) * tile.cols);
      }
      tile.ready[strip.band] = true;
      ++tile.version;
    }
    this.#widen(strip.level, pooled.data);
    this.#evict();
    this.dispatchEvent(new CustomEvent('change'));
  }

  /** @param {TileId} id @returns {Tile} */
  #tileFor(id) {
    const known = this.get(id);
    if (known) return known;
    const {rows, cols} = tileCells(id, this.size);
    const bands = bandCount(id, this.size);
    const tile = {
      id,
      rows,
      cols,
      values: new Float32Array(rows * cols),
      ready: Array(bands).fill(false),
      version: 0
    };
    this.tiles.set(tileKey(id), tile);
    return tile;
  }

  /** @param {number} level @param {ArrayLike<number>} data */
  #widen(level, data) {
    let [low, high] = this.ranges.get(level) ?? [Infinity, -Infinity];
    for (let i = 0; i < data.length; ++i) {
      if (!Number.isFinite(data[i])) continue;
      low = Math.min(low, data[i]);
      high = Math.max(high, data[i]);
    }
    if (low <= high) this.ranges.set(level, [low, high]);
  }

  /** Drops what was used longest ago, and never what is wanted. */
  #evict() {
    const wanted = new Set(this.wanted.map(tileKey));
    for (const key of this.tiles.keys()) {
      if (this.tiles.size <= this.capacity) return;
      if (!wanted.has(key)) this.tiles.delete(key);
    }
  }
}

/**
 * The tiles that a strip goes through.
 * @param {Strip} strip
 * @returns {TileId[]}
 */
function idsOf({level, tileRow, colBegin, colEnd}) {
  return Array.from(
      {length: colEnd - colBegin},
      (_, i) => ({level, row: tileRow, col: colBegin + i}));
}
