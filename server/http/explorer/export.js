// @ts-check
// What is shown, as files.

import {writeNpz} from './files.js';

/**
 * @typedef {import('./tensors.js').TensorLike} TensorLike
 * @typedef {{toCanvas: () => HTMLCanvasElement}} CanvasSource
 * @typedef {{toSvg: () => string}} SvgSource
 */

const gap = 16;

/**
 * Offers a file to the user.
 * @param {Blob} blob
 * @param {string} name
 */
export function download(blob, name) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  // The browser reads the address after the click has been handled.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/**
 * Figures one beside the other on one canvas.
 * @param {readonly CanvasSource[]} figures
 */
export function joinedCanvas(figures) {
  const parts = figures.map((figure) => figure.toCanvas());
  const canvas = document.createElement('canvas');
  canvas.width = parts.reduce((sum, part) => sum + part.width + gap, -gap);
  canvas.height = Math.max(...parts.map((part) => part.height));
  const context = canvas.getContext('2d');
  if (!context) throw new Error('canvas has no 2d context');
  context.fillStyle = '#ffffff';
  context.fillRect(0, 0, canvas.width, canvas.height);
  let x = 0;
  for (const part of parts) {
    context.drawImage(part, x, 0);
    x += part.width + gap;
  }
  return canvas;
}

/**
 * Figures one beside the other in one SVG document.
 * @param {readonly SvgSource[]} figures
 */
export function joinedSvg(figures) {
  let width = -gap;
  let height = 0;
  const parts = figures.map((figure, i) => {
    const x = width + gap;
    const svg = figure.toSvg();
    const size = /<svg [^>]*?width="([\d.]+)" height="([\d.]+)"/.exec(svg);
    width = x + Number(size?.[1]);
    height = Math.max(height, Number(size?.[2]));
    // Ids are of the whole document.
    return svg.replace('<svg ', `<svg x="${x}" y="0" `)
        .replaceAll(/id="(hatch\d+)"/g, `id="f${i}$1"`)
        .replaceAll(/url\(#(hatch\d+)\)/g, `url(#f${i}$1)`);
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" ` +
      `height="${height}" viewBox="0 0 ${width} ${height}">` +
      `<rect width="100%" height="100%" fill="#ffffff"/>${
             parts.join('')}</svg>\n`;
}

/**
 * @param {readonly CanvasSource[]} figures
 * @param {string} [name]
 */
export async function savePng(figures, name = 'attention.png') {
  const canvas = joinedCanvas(figures);
  const blob = await new Promise((resolve) => canvas.toBlob(resolve));
  if (!blob) throw new Error('the figure is too large for a PNG');
  download(blob, name);
}

/**
 * @param {readonly SvgSource[]} figures
 * @param {string} [name]
 */
export function saveSvg(figures, name = 'attention.svg') {
  download(new Blob([joinedSvg(figures)], {type: 'image/svg+xml'}), name);
}

/**
 * @param {ReadonlyMap<string, TensorLike> | Record<string, TensorLike>} tensors
 * @param {string} [name]
 */
export function saveNpz(tensors, name = 'attention.npz') {
  const map =
      tensors instanceof Map ? tensors : new Map(Object.entries(tensors));
  download(writeNpz(map), name);
}
