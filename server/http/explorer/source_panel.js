// @ts-check
// Where the tensors come from: the choice of a source, and what each source
// asks for.

import {el, fill} from './dom.js';
import {formatMatrix, parseMatrix} from './sources.js';
import {PRESETS} from './state.js';

/** @typedef {import('./state.js').Patch} Patch */
/** @typedef {import('./state.js').Store} Store */
/** @typedef {import('./sources.js').Source} Source */

/** @type {[string, string][]} */
const KINDS = [
  ['story', 'A sentence'],
  ['example', 'Five tokens'],
  ['toy', 'By hand'],
  ['file', 'My file'],
  ['long', 'A long sequence'],
];
const TYPING_MS = 250;
const MOST_TOKENS = 8;
const MOST_FEATURES = 6;

/** Event `file` with a File. */
export class SourcePanel extends EventTarget {
  /** @param {HTMLElement} container @param {Store} store */
  constructor(container, store) {
    super();
    this.store = store;
    this.form = el('div', {class: 'source-form'});
    this.picks = el('div', {class: 'picks'});
    this.kinds = el('div', {class: 'kinds', role: 'group',
                            'aria-label': 'Where queries and keys come from'},
        ...KINDS.map(([kind, words]) => el('button', {
          type: 'button', text: words, 'data-testid': `source-${kind}`,
          'data-kind': kind,
          onclick: () => this.#choose(kind)})));
    fill(container, this.kinds, this.form, this.picks);
    /** @type {string} What the form was made for. */
    this.shown = '';
    this.fileName = '';
    this.#acceptDrops();
  }

  /** @param {string} kind */
  #choose(kind) {
    if (this.store.state.source === kind) return;
    this.store.set({source: kind, ...PRESETS[kind]});
  }

  /** @param {Patch} state @param {Source | null} source */
  update(state, source) {
    for (const button of this.kinds.children) {
      const kind = /** @type {HTMLElement} */ (button).dataset.kind;
      button.setAttribute('aria-pressed', String(kind === state.source));
    }
    const kind = String(state.source);
    // The toy's grid is made anew only where its shape changes, so that typing
    // in it goes on.
    const shape = kind === 'toy' ? [state.toyQ, state.toyK, state.toyV]
        .map((text) => String(text).replace(/[^,;]/g, '')).join(' ') : '';
    if (this.shown !== kind + shape) {
      this.shown = kind + shape;
      fill(this.form, ...this.#make(kind));
    }
    this.#refresh(state, kind);
    this.#offer(state, source);
  }

  /** @param {string} kind @returns {HTMLElement[]} */
  #make(kind) {
    switch (kind) {
      case 'story': return [this.#storyForm()];
      case 'toy': return this.#toyForm();
      case 'file': return [this.#fileForm()];
      case 'long': return [this.#longForm()];
      default: return [el('p', {class: 'hint', text:
          'The published five-token matrix. Its queries are such that softmax ' +
          'of the scaled scores gives its four digits back; its values are unit ' +
          'rows, so the output shows them once more.'})];
    }
  }

  #storyForm() {
    let timer = 0;
    const input = /** @type {HTMLInputElement} */ (el('input', {
      type: 'text', id: 'story-text', 'data-testid': 'story-text',
      maxlength: 400, autocomplete: 'off', spellcheck: 'false',
      oninput: () => {
        clearTimeout(timer);
        timer = window.setTimeout(
            () => this.store.set({text: input.value, row: -1}), TYPING_MS);
      }}));
    return el('div', {class: 'wide-field'},
        el('label', {for: 'story-text', text: 'Sentence'}), input);
  }

  #toyForm() {
    const {state} = this.store;
    const grids = ['toyQ', 'toyK', 'toyV'].map((field) =>
        this.#grid(field, parseMatrix(String(state[field]))));
    const button = (/** @type {string} */ id, /** @type {string} */ text,
                    /** @type {() => void} */ onclick) =>
        el('button', {type: 'button', class: 'small', 'data-testid': id, text,
                      onclick});
    return [
      el('div', {class: 'grids'}, ...grids),
      el('div', {class: 'buttons'},
          button('toy-add-token', 'Add a token', () => this.#resize(1, 0)),
          button('toy-remove-token', 'Remove a token', () => this.#resize(-1, 0)),
          button('toy-add-feature', 'Add a feature', () => this.#resize(0, 1)),
          button('toy-remove-feature', 'Remove a feature', () => this.#resize(0, -1))),
    ];
  }

  /** @param {string} field @param {number[][]} rows */
  #grid(field, rows) {
    const name = field.slice(3);
    const words = {Q: 'Queries', K: 'Keys', V: 'Values'}[name] ?? name;
    const grid = el('fieldset', {class: 'grid'}, el('legend', {text: words}),
        ...rows.flatMap((row, token) => row.map((_, feature) => el('input', {
          type: 'number', step: 'any',
          'data-testid': `toy-${name.toLowerCase()}-${token}-${feature}`,
          'data-place': `${field} ${token} ${feature}`,
          'aria-label': `${words}, token ${token}, feature ${feature}`,
          oninput: (/** @type {Event} */ event) =>
              this.#edit(field, token, feature, event)}))));
    grid.style.setProperty('--columns', String(rows[0].length));
    return grid;
  }

  /** @param {string} field @param {number} token @param {number} feature @param {Event} event */
  #edit(field, token, feature, event) {
    const {value} = /** @type {HTMLInputElement} */ (event.target);
    // While a number is half typed there is none.
    if (value === '' || !Number.isFinite(Number(value))) return;
    const rows = parseMatrix(String(this.store.state[field]));
    rows[token][feature] = Number(value);
    this.store.set({[field]: formatMatrix(rows)});
  }

  /** @param {number} tokens More of them. @param {number} features */
  #resize(tokens, features) {
    /** @type {Patch} */
    const patch = {row: -1};
    for (const field of ['toyQ', 'toyK', 'toyV']) {
      const rows = parseMatrix(String(this.store.state[field]));
      const height = rows.length + tokens;
      const width = rows[0].length + features;
      if (height < 1 || width < 1 || height > MOST_TOKENS ||
          width > MOST_FEATURES) {
        return;
      }
      patch[field] = formatMatrix(Array.from({length: height}, (_, row) =>
          Array.from({length: width}, (_, column) => rows[row]?.[column] ?? 0)));
    }
    this.store.set(patch);
  }

  #fileForm() {
    const input = /** @type {HTMLInputElement} */ (el('input', {
      type: 'file', id: 'file-input', 'data-testid': 'file-input',
      accept: '.npz,.safetensors',
      onchange: () => input.files?.[0] && this.#open(input.files[0])}));
    return el('div', {class: 'drop'},
        el('label', {for: 'file-input', text: 'An .npz or .safetensors file'}),
        input,
        el('p', {class: 'hint', 'data-testid': 'file-name', text: ''}),
        el('p', {class: 'hint', text:
            'It has q, k and v, [batch, head, sequence, feature] or without the ' +
            'first axes. It may have bias, mask, sink, head_gate, log_scale, ' +
            'd_output and score_weight, score_v, score_query_weight, ' +
            'score_key_weight, score_query_bias. Or drop it anywhere on the page.'}));
  }

  #longForm() {
    const select = /** @type {HTMLSelectElement} */ (el('select', {
      id: 'long-tokens', 'data-testid': 'long-tokens',
      onchange: () => this.store.set({longTokens: select.value})},
        ...['1024', '4096', '8192', '16384', '32768'].map((value) =>
            el('option', {value, text: `${value} × ${value}`}))));
    return el('div', {class: 'wide-field'},
        el('label', {for: 'long-tokens', text: 'Scores'}), select,
        el('p', {class: 'hint', text:
            'A synthetic sequence with near and far structure, passages on ' +
            'recurring topics and a few landmarks. It is sent to the server once; ' +
            'what you look at is computed there, tile by tile.'}));
  }

  /** Values into the form that is there. @param {Patch} state @param {string} kind */
  #refresh(state, kind) {
    const find = (/** @type {string} */ id) =>
        /** @type {HTMLInputElement | null} */ (
            this.form.querySelector(`[data-testid="${id}"]`));
    const put = (/** @type {HTMLInputElement | null} */ input,
                 /** @type {string} */ value) => {
      if (input && document.activeElement !== input && input.value !== value) {
        input.value = value;
      }
    };
    if (kind === 'story') put(find('story-text'), String(state.text));
    if (kind === 'long') put(find('long-tokens'), String(state.longTokens));
    if (kind === 'file') {
      const name = find('file-name');
      if (name) name.textContent = this.fileName;
    }
    if (kind !== 'toy') return;
    for (const input of this.form.querySelectorAll('[data-place]')) {
      const place = /** @type {HTMLElement} */ (input).dataset.place ?? '';
      const [field, token, feature] = place.split(' ');
      const rows = parseMatrix(String(state[field]));
      put(/** @type {HTMLInputElement} */ (input),
          String(rows[Number(token)][Number(feature)]));
    }
  }

  /** Layer, batch entry and head, where there are several. @param {Patch} state @param {Source | null} source */
  #offer(state, source) {
    const counts = /** @type {[string, string, number][]} */ ([
      ['layer', 'Layer', source?.layers ?? 1],
      ['batch', 'Batch', source?.batches ?? 1],
      ['head', 'Head', source?.queryHeads ?? 1],
    ]);
    for (const [field, words, count] of counts) {
      this.#pick(field, words, count, Number(state[field]));
    }
  }

  /** @param {string} field @param {string} words @param {number} count @param {number} value */
  #pick(field, words, count, value) {
    const id = `pick-${field}`;
    let select = /** @type {HTMLSelectElement | null} */ (
        this.picks.querySelector(`#${id}`));
    if (!select) {
      select = /** @type {HTMLSelectElement} */ (el('select', {
        id, 'data-testid': id,
        onchange: (/** @type {Event} */ event) => this.store.set({
          [field]: /** @type {HTMLSelectElement} */ (event.target).value})}));
      this.picks.append(el('div', {class: 'pick'},
          el('label', {for: id, text: words}), select));
    }
    const parent = /** @type {HTMLElement} */ (select.parentElement);
    parent.hidden = count < 2;
    if (select.options.length !== count) {
      fill(select, ...Array.from({length: count}, (_, index) =>
          el('option', {value: String(index), text: String(index)})));
    }
    select.value = String(Math.min(value, count - 1));
  }

  #acceptDrops() {
    addEventListener('dragover', (event) => {
      event.preventDefault();
      document.body.classList.add('dropping');
    });
    addEventListener('dragleave', (event) => {
      if (!event.relatedTarget) document.body.classList.remove('dropping');
    });
    addEventListener('drop', (event) => {
      event.preventDefault();
      document.body.classList.remove('dropping');
      const file = event.dataTransfer?.files[0];
      if (file) this.#open(file);
    });
  }

  /** @param {File} file */
  #open(file) {
    this.fileName = `${file.name}, ${Math.ceil(file.size / 1024)} KiB`;
    this.dispatchEvent(new CustomEvent('file', {detail: file}));
  }
}
