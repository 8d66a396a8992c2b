// @ts-check
// Two settings on the same tensors, side by side, and how they differ.

import {computeWeights, messageOf, real} from './answers.js';
import {byId, el, fill, number} from './dom.js';
import {NAMES, word} from './explain.js';
import {HeatMap} from './heatmap.js';
import {inputOf} from './panels.js';
import {weightFigure} from './stages.js';
import {readSetting, stageDefaults, writeSetting} from './state.js';

/** @typedef {import('./answers.js').Result} Result */

/** @type {[string, string][]} */
const MEASURES = [
  ['meanEntropy', 'Mean entropy, nats'],
  ['meanEntropyRatio', 'Share of the most'],
  ['meanPeakWeight', 'Mean peak'],
  ['maxPeakWeight', 'Largest peak'],
  ['meanVisibleKeys', 'Mean visible tokens'],
  ['meanEffectiveKeys', 'Mean effective tokens'],
  ['meanContribution', 'Mean Σ |weight| · |v|'],
];

export class Comparison {
  /** @param {import('./state.js').Store} store @param {import('./api.js').Api} api */
  constructor(store, api) {
    this.store = store;
    this.api = api;
    /** @type {AbortController | null} */
    this.running = null;
    /** @type {HeatMap[]} */
    this.maps = [];
    byId('compare-pin').addEventListener('click', () =>
        store.set({compare: writeSetting(store.state)}));
    byId('compare-swap').addEventListener('click', () => store.set({
      ...readSetting(String(store.state.compare)),
      compare: writeSetting(store.state)}));
    byId('compare-stop').addEventListener('click', () =>
        store.set({compare: ''}));
  }

  /** Shows the pinned setting, A, beside the one on screen, B. @param {Result | null} result */
  async show(result) {
    this.running?.abort();
    const pinned = String(this.store.state.compare);
    const open = pinned !== '' && result !== null;
    byId('compare-body').hidden = !open;
    for (const id of ['compare-swap', 'compare-stop']) byId(id).hidden = !open;
    byId('compare-pin').textContent = open ? 'Pin this in its place'
                                           : 'Pin this setting as A';
    if (!open || !result) return;
    this.running = new AbortController();
    const {signal} = this.running;
    const problem = byId('compare-problem');
    try {
      const state = {
        ...result.state, ...readSetting(pinned), view: 'weights'};
      const other =
          await computeWeights(this.api, state, result.source, signal);
      if (signal.aborted) return;
      problem.textContent = '';
      this.#draw(other, {...result, state: {...result.state, view: 'weights'}});
    } catch (error) {
      if (!signal.aborted) problem.textContent = messageOf(error);
    }
  }

  /** @param {Result} a @param {Result} b */
  #draw(a, b) {
    while (this.maps.length < 3) {
      const names = ['compare-a', 'compare-b', 'compare-difference'];
      const place = el('div', {class: 'panel', 'data-testid': names[this.maps.length]});
      byId('compare-maps').append(place);
      this.maps.push(new HeatMap(place));
    }
    const [first] = weightFigure(a);
    const [second] = weightFigure(b);
    const both = Float64Array.from(
        second.matrix.data, (value, cell) => value - first.matrix.data[cell]);
    // What neither may see differs by nothing.
    const excluded = a.excluded.map((x, cell) => x & b.excluded[cell]);
    const range = sharedRange(first.matrix.data, second.matrix.data);
    this.maps[0].show({...inputOf(first), title: 'A: pinned', range});
    this.maps[1].show({...inputOf(second), title: 'B: on screen', range});
    this.maps[2].show({
      ...inputOf({
        ...second,
        matrix: {...second.matrix, data: both},
        map: 'logits',
        excluded,
        name: 'difference',
      }),
      title: 'B − A',
      maskedValue: '0',
    });
    this.#tabulate(a, b);
  }

  /** @param {Result} a @param {Result} b */
  #tabulate(a, b) {
    const cell = (/** @type {number} */ value) =>
        el('td', {'data-value': value, text: number(value)});
    fill(byId('compare-table'),
        el('thead', {}, el('tr', {}, ...['Measure', 'A', 'B', 'B − A'].map((text) =>
            el('th', {scope: 'col', text})))),
        el('tbody', {}, ...MEASURES.map(([field, words]) => {
          const [x, y] = [real(a.statistics[field]), real(b.statistics[field])];
          return el('tr', {'data-measure': field},
              el('th', {scope: 'row', text: words}), cell(x), cell(y),
              cell(y - x));
        })));
    fill(byId('compare-settings'), 'A: ', settingWords(a.state), el('br'), 'B: ',
         settingWords(b.state));
  }
}

/** One range for both, so that a colour means one number. @param {ArrayLike<number>} a @param {ArrayLike<number>} b @returns {[number, number]} */
function sharedRange(a, b) {
  let [low, high] = [0, 0];
  for (const data of [a, b]) {
    for (let cell = 0; cell < data.length; ++cell) {
      if (!Number.isFinite(data[cell])) continue;
      low = Math.min(low, data[cell]);
      high = Math.max(high, data[cell]);
    }
  }
  return [low, high > low ? high : low + 1];
}

/** @param {import('./state.js').Patch} state @returns {string} */
function settingWords(state) {
  const first = stageDefaults();
  const words = Object.keys(first)
      .filter((field) => state[field] !== first[field])
      .map((field) => `${NAMES[field]} ${word(state[field])}`);
  return words.join(', ') || 'every setting as at first';
}
