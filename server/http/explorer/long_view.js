// @ts-check
// A field of scores too large to be shown whole: its tiles are asked for as
// they are looked at, and one row of it is read out where it is chosen.

import {excludedOf, messageOf, rowsOf} from './answers.js';
import {byId, fill} from './dom.js';
import {partsOf} from './long_source.js';
import {buildPartCall} from './part_spec.js';
import {showRow} from './readouts.js';
import {decodeTensor, matrixAt} from './tensors.js';
import {TileExplorer} from './tiles.js';

/** @typedef {import('./state.js').Patch} Patch */
/** @typedef {import('./sources.js').Source} Source */
/** @typedef {import('./tile_loader.js').LoadStrip} LoadStrip */

const VIEWS = /** @type {Record<string, [string, string, 'weights' | 'logits']>} */ ({
  weights: ['INSPECT_VIEW_WEIGHTS', 'weights', 'weights'],
  logits: ['INSPECT_VIEW_MASKED_LOGITS', 'maskedLogits', 'logits'],
});

export class LongView {
  /** @param {import('./api.js').Api} api @param {import('./state.js').Store} store */
  constructor(api, store) {
    this.api = api;
    this.store = store;
    /** @type {TileExplorer | null} */
    this.tiles = null;
    /** @type {{state: Patch, source: Source} | null} */
    this.shown = null;
    /** @type {AbortController | null} */
    this.reading = null;
    /** The row that is read out. */
    this.row = 0;
    const look = /** @type {HTMLSelectElement} */ (byId('long-look'));
    look.addEventListener('change', () => store.set({longLook: look.value}));
  }

  /** @param {Patch} state @param {Source} source */
  show(state, source) {
    const before = this.shown;
    const look = String(state.longLook);
    if (this.tiles && before?.source.key === source.key &&
        before.state.longLook === look) {
      // The part that is looked at stays.
      this.shown = {state, source};
      this.tiles.reload();
      this.#read(this.row);
      return;
    }
    this.stop();
    this.shown = {state, source};
    /** @type {HTMLSelectElement} */ (byId('long-look')).value = look;
    this.tiles = new TileExplorer(byId('tiles'), {
      rows: source.queries,
      cols: source.keys,
      map: VIEWS[look][2],
      valueName: look === 'weights' ? 'weight' : 'logit',
      title: `${source.queries} × ${source.keys} ${look}`,
      loadStrip: (request) => this.#loadStrip(request),
    });
    this.tiles.addEventListener('select', (event) =>
        this.#read(/** @type {CustomEvent} */ (event).detail.row));
    this.tiles.addEventListener('failure', (event) =>
        this.#fail(/** @type {CustomEvent} */ (event).detail.error));
    byId('long-status').textContent = '';
    fill(byId('head'));
    fill(byId('row'));
    this.#read(source.queries - 1);
  }

  /** Shows the same in the look that is chosen now. */
  look() {
    if (this.shown) this.show(this.store.state, this.shown.source);
  }

  stop() {
    this.reading?.abort();
    this.tiles?.destroy();
    this.tiles = null;
    this.shown = null;
  }

  introduction() {
    const {queries = 0, keys = 0} = this.shown?.source ?? {};
    return `${(queries * keys).toLocaleString('en')} scores, of which none is ` +
        'kept: the server computes what you look at. Zoom with the wheel or + ' +
        'and −, move with a drag or the arrow keys; at the end of the zoom each ' +
        'cell is one score. Click a row to read its numbers.';
  }

  /** @param {unknown} error */
  #fail(error) {
    const place = byId('problem');
    place.textContent = messageOf(error);
    place.hidden = false;
  }

  /**
   * @param {import('./long_source.js').Kept} kept
   * @param {ReturnType<typeof partsOf>[number]} part
   * @param {object} question
   * @param {AbortSignal} signal
   */
  #inspect(kept, part, question, signal) {
    const {state, source} = /** @type {{state: Patch, source: Source}} */ (
        this.shown);
    const {queries, keys} = source;
    const kv = `${kept.name}.kv`;
    return this.api.inspect({
      ...buildPartCall(state, {
        first: part.first, count: part.count, queries, keys}),
      qLayer: {layer: part.layer, tensor: part.tensor},
      kLayer: {layer: kv, tensor: 'k'},
      vLayer: {layer: kv, tensor: 'v'},
      ...question,
    }, signal);
  }

  /** @type {LoadStrip} */
  async #loadStrip({queryBegin, queryEnd, keyBegin, keyEnd, tile, pooling, signal}) {
    const shown = this.shown;
    const kept = shown?.source.kept;
    if (!shown || !kept) throw new Error('nothing is shown');
    const [view, field] = VIEWS[String(shown.state.longLook)];
    const cols = Math.ceil((keyEnd - keyBegin) / tile);
    const rows = Math.ceil((queryEnd - queryBegin) / tile);
    const data = new Float32Array(rows * cols);
    let row = 0;
    const parts = partsOf(kept, shown.source.queries, queryBegin, queryEnd);
    for (const part of parts) {
      const answer = await this.#inspect(kept, part, {
        views: [view],
        window: {
          query: {begin: String(part.begin), end: String(part.end)},
          key: {begin: String(keyBegin), end: String(keyEnd)},
        },
        ...(tile === 1 ? {} : {
          tiles: {
            queryTile: String(tile),
            keyTile: String(tile),
            pooling: `POOLING_${pooling.toUpperCase()}`,
          },
        }),
      }, signal);
      const matrix = matrixAt(decodeTensor(answer[field]), 0, 0);
      data.set(matrix.data, row * cols);
      row += matrix.rows;
    }
    return {rows, cols, data};
  }

  /** The numbers of one row, exact. @param {number} row */
  async #read(row) {
    const shown = this.shown;
    const kept = shown?.source.kept;
    if (!shown || !kept) return;
    this.row = row;
    this.reading?.abort();
    this.reading = new AbortController();
    const {signal} = this.reading;
    const {state, source} = shown;
    const [part] = partsOf(kept, source.queries, row, row + 1);
    try {
      const answer = await this.#inspect(kept, part, {
        views: ['INSPECT_VIEW_WEIGHTS', 'INSPECT_VIEW_MASKED_LOGITS'],
        window: {query: {begin: String(part.begin), end: String(part.end)}},
      }, signal);
      if (signal.aborted) return;
      const all = rowsOf(answer.rowStatistics, 0, 0);
      for (const values of Object.values(all)) {
        values.splice(0, values.length, values[part.begin]);
      }
      const weights = matrixAt(decodeTensor(answer.weights), 0, 0);
      const logits = matrixAt(decodeTensor(answer.maskedLogits), 0, 0);
      showRow(byId('row'), {
        state, head: 0, batch: 0, logits, raw: logits, weights,
        source: {
          ...source,
          queryLabels: [String(row)],
          keyLabels: Array.from({length: source.keys}, (_, key) => String(key)),
        },
        excluded: excludedOf(logits),
        contribution: weights,
        rows: all,
        statistics: {},
        report: answer.report ?? {},
        milliseconds: 0,
      }, 0);
    } catch (error) {
      if (!signal.aborted) this.#fail(error);
    }
  }
}
