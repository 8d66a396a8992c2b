// @ts-check
// What the page shows, as one flat object: a permalink is this object written
// into location.hash, with the fields that differ from their defaults.

/** @typedef {string | number | boolean} Value */
/** @typedef {Record<string, Value>} Patch */

/**
 * @typedef {object} Field
 * @property {Value} value The default; its type is the field's type.
 * @property {string[]} [choices] What a text may be.
 * @property {number} [min]
 * @property {number} [max]
 * @property {boolean} [whole] Whether a number has no fraction.
 * @property {boolean} [stage] Whether the field is part of a variant of
 *     attention, and so of a setting to compare with.
 */

/**
 * @param {string[]} choices The first is the default.
 * @returns {Field}
 */
const choice = (...choices) => ({value: choices[0], choices});
/**
 * @param {number} value
 * @param {number} min
 * @param {number} max
 * @returns {Field}
 */
const real = (value, min, max) => ({value, min, max});
/**
 * @param {number} value
 * @param {number} min
 * @param {number} max
 * @returns {Field}
 */
const whole = (value, min, max) => ({value, min, max, whole: true});
/**
 * @param {boolean} value
 * @returns {Field}
 */
const flag = (value) => ({value});
/**
 * @param {string} value
 * @returns {Field}
 */
const text = (value) => ({value});

/** Fields of the pipeline. @type {Record<string, Field>} */
const STAGE_FIELDS = {
  score: choice('dot', 'cosine', 'squared_l2', 'l2', 'l1', 'bilinear',
                'additive', 'concat', 'trilinear'),
  activation: choice('tanh', 'relu', 'sigmoid', 'gelu', 'identity'),
  rotary: flag(true),
  rotaryBase: real(10000, 1, 1e9),
  norm: choice('none', 'l2', 'rms'),
  scaleMode: choice('standard', 'off', 'custom'),
  scale: real(1, -100, 100),
  softcapOn: flag(false),
  softcap: real(5, 0.01, 1000),
  bias: choice('none', 'alibi', 'constant', 'dense'),
  slope: real(0, 0, 10),
  constant: real(1, -50, 50),
  scoreProgram: text(''),
  causal: flag(true),
  windowOn: flag(false),
  left: whole(4, 0, 65536),
  right: whole(0, 0, 65536),
  padding: whole(0, 0, 65536),
  pattern: choice('none', 'prefix', 'global', 'dilated', 'strided', 'fixed',
                  'longformer', 'streaming', 'big_bird', 'program', 'dense'),
  patternSize: whole(4, 1, 65536),
  patternCount: whole(1, 0, 65536),
  maskProgram: text('k <= q'),
  alignment: choice('automatic', 'top_left', 'bottom_right'),
  temperature: real(1, 0.01, 100),
  topK: whole(0, 0, 65536),
  topP: real(1, 0.001, 1),
  belowMax: real(0, 0, 1000),
  normalizer: choice('softmax', 'softmax_plus', 'sparsemax', 'entmax',
                     'sigmoid', 'relu', 'divisive', 'hard', 'identity'),
  alpha: real(1.5, 1, 4),
  sinkOn: flag(false),
  sink: real(0, -50, 50),
  plus: real(1, 0.001, 1000),
  sigmoidBias: real(0, -50, 50),
  power: real(1, 0.1, 8),
  divisor: choice('one', 'visible_keys'),
  weightProgram: text(''),
  dropout: real(0, 0, 0.95),
  seed: whole(1, 0, 4294967295),
};

/** @type {Record<string, Field>} */
export const FIELDS = {
  source: choice('story', 'example', 'toy', 'file', 'long'),
  text: text('Heidi looked at Peter, and Peter looked at Heidi.'),
  layer: whole(1, 0, 1023),
  head: whole(0, 0, 4095),
  batch: whole(0, 0, 65535),
  toyQ: text('2,0;0,2;2,2;-2,1'),
  toyK: text('2,0;0,2;1,1;-1,2'),
  toyV: text('1,0;0,1;1,1;-1,0'),
  longTokens: choice('4096', '1024', '8192', '16384', '32768'),
  longLook: choice('logits', 'weights'),
  stage: choice('normalise', 'score', 'scale', 'mask', 'mix'),
  view: choice('weights', 'contribution', 'gradient'),
  loss: choice('square', 'sum', 'file'),
  row: whole(-1, -1, 65535),
  compare: text(''),
  ...STAGE_FIELDS,
};
for (const name of Object.keys(STAGE_FIELDS)) FIELDS[name].stage = true;

