// @ts-check
// Controls of the stages, as a table, and the elements that it becomes. Each
// element has data-testid "control-" and the name of its field.

import {el, number} from './dom.js';
import {FIELDS} from './state.js';
import {missing} from './spec.js';

/** @typedef {import('./state.js').Patch} Patch */
/** @typedef {import('./state.js').Store} Store */
/** @typedef {import('./sources.js').Source} Source */

/**
 * @typedef {object} ControlRow
 * @property {string} field
 * @property {'select' | 'slider' | 'toggle' | 'number' | 'text'} kind
 * @property {string} label
 * @property {Record<string, string>} [words] Of the choices.
 * @property {(state: Patch) => boolean} [when] Whether it is shown.
 * @property {boolean} [more] Whether it is put away under "more".
 * @property {[number, number, number]} [range] Of a slider: low, high, step.
 * @property {boolean} [logarithmic]
 * @property {(source: Source) => number} [most] Of a slider, by the source.
 * @property {string} [zero] What 0 means.
 */

/** @param {string} field @param {...string} values */
const is = (field, ...values) =>
    (/** @type {Patch} */ state) => values.includes(String(state[field]));
/** @param {string} field */
const on = (field) => (/** @type {Patch} */ state) => state[field] === true;

/** @type {Record<string, ControlRow[]>} */
export const CONTROLS = {
  score: [
    {
      field: 'score', kind: 'select', label: 'Score function',
      words: {
        dot: 'dot product', cosine: 'cosine', squared_l2: '−|q − k|² (Gaussian)',
        l2: '−|q − k|', l1: '−Σ|q − k| (Laplace)', bilinear: 'bilinear q W k',
        additive: 'additive', concat: 'concat', trilinear: 'trilinear',
      },
    },
    {
      field: 'activation', kind: 'select', label: 'Activation',
      when: is('score', 'additive', 'concat'),
    },
    {field: 'rotary', kind: 'toggle', label: 'Rotary positions'},
    {
      field: 'norm', kind: 'select', label: 'Norm of q and k',
      words: {none: 'none', l2: 'to length 1', rms: 'RMS'},
    },
    {
      field: 'rotaryBase', kind: 'number', label: 'Rotary base',
      when: on('rotary'), more: true,
    },
  ],
  scale: [
    {
      field: 'scaleMode', kind: 'select', label: 'Scale',
      words: {
        standard: 'on: 1/√d for dot', off: 'off: × 1', custom: 'a number of mine',
      },
    },
    {
      field: 'scale', kind: 'slider', label: 'Factor', range: [-2, 4, 0.01],
      when: is('scaleMode', 'custom'),
    },
    {field: 'softcapOn', kind: 'toggle', label: 'Soft cap'},
    {
      field: 'softcap', kind: 'slider', label: 'Cap', range: [0.1, 50, 0.01],
      logarithmic: true, when: on('softcapOn'),
    },
  ],
  mask: [
    {field: 'causal', kind: 'toggle', label: 'Causal'},
    {field: 'windowOn', kind: 'toggle', label: 'Window'},
    {
      field: 'left', kind: 'slider', label: 'Keys to the left',
      range: [0, 32, 1], most: (source) => source.keys - 1, when: on('windowOn'),
    },
    {
      field: 'right', kind: 'slider', label: 'Keys to the right',
      range: [0, 32, 1], most: (source) => source.keys - 1, when: on('windowOn'),
    },
    {
      field: 'padding', kind: 'slider', label: 'Padding',
      range: [0, 32, 1], most: (source) => source.keys, zero: 'none',
    },
    {
      field: 'bias', kind: 'select', label: 'Bias',
      words: {
        none: 'none', alibi: 'ALiBi: nearer is better', constant: 'a constant',
        dense: 'a matrix (from the file)',
      },
    },
    {
      field: 'slope', kind: 'slider', label: 'Slope', range: [0, 2, 0.01],
      zero: 'as published', when: is('bias', 'alibi'),
    },
    {
      field: 'constant', kind: 'slider', label: 'Constant', range: [-5, 5, 0.1],
      when: is('bias', 'constant'),
    },
    {
      field: 'pattern', kind: 'select', label: 'Pattern', more: true,
      words: {
        none: 'none', prefix: 'prefix', global: 'global tokens',
        dilated: 'dilated', strided: 'strided', fixed: 'fixed',
        longformer: 'Longformer', streaming: 'streaming with sinks',
        big_bird: 'BigBird', program: 'a program', dense: 'a matrix (file)',
      },
    },
    {
      field: 'patternSize', kind: 'number', label: 'Size', more: true,
      when: is('pattern', 'prefix', 'dilated', 'strided', 'fixed', 'longformer',
               'streaming', 'big_bird'),
    },
    {
      field: 'patternCount', kind: 'number', label: 'Count', more: true,
      when: is('pattern', 'global', 'fixed', 'longformer', 'streaming',
               'big_bird'),
    },
    {
      field: 'maskProgram', kind: 'text', label: 'Allowed where', more: true,
      when: is('pattern', 'program'),
    },
    {
      field: 'scoreProgram', kind: 'text', label: 'Score program', more: true,
    },
    {
      field: 'alignment', kind: 'select', label: 'Diagonal', more: true,
      words: {
        automatic: 'automatic', top_left: 'top left', bottom_right: 'bottom right',
      },
    },
  ],
  normalise: [
    {
      field: 'temperature', kind: 'slider', label: 'Temperature',
      range: [0.05, 20, 0.01], logarithmic: true,
    },
    {
      field: 'normalizer', kind: 'select', label: 'Normaliser',
      words: {
        softmax: 'softmax', softmax_plus: 'softmax plus n', sparsemax: 'sparsemax',
        entmax: 'entmax', sigmoid: 'sigmoid', relu: 'ReLU',
        divisive: 'ReLU / its sum', hard: 'hard: the largest', identity: 'none',
      },
    },
    {
      field: 'alpha', kind: 'slider', label: 'α', range: [1, 3, 0.01],
      when: is('normalizer', 'entmax'),
    },
    {
      field: 'sinkOn', kind: 'toggle', label: 'Sink',
      when: is('normalizer', 'softmax'),
    },
    {
      field: 'sink', kind: 'slider', label: 'Sink logit', range: [-8, 8, 0.1],
      when: (state) => state.normalizer === 'softmax' && state.sinkOn === true,
    },
    {
      field: 'plus', kind: 'slider', label: 'n', range: [0.01, 100, 0.01],
      logarithmic: true, when: is('normalizer', 'softmax_plus'),
    },
    {
      field: 'sigmoidBias', kind: 'slider', label: 'Bias', range: [-8, 8, 0.1],
      when: is('normalizer', 'sigmoid'),
    },
    {
      field: 'power', kind: 'slider', label: 'Power', range: [0.5, 4, 0.1],
      when: is('normalizer', 'relu'),
    },
    {
      field: 'divisor', kind: 'select', label: 'Divided by',
      words: {one: '1', visible_keys: 'visible keys'},
      when: is('normalizer', 'sigmoid', 'relu'),
    },
    {
      field: 'topK', kind: 'slider', label: 'Top-k', range: [0, 32, 1],
      most: (source) => source.keys, zero: 'all',
    },
    {
      field: 'topP', kind: 'slider', label: 'Top-p', range: [0.01, 1, 0.01],
      more: true,
    },
    {
      field: 'belowMax', kind: 'slider', label: 'Within so much of the largest',
      range: [0, 20, 0.1], zero: 'off', more: true,
    },
    {
      field: 'weightProgram', kind: 'text', label: 'Weight program', more: true,
    },
  ],
  mix: [
    {
      field: 'view', kind: 'select', label: 'Look at',
      words: {
        weights: 'weights', contribution: 'contribution: weight × |v|',
        gradient: 'gradient × weight',
      },
    },
    {
      field: 'loss', kind: 'select', label: 'Gradient of',
      words: {
        square: '½ |output|²', sum: 'Σ output', file: 'd_output (file)',
      },
      when: is('view', 'gradient'),
    },
    {
      field: 'dropout', kind: 'slider', label: 'Dropout', range: [0, 0.9, 0.01],
      zero: 'none',
    },
    {
      field: 'seed', kind: 'number', label: 'Seed',
      when: (state) => Number(state.dropout) > 0,
    },
  ],
};

