// @ts-check
// The page: a change of the state finds its source, asks the server, and shows
// the answers.

import {messageOf} from './answers.js';
import {Api, ApiError} from './api.js';
import {Computer} from './compute.js';
import {byId} from './dom.js';
import {explain, introduce} from './explain.js';
import {Panels} from './panels.js';
import {chosenRow, showHead, showHeadsTable, showReport, showRow,
  showRowsTable, showWarnings} from './readouts.js';
import {SourceLoader} from './source_loader.js';
import {SourcePanel} from './source_panel.js';
import {StageStrip} from './stages.js';
import {FIELDS, PRESETS, stageDefaults, Store} from './state.js';
import {Toolbar} from './toolbar.js';

/** @typedef {import('./answers.js').Result} Result */
/** @typedef {import('./sources.js').Source} Source */

// Fields whose change asks the server anew, beside those of the stages.
const ASKING = [
  'source', 'text', 'layer', 'head', 'batch', 'toyQ', 'toyK', 'toyV',
  'longTokens', 'view', 'loss',
];

// A change within this time goes on with the one before.
const TELLING_MS = 1200;

class Page {
  constructor() {
    this.api = new Api();
    this.store = new Store();
    this.loader = new SourceLoader(this.api);
    this.computer = new Computer(this.api);
    /** @type {Source | null} */
    this.source = null;
    /** @type {Result | null} */
    this.result = null;
    /** @type {Result | null} What the sentence of changes is told from. */
    this.told = null;
    this.telling = 0;
    this.wish = 0;
    // Asked first, so that the answer is on its way while the page is made.
    this.ask();
    this.strip = new StageStrip(byId('strip'), this.store);
    this.sourcePanel = new SourcePanel(byId('source'), this.store);
    this.panels = new Panels(byId('panels'), byId('panels-note'));
    /** @type {import('./side_views.js').SideViews | null} */
    this.side = null;
    /** @type {import('./compare.js').Comparison | null} */
    this.comparison = null;
    /** @type {import('./long_view.js').LongView | null} */
    this.long = null;
    /** @type {import('./decode_view.js').DecodeView | null} */
    this.decode = null;
    this.toolbar = new Toolbar(this.store, this.api, {
      result: () => this.result,
      maps: () => this.#maps(),
      again: () => {
        this.loader.again();
        this.ask();
      },
    });
    this.#listen();
    this.#update();
  }

  #listen() {
    this.store.subscribe(({changed}) => {
      this.#update();
      const asks = changed.some(
          (field) => FIELDS[field].stage || ASKING.includes(field));
      if (asks) this.ask();
      else this.#redraw(changed);
    });
    this.computer.addEventListener('weights', (event) =>
        this.#showWeights(/** @type {CustomEvent} */ (event).detail));
    this.computer.addEventListener('result', (event) =>
        this.#showResult(/** @type {CustomEvent} */ (event).detail));
    this.computer.addEventListener('failure', (event) =>
        this.#fail(/** @type {CustomEvent} */ (event).detail));
    this.computer.addEventListener('busy', (event) => {
      byId('panels-part').setAttribute(
          'aria-busy', String(/** @type {CustomEvent} */ (event).detail));
    });
    this.panels.addEventListener('hover', (event) => {
      const {row} = /** @type {CustomEvent} */ (event).detail;
      this.#showRow(row >= 0 ? row : Number(this.store.state.row));
    });
    this.panels.addEventListener('select', (event) =>
        this.store.set({row: /** @type {CustomEvent} */ (event).detail.row}));
    this.sourcePanel.addEventListener('file', (event) =>
        this.#openFile(/** @type {CustomEvent} */ (event).detail));
    byId('reset').addEventListener('click', () => this.store.set({
      ...stageDefaults(), ...PRESETS[String(this.store.state.source)],
      head: this.store.state.head}));
    byId('numbers').addEventListener('toggle', () => this.#showNumbers());
    byId('decode-part').addEventListener('toggle', () => this.#showDecode());
  }

  /** Controls as the state has them. */
  #update() {
    this.strip.update(this.store.state, this.source);
    this.sourcePanel.update(this.store.state, this.source);
  }

  /** Finds the source, and asks for what is to be seen of it. */
  async ask() {
    const wish = ++this.wish;
    const {state} = this.store;
    try {
      const source = await this.loader.load(
          state, (share) => this.#progress(share));
      if (wish !== this.wish) return;
      if (!source) {
        this.#say('Choose an .npz or .safetensors file, or drop one on the page.');
        return;
      }
      this.source = source;
      this.#update();
      document.body.classList.toggle('long', Boolean(source.kept));
      byId('long-part').hidden = !source.kept;
      if (source.kept) {
        await this.#showLong(source);
      } else {
        this.long?.stop();
        this.computer.request(this.store.state, source);
      }
    } catch (error) {
      if (wish === this.wish) this.#fail(error);
    }
  }

  /** @param {Source} source */
  async #showLong(source) {
    this.computer.cancel();
    clearTimeout(this.telling);
    this.result = this.told = null;
    await this.decode?.leave('The source changed, so the session was closed.');
    this.strip.show(null);
    byId('warnings').hidden = true;
    byId('long-progress').hidden = true;
    const {LongView} = await import('./long_view.js');
    this.long ??= new LongView(this.api, this.store);
    byId('problem').hidden = true;
    this.long.show(this.store.state, source);
    this.#say(this.long.introduction());
  }

  /** @param {number} share */
  #progress(share) {
    const bar = /** @type {HTMLProgressElement} */ (byId('long-progress'));
    byId('long-part').hidden = false;
    bar.hidden = share >= 1;
    bar.value = share;
    byId('long-status').textContent = share >= 1 ? ''
        : `Sending the sequence to the server: ${Math.round(100 * share)} %`;
  }

  /** The first that there is: matrices, row, head. @param {Result} result */
  #showWeights(result) {
    // Until its own detail is there, a setting is shown with what it has.
    this.result = result;
    byId('problem').hidden = true;
    document.body.classList.add('ready');
    this.panels.show(result, String(this.store.state.stage));
    // The matrix is painted before what is told of it is made, unless the detail
    // has come by then.
    requestAnimationFrame(() => setTimeout(() => {
      if (this.result === result && !result.detail) this.#showAround(result);
    }));
  }

  /** What stands around the matrices. @param {Result} result */
  #showAround(result) {
    this.strip.show(result);
    this.#showRow(Number(this.store.state.row));
    showHead(byId('head'), result);
    showWarnings(byId('warnings'), result);
    this.#say(this.told ? explain(this.told, result) : introduce(result));
  }

  /** @param {Result} result */
  async #showResult(result) {
    this.result = result;
    // A slider that is dragged is told from where it began.
    clearTimeout(this.telling);
    this.telling = window.setTimeout(() => {
      this.told = result;
    }, this.told ? TELLING_MS : 0);
    this.panels.show(result, String(this.store.state.stage));
    this.#showAround(result);
    this.#showNumbers();
    if (!this.side) {
      const {SideViews} = await import('./side_views.js');
      this.side ??= new SideViews(this.store);
    }
    this.side.show(result, Number(this.store.state.row));
    await this.#compare();
    await this.#showDecode();
  }

