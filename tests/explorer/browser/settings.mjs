// Every control of the strip, and the call that it stands for, written by the
// comments of attention.proto for a sentence of the story model.
import { tensor } from "./engine.mjs";

const alignment = "ALIGNMENT_TOP_LEFT";
export const heads = 8;
export const turned = { rotary: { layout: "ROTARY_LAYOUT_INTERLEAVED" } };
const causal = { causal: { alignment } };
const usual = { transforms: [turned], masks: [causal] };

const spec = (change) => () => ({ spec: { ...usual, ...change } });
const distance = (kind) => spec({ score: { distance: { distance: `DISTANCE_${kind}` } } });
const normalizer = (kind, options = {}) => spec({ normalizer: { [kind]: options } });
const mask = (...masks) => spec({ masks });
const each = (value) => tensor([heads], Array(heads).fill(value));
const normed = (kind) => spec({ transforms: [{ norm: { kind: `NORM_KIND_${kind}` } }, turned] });

// One value for each head, as an input of the call.
const withInput = (change, value) => () => ({ spec: { ...usual, ...change }, inputs: [each(value)] });
const sink = (value) => withInput({ normalizer: { softmax: { sink: { input: 0 } } } }, value);
const constant = (value) => withInput({ biases: [{ constant: { values: { input: 0 } } }] }, value);

const padded = (padding) => ({ tokens }) => {
  const lengths = [tokens - padding];
  return { spec: usual, q_lengths: lengths, kv_lengths: lengths };
};
const bigBird = (block, global_blocks, seed = 1) =>
  mask({ big_bird: { block, window_blocks: 1, global_blocks, random_blocks: 1, seed } });