/** Settings that fit a source, taken on when it is chosen. @type {Record<string, Patch>} */
export const PRESETS = {
  story: {rotary: true, causal: true, head: 0, row: -1},
  example: {rotary: false, causal: false, head: 0, row: -1},
  toy: {rotary: false, causal: false, head: 0, row: -1},
  file: {rotary: false, causal: false, head: 0, row: -1},
  long: {rotary: false, causal: true, head: 0, row: -1},
};

/** @returns {Patch} */
export function defaults() {
  /** @type {Patch} */
  const state = {};
  for (const [name, field] of Object.entries(FIELDS)) state[name] = field.value;
  return state;
}

/** Every field of the pipeline at its default. @returns {Patch} */
export function stageDefaults() {
  /** @type {Patch} */
  const patch = {};
  for (const name of Object.keys(STAGE_FIELDS)) {
    patch[name] = STAGE_FIELDS[name].value;
  }
  return patch;
}

/**
 * A value of a field as the field allows it, or undefined if it is none.
 * @param {string} name
 * @param {Value} raw
 * @returns {Value | undefined}
 */
export function checked(name, raw) {
  const field = FIELDS[name];
  if (!field) return undefined;
  if (typeof field.value === 'boolean') {
    if (typeof raw === 'boolean') return raw;
    return raw === '1' ? true : raw === '0' ? false : undefined;
  }
  if (typeof field.value === 'string') {
    const value = String(raw);
    return field.choices && !field.choices.includes(value) ? undefined : value;
  }
  if (raw === '') return undefined;
  const number = Number(raw);
  if (!Number.isFinite(number)) return undefined;
  const bounded = Math.min(field.max ?? Infinity,
                           Math.max(field.min ?? -Infinity, number));
  return field.whole ? Math.round(bounded) : bounded;
}

/**
 * @param {Patch} state
 * @param {(name: string, field: Field) => boolean} [wanted]
 * @returns {string} As the query of an address.
 */
export function write(state, wanted = () => true) {
  const parameters = new URLSearchParams();
  for (const [name, field] of Object.entries(FIELDS)) {
    const value = state[name];
    if (value === undefined || value === field.value) continue;
    if (!wanted(name, field)) continue;
    const flat = typeof value === 'boolean' ? (value ? '1' : '0') : value;
    parameters.set(name, String(flat));
  }
  return parameters.toString();
}

/**
 * What is not understood is passed over, so that an old link still opens.
 * @param {string} query
 * @returns {Patch}
 */
export function read(query) {
  /** @type {Patch} */
  const patch = {};
  for (const [name, raw] of new URLSearchParams(query)) {
    const value = checked(name, raw);
    if (value !== undefined) patch[name] = value;
  }
  return patch;
}

/** @param {Patch} state @returns {string} The pipeline alone. */
export function writeSetting(state) {
  // Never empty, so that a pinned setting of defaults is a pinned setting.
  return write(state, (_, field) => field.stage === true) || 'score=dot';
}

/** @param {string} query @returns {Patch} */
export function readSetting(query) {
  /** @type {Patch} */
  const patch = {};
  for (const [name, value] of Object.entries(read(query))) {
    if (FIELDS[name].stage) patch[name] = value;
  }
  return {...stageDefaults(), ...patch};
}

/** The state of the page; writes itself into location.hash. */
export class Store extends EventTarget {
  constructor() {
    super();
    /** @type {Patch} */
    this.state = {...defaults(), ...read(location.hash.slice(1))};
    this.timer = 0;
    addEventListener('hashchange', () => {
      const state = {...defaults(), ...read(location.hash.slice(1))};
      if (write(state) !== write(this.state)) this.replace(state);
    });
  }

  /**
   * Changes some fields; values that a field does not allow are left out.
   * @param {Patch} patch
   */
  set(patch) {
    const next = {...this.state};
    for (const [name, raw] of Object.entries(patch)) {
      const value = checked(name, raw);
      if (value !== undefined) next[name] = value;
    }
    this.replace(next);
  }

  /** @param {Patch} next */
  replace(next) {
    const previous = this.state;
    const changed =
        Object.keys(FIELDS).filter((name) => next[name] !== previous[name]);
    if (changed.length === 0) return;
    this.state = next;
    // Browsers allow only so many changes of the address in a second.
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.writeAddress(), 120);
    this.dispatchEvent(
        new CustomEvent('change', {detail: {state: next, previous, changed}}));
  }

  /** @param {(event: {state: Patch, previous: Patch, changed: string[]}) => void} listener */
  subscribe(listener) {
    this.addEventListener(
        'change',
        (event) => listener(/** @type {CustomEvent} */ (event).detail));
  }

  writeAddress() {
    clearTimeout(this.timer);
    const query = write(this.state);
    history.replaceState(null, '', query ? `#${query}` : location.pathname);
  }

  /** @returns {string} An address that opens the page as it is. */
  permalink() {
    this.writeAddress();
    return location.href;
  }
}
