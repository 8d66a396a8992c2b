// @ts-check
// From numbers to colours: maps that are perceptually even, since they are
// straight lines of Oklab, and safe for the common kinds of colour blindness.

/**
 * Red, green and blue, each 0 to 255.
 * @typedef {[number, number, number]} Rgb
 * @typedef {{lightness: number, a: number, b: number}} OkLab
 * @typedef {'weights' | 'logits'} MapName
 * @typedef {(x: number) => Rgb} ColourMap
 */

const last = 255;

/**
 * @param {number} lightness
 * @param {number} chroma
 * @param {number} hue in degrees
 * @returns {OkLab}
 */
function polar(lightness, chroma, hue) {
  const angle = (hue * Math.PI) / 180;
  return {
    lightness,
    a: chroma * Math.cos(angle),
    b: chroma * Math.sin(angle),
  };
}

/** IEC 61966-2-1. @param {number} channel 0 to 255 */
function toLinear(channel) {
  const x = channel / 255;
  return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
}

/** @param {number} linear */
function fromLinear(linear) {
  const x = Math.min(Math.max(linear, 0), 1);
  const encoded = x <= 0.0031308 ? 12.92 * x : 1.055 * x ** (1 / 2.4) - 0.055;
  return Math.round(encoded * 255);
}

/**
 * The matrices of both directions are Ottosson's, of 2021-01-25.
 * @param {OkLab} colour
 * @returns {Rgb}
 */
