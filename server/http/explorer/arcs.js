// @ts-check
// Arcs from a token to those that it attends to.

import {arcLayout, arcPath, strongestArcs} from './arc_layout.js';
import {fitText, labelSize, visibleText} from './labels.js';
import {exactText, isSingle, shortText} from './numbers.js';
import {fontFamily, measureText} from './painter.js';
import {ensureStyles, freshId, lightTheme, LiveText, make, makeSvg, onAppearance, themeOf} from './view.js';

/**
 * @typedef {{tokens: readonly string[], weights: ArrayLike<number>,
 *     row?: number | null}} ArcInput weights are row-major; row: the selected
 *     token, or none
 * @typedef {import('./arc_layout.js').ArcLayout} ArcLayout
 * @typedef {import('./view.js').Theme} Theme
 */

const textSize = 13;
const longestToken = 110;
const mostArcs = 600;

/**
 * What one token attends to, in words: the strongest first.
 * @param {ArcInput} input
 * @param {number} row
 */
export function rowWords({tokens, weights}, row) {
  const arcs = strongestArcs(weights, tokens.length, 4, row).reverse();
  const name = (/** @type {number} */ i) =>
      `“${visibleText(tokens[i])}” (${i})`;
  if (arcs.length === 0) return `${name(row)} attends to nothing`;
  const single = isSingle(weights);
  const parts = arcs.map(
      ({col, weight}, i) => `${name(col)} ${
          i === 0 ? exactText(weight, single) : shortText(weight)}`);
  return `${name(row)} attends to ${parts.join(', ')}`;
}

/** Events: 'hover' {row}, 'leave', 'select' {row}. */
export class ArcView extends EventTarget {
  /** @param {HTMLElement} container */
  constructor(container) {
    super();
    ensureStyles();
    this.container = container;
    this.root = make('div', 'arcs');
    this.list = make('div', 'arcs-list', {
      role: 'listbox',
      tabindex: '0',
      'aria-label': 'Tokens, and what each attends to'
    });
    this.svg = makeSvg('svg', {role: 'presentation'});
    this.list.append(this.svg);
    this.words = make('p', 'tile-status', {'aria-hidden': 'true'});
    this.root.append(this.list, this.words);
    this.live = new LiveText(this.root);
    container.append(this.root);
    this.prefix = freshId('arc-token');
    /** @type {ArcInput | null} */
    this.input = null;
    /** @type {number | null} */
    this.active = null;
    this.#listen();
    this.forget = onAppearance(container, () => this.#draw());
  }

  /** @param {ArcInput} input */
  show(input) {
    const count = input.tokens.length;
    if (input.weights.length !== count * count) {
      throw new RangeError(
          `weights has ${input.weights.length} values; expected ${count} x ` +
              `${count}, as there are ${count} tokens`,
      );
    }
    this.input = input;
    this.active = null;
    this.#draw();
  }

  /** Ends the view. */
  destroy() {
    this.forget();
    this.root.remove();
  }

  /** The figure as an SVG document, light on any page. */
  toSvg() {
    if (!this.input) throw new Error('arcs: nothing is shown yet');
    const svg = makeSvg('svg');
    const width = Math.max(this.container.clientWidth, 320);
    this.#paint(svg, this.input, width, this.input.row ?? null, lightTheme);
    svg.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
    return `${new XMLSerializer().serializeToString(svg)}\n`;
  }

  get #shown() {
    return this.active ?? this.input?.row ?? null;
  }

