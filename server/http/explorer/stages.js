// @ts-check
// The strip: score, scale, mask, normalise, mix; what each stage does, its
// controls, and its matrix before and after as small pictures.

import {controlsOf} from './controls.js';
import {el, fill, number} from './dom.js';
import {paintMini} from './mini.js';
import {decoded} from './sources.js';
import {matrixAt} from './tensors.js';
import {onAppearance} from './view.js';

/** @typedef {import('./state.js').Patch} Patch */
/** @typedef {import('./answers.js').Matrix} Matrix */
/** @typedef {import('./answers.js').Result} Result */

/**
 * A matrix with what is needed to draw it.
 * @typedef {object} Figure
 * @property {string} name As in an exported file.
 * @property {string} title
 * @property {Matrix} matrix
 * @property {'weights' | 'logits'} map
 * @property {Uint8Array} [excluded]
 * @property {string[]} rowLabels
 * @property {string[]} colLabels
 * @property {boolean} [perKey] Whether its columns are keys.
 */

/** @type {{id: string, title: string, says: string}[]} */
export const STAGES = [
  {id: 'score', title: 'Score', says: 'How well does a query match each key?'},
  {id: 'scale', title: 'Scale', says: 'Keep the scores in a range that leaves a choice.'},
  {id: 'mask', title: 'Mask', says: 'Which keys may be seen, and which are favoured?'},
  {id: 'normalise', title: 'Normalise', says: 'Turn each row of scores into shares.'},
  {id: 'mix', title: 'Mix', says: 'Blend the values by their shares.'},
];

const SCORE_FORMULAS = /** @type {Record<string, string>} */ ({
  dot: 'qᵢ · kⱼ',
  cosine: 'qᵢ · kⱼ / |qᵢ||kⱼ|',
  squared_l2: '−|qᵢ − kⱼ|²',
  l2: '−|qᵢ − kⱼ|',
  l1: '−Σ |qᵢ − kⱼ|',
  bilinear: 'qᵢ W kⱼ',
  additive: 'v · f(qᵢ + kⱼ)',
  concat: 'v · f(W [qᵢ; kⱼ])',
  trilinear: 'w · [qᵢ; kⱼ; qᵢ∘kⱼ]',
});

const NORMALIZER_FORMULAS = /** @type {Record<string, string>} */ ({
  softmax: 'exp x / Σ exp x',
  softmax_plus: 'exp x / (n + Σ exp x)',
  sparsemax: 'nearest point of the simplex',
  entmax: 'α-entmax of x',
  sigmoid: '1 / (1 + exp −x)',
  relu: 'max(x, 0)ᵖ',
  divisive: 'max(x, 0) / Σ max(x, 0)',
  hard: '1 for the largest x',
  identity: 'x',
});

/** @param {Patch} state @param {Result | null} result @returns {Record<string, string>} */
function formulas(state, result) {
  const scale = result?.report.effectiveScale;
  const factor = scale === undefined ? '' : `× ${number(Number(scale))}`;
  const seen = [
    state.bias === 'none' ? '' : '+ bias',
    state.causal ? 'j ≤ i' : '',
    state.windowOn ? `j from i−${state.left} to i+${state.right}` : '',
    state.pattern === 'none' ? '' : String(state.pattern).replace('_', ' '),
    Number(state.padding) > 0 ? `${state.padding} padded` : '',
  ].filter(Boolean);
  const kept = Number(state.topK) > 0 ? `top ${state.topK}, ` : '';
  const divided = state.temperature === 1 ? '' : `, x = s / ${state.temperature}`;
  return {
    score: (state.rotary ? 'turned ' : '') + SCORE_FORMULAS[String(state.score)],
    scale: (factor || '× scale') +
        (state.softcapOn ? `, capped at ±${state.softcap}` : ''),
    mask: seen.join(', ') || 'every key is seen',
    normalise: kept + NORMALIZER_FORMULAS[String(state.normalizer)] + divided,
    mix: 'Σⱼ wᵢⱼ vⱼ',
  };
}

/**
 * The matrices before and after a stage, as far as they are there.
 * @param {Result} result
 * @param {string} stage
 * @returns {{before: Figure[], after: Figure[]}}
 */
export function figuresOf(result, stage) {
  const {detail, source} = result;
  const rowLabels = source.queryLabels;
  /**
   * @param {string} name
   * @param {string} title
   * @param {Matrix | undefined} matrix
   * @param {Partial<Figure>} [more]
   * @returns {Figure[]}
   */
  const figure = (name, title, matrix, more = {}) => !matrix ? [] : [{
    name, title, matrix, map: 'logits', rowLabels, colLabels: source.keyLabels,
    perKey: true, ...more,
  }];
  const features = {perKey: false, colLabels: /** @type {string[]} */ ([])};
  const score = figure('score', 'Scores', detail?.score);
  const scaled = figure('scaled', 'Scaled scores', detail?.scaled);
  const masked = figure('masked', 'Masked scores', detail?.masked);
  const last = figure('logits', 'Final logits', result.logits);
  const weights = weightFigure(result);
  switch (stage) {
    case 'score':
      return {
        before: [
          ...figure('q', 'Queries', rowsOf(result, 'q'), features),
          ...figure('k', 'Keys', rowsOf(result, 'k'),
                    {...features, rowLabels: source.keyLabels}),
        ],
        after: score,
      };
    case 'scale':
      return {before: score, after: scaled};
    case 'mask':
      return {before: scaled, after: masked};
    case 'mix':
      return {
        before: [
          ...weights,
          ...figure('v', 'Values', rowsOf(result, 'v'),
                    {...features, rowLabels: source.keyLabels}),
        ],
        after: figure('output', 'Output', detail?.output, features),
      };
    default:
      return {before: last, after: weights};
  }
}