/**
 * Whether a field has a say in what is computed, as far as its control knows.
 * @param {string} field
 * @param {Patch} state
 */
export function inUse(field, state) {
  const row = Object.values(CONTROLS).flat().find((each) => each.field === field);
  return !row?.when || row.when(state);
}

/** Steps of a logarithmic slider. */
const LOG_STEPS = 400;

/** One control: its elements, kept in step with the store. */
export class Control {
  /** @param {ControlRow} row @param {Store} store */
  constructor(row, store) {
    this.row = row;
    this.store = store;
    const {field, kind, label} = row;
    const id = `control-${field}`;
    const common = {id, 'data-testid': id};
    /** @type {HTMLInputElement | HTMLSelectElement} */
    let input;
    /** @type {HTMLInputElement | null} The number beside a slider. */
    this.exact = null;
    const set = (/** @type {any} */ value) => store.set({[field]: value});
    if (kind === 'select') {
      input = /** @type {HTMLSelectElement} */ (el('select', common,
          ...(FIELDS[field].choices ?? []).map((value) => el('option', {
            value, text: row.words?.[value] ?? value}))));
      input.addEventListener('change', () => set(input.value));
    } else if (kind === 'toggle') {
      const box = /** @type {HTMLInputElement} */ (el('input', {
        ...common, type: 'checkbox', role: 'switch'}));
      box.addEventListener('change', () => set(box.checked));
      input = box;
    } else if (kind === 'slider') {
      input = /** @type {HTMLInputElement} */ (el('input', {
        ...common, type: 'range'}));
      input.addEventListener('input', () => set(this.#value()));
      this.exact = /** @type {HTMLInputElement} */ (el('input', {
        type: 'number', class: 'exact', step: 'any',
        'data-testid': `${id}-number`, 'aria-label': `${label}, as a number`}));
      this.exact.addEventListener(
          'change', () => set(this.exact?.value ?? ''));
    } else {
      input = /** @type {HTMLInputElement} */ (el('input', {
        ...common, type: kind, step: 'any', spellcheck: 'false'}));
      input.addEventListener('change', () => set(input.value));
    }
    this.input = input;
    this.zero = el('span', {class: 'zero', 'aria-hidden': 'true'});
    this.element = el('div', {class: `control ${kind}`},
        el('label', {for: id, text: label}), this.zero, this.exact, input);
  }

  /** What the slider stands at. */
  #value() {
    const raw = Number(this.input.value);
    if (!this.row.logarithmic || !this.row.range) return raw;
    const [low, high] = this.row.range;
    const value = low * (high / low) ** (raw / LOG_STEPS);
    // The middle of a symmetric range is reached exactly.
    return Math.abs(value - 1) < 0.008 ? 1 : Number(value.toPrecision(3));
  }

  /** @param {Patch} state @param {Source | null} source */
  update(state, source) {
    const {row, input} = this;
    const value = state[row.field];
    this.element.hidden = row.when ? !row.when(state) : false;
    if (row.kind === 'toggle') {
      /** @type {HTMLInputElement} */ (input).checked = value === true;
    } else if (row.kind === 'slider') {
      this.#slide(Number(value), source);
    } else if (input.value !== String(value)) {
      input.value = String(value);
    }
    if (row.kind === 'select') this.#offer(source);
  }

  /** @param {number} value @param {Source | null} source */
  #slide(value, source) {
    const {row} = this;
    const input = /** @type {HTMLInputElement} */ (this.input);
    const [low, high, step] = row.range ?? [0, 1, 0.01];
    if (row.logarithmic) {
      input.min = '0';
      input.max = String(LOG_STEPS);
      input.step = '1';
      const share = Math.log(value / low) / Math.log(high / low);
      input.value = String(Math.round(LOG_STEPS * share));
    } else {
      input.min = String(low);
      input.max = String(row.most && source ? Math.max(1, row.most(source)) : high);
      input.step = String(step);
      input.value = String(value);
    }
    const word = value === 0 && row.zero ? row.zero : '';
    input.setAttribute('aria-valuetext', word || number(value, 3));
    this.zero.textContent = word;
    if (this.exact && document.activeElement !== this.exact) {
      this.exact.value = String(value);
    }
    this.#fill(input);
  }