export function fromOklab({lightness, a, b}) {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    fromLinear(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
    fromLinear(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
    fromLinear(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s),
  ];
}

/**
 * @param {Rgb} colour
 * @returns {OkLab}
 */
export function toOklab([red, green, blue]) {
  const r = toLinear(red);
  const g = toLinear(green);
  const b = toLinear(blue);
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return {
    lightness: 0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    a: 1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    b: 0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  };
}

/**
 * How far apart two colours look.
 * @param {OkLab} x
 * @param {OkLab} y
 */
export function colourDistance(x, y) {
  return Math.hypot(x.lightness - y.lightness, x.a - y.a, x.b - y.b);
}

/**
 * @param {OkLab} from
 * @param {OkLab} to
 * @param {number} share
 */
function between(from, to, share) {
  return fromOklab({
    lightness: from.lightness + share * (to.lightness - from.lightness),
    a: from.a + share * (to.a - from.a),
    b: from.b + share * (to.b - from.b),
  });
}

/**
 * Equal steps are equally far along the lines between the anchors.
 * @param {OkLab[]} anchors
 * @returns {Rgb[]}
 */
function evenTable(anchors) {
  const ends = [0];
  for (let i = 1; i < anchors.length; ++i) {
    ends.push(ends[i - 1] + colourDistance(anchors[i - 1], anchors[i]));
  }
  return Array.from({length: last + 1}, (_, i) => {
    const way = (i / last) * ends[ends.length - 1];
    let line = 0;
    while (line + 2 < ends.length && way > ends[line + 1]) ++line;
    const share = (way - ends[line]) / (ends[line + 1] - ends[line]);
    return between(anchors[line], anchors[line + 1], share);
  });
}

/**
 * Equal steps are equal parts of a line, so that both arms of a diverging map
 * are equally light at the same distance from the middle.
 * @param {OkLab[]} anchors
 * @returns {Rgb[]}
 */
function anchoredTable(anchors) {
  const lines = anchors.length - 1;
  return Array.from({length: last + 1}, (_, i) => {
    const number = (lines * i) / last;
    const line = Math.min(Math.floor(number), lines - 1);
    return between(anchors[line], anchors[line + 1], number - line);
  });
}

const weightsTable = evenTable([
  polar(0.285, 0.137, 318),
  polar(0.429, 0.106, 274),
  polar(0.559, 0.085, 208),
  polar(0.694, 0.145, 158),
  polar(0.842, 0.194, 123),
  polar(0.918, 0.186, 102),
]);

const lightLogitsTable = anchoredTable([
  polar(0.45, 0.145, 258),
  polar(0.71, 0.115, 250),
  polar(0.97, 0, 0),
  polar(0.71, 0.135, 62),
  polar(0.45, 0.11, 52),
]);

// Away from 0 it grows lighter, since the page around it is dark.
const darkLogitsTable = anchoredTable([
  polar(0.8, 0.105, 240),
  polar(0.51, 0.125, 255),
  polar(0.22, 0, 0),
  polar(0.51, 0.11, 52),
  polar(0.8, 0.13, 70),
]);

/**
 * @param {string} name
 * @param {boolean} dark
 * @returns {Rgb[]}
 */
function tableOf(name, dark) {
  if (name === 'weights') return weightsTable;
  if (name === 'logits') return dark ? darkLogitsTable : lightLogitsTable;
  throw new TypeError(
      `colour map is '${name}'; expected 'weights' or 'logits'`,
  );
}

/**
 * 'weights' is sequential, from dark to light. 'logits' is diverging, 0.5 being
 * its middle. What is outside of 0 to 1 has the colour of the nearer end.
 * @param {string} name
 * @param {boolean} [dark] for a dark page
 * @returns {ColourMap}
 */
export function colourMap(name, dark = false) {
  const table = tableOf(name, dark);
  return (x) => table[Math.round(Math.min(Math.max(x, 0), 1) * last)];
}

/** Where masked cells are hatched, and what no value is. */
export const MASKED = Object.freeze({
  light: {
    ground: /** @type {Rgb} */ ([210, 210, 210]),
    stripe: /** @type {Rgb} */ ([155, 155, 155]),
    notFinite: /** @type {Rgb} */ ([0, 0, 0]),
  },
  dark: {
    ground: /** @type {Rgb} */ ([58, 58, 58]),
    stripe: /** @type {Rgb} */ ([110, 110, 110]),
    notFinite: /** @type {Rgb} */ ([255, 255, 255]),
  },
});

/** @param {Rgb} colour */
export function css([r, g, b]) {
  return `#${[r, g, b].map((x) => x.toString(16).padStart(2, '0')).join('')}`;
}

/** WCAG 2.2's relative luminance. @param {Rgb} colour */
export function luminance([r, g, b]) {
  return 0.2126 * toLinear(r) + 0.7152 * toLinear(g) + 0.0722 * toLinear(b);
}

/** WCAG 2.2's contrast ratio, 1 to 21. @param {Rgb} x @param {Rgb} y */
export function contrast(x, y) {
  const [dark, light] = [luminance(x), luminance(y)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

/** Black or white, whichever is easier to read. @param {Rgb} ground */
export function inkOn(ground) {
  const black = /** @type {Rgb} */ ([0, 0, 0]);
  const white = /** @type {Rgb} */ ([255, 255, 255]);
  return contrast(ground, black) >= contrast(ground, white) ? black : white;
}

/**
 * The range of values that a map is stretched over: from 0, or about 0. It is
 * never empty.
 * @param {string} map
 * @param {number} low
 * @param {number} high
 * @returns {[number, number]}
 */
export function rangeOf(map, low, high) {
  if (map === 'logits') {
    const size = Math.max(Math.abs(low), Math.abs(high)) || 1;
    return [-size, size];
  }
  const begin = Math.min(low, 0);
  return [begin, high > begin ? high : begin + 1];
}

/**
 * Colours of many values as the pixels of an image.
 * @param {{data: ArrayLike<number>, colours: ColourMap,
 *     range: readonly [number, number], notFinite: Rgb,
 *     pixels: Uint8ClampedArray}} job pixels has 4 places for each value
 */
export function paintPixels({data, colours, range, notFinite, pixels}) {
  const [low, high] = range;
  // Halves first: the range itself may be beyond what a double holds.
  const half = high / 2 - low / 2;
  for (let i = 0; i < data.length; ++i) {
    const value = data[i];
    const [r, g, b] = Number.isFinite(value) ?
        colours((value / 2 - low / 2) / half) :
        notFinite;
    pixels[4 * i] = r;
    pixels[4 * i + 1] = g;
    pixels[4 * i + 2] = b;
    pixels[4 * i + 3] = 255;
  }
}
