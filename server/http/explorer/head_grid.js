// @ts-check
// All heads of a layer side by side, small.

import {colourMap, paintPixels, rangeOf} from './colours.js';
import {maskedRuns} from './heat_layout.js';
import {CanvasPainter} from './painter.js';
import {ensureStyles, make, onAppearance, themeOf} from './view.js';

/**
 * @typedef {{head: number,
 *     matrix: import('./heatmap.js').Matrix,
 *     masked?: {data: ArrayLike<number>} | null, note?: string,
 *     entropyRatio?: number, dead?: boolean, selected?: boolean,
 *     map?: 'weights' | 'logits'}} HeadInput
 * @typedef {{root: HTMLButtonElement, canvas: HTMLCanvasElement,
 *     name: HTMLElement, dead: HTMLElement, bar: HTMLElement,
 *     fill: HTMLElement, note: HTMLElement}} Card
 */

/** The share of the maximum, as text. @param {number} ratio 0 to 1 */
export function entropyText(ratio) {
  return `entropy ${Math.round(100 * ratio)} % of the maximum`;
}

/** What a screen reader says of a head. @param {HeadInput} input */
export function headWords(input) {
  // It begins with what is seen, so that one who speaks it is understood.
  const seen = [`Head ${input.head}`, input.dead && 'dead', input.note];
  const parts = [seen.filter(Boolean).join(' ')];
  if (input.entropyRatio !== undefined && Number.isFinite(input.entropyRatio)) {
    parts.push(entropyText(input.entropyRatio));
  }
  return parts.join(', ');
}

/** Events: 'select' {head}. */
export class HeadGrid extends EventTarget {
  /** @param {HTMLElement} container */
  constructor(container) {
    super();
    ensureStyles();
    this.root =
        make('div', 'head-grid', {role: 'group', 'aria-label': 'Heads'});
    container.append(this.root);
    /** @type {Card[]} */
    this.cards = [];
    /** @type {readonly HeadInput[]} */
    this.inputs = [];
    this.forget = onAppearance(container, () => this.#draw());
  }

  /** @param {readonly HeadInput[]} inputs */
  show(inputs) {
    this.inputs = inputs;
    // Cards stay, so that the focus does too.
    while (this.cards.length < inputs.length) this.#add();
    for (const card of this.cards.splice(inputs.length)) card.root.remove();
    inputs.forEach((input, i) => this.#fill(this.cards[i], input));
    this.#draw();
  }

  /** Ends the view. */
  destroy() {
    this.forget();
    this.root.remove();
  }

  #add() {
    const root = make('button', 'head-card', {type: 'button'});
    const title = make('span', 'head-name');
    const name = make('span', '');
    const dead = make('span', 'head-dead');
    dead.textContent = 'dead';
    // White space is for those who hear the card or search it.
    title.append(name, ' ', dead);
    const canvas = make('canvas', '', {'aria-hidden': 'true'});
    const bar = make('span', 'head-entropy');
    const fill = make('span', '');
    bar.append(fill);
    const note = make('span', 'head-note');
    root.append(title, canvas, bar, ' ', note);
    const index = this.cards.length;
    root.addEventListener('click', () => {
      const {head} = this.inputs[index];
      this.dispatchEvent(new CustomEvent('select', {detail: {head}}));
    });
    this.root.append(root);
    this.cards.push({root, canvas, name, dead, bar, fill, note});
  }

  /** @param {Card} card @param {HeadInput} input */
  #fill(card, input) {
    const ratio = input.entropyRatio;
    const known = ratio !== undefined && Number.isFinite(ratio);
    card.root.setAttribute('aria-pressed', String(Boolean(input.selected)));
    card.root.setAttribute('aria-label', headWords(input));
    card.name.textContent = `Head ${input.head}`;
    card.dead.hidden = !input.dead;
    card.bar.hidden = !known;
    card.root.title = known ? entropyText(ratio) : '';
    if (known) {
      card.fill.style.width = `${100 * Math.min(Math.max(ratio, 0), 1)}%`;
    }
    card.note.textContent = input.note ?? '';
    card.note.hidden = !input.note;
  }

  #draw() {
    const theme = themeOf(this.root);
    const sizes = this.cards.map((card) => card.canvas.clientWidth);
    this.inputs.forEach((input, i) => {
      if (sizes[i] > 0) paintHead(this.cards[i].canvas, sizes[i], input, theme);
    });
  }
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {number} side
 * @param {HeadInput} input
 * @param {import('./view.js').Theme} theme
 */
function paintHead(canvas, side, input, theme) {
  const {matrix, masked} = input;
  const {rows, cols, data} = matrix;
  const map = input.map ?? 'weights';
  const isMasked = (/** @type {number} */ i) =>
      masked ? masked.data[i] !== 0 : data[i] === -Infinity;
  let [low, high] = [0, 0];
  for (let i = 0; i < data.length; ++i) {
    if (isMasked(i) || !Number.isFinite(data[i])) continue;
    low = Math.min(low, data[i]);
    high = Math.max(high, data[i]);
  }
  const pixels = new Uint8ClampedArray(4 * rows * cols);
  paintPixels({
    data,
    colours: colourMap(map, theme.dark),
    range: rangeOf(map, low, high),
    notFinite: theme.masked.notFinite,
    pixels
  });
  const painter = new CanvasPainter(canvas, side, side, devicePixelRatio);
  const box = {x: 0, y: 0, width: side, height: side};
  painter.cells({rows, cols, pixels}, box);
  const [width, height] = [side / cols, side / rows];
  painter.hatch(
      maskedRuns(matrix, isMasked).map((run) => ({
                                         x: run.begin * width,
                                         y: run.row * height,
                                         width: (run.end - run.begin) * width,
                                         height
                                       })),
      theme.masked);
}
