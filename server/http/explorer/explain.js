// @ts-check
// A plain sentence or two: what just changed, why that does what it does, and
// what the server measured before and after.

import {real} from './answers.js';
import {inUse} from './controls.js';
import {number, percent} from './dom.js';

/** @typedef {import('./state.js').Patch} Patch */
/** @typedef {import('./answers.js').Result} Result */

/** @type {Record<string, string>} */
export const NAMES = {
  score: 'Score', activation: 'Activation', rotary: 'Rotary positions',
  rotaryBase: 'Rotary base', norm: 'Norm of q and k', scaleMode: 'Scale',
  scale: 'Factor', softcapOn: 'Soft cap', softcap: 'Cap', bias: 'Bias',
  slope: 'Slope', constant: 'Constant', scoreProgram: 'Score program',
  causal: 'Causal mask', windowOn: 'Window', left: 'Keys to the left',
  right: 'Keys to the right', padding: 'Padding', pattern: 'Pattern',
  patternSize: 'Pattern size', patternCount: 'Pattern count',
  maskProgram: 'Mask program', alignment: 'Diagonal', temperature: 'Temperature',
  topK: 'Top-k', topP: 'Top-p', belowMax: 'Threshold', normalizer: 'Normaliser',
  alpha: 'α', sinkOn: 'Sink', sink: 'Sink logit', plus: 'n',
  sigmoidBias: 'Sigmoid bias', power: 'Power', divisor: 'Divisor',
  weightProgram: 'Weight program', dropout: 'Dropout', seed: 'Seed',
  layer: 'Layer', head: 'Head', batch: 'Batch entry',
};

/** @type {Record<string, string>} */
const SCORES = {
  dot: 'A dot product grows with the angle\'s agreement and with both lengths.',
  cosine: 'A cosine sees only the angle, so its scores lie between −1 and 1 and ' +
      'the rows come out flat unless the scale is large.',
  squared_l2: 'A key scores by how near it is; under softmax that is a Gaussian ' +
      'kernel.',
  l2: 'A key scores by how near it is.',
  l1: 'A key scores by how near it is, feature by feature; under softmax that ' +
      'is a Laplace kernel.',
};

/** @type {Record<string, string>} */
const NORMALIZERS = {
  softmax: 'Softmax gives every visible key something, and a row sums to 1.',
  softmax_plus: 'The n in the denominator is a silent key: a row that finds ' +
      'nothing can keep its weights small, and sums to less than 1.',
  sparsemax: 'Sparsemax moves a row to the nearest point of the simplex, so ' +
      'weak keys get exactly 0.',
  entmax: 'Entmax lies between softmax (α = 1) and sparsemax (α = 2): the ' +
      'larger α, the more keys get exactly 0.',
  sigmoid: 'Each key is judged alone: keys no longer compete, and a row need ' +
      'not sum to 1.',
  relu: 'Scores below 0 give exactly 0, and a row need not sum to 1.',
  divisive: 'Scores below 0 give exactly 0; the rest is divided by its sum.',
  hard: 'All of the weight goes to the largest score of the row.',
  identity: 'The scores themselves are the weights, below 0 too.',
};

/** Why a change does what it does. @type {Record<string, (state: Patch, before: Patch) => string>} */
const REASONS = {
  score: (state) => SCORES[String(state.score)] ?? 'The score is learned.',
  rotary: (state) => state.rotary
      ? 'Each pair of features turns with its position, so a score depends on ' +
          'how far apart query and key are.'
      : 'Without turning, a score no longer knows where its tokens stand.',
  norm: (state) => state.norm === 'none'
      ? 'Lengths of q and k count again.'
      : 'Every q and k gets one length, so no token can shout.',
  scaleMode: (state) => state.scaleMode === 'off'
      ? 'Dot products grow with the number of features; unscaled, the largest ' +
          'takes more of the row.'
      : 'The factor multiplies every score before anything else.',
  scale: () => 'The factor multiplies every score before anything else.',
  softcapOn: (state) => state.softcapOn
      ? 'cap · tanh(x / cap) bends large scores, so that none runs away.'
      : 'Scores are not bent any more.',
  softcap: () => 'No score can leave ±cap; the lower the cap, the flatter the row.',
  bias: (state) => ({
    alibi: 'ALiBi takes away a little for each step of distance: near keys win.',
    constant: 'One number is added to every score.',
    dense: 'The file\'s matrix is added to the scores.',
  })[String(state.bias)] ?? 'Nothing is added to the scores.',
  slope: () => 'The steeper the slope, the shorter the sight.',
  constant: (state) => state.normalizer === 'softmax' && !state.sinkOn
      ? 'Softmax does not see what is added to a whole row; a sigmoid, or a ' +
          'sink, does.'
      : 'It shifts every key against what does not shift.',
  causal: (state) => state.causal
      ? 'Keys after the query are excluded: their weight is exactly 0 and goes ' +
          'to those before.'
      : 'Keys after the query are seen again and take their share.',
  windowOn: (state) => state.windowOn
      ? 'Keys outside of the window are excluded, and the rest shares their mass.'
      : 'There is no window: far keys are seen again.',
  padding: (state) => Number(state.padding) > 0
      ? 'Padded keys are never read, and padded queries give nothing.'
      : 'There is no padding.',
  temperature: (state, before) =>
      Number(state.temperature) > Number(before.temperature)
          ? 'Dividing by more shrinks the differences: the mass spreads.'
          : 'Dividing by less widens the differences: the mass gathers.',
  topK: (state) => Number(state.topK) > 0
      ? `Each row keeps its ${state.topK} largest scores; the others get exactly 0.`
      : 'All visible keys are kept.',
  topP: () => 'Each row keeps the fewest keys whose softmax weights reach p.',
  belowMax: () => 'Keys too far below the row\'s largest score are dropped.',
  normalizer: (state) => NORMALIZERS[String(state.normalizer)],
  alpha: () => NORMALIZERS.entmax,
  sinkOn: (state) => state.sinkOn
      ? 'A sink takes part in the softmax and brings no value: a row that finds ' +
          'nothing can put its mass there, and sums to less than 1.'
      : 'Rows sum to 1 again.',
  sink: () => 'The higher the sink\'s logit, the more mass leaves the row.',
  plus: () => NORMALIZERS.softmax_plus,
  power: () => 'A higher power lets the larger scores win.',
  divisor: () => 'The divisor keeps long rows from adding up to more than short ones.',
  dropout: () => 'Dropout drops weights after they are shown; the output changes.',
};
REASONS.left = REASONS.right = REASONS.windowOn;