// stage, state before, control, value, call. The state is as in a link.
export const settings = [
  ["score", "", "score", "cosine", spec({ score: { cosine: {} } })],
  ["score", "", "score", "squared_l2", distance("SQUARED_L2")],
  ["score", "", "score", "l2", distance("L2")],
  ["score", "", "score", "l1", distance("L1")],
  ["score", "", "rotary", false, spec({ transforms: [] })],
  ["score", "", "rotaryBase", 20, spec({ transforms: [{ rotary: { ...turned.rotary, base: 20 } }] })],
  ["score", "", "norm", "l2", normed("L2")],
  ["score", "", "norm", "rms", normed("RMS")],

  ["scale", "", "scaleMode", "off", spec({ score: { dot: { scale: 1 } } })],
  ["scale", "score=cosine&scaleMode=custom", "scale", 3.5, spec({ score: { cosine: { scale: 3.5 } } })],
  ["scale", "scaleMode=custom", "scale", -0.25, spec({ score: { dot: { scale: -0.25 } } })],
  ["scale", "softcap=0.8", "softcapOn", true, spec({ softcap: 0.8 })],
  ["scale", "softcapOn=1", "softcap", 0.3, spec({ softcap: 0.3 })],

  ["mask", "", "causal", false, mask()],
  ["mask", "left=2", "windowOn", true, mask(causal, { window: { left: 2, right: 0, alignment } })],
  ["mask", "windowOn=1&causal=0", "left", 1, mask({ window: { left: 1, right: 0, alignment } })],
  ["mask", "windowOn=1&causal=0", "right", 3, mask({ window: { left: 4, right: 3, alignment } })],
  ["mask", "", "padding", 3, padded(3)],
  ["mask", "", "bias", "alibi", spec({ biases: [{ alibi: {} }] })],
  ["mask", "bias=alibi", "slope", 0.7, spec({ biases: [{ alibi: { slopes: Array(heads).fill(0.7) } }] })],
  ["mask", "", "bias", "constant", constant(1)],
  ["mask", "bias=constant&normalizer=sigmoid", "constant", -1.5, withInput({
    biases: [{ constant: { values: { input: 0 } } }], normalizer: { sigmoid: {} } }, -1.5)],
  ["mask", "causal=0", "pattern", "prefix", mask({ prefix: { prefix: [4], alignment } })],
  ["mask", "causal=0", "pattern", "global", mask({ global: { tokens: [0], alignment } })],
  ["mask", "causal=0", "pattern", "dilated", mask({ dilated: { dilation: 4, alignment } })],
  ["mask", "", "pattern", "strided", mask(causal, { strided: { stride: 4, alignment } })],
  ["mask", "", "pattern", "fixed", mask(causal, { fixed: { stride: 4, summary: 1, alignment } })],
  ["mask", "causal=0&patternSize=2", "pattern", "longformer",
    mask({ longformer: { radius: 2, global_tokens: [0], alignment } })],
  ["mask", "", "pattern", "streaming", mask(causal, { streaming: { sinks: 1, left: 4, alignment } })],
  ["mask", "causal=0&patternSize=1", "pattern", "big_bird", bigBird(1, 1)],
  ["mask", "causal=0", "pattern", "program", mask({ program: { program: { source: "k <= q" } } })],
  ["mask", "causal=0&pattern=dilated", "patternSize", 3, mask({ dilated: { dilation: 3, alignment } })],
  ["mask", "causal=0&pattern=global", "patternCount", 2, mask({ global: { tokens: [0, 1], alignment } })],
  ["mask", "causal=0&pattern=program", "maskProgram", "abs(q - k) % 3 == 0",
    mask({ program: { program: { source: "abs(q - k) % 3 == 0" } } })],
  ["mask", "", "scoreProgram", "score - 0.2 * (q - k)",
    spec({ score_program: { source: "score - 0.2 * (q - k)" } })],

  ["normalise", "", "temperature", 0.5, spec({ temperatures: [0.5] })],
  ["normalise", "", "topK", 2, spec({ sparsifiers: [{ top_k: { k: 2 } }] })],
  ["normalise", "", "topP", 0.6, spec({ sparsifiers: [{ top_p: { p: 0.6 } }] })],
  ["normalise", "", "belowMax", 1.2, spec({ sparsifiers: [{ threshold: { below_max: 1.2 } }] })],
  ["normalise", "", "normalizer", "softmax_plus", normalizer("softmax_plus")],
  ["normalise", "normalizer=softmax_plus", "plus", 6, normalizer("softmax_plus", { n: 6 })],
  ["normalise", "", "normalizer", "sparsemax", normalizer("sparsemax")],
  ["normalise", "", "normalizer", "entmax", normalizer("entmax", { alpha: 1.5 })],
  ["normalise", "normalizer=entmax", "alpha", 2.25, normalizer("entmax", { alpha: 2.25 })],
  ["normalise", "", "normalizer", "sigmoid", normalizer("sigmoid")],
  ["normalise", "normalizer=sigmoid", "sigmoidBias", -2, normalizer("sigmoid", { bias: -2 })],
  ["normalise", "normalizer=sigmoid", "divisor", "visible_keys",
    normalizer("sigmoid", { divisor: "DIVISOR_VISIBLE_KEYS" })],
  ["normalise", "", "normalizer", "relu", normalizer("relu")],
  ["normalise", "normalizer=relu", "power", 2.5, normalizer("relu", { power: 2.5 })],
  ["normalise", "", "normalizer", "divisive", normalizer("divisive")],
  ["normalise", "", "normalizer", "hard", normalizer("hard")],
  ["normalise", "", "normalizer", "identity", normalizer("identity")],
  ["normalise", "", "sinkOn", true, sink(0)],
  ["normalise", "sinkOn=1", "sink", 2.5, sink(2.5)],
  ["normalise", "", "weightProgram", "weight * weight",
    spec({ weight_program: { source: "weight * weight" } })],

  ["mix", "", "dropout", 0.4, spec({ dropout: { p: 0.4, seed: 1 } })],
  ["mix", "dropout=0.4", "seed", 5, spec({ dropout: { p: 0.4, seed: 5 } })],
];

// What the page begins with.
export const first = spec({});