  /** The decode of what is shown, as long as its part is open. */
  async #showDecode() {
    const {open} = /** @type {HTMLDetailsElement} */ (byId('decode-part'));
    if (!open) {
      await this.decode?.leave();
      return;
    }
    if (!this.result) return;
    if (!this.decode) {
      const {DecodeView} = await import('./decode_view.js');
      this.decode ??= new DecodeView(this.api, byId('decode-body'));
    }
    await this.decode.update(this.result);
  }

  async #compare() {
    if (!this.comparison) {
      const {Comparison} = await import('./compare.js');
      this.comparison ??= new Comparison(this.store, this.api);
    }
    await this.comparison.show(this.result);
  }

  /** What changed without a new answer. @param {string[]} changed */
  #redraw(changed) {
    if (changed.includes('longLook')) this.long?.look();
    const {result} = this;
    if (!result) return;
    const row = Number(this.store.state.row);
    if (changed.includes('stage')) {
      this.panels.show(result, String(this.store.state.stage));
    }
    if (changed.includes('row')) {
      this.#showRow(row);
      this.side?.showArcs(result, row);
    }
    if (changed.includes('compare')) this.#compare();
  }

  /** @param {number} row -1: the last. */
  #showRow(row) {
    if (this.result) {
      showRow(byId('row'), this.result, chosenRow(this.result, row));
    }
  }

  #showNumbers() {
    const open = /** @type {HTMLDetailsElement} */ (byId('numbers')).open;
    if (!open || !this.result) return;
    showRowsTable(byId('rows-place'), this.result);
    showHeadsTable(byId('heads-place'), this.result);
    showReport(byId('report'), this.result);
  }

  /** @param {File} file */
  async #openFile(file) {
    try {
      await this.loader.open(file);
      if (this.store.state.source === 'file') this.ask();
      else this.store.set({source: 'file', ...PRESETS.file});
    } catch (error) {
      this.#fail(error);
    }
  }

  /** @param {string} text */
  #say(text) {
    const place = byId('explain');
    // The same again would be read out again.
    if (place.textContent !== text) place.textContent = text;
  }

  /** @param {unknown} error */
  #fail(error) {
    // That the server is away is said at the top.
    if (error instanceof ApiError && error.status === 0) return;
    const place = byId('problem');
    place.textContent = messageOf(error);
    place.hidden = false;
  }

  /** What an exported picture has. */
  #maps() {
    const tiles = this.source?.kept && this.long?.tiles;
    return tiles ? [tiles] : this.panels.slots.map((slot) => slot.map);
  }
}

new Page();