/** @param {any} value @returns {string} */
export function word(value) {
  if (value === true) return 'on';
  if (value === false) return 'off';
  if (value === '') return 'none';
  return String(value).replaceAll('_', ' ');
}

/** @param {Result} result */
function measures({statistics}) {
  return {
    entropy: real(statistics.meanEntropy),
    share: real(statistics.meanEntropyRatio),
    peak: real(statistics.meanPeakWeight),
    visible: real(statistics.meanVisibleKeys),
  };
}

/** What was measured before and after, in words. @param {Result} before @param {Result} after */
function effect(before, after) {
  const [old, now] = [measures(before), measures(after)];
  const same = Math.abs(old.entropy - now.entropy) < 1e-6 &&
      Math.abs(old.peak - now.peak) < 1e-6 && old.visible === now.visible;
  if (same) return 'The weights\' entropy and peaks stay as they were.';
  const way = now.entropy > old.entropy ? 'rose' : 'fell';
  const seen = old.visible === now.visible ? ''
      : ` A row now sees ${number(now.visible, 1)} keys, not ` +
        `${number(old.visible, 1)}.`;
  return `Mean entropy ${way} from ${number(old.entropy, 3)} to ` +
      `${number(now.entropy, 3)} nats (${percent(old.share)} to ` +
      `${percent(now.share)} of the most), the mean peak went from ` +
      `${number(old.peak, 3)} to ${number(now.peak, 3)}.${seen}`;
}

/** What is known of the head. @param {Result} result @returns {string} */
export function noteOf({source, head}) {
  const note = source.headNotes[head];
  return note ? `${note.kind}: ${note.summary}` : '';
}

/** Where one stands. @param {Result} result @returns {string} */
export function introduce(result) {
  const {source, head, statistics} = result;
  const {entropy, share, peak} = measures(result);
  const places = {
    story: `Layer ${result.state.layer}, head ${head} of the story model on ` +
        `${source.keys} tokens`,
    example: 'The worked example: five tokens whose weights are known to four digits',
    toy: 'Your own queries and keys',
    file: `Head ${head} of your file`,
  };
  const place = /** @type {Record<string, string>} */ (places)[source.kind] ?? '';
  const note = noteOf(result);
  const dead = statistics.deadReason ? ` It looks dead: ${statistics.deadReason}.` : '';
  return `${place}${note ? ` (${note})` : ''}. The mean entropy is ` +
      `${number(entropy, 3)} nats, ${percent(share)} of the most it could be; ` +
      `the mean peak is ${number(peak, 3)}.${dead}`;
}

/**
 * @param {Result | null} before
 * @param {Result} after
 * @returns {string}
 */
export function explain(before, after) {
  if (!before || before.source.kind !== after.source.kind) {
    return introduce(after);
  }
  const changed = Object.keys(NAMES)
      .filter((field) => before.state[field] !== after.state[field] &&
          (inUse(field, after.state) || inUse(field, before.state)));
  if (after.source.kind === 'toy' && before.source.key !== after.source.key) {
    return `You changed a number by hand. ${effect(before, after)}`;
  }
  if (before.source.key !== after.source.key || changed.length === 0 ||
      before.head !== after.head || before.batch !== after.batch) {
    return introduce(after);
  }
  if (changed.length > 2) {
    return `Several settings changed. ${effect(before, after)}`;
  }
  const what = changed.map((field) => `${NAMES[field]}: ` +
      `${word(before.state[field])} → ${word(after.state[field])}.`);
  const reason = changed.map((field) => REASONS[field])
      .filter(Boolean).map((why) => why(after.state, before.state));
  return [...what, ...new Set(reason), effect(before, after)].join(' ');
}
