// @ts-check
// How a decode looks: its buttons, the triangle, the cache, and the numbers of
// the last step.

import {BLOCK_TOKENS, cacheBlocks, drawBlocks} from './cache_blocks.js';
import {difference} from './decode_call.js';
import {el, fill, number} from './dom.js';
import {HeatMap} from './heatmap.js';
import {visibleText} from './labels.js';
import {LiveText} from './view.js';

/** @typedef {import('./decode_session.js').DecodeSession} DecodeSession */
/** @typedef {{rows: number, cols: number, data: Float32Array | Float64Array}} Matrix */
/**
 * @typedef {{name: 'open' | 'step' | 'play' | 'pause' | 'rollback' | 'fork' |
 *     'choose' | 'close', value?: number}} Action
 * @typedef {{head: number, weights: Matrix, logits: Matrix,
 *     labels: string[]}} Triangle
 */

/**
 * @typedef {object} Shown
 * @property {import('./decode_call.js').DecodeCall} call
 * @property {Triangle} triangle
 * @property {import('./tensors.js').Tensor} wholeOutput
 * @property {DecodeSession[]} sessions
 * @property {number} chosen
 * @property {boolean} playing
 * @property {number} blockBytes
 * @property {(row: number) => {step: number, call: number}} bytesOfRow
 */

const INTRODUCTION = 'The server keeps the keys and values of the tokens so ' +
    'far; each step sends q, k and v of one token, and gets its output. A ' +
    'decode is causal, whatever the mask says.';
const WEIGHTS_NOTE = 'A step answers with outputs only. The weights of its row ' +
    'are those of the whole sequence in one call, whose row has the same query ' +
    'and the same keys; the output is compared with that call’s.';
const MAX_HEIGHT = 420;

/** @param {number} bytes */
const bytesText = (bytes) => `${bytes.toLocaleString('en')} B`;
/** @param {number} index A, B, … */
const nameOf = (index) => String.fromCharCode('A'.charCodeAt(0) + index);

/**
 * @param {string} id
 * @param {string} text
 * @param {() => void} onclick
 */
function button(id, text, onclick) {
  return el('button', {type: 'button', 'data-testid': `decode-${id}`, text, onclick});
}

export class DecodePanel {
  /** @param {HTMLElement} container @param {(action: Action) => void} act */
  constructor(container, act) {
    this.act = act;
    /** @type {Shown | null} */
    this.shown = null;
    // Whether the button that opens was pressed: it goes, and the focus with it.
    this.opening = false;
    const open = () => {
      this.opening = true;
      act({name: 'open'});
    };
    this.openButton = button('open', 'Open a session', open);
    this.againButton = button('again', 'Open again', open);
    this.stepButton = button('step', 'Step', () => act({name: 'step'}));
    this.playButton = button('play', 'Play', () =>
        act({name: this.shown?.playing ? 'pause' : 'play'}));
    this.row = /** @type {HTMLInputElement} */ (el('input', {
      type: 'number', min: 0, value: 0, step: 1, id: 'decode-row',
      'data-testid': 'decode-row'}));
    this.buttons = this.#makeButtons();
    this.problemText = el('span', {'data-testid': 'decode-problem'});
    this.problemPart = el('p', {class: 'problem decode-problem', role: 'alert',
                                hidden: true}, this.problemText, this.againButton);
    this.status = el('p', {class: 'decode-status', 'data-testid': 'decode-status'});
    this.mapPlace = el('div', {'data-testid': 'decode-triangle'});
    this.list = el('div', {class: 'decode-sessions', role: 'group',
                           'aria-label': 'Sessions'});
    this.blocks = el('ol', {class: 'blocks', 'data-testid': 'decode-blocks'});
    this.readouts = el('dl');
    this.board = el('div', {class: 'decode-board', hidden: true},
        el('div', {class: 'decode-side'}, this.mapPlace,
           el('p', {class: 'hint', text: WEIGHTS_NOTE})),
        el('div', {class: 'decode-side'}, this.readouts,
           el('h3', {text: `Cache, in blocks of ${BLOCK_TOKENS} tokens`}),
           this.list, this.blocks));
    /** @type {HeatMap | null} Made when it can be seen. */
    this.map = null;
    fill(container, el('p', {class: 'hint', text: INTRODUCTION}), this.openButton,
         this.buttons, this.problemPart, this.status, this.board);
    this.live = new LiveText(container);
  }

