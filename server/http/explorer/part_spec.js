// @ts-check
// The call of a part of a long sequence's queries. Whatever depends on a
// query's position is written so that it means the position in the whole.

import {buildCall} from './spec.js';

/** @typedef {import('./state.js').Patch} Patch */

/**
 * @typedef {object} Part
 * @property {number} first The position of its first query.
 * @property {number} count
 * @property {number} queries Of the whole.
 * @property {number} keys
 */

// The slope that the authors of ALiBi give a model of one head.
const ALIBI_SLOPE = 2 ** -8;
// Patterns that never look ahead.
const CAUSAL_PATTERNS = ['strided', 'fixed', 'streaming'];

/**
 * @param {Patch} state
 * @param {Part} part
 * @returns {import('./spec.js').CallPart}
 */
export function buildPartCall(state, part) {
  const context = {
    queryHeads: 1,
    batches: 1,
    queries: part.count,
    keys: part.keys,
    extras: new Map(),
  };
  const causal =
      state.causal === true || CAUSAL_PATTERNS.includes(String(state.pattern));
  const conditions = conditionsOf(state, part, causal);
  /** @type {Patch} */
  const local = {
    ...state,
    ...(causal ? {} : {windowOn: false}),
    ...(CAUSAL_PATTERNS.includes(String(state.pattern)) ? {} : {pattern: 'none'}),
    alignment: 'bottom_right',
    bias: state.bias === 'alibi' ? 'none' : state.bias,
    scoreProgram: scoreProgramOf(state, part),
    weightProgram: inWhole(String(state.weightProgram), part),
    padding: 0,
    dropout: 0,
  };
  const call = buildCall(local, context);
  const spec = /** @type {Record<string, any>} */ (call.spec);
  // The last query of the part stands at its last key.
  if (causal) call.kvLengths = [String(part.first + part.count)];
  if (conditions.length > 0) {
    spec.masks.push({program: {program: {source: conditions.join(' && ')}}});
  }
  for (const {rotary} of spec.transforms) {
    if (rotary) rotary.queryOffset = String(part.first);
  }
  return call;
}

/**
 * Masks that are not counted from the last key, as programs.
 * @param {Patch} state
 * @param {Part} part
 * @param {boolean} causal
 * @returns {string[]}
 */
function conditionsOf(state, part, causal) {
  const position = `(q + ${part.first})`;
  const distance = `abs(${position} - k)`;
  const size = Number(state.patternSize);
  const first = `(${position} < ${state.patternCount} || k < ${state.patternCount})`;
  const conditions = [];
  if (Number(state.padding) > 0) {
    const end = part.keys - Number(state.padding);
    conditions.push(`k < ${end}`);
    // Of a sequence that attends to itself, the padding's own rows are none.
    if (part.queries === part.keys) conditions.push(`${position} < ${end}`);
  }
  if (state.windowOn && !causal) {
    conditions.push(`${position} - k <= ${state.left}`,
                    `k - ${position} <= ${state.right}`);
  }
  switch (state.pattern) {
    case 'prefix':
      conditions.push(`(k < ${size} || k <= ${position})`);
      break;
    case 'global':
      conditions.push(first);
      break;
    case 'dilated':
      conditions.push(`${distance} % ${size} == 0`);
      break;
    case 'longformer':
      conditions.push(`(${distance} <= ${size} || ${first})`);
      break;
    case 'program':
      conditions.push(`(${inWhole(String(state.maskProgram), part)})`);
      break;
    case 'big_bird':
    case 'dense':
      throw new Error(`pattern is ${String(state.pattern).replace('_', ' ')}; ` +
                      'a long sequence is computed in parts, which have any ' +
                      'other pattern');
  }
  return conditions;
}

/** @param {Patch} state @param {Part} part @returns {string} */
function scoreProgramOf(state, part) {
  const own = inWhole(String(state.scoreProgram), part);
  if (state.bias !== 'alibi') return own;
  const slope = Number(state.slope) > 0 ? state.slope : ALIBI_SLOPE;
  const biased = `(score - ${slope} * abs(q + ${part.first} - k))`;
  return own ? own.replace(/\bscore\b/g, biased) : biased;
}

/**
 * A program's names of the query's row, as those of the whole.
 * @param {string} program
 * @param {Part} part
 * @returns {string}
 */
function inWhole(program, {first, queries, keys}) {
  return program
      .replace(/\bp\b/g, `(q + ${keys - queries})`)
      .replace(/\bq\b/g, `(q + ${first})`)
      .replace(/\bSq\b/g, String(queries));
}