/** The weights, or what is looked at in their place. @param {Result} result @returns {Figure[]} */
export function weightFigure(result) {
  const {state, source} = result;
  const common = {
    excluded: result.excluded,
    rowLabels: source.queryLabels,
    colLabels: source.keyLabels,
    perKey: true,
  };
  if (state.view === 'gradient') {
    const matrix = result.detail?.gradient;
    return matrix ? [{
      ...common, matrix, map: 'logits', name: 'gradient_weight',
      title: 'Gradient × weight'}] : [];
  }
  if (state.view === 'contribution') {
    return [{
      ...common, matrix: result.contribution, map: 'weights',
      name: 'contribution', title: 'Contribution: weight × |v|'}];
  }
  return [{
    ...common, matrix: result.weights,
    // Weights below 0 are those of no normaliser.
    map: state.normalizer === 'identity' ? 'logits' : 'weights',
    name: 'weights', title: 'Weights'}];
}

/** Rows of q, k or v as they were sent. @param {Result} result @param {'q' | 'k' | 'v'} name */
function rowsOf({source, batch, head}, name) {
  const tensor = decoded(source[name]);
  const own = name === 'q' ? head
      : Math.floor(head * source.kvHeads / source.queryHeads);
  return matrixAt(tensor, batch, own);
}

/** The strip. Its cards have data-testid "stage-" and the stage's id. */
export class StageStrip {
  /** @param {HTMLElement} container @param {import('./state.js').Store} store */
  constructor(container, store) {
    this.store = store;
    /** @type {Result | null} */
    this.result = null;
    this.cards = STAGES.map((stage) => this.#card(stage));
    fill(container, ...this.cards.map((card) => card.element));
    onAppearance(container, () => this.#paint());
  }

  /** @param {{id: string, title: string, says: string}} stage */
  #card({id, title, says}) {
    const {element, controls} = controlsOf(id, this.store);
    const formula = el('p', {class: 'formula', 'data-testid': `formula-${id}`});
    const before = el('span', {class: 'minis before'});
    const after = el('span', {class: 'minis after'});
    const open = el('button', {
      type: 'button', class: 'open', 'data-testid': `open-${id}`,
      'aria-label': `Show ${title.toLowerCase()} before and after, large`,
      onclick: () => this.store.set({stage: id}),
    }, before, el('span', {class: 'arrow', 'aria-hidden': 'true', text: '→'}), after);
    const card = el('section', {
      class: 'stage', 'data-testid': `stage-${id}`,
      'aria-labelledby': `stage-title-${id}`,
    }, el('h3', {id: `stage-title-${id}`, text: title}),
       el('p', {class: 'says', text: says}), formula, open, element);
    return {id, element: card, controls, formula, before, after, open};
  }

  /** @param {Patch} state @param {import('./sources.js').Source | null} source */
  update(state, source) {
    const text = formulas(state, this.result);
    for (const card of this.cards) {
      for (const control of card.controls) control.update(state, source);
      card.formula.textContent = text[card.id];
      const chosen = state.stage === card.id;
      card.element.classList.toggle('chosen', chosen);
      card.open.setAttribute('aria-pressed', String(chosen));
    }
  }

  /** @param {Result | null} result Null: nothing is to be shown of it any more. */
  show(result) {
    this.result = result;
    this.#paint();
    const text = formulas(result?.state ?? this.store.state, result);
    for (const card of this.cards) card.formula.textContent = text[card.id];
  }

  #paint() {
    const result = this.result;
    if (!result) return;
    for (const card of this.cards) {
      const {before, after} = figuresOf(result, card.id);
      paintAll(card.before, before);
      paintAll(card.after, after);
    }
  }
}

/** Canvases are kept, so that a slider does not make them anew. @param {HTMLElement} place @param {Figure[]} figures */
function paintAll(place, figures) {
  // What is still to come keeps its place with what was there.
  if (figures.length === 0) return;
  while (place.children.length > figures.length) place.lastChild?.remove();
  while (place.children.length < figures.length) place.append(el('canvas'));
  const gap = 5 * (figures.length - 1);
  const width = (place.clientWidth - gap) / figures.length;
  figures.forEach((figure, index) => {
    const canvas = /** @type {HTMLCanvasElement} */ (place.children[index]);
    const {rows, cols} = figure.matrix;
    const scale = Math.min(width / cols, place.clientHeight / rows);
    canvas.style.width = `${Math.max(4, scale * cols)}px`;
    canvas.style.height = `${Math.max(4, scale * rows)}px`;
    paintMini(canvas, figure.matrix, figure.map, figure.excluded);
  });
}