  /** The part of the track up to the thumb. @param {HTMLInputElement} input */
  #fill(input) {
    const [low, high] = [Number(input.min), Number(input.max)];
    const share = (Number(input.value) - low) / (high - low || 1);
    input.style.setProperty('--share', `${100 * share}%`);
  }

  /** Choices whose tensors the source lacks are not on offer. @param {Source | null} source */
  #offer(source) {
    const extras = source?.extras ?? new Map();
    const select = /** @type {HTMLSelectElement} */ (this.input);
    for (const option of select.options) {
      const needs = missing(this.row.field, option.value, extras);
      option.disabled = needs.length > 0;
      option.title = needs.length > 0
          ? `needs ${needs.join(' and ')} from a file` : '';
    }
  }
}

/**
 * The controls of a stage, the rarer ones under "more".
 * @param {string} stage
 * @param {Store} store
 * @returns {{element: HTMLElement, controls: Control[]}}
 */
export function controlsOf(stage, store) {
  const controls = CONTROLS[stage].map((row) => new Control(row, store));
  const element = el('div', {class: 'controls'});
  const rare = controls.filter((control) => control.row.more);
  element.append(...controls.filter((control) => !control.row.more)
      .map((control) => control.element));
  if (rare.length > 0) {
    element.append(el('details', {class: 'more'},
        el('summary', {text: 'more', 'aria-label': `more to ${stage}`,
                      'data-testid': `more-${stage}`}),
        ...rare.map((control) => control.element)));
  }
  return {element, controls};
}
