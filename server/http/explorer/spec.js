// @ts-check
// From the state of the page to attention.v1's AttentionSpec in protobuf's JSON
// mapping, whole or up to a stage, so that each stage's matrix is an answer of
// the server.

/** @typedef {import('./state.js').Patch} Patch */

/**
 * What a spec depends on beside the state.
 * @typedef {object} Context
 * @property {number} queryHeads
 * @property {number} batches
 * @property {number} queries
 * @property {number} keys
 * @property {ReadonlyMap<string, object>} extras Tensors of a file, as JSON, by
 *     name.
 */

/**
 * What goes into a request beside q, k and v.
 * @typedef {object} CallPart
 * @property {object} spec
 * @property {object[]} inputs
 * @property {string[]} [qLengths]
 * @property {string[]} [kvLengths]
 */

/** How far the pipeline goes. @typedef {'score' | 'scale' | 'mask' | 'all'} UpTo */

/** Tensors of a file that a member of a stage needs. */
const NEEDS = /** @type {Record<string, Record<string, string[]>>} */ ({
  score: {
    bilinear: ['score_weight'],
    additive: ['score_v'],
    concat: ['score_weight', 'score_v'],
    trilinear: ['score_weight'],
  },
  bias: {dense: ['bias']},
  pattern: {dense: ['mask']},
  loss: {file: ['d_output']},
});

/**
 * Tensors that a choice needs and the source does not have.
 * @param {string} field
 * @param {string} choice
 * @param {ReadonlyMap<string, object>} extras
 * @returns {string[]}
 */
export function missing(field, choice, extras) {
  return (NEEDS[field]?.[choice] ?? []).filter((name) => !extras.has(name));
}

/** The inputs of a call, each once. */
class Inputs {
  /** @param {ReadonlyMap<string, object>} extras */
  constructor(extras) {
    this.extras = extras;
    /** @type {object[]} */
    this.list = [];
    /** @type {Map<string, number>} */
    this.places = new Map();
  }

  /** @param {string} name @returns {object | undefined} A TensorRef. */
  named(name) {
    const tensor = this.extras.get(name);
    if (!tensor) return undefined;
    const place = this.places.get(name) ?? this.list.push(tensor) - 1;
    this.places.set(name, place);
    return {input: place};
  }

  /** One value for each head. @param {number} value @param {number} heads */
  perHead(value, heads) {
    const data = new DataView(new ArrayBuffer(8));
    data.setFloat64(0, value, true);
    const bytes = String.fromCharCode(...new Uint8Array(data.buffer));
    const tensor = {
      dtype: 'DATA_TYPE_F64',
      shape: [String(heads)],
      data: btoa(bytes.repeat(heads)),
    };
    return {input: this.list.push(tensor) - 1};
  }
}

/**
 * @param {Patch} state
 * @param {Context} context
 * @param {UpTo} [upTo]
 * @returns {CallPart}
 */
export function buildCall(state, context, upTo = 'all') {
  const inputs = new Inputs(context.extras);
  /** @type {Record<string, any>} */
  const spec = {
    score: scoreOf(state, inputs, upTo === 'score'),
    transforms: transformsOf(state),
  };
  /** @type {CallPart} */
  const call = {spec, inputs: inputs.list};
  if (upTo === 'score') return call;
  if (state.softcapOn) spec.softcap = state.softcap;
  if (upTo === 'scale') return call;
  Object.assign(spec, biasesOf(state, context, inputs));
  spec.masks = masksOf(state, context, inputs);
  Object.assign(call, lengthsOf(state, context));
  if (upTo === 'mask') return call;
  if (state.temperature !== 1) spec.temperatures = [state.temperature];
  spec.sparsifiers = sparsifiersOf(state);
  spec.normalizer = normalizerOf(state, context, inputs);
  if (state.weightProgram) spec.weightProgram = {source: state.weightProgram};
  if (Number(state.dropout) > 0) {
    spec.dropout = {p: state.dropout, seed: String(state.seed)};
  }
  const gate = inputs.named('head_gate');
  if (gate) spec.headGate = gate;
  return call;
}

/**
 * @param {Patch} state
 * @param {Inputs} inputs
 * @param {boolean} raw Whether every scale is left at 1.
 */
function scoreOf(state, inputs, raw) {
  const kind = String(state.score);
  const activation = `ACTIVATION_${String(state.activation).toUpperCase()}`;
  const weight = inputs.named('score_weight');
  const v = inputs.named('score_v');
  /** @type {Record<string, any>} */
  const scaled = {};
  if (raw || state.scaleMode === 'off') scaled.scale = 1;
  else if (state.scaleMode === 'custom') scaled.scale = state.scale;
  switch (kind) {
    case 'dot':
    case 'cosine':
      return {[kind]: {...scaled, ...(raw ? {} : learnedScale(inputs))}};
    case 'bilinear':
      return {bilinear: {weight, ...scaled}};
    case 'additive':
      return {
        additive: {
          queryWeight: inputs.named('score_query_weight'),
          keyWeight: inputs.named('score_key_weight'),
          queryBias: inputs.named('score_query_bias'),
          v,
          activation,
        },
      };
    case 'concat':
      return {concat: {weight, v, activation}};
    case 'trilinear':
      return {trilinear: {weight}};
    default:
      return {
        distance: {distance: `DISTANCE_${kind.toUpperCase()}`, ...scaled},
      };
  }
}

