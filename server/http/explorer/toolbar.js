// @ts-check
// The line at the top: whether the server is there, the link to this page as it
// is, exports, and light or dark.

import {messageOf} from './answers.js';
import {byId, el, fill} from './dom.js';
import {figuresOf, STAGES} from './stages.js';
import {writeSetting} from './state.js';

/** @typedef {import('./answers.js').Result} Result */

const THEME_KEY = 'attn-theme';
const NOTICE_MS = 2500;

export class Toolbar {
  /**
   * @param {import('./state.js').Store} store
   * @param {import('./api.js').Api} api
   * @param {{result: () => Result | null, maps: () => any[],
   *     again: () => void}} page
   */
  constructor(store, api, page) {
    this.store = store;
    this.api = api;
    this.page = page;
    this.timer = 0;
    this.#listen('theme', () => this.#turn());
    this.#listen('link', () => this.#copyLink());
    this.#listen('export-png', () => this.#export('png'));
    this.#listen('export-svg', () => this.#export('svg'));
    this.#listen('export-npz', () => this.#export('npz'));
    this.#theme(localStorage.getItem(THEME_KEY) ?? 'auto');
    this.#watch();
    this.#askForToken();
  }

  /** @param {string} id @param {() => void} action */
  #listen(id, action) {
    byId(id).addEventListener('click', action);
  }

  /** @param {string} theme */
  #theme(theme) {
    const root = document.documentElement;
    if (theme === 'auto') delete root.dataset.theme;
    else root.dataset.theme = theme;
    const dark = this.#dark();
    const other = dark ? 'Light' : 'Dark';
    byId('theme').textContent = other;
    byId('theme').setAttribute('aria-label', `${other} page`);
  }

  #dark() {
    const chosen = document.documentElement.dataset.theme;
    if (chosen) return chosen === 'dark';
    return matchMedia('(prefers-color-scheme: dark)').matches;
  }

  #turn() {
    const theme = this.#dark() ? 'light' : 'dark';
    localStorage.setItem(THEME_KEY, theme);
    this.#theme(theme);
  }

  /** @param {string} text */
  notice(text) {
    const place = byId('notice');
    place.textContent = text;
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => {
      place.textContent = '';
    }, NOTICE_MS);
  }

  async #copyLink() {
    const link = this.store.permalink();
    try {
      await navigator.clipboard.writeText(link);
      this.notice('Link copied.');
    } catch {
      // Without leave to use the clipboard, the address line has it.
      this.notice('The link is in the address line.');
    }
  }

  /** @param {'png' | 'svg' | 'npz'} kind */
  async #export(kind) {
    const result = this.page.result();
    const maps = this.page.maps();
    if (!result && maps.length === 0) return;
    byId('exports').removeAttribute('open');
    try {
      const {savePng, saveSvg, saveNpz} = await import('./export.js');
      if (kind === 'png') await savePng(maps);
      else if (kind === 'svg') await saveSvg(maps);
      else if (result) await saveNpz(namedTensors(result));
      this.notice(`Saved as ${kind}.`);
    } catch (error) {
      this.notice(messageOf(error));
    }
  }

  #watch() {
    const place = byId('connection');
    const say = (/** @type {boolean} */ there, /** @type {string} */ text) => {
      place.dataset.there = String(there);
      fill(place, el('span', {class: 'dot', 'aria-hidden': 'true'}), text);
      document.body.classList.toggle('lost', !there);
    };
    say(true, 'Connected');
    this.api.addEventListener('connection', (event) => {
      const {there, message} = /** @type {CustomEvent} */ (event).detail;
      say(there, there ? 'Connected'
                       : `${message} Trying again…`);
      if (there) this.page.again();
    });
  }

  #askForToken() {
    const dialog = /** @type {HTMLDialogElement} */ (byId('token-dialog'));
    const input = /** @type {HTMLInputElement} */ (byId('token'));
    this.api.addEventListener('token', () => {
      if (!dialog.open) dialog.showModal();
    });
    dialog.addEventListener('close', () => {
      if (dialog.returnValue !== 'use' || !input.value) return;
      this.api.setToken(input.value.trim());
      input.value = '';
      this.page.again();
    });
  }
}

/**
 * Everything that is on screen of a result, and its inputs, by name.
 * @param {Result} result
 * @returns {Map<string, {shape: number[], data: any}>}
 */
export function namedTensors(result) {
  /** @type {Map<string, {shape: number[], data: any}>} */
  const tensors = new Map();
  for (const {id} of STAGES) {
    const {before, after} = figuresOf(result, id);
    for (const {name, matrix} of [...before, ...after]) {
      tensors.set(name, {shape: [matrix.rows, matrix.cols], data: matrix.data});
    }
  }
  tensors.set('contribution', {
    shape: [result.contribution.rows, result.contribution.cols],
    data: result.contribution.data,
  });
  for (const [name, values] of Object.entries(result.rows)) {
    tensors.set(`row_${name}`, {
      shape: [values.length], data: Float64Array.from(values)});
  }
  // Bytes of the setting, so that a file says what it is of.
  const setting = new TextEncoder().encode(writeSetting(result.state));
  tensors.set('setting', {
    shape: [setting.length], data: Int32Array.from(setting)});
  return tensors;
}
