// @ts-check
// Views beside the matrices: the heads of the layer, arcs between tokens, and
// entropy against temperature.

import {real} from './answers.js';
import {ArcView} from './arcs.js';
import {Curve} from './curve.js';
import {byId} from './dom.js';
import {HeadGrid} from './head_grid.js';

/** @typedef {import('./answers.js').Result} Result */

// Arcs of more tokens are a blot.
const MOST_ARC_TOKENS = 96;

export class SideViews {
  /** @param {import('./state.js').Store} store */
  constructor(store) {
    this.heads = new HeadGrid(byId('heads'));
    this.arcs = new ArcView(byId('arcs'));
    this.curve = new Curve(byId('curve'));
    this.heads.addEventListener('select', (event) =>
        store.set({head: /** @type {CustomEvent} */ (event).detail.head}));
    this.arcs.addEventListener('select', (event) =>
        store.set({row: /** @type {CustomEvent} */ (event).detail.row}));
    this.curve.addEventListener('select', (event) => {
      const {x} = /** @type {CustomEvent} */ (event).detail;
      store.set({temperature: Number(x.toPrecision(3))});
    });
  }

  /** @param {Result} result @param {number} row */
  show(result, row) {
    this.#showHeads(result);
    this.showArcs(result, row);
    this.#showCurve(result);
  }

  /** @param {Result} result */
  #showHeads(result) {
    const heads = result.detail?.heads;
    byId('heads-part').hidden = result.source.queryHeads < 2;
    if (!heads) return;
    const statistics = result.detail?.headStatistics ?? [];
    this.heads.show(heads.map(({head, matrix, masked}) => {
      const one = statistics.find((each) => real(each.head) === head) ?? {};
      return {
        head,
        matrix,
        masked: {data: masked},
        note: result.source.headNotes[head]?.kind ?? '',
        entropyRatio: real(one.meanEntropyRatio),
        dead: Boolean(one.dead),
        selected: head === result.head,
      };
    }));
  }

  /** @param {Result} result @param {number} row -1: none. */
  showArcs(result, row) {
    const {weights, source, state} = result;
    // Weights below 0 or above 1 are no arcs.
    const apt = weights.rows === weights.cols &&
        weights.rows <= MOST_ARC_TOKENS && state.normalizer !== 'identity';
    byId('arcs-part').hidden = !apt;
    if (!apt) return;
    this.arcs.show({
      tokens: source.keyLabels,
      weights: weights.data,
      row: row < 0 ? null : row,
    });
  }

  /** @param {Result} result */
  #showCurve(result) {
    const points = result.detail?.sweep;
    byId('curve-part').hidden = !points || points.length === 0;
    if (!points || points.length === 0) return;
    this.curve.show({
      points,
      xLabel: 'temperature',
      yLabel: 'mean entropy, nats',
      mark: Number(result.state.temperature),
    });
  }
}
