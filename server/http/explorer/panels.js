// @ts-check
// The chosen stage, large: its matrices before and after side by side, with one
// row marked in all of them.

import {el, fill} from './dom.js';
import {HeatMap} from './heatmap.js';
import {figuresOf} from './stages.js';

/** @typedef {import('./answers.js').Result} Result */
/** @typedef {import('./stages.js').Figure} Figure */

// Digits in cells, where they have room: those of the worked example.
const DIGITS = 4;
const FEW_COLUMNS = 8;

/** @type {Record<string, string>} */
const NOTES = {
  weights: 'A weight is where this head looks, not an explanation of what the ' +
      'model says: a large weight on a small value adds little.',
  contribution: 'Weight × length of the value: how much of each value reaches ' +
      'the output. It still does not say what the output is used for.',
  gradient: 'Weight × slope of the loss: how much the loss would miss the ' +
      'weight, to first order. A different loss gives a different picture.',
};

/**
 * Events: `hover` with {row, name} (row -1: none), `select` with {row}.
 */
export class Panels extends EventTarget {
  /** @param {HTMLElement} container @param {HTMLElement} note */
  constructor(container, note) {
    super();
    this.container = container;
    this.note = note;
    /** @type {{element: HTMLElement, map: HeatMap, figure: Figure | null}[]} */
    this.slots = [];
  }

  /** @param {Result} result @param {string} stage */
  show(result, stage) {
    const {before, after} = figuresOf(result, stage);
    const figures = [...before, ...after];
    if (figures.length === 0) return;
    this.#fit(figures.length);
    this.container.dataset.count = String(figures.length);
    figures.forEach((figure, index) => {
      const slot = this.slots[index];
      slot.figure = figure;
      slot.element.dataset.testid = `panel-${figure.name}`;
      slot.element.classList.toggle('after', index >= before.length);
      slot.element.classList.toggle('features', !figure.perKey);
      slot.map.show(inputOf(figure));
    });
    this.#tell(result, stage);
  }

  /** @param {number} count */
  #fit(count) {
    while (this.slots.length > count) {
      const slot = this.slots.pop();
      slot?.map.destroy();
      slot?.element.remove();
    }
    while (this.slots.length < count) {
      const element = el('div', {class: 'panel'});
      this.container.append(element);
      const map = new HeatMap(element);
      const slot = {element, map, figure: /** @type {Figure | null} */ (null)};
      map.addEventListener('hover', (event) => this.#hover(slot, event));
      map.addEventListener('leave', () => this.#emit('hover', {row: -1}));
      map.addEventListener('select', (event) => {
        const {row} = /** @type {CustomEvent} */ (event).detail;
        if (!isOfKeys(slot.figure)) this.#emit('select', {row});
      });
      this.slots.push(slot);
    }
  }

  /** @param {{map: HeatMap, figure: Figure | null}} slot @param {Event} event */
  #hover(slot, event) {
    const {row, col} = /** @type {CustomEvent} */ (event).detail;
    if (isOfKeys(slot.figure)) return;
    for (const other of this.slots) {
      const alike = other.figure?.perKey && slot.figure?.perKey;
      if (other !== slot && alike) other.map.highlight({row, col});
    }
    this.#emit('hover', {row});
  }

  /** @param {string} type @param {any} detail */
  #emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, {detail}));
  }

  /** @param {Result} result @param {string} stage */
  #tell(result, stage) {
    const errors = result.detail?.errors ?? {};
    const wanted = {
      score: 'score', scale: 'scaled', mask: 'masked', mix: 'output',
    }[stage];
    const problem = (wanted && errors[wanted]) ||
        (result.state.view === 'gradient' && errors.gradient);
    const shown = stage === 'normalise' || stage === 'mix';
    fill(this.note, problem
        ? el('span', {class: 'problem', text: `The server refused: ${problem}`})
        : shown ? NOTES[String(result.state.view)] : '');
  }
}

/** Whether its rows are keys, not queries. @param {Figure | null} figure */
function isOfKeys(figure) {
  return figure?.name === 'k' || figure?.name === 'v';
}

/** @param {Figure} figure @returns {import('./heatmap.js').HeatInput} */
export function inputOf(figure) {
  const {matrix, map, title, rowLabels, excluded} = figure;
  const few = matrix.cols <= FEW_COLUMNS;
  return {
    matrix,
    map,
    title,
    rowLabels,
    colLabels: figure.colLabels.length > 0 ? figure.colLabels : undefined,
    masked: excluded ? {data: excluded} : null,
    valueName: figure.name.replace('_', ' × '),
    ...(few ? {format: digits} : {}),
  };
}

/** @param {number} value @returns {string} */
function digits(value) {
  // Without the sign of what is rounded to 0.
  const text = value.toFixed(DIGITS);
  return Number(text) === 0 ? (0).toFixed(DIGITS) : text.replace('-', '−');
}