/** @param {Inputs} inputs */
function learnedScale(inputs) {
  const logScale = inputs.named('log_scale');
  return logScale ? {learnedScale: {logScale}} : {};
}

/** @param {Patch} state */
function transformsOf(state) {
  /** @type {object[]} */
  const transforms = [];
  if (state.norm !== 'none') {
    const kind = `NORM_KIND_${String(state.norm).toUpperCase()}`;
    transforms.push({norm: {kind}});
  }
  if (state.rotary) {
    transforms.push({
      rotary: {layout: 'ROTARY_LAYOUT_INTERLEAVED', base: state.rotaryBase},
    });
  }
  return transforms;
}

/** @param {Patch} state @param {Context} context @param {Inputs} inputs */
function biasesOf(state, context, inputs) {
  /** @type {object[]} */
  const biases = [];
  /** @type {Record<string, any>} */
  const part = {biases};
  if (state.bias === 'alibi') {
    const slopes = Number(state.slope) > 0
        ? Array(context.queryHeads).fill(state.slope)
        : [];
    biases.push({alibi: {slopes}});
  }
  if (state.bias === 'constant') {
    const values = inputs.perHead(Number(state.constant), context.queryHeads);
    biases.push({constant: {values}});
  }
  if (state.bias === 'dense') {
    biases.push({dense: {tensor: inputs.named('bias')}});
  }
  if (state.scoreProgram) part.scoreProgram = {source: state.scoreProgram};
  return part;
}

/**
 * Where the diagonal lies.
 * @param {Patch} state
 * @param {Context} context
 */
function alignmentOf(state, context) {
  if (state.alignment !== 'automatic') {
    return `ALIGNMENT_${String(state.alignment).toUpperCase()}`;
  }
  return context.queries === context.keys ? 'ALIGNMENT_TOP_LEFT'
                                          : 'ALIGNMENT_BOTTOM_RIGHT';
}

/** @param {Patch} state @param {Context} context @param {Inputs} inputs */
function masksOf(state, context, inputs) {
  const alignment = alignmentOf(state, context);
  /** @type {object[]} */
  const masks = [];
  if (state.causal) masks.push({causal: {alignment}});
  if (state.windowOn) {
    masks.push({
      window: {left: String(state.left), right: String(state.right), alignment},
    });
  }
  if (state.pattern !== 'none') {
    masks.push(patternOf(state, alignment, inputs));
  }
  return masks;
}

/** @param {Patch} state @param {string} alignment @param {Inputs} inputs */
function patternOf(state, alignment, inputs) {
  const size = String(state.patternSize);
  const count = String(state.patternCount);
  const first = Array.from({length: Number(state.patternCount)},
                           (_, token) => String(token));
  switch (state.pattern) {
    case 'prefix':
      return {prefix: {prefix: [size], alignment}};
    case 'global':
      return {global: {tokens: first, alignment}};
    case 'dilated':
      return {dilated: {dilation: size, alignment}};
    case 'strided':
      return {strided: {stride: size, alignment}};
    case 'fixed':
      return {fixed: {stride: size, summary: count, alignment}};
    case 'longformer':
      return {longformer: {radius: size, globalTokens: first, alignment}};
    case 'streaming':
      return {streaming: {sinks: count, left: size, alignment}};
    case 'big_bird':
      return {
        bigBird: {
          block: size,
          windowBlocks: '1',
          globalBlocks: count,
          randomBlocks: '1',
          seed: String(state.seed),
        },
      };
    case 'program':
      return {program: {program: {source: state.maskProgram}}};
    default:
      return {dense: {tensor: inputs.named('mask')}};
  }
}

/** @param {Patch} state @param {Context} context */
function lengthsOf(state, context) {
  const padding = Number(state.padding);
  if (padding === 0) return {};
  const all = (/** @type {number} */ extent) =>
      Array(context.batches).fill(String(Math.max(0, extent - padding)));
  // Of a sequence that attends to itself, the padding's own rows are none.
  return context.queries === context.keys
      ? {qLengths: all(context.queries), kvLengths: all(context.keys)}
      : {kvLengths: all(context.keys)};
}

/** @param {Patch} state */
function sparsifiersOf(state) {
  /** @type {object[]} */
  const sparsifiers = [];
  if (Number(state.topK) > 0) {
    sparsifiers.push({topK: {k: String(state.topK)}});
  }
  if (Number(state.belowMax) > 0) {
    sparsifiers.push({threshold: {belowMax: state.belowMax}});
  }
  if (Number(state.topP) < 1) sparsifiers.push({topP: {p: state.topP}});
  return sparsifiers;
}

/** @param {Patch} state @param {Context} context @param {Inputs} inputs */
function normalizerOf(state, context, inputs) {
  const divisor = `DIVISOR_${String(state.divisor).toUpperCase()}`;
  switch (state.normalizer) {
    case 'softmax': {
      if (!state.sinkOn) return {softmax: {}};
      const sink = inputs.named('sink') ??
          inputs.perHead(Number(state.sink), context.queryHeads);
      return {softmax: {sink}};
    }
    case 'softmax_plus':
      return {softmaxPlus: {n: state.plus}};
    case 'entmax':
      return {entmax: {alpha: state.alpha}};
    case 'sigmoid':
      return {sigmoid: {bias: state.sigmoidBias, divisor}};
    case 'relu':
      return {relu: {power: state.power, divisor}};
    default:
      return {[String(state.normalizer)]: {}};
  }
}