  #draw() {
    const width = this.list.clientWidth;
    if (!this.input || width === 0) return;
    const row = this.#shown;
    this.svg.replaceChildren();
    this.#paint(this.svg, this.input, width, row, themeOf(this.container));
    this.words.textContent = row === null ?
        'Point at a token to see what it attends to.' :
        rowWords(this.input, row);
    if (row === null)
      this.list.removeAttribute('aria-activedescendant');
    else
      this.list.setAttribute('aria-activedescendant', `${this.prefix}-${row}`);
  }

  /**
   * @param {SVGSVGElement} svg
   * @param {ArcInput} input
   * @param {number} width
   * @param {number | null} row
   * @param {Theme} theme
   */
  #paint(svg, input, width, row, theme) {
    const {tokens, weights} = input;
    const texts = tokens.map(
        (token) => fitText(token, longestToken, textSize, measureText));
    const layout =
        arcLayout(texts.map((text) => measureText(text, textSize)), width);
    svg.setAttribute('viewBox', `0 0 ${layout.width} ${layout.height}`);
    svg.setAttribute('width', String(layout.width));
    svg.setAttribute('height', String(layout.height));
    svg.setAttribute('font-family', fontFamily);
    const count = tokens.length;
    const arcs = strongestArcs(weights, count, mostArcs, row ?? undefined);
    const group = makeSvg('g', {
      fill: 'none',
      stroke: theme.accent,
      'stroke-linecap': 'round',
      'aria-hidden': 'true'
    });
    for (const {row: from, col, weight} of arcs) {
      group.append(makeSvg(
          'path',
          {d: arcPath(layout, from, col), ...stroke(weight, row !== null)}));
    }
    svg.append(group);
    texts.forEach((text, i) => {
      const weight = row === null ? null : weights[row * count + i];
      const token = tokenGroup(layout, text, i, weight, i === row, theme);
      token.id = `${this.prefix}-${i}`;
      token.setAttribute('aria-label', rowWords(input, i));
      token.setAttribute('aria-selected', String(i === input.row));
      svg.append(token);
    });
  }

  #listen() {
    const {svg, list} = this;
    svg.addEventListener('pointerover', (event) => {
      const row = tokenOf(event.target);
      if (row !== null) this.#activate(row);
    });
    svg.addEventListener('pointerleave', () => this.#activate(null));
    svg.addEventListener('click', (event) => {
      const row = tokenOf(event.target);
      if (row !== null) this.#emit('select', row);
    });
    list.addEventListener('blur', () => this.#activate(null));
    list.addEventListener('keydown', (event) => this.#key(event));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (!this.input) return;
    const count = this.input.tokens.length;
    const now = this.#shown ?? -1;
    const moves = /** @type {Record<string, number>} */ ({
      ArrowLeft: now - 1,
      ArrowUp: now - 1,
      ArrowRight: now + 1,
      ArrowDown: now + 1,
      Home: 0,
      End: count - 1
    });
    if (event.key === 'Escape') this.#activate(null);
    if ((event.key === 'Enter' || event.key === ' ') && now >= 0) {
      event.preventDefault();
      this.#emit('select', now);
    }
    if (!(event.key in moves) || count === 0) return;
    event.preventDefault();
    const row = Math.min(Math.max(moves[event.key], 0), count - 1);
    this.#activate(row);
    this.live.say(rowWords(this.input, row));
    this.svg.querySelector(`#${this.prefix}-${row}`)
        ?.scrollIntoView({block: 'nearest', inline: 'nearest'});
  }

  /** @param {number | null} row */
  #activate(row) {
    if (row === this.active) return;
    this.active = row;
    this.#draw();
    if (row === null)
      this.dispatchEvent(new CustomEvent('leave'));
    else
      this.#emit('hover', row);
  }

  /** @param {string} name @param {number} row */
  #emit(name, row) {
    this.dispatchEvent(new CustomEvent(name, {detail: {row}}));
  }
}

/**
 * @param {number} weight
 * @param {boolean} alone whether arcs of one row alone are drawn
 */
function stroke(weight, alone) {
  const size = Math.min(Math.max(weight, 0), 1);
  const [opacity, width] = alone ? [0.3 + 0.7 * size, 0.8 + 5 * size] :
                                   [0.06 + 0.5 * size, 0.6 + 2 * size];
  return {
    'stroke-opacity': opacity.toFixed(3),
    'stroke-width': width.toFixed(2)
  };
}

/** @param {EventTarget | null} target */
function tokenOf(target) {
  const token =
      target instanceof Element ? target.closest('[data-token]') : null;
  return token ? Number(token.getAttribute('data-token')) : null;
}

/**
 * A token, how much it is attended to, and a box to point at.
 * @param {ArcLayout} layout
 * @param {string} text
 * @param {number} index
 * @param {number | null} weight
 * @param {boolean} source whether the arcs are its own
 * @param {Theme} theme
 */
function tokenGroup(layout, text, index, weight, source, theme) {
  const {across, base, at} = layout;
  const width = measureText(text, textSize);
  const middle = at[index];
  const group = makeSvg('g', {role: 'option', 'data-token': index});
  const side = across ? {
    x: middle - Math.max(width, 40) / 2 - 5,
    y: base + 3,
    width: Math.max(width, 40) + 10,
    height: 36
  } :
                        {x: 0, y: middle - 10, width: base, height: 20};
  group.append(makeSvg('rect', {
    ...side,
    rx: 3,
    fill: theme.accent,
    'fill-opacity': weight === null ? 0 : (0.45 * weight).toFixed(3),
    stroke: source ? theme.accent : 'none'
  }));
  const ink = {fill: theme.ink, dy: '0.35em'};
  const anchor = across ? 'middle' : 'end';
  group.append(makeSvg(
      'text', {
        x: across ? middle : base - 6,
        y: across ? base + 13 : middle,
        'text-anchor': anchor,
        'font-size': textSize,
        'font-weight': source ? 600 : 400,
        ...ink
      },
      text));
  if (weight !== null && weight >= 0.005) {
    group.append(makeSvg(
        'text', {
          x: across ? middle : 36,
          y: across ? base + 30 : middle,
          'text-anchor': anchor,
          'font-size': labelSize,
          ...ink
        },
        weight.toFixed(2)));
  }
  return group;
}