  #makeButtons() {
    const back = () => this.act({
      name: 'rollback',
      value: this.row.value === '' ? NaN : Number(this.row.value),
    });
    return el('div', {class: 'decode-buttons', role: 'group',
                      'aria-label': 'Decode', hidden: true},
        this.stepButton,
        this.playButton,
        el('span', {class: 'decode-back'}, button('rollback', 'Roll back', back),
           el('label', {for: 'decode-row', text: 'to row'}), this.row),
        button('fork', 'Fork', () => this.act({name: 'fork'})),
        button('close', 'Close', () => this.act({name: 'close'})));
  }

  /** Whether a session can be opened. @param {boolean} can */
  allow(can) {
    this.openButton.hidden = !can;
  }

  /** @param {string} words */
  problem(words) {
    this.problemText.textContent = words;
    this.problemPart.hidden = words === '';
    if (words && this.opening) this.againButton.focus();
    if (words) this.opening = false;
  }

  /** A session is there. @param {string} words */
  open(words) {
    this.#arrange(true);
    this.row.value = '0';
    this.#say(words, true);
    if (this.opening) this.stepButton.focus();
    this.opening = false;
  }

  /** None is there. @param {string} words */
  close(words) {
    const focused = this.buttons.contains(document.activeElement);
    this.#arrange(false);
    this.problem('');
    this.shown = null;
    this.#say(words, words !== '');
    if (focused) this.openButton.focus();
  }

  /** @param {boolean} open */
  #arrange(open) {
    this.openButton.hidden = open;
    this.buttons.hidden = this.board.hidden = !open;
  }

  /** @param {string} words @param {boolean} aloud */
  #say(words, aloud) {
    this.status.textContent = words;
    if (aloud) this.live.say(words);
  }

  /** @param {Shown} shown */
  show(shown) {
    const before = this.shown;
    this.shown = shown;
    const session = shown.sessions[shown.chosen];
    this.playButton.textContent = shown.playing ? 'Pause' : 'Play';
    const done = session.next < 0;
    for (const button of [this.stepButton, this.playButton]) {
      // It keeps the focus, so it is not disabled.
      button.setAttribute('aria-disabled', String(done));
    }
    this.row.max = String(session.length);
    this.#showSessions(shown);
    this.#showTriangle(shown);
    this.#showBlocks(shown);
    this.#showReadouts(shown);
    // What a playing decode does is seen; said aloud is where it stopped.
    if (before || session.length > 0) this.#tell(shown);
  }

  /** @param {Shown} shown */
  #tell(shown) {
    const session = shown.sessions[shown.chosen];
    const {labels} = shown.triangle;
    const token = (/** @type {number} */ row) =>
        `row ${row} “${visibleText(labels[row])}”`;
    const last = session.steps[session.length - 1];
    const did = !last ? 'The cache is empty.'
        : `Session ${nameOf(shown.chosen)} has ${session.length} of ` +
          `${shown.call.tokens} tokens; the last is ${token(last.row)}. `;
    const next = session.next < 0 ? 'That was the last token.'
                                  : ` Next: ${token(session.next)}.`;
    this.#say(`${did.trim()} ${next.trim()}`, !shown.playing);
  }

  /** @param {Shown} shown */
  #showSessions({sessions, chosen}) {
    this.list.hidden = sessions.length < 2;
    // The same buttons, so that the focus stays.
    while (this.list.children.length > sessions.length) {
      this.list.lastElementChild?.remove();
    }
    while (this.list.children.length < sessions.length) {
      const value = this.list.children.length;
      this.list.append(el('button', {
        type: 'button', class: 'small', 'data-testid': `decode-session-${value}`,
        onclick: () => this.act({name: 'choose', value})}));
    }
    sessions.forEach((session, index) => {
      const button = this.list.children[index];
      button.setAttribute('aria-pressed', String(index === chosen));
      button.textContent = `Session ${nameOf(index)}: ${session.length} tokens, ` +
          `${bytesText(session.ownBytes)} of its own`;
    });
  }

  /** @param {Shown} shown */
  #showTriangle({triangle, sessions, chosen}) {
    const {weights, logits, labels, head} = triangle;
    const {length} = sessions[chosen];
    const {rows, cols} = weights;
    const data = Float32Array.from(
        weights.data, (weight, cell) => cell < length * cols ? weight : 0);
    const unseen = Uint8Array.from(logits.data, (logit, cell) =>
        logit === -Infinity || cell >= length * cols ? 1 : 0);
    if (!this.map) {
      this.map = new HeatMap(this.mapPlace);
      this.map.addEventListener('select', (event) => {
        const {row} = /** @type {CustomEvent} */ (event).detail;
        this.row.value = String(Math.min(row, Number(this.row.max)));
      });
    }
    this.map.show({
      matrix: {rows, cols, data},
      masked: {data: unseen},
      rowLabels: labels,
      colLabels: labels,
      title: `Weights of head ${head}, row by row`,
      valueName: 'weight',
      maskedValue: 'not seen',
      range: rangeOfAll(weights),
      maxHeight: MAX_HEIGHT,
    });
  }

  /** @param {Shown} shown */
  #showBlocks({call, sessions, chosen, blockBytes}) {
    const {length, bytes, ownBytes} = sessions[chosen];
    this.blocks.setAttribute('aria-label', `Cache of session ${nameOf(chosen)}`);
    drawBlocks(this.blocks, cacheBlocks(
        {length, bytes, ownBytes, blockBytes, keep: call.keep}));
    this.blocks.hidden = length === 0;
  }

  /** @param {Shown} shown */
  #showReadouts({sessions, chosen, wholeOutput, bytesOfRow}) {
    const session = sessions[chosen];
    const last = session.steps[session.length - 1];
    const holds = readout('held', 'The cache holds', session.bytes,
        bytesText(session.bytes), `${bytesText(session.ownBytes)} of its own`);
    if (!last) return fill(this.readouts, holds);
    const {step, call} = bytesOfRow(last.row);
    const found = difference(last.output, wholeOutput, last.row);
    const same = found.equal === found.count;
    const verdict = same ? 'the same bits' : found.agrees ? 'agrees' : 'differs';
    return fill(this.readouts,
        readout('sent', 'This step sent', step, bytesText(step),
                `q, k and v of one token; ${bytesText(last.sent)} as JSON`),
        holds,
        readout('without', 'Without a session', call, bytesText(call),
                'q, and all keys and values so far'),
        readout('agreement', 'Output and the whole call’s row', found.largest,
                verdict, `${found.equal} of ${found.count} numbers equal; ` +
                `largest difference ${number(found.largest)}`));
  }
}

/** Of all rows, so that a colour stays as rows come. @param {Matrix} weights @returns {[number, number]} */
function rangeOfAll({data}) {
  let [low, high] = [0, 0];
  for (const weight of data) {
    if (!Number.isFinite(weight)) continue;
    low = Math.min(low, weight);
    high = Math.max(high, weight);
  }
  return [low, high > low ? high : low + 1];
}

/**
 * @param {string} id
 * @param {string} name
 * @param {number} value
 * @param {string} text
 * @param {string} context
 */
function readout(id, name, value, text, context) {
  return el('div', {class: 'readout'}, el('dt', {text: name}),
      el('dd', {'data-testid': `decode-${id}`, 'data-value': value},
         el('strong', {text}), el('span', {text: context})));
}
