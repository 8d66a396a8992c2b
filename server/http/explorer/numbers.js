// @ts-check
// Numbers as text: exact, short, and at round steps.

/**
 * The fewest digits that are read back as the same number of the array it came
 * from.
 * @param {number} value
 * @param {boolean} [single] the value is a float32
 */
export function exactText(value, single = false) {
  if (Number.isNaN(value)) return 'NaN';
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '−∞';
  let text = String(value);
  for (let digits = 1; single && digits <= 9; ++digits) {
    const shorter = String(Number(value.toPrecision(digits)));
    if (Math.fround(Number(shorter)) !== value) continue;
    text = shorter;
    break;
  }
  return withMinus(text);
}

/**
 * At most so many significant digits, without zeros that say nothing.
 * @param {number} value
 * @param {number} [digits]
 */
export function shortText(value, digits = 3) {
  if (!Number.isFinite(value)) return exactText(value);
  if (value === 0) return '0';
  const rounded = Number(value.toPrecision(digits));
  const size = Math.abs(rounded);
  if (size >= 1e5 || size < 1e-3) {
    const [mantissa, power] = rounded.toExponential().split('e');
    return withMinus(`${mantissa}e${Number(power)}`);
  }
  return withMinus(String(rounded));
}

/** @param {string} text */
function withMinus(text) {
  return text.replaceAll('-', '−');
}

/**
 * What an array of values is: a float32 is written with fewer digits.
 * @param {ArrayLike<number>} data
 */
export function isSingle(data) {
  return data instanceof Float32Array;
}

/**
 * 1, 2 or 5 times a power of ten, and at least so much.
 * @param {number} step
 */
export function niceStep(step) {
  const power = 10 ** Math.floor(Math.log10(step));
  // A step that is nice already may come with an error of rounding.
  const share = step / power - 1e-9;
  const nice = [1, 2, 5].find((x) => share <= x) ?? 10;
  return nice * power;
}

/**
 * Round values from low to high, `most` at the most.
 * @param {number} low
 * @param {number} high
 * @param {number} most at least 2
 * @returns {number[]}
 */
export function valueTicks(low, high, most) {
  if (!(high > low)) return [low];
  const step = niceStep((high - low) / (most - 1));
  const first = Math.ceil(low / step - 1e-9);
  const end = Math.floor(high / step + 1e-9);
  const ticks = [];
  for (let i = first; i <= end && ticks.length < most; ++i) {
    // Through decimal text, so that 3 * 0.1 is 0.3.
    ticks.push(Number((i * step).toPrecision(12)));
  }
  return ticks;
}

/**
 * Values from low to high at 1, 2 and 5 of each power of ten, or at the powers
 * alone where those would be more than `most`.
 * @param {number} low above 0
 * @param {number} high
 * @param {number} most
 * @returns {number[]}
 */
export function logTicks(low, high, most) {
  const begin = Math.floor(Math.log10(low) - 1e-9);
  const end = Math.ceil(Math.log10(high) + 1e-9);
  const inside = (/** @type {number} */ x) =>
      x >= low * (1 - 1e-9) && x <= high * (1 + 1e-9);
  for (const parts of [[1, 2, 5], [1, 3], [1]]) {
    const ticks = [];
    for (let power = begin; power <= end; ++power) {
      for (const part of parts) ticks.push(Number(`${part}e${power}`));
    }
    const fitting = ticks.filter(inside);
    if (fitting.length <= most) return fitting;
  }
  const powers = Array.from({length: end - begin + 1}, (_, i) => begin + i);
  const stride = Math.ceil(powers.length / most);
  return powers.filter((_, i) => i % stride === 0)
      .map((power) => Number(`1e${power}`))
      .filter(inside);
}

/**
 * Multiples of a step among the indices from begin on.
 * @param {number} begin
 * @param {number} end one past the last
 * @param {number} step
 * @returns {number[]}
 */
export function indexTicks(begin, end, step) {
  const ticks = [];
  for (let i = Math.ceil(begin / step) * step; i < end; i += step) {
    ticks.push(i);
  }
  return ticks;
}

/**
 * Indices as a person says them: 'row 5', 'rows 0–127'.
 * @param {string} noun
 * @param {number} begin
 * @param {number} end one past the last
 */
export function rangeText(noun, begin, end) {
  return end - begin <= 1 ? `${noun} ${begin}` : `${noun}s ${begin}–${end - 1}`;
}
