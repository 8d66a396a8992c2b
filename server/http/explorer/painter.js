// @ts-check
// Boxes, cells and text, onto a canvas or into an SVG.

import {css} from './colours.js';

/**
 * @typedef {import('./colours.js').Rgb} Rgb
 * @typedef {{x: number, y: number, width: number, height: number}} Box
 * @typedef {{size: number, colour: string, anchor?: 'start' | 'middle' | 'end',
 *     up?: boolean, bold?: boolean}} TextStyle
 * @typedef {{rows: number, cols: number, pixels: Uint8ClampedArray}} Cells
 * @typedef {{ground: Rgb, stripe: Rgb}} HatchColours
 */

/**
 * What both kinds of painter do. Text is placed by the middle of its line.
 * @typedef {{
 *     box: (box: Box, colour: string) => void,
 *     frame: (box: Box, colour: string) => void,
 *     text: (text: string, x: number, y: number, style: TextStyle) => void,
 *     cells: (cells: Cells, box: Box) => void,
 *     hatch: (boxes: Box[], colours: HatchColours) => void}} Painter
 */

export const fontFamily = 'system-ui, "DejaVu Sans", sans-serif';
export const hatchPeriod = 7;
// An SVG with more cells has them as one image.
const mostBoxes = 4096;

/** @type {CanvasRenderingContext2D | null} */
let ruler = null;

/** The width of a text in pixels. @type {import('./labels.js').Measure} */
export function measureText(text, size) {
  ruler ??= document.createElement('canvas').getContext('2d');
  if (!ruler) return text.length * size * 0.6;
  ruler.font = `${size}px ${fontFamily}`;
  return ruler.measureText(text).width;
}

/**
 * A canvas with one pixel for each cell.
 * @param {Cells} cells
 */
export function cellsCanvas({rows, cols, pixels}) {
  const canvas = document.createElement('canvas');
  canvas.width = cols;
  canvas.height = rows;
  const context = canvas.getContext('2d');
  if (context && rows > 0 && cols > 0) {
    const image = context.createImageData(cols, rows);
    image.data.set(pixels);
    context.putImageData(image, 0, 0);
  }
  return canvas;
}

/**
 * One period of the stripes, from lower left to upper right.
 * @param {HatchColours} colours
 * @returns {Cells}
 */
export function hatchTile({ground, stripe}) {
  const side = hatchPeriod;
  const pixels = new Uint8ClampedArray(4 * side * side);
  for (let y = 0; y < side; ++y) {
    for (let x = 0; x < side; ++x) {
      const colour = (x + y) % side === 0 ? stripe : ground;
      pixels.set([...colour, 255], 4 * (y * side + x));
    }
  }
  return {rows: side, cols: side, pixels};
}

/** @implements {Painter} */
export class CanvasPainter {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {number} width in CSS pixels
   * @param {number} height
   * @param {number} scale device pixels for each of them
   */
  constructor(canvas, width, height, scale) {
    canvas.width = Math.max(Math.round(width * scale), 1);
    canvas.height = Math.max(Math.round(height * scale), 1);
    this.context =
        /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
    this.context.textBaseline = 'middle';
  }

  /** @param {Box} box @param {string} colour */
  box({x, y, width, height}, colour) {
    this.context.fillStyle = colour;
    this.context.fillRect(x, y, width, height);
  }

  /** @param {Box} box @param {string} colour */
  frame({x, y, width, height}, colour) {
    this.context.strokeStyle = colour;
    this.context.lineWidth = 1;
    this.context.strokeRect(x - 0.5, y - 0.5, width + 1, height + 1);
  }

  /**
   * @param {string} text
   * @param {number} x
   * @param {number} y
   * @param {TextStyle} style
   */
  text(text, x, y, {size, colour, anchor = 'start', up, bold}) {
    const {context} = this;
    context.save();
    context.font = `${bold ? '600 ' : ''}${size}px ${fontFamily}`;
    context.fillStyle = colour;
    context.textAlign = anchor === 'middle' ? 'center' : anchor;
    context.translate(x, y);
    if (up) context.rotate(-Math.PI / 2);
    context.fillText(text, 0, 0);
    context.restore();
  }

  /** @param {Cells} cells @param {Box} box */
  cells(cells, {x, y, width, height}) {
    const {context} = this;
    // Many cells in a pixel are averaged; few are kept sharp.
    const small = width < cells.cols || height < cells.rows;
    context.imageSmoothingEnabled = small;
    context.imageSmoothingQuality = 'high';
    context.drawImage(cellsCanvas(cells), x, y, width, height);
  }

  /** @param {Box[]} boxes @param {HatchColours} colours */
  hatch(boxes, colours) {
    const {context} = this;
    const tile = cellsCanvas(hatchTile(colours));
    const pattern = context.createPattern(tile, 'repeat');
    if (!pattern || boxes.length === 0) return;
    context.fillStyle = pattern;
    context.beginPath();
    for (const {x, y, width, height} of boxes) {
      context.rect(x, y, width, height);
    }
    context.fill();
  }
}

/** @param {string} text */
export function escapeXml(text) {
  /** @type {Record<string, string>} */
  const names = {'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;'};
  // XML has no control characters, even as references.
  const clean = text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, '�');
  return clean.replace(/[&<>"]/g, (c) => names[c]);
}

/** @param {number} x */
function short(x) {
  return String(Math.round(x * 100) / 100);
}

/** @param {Box} box */
function place({x, y, width, height}) {
  return `x="${short(x)}" y="${short(y)}" width="${short(width)}" ` +
      `height="${short(height)}"`;
}

/** @implements {Painter} */
export class SvgPainter {
  /**
   * @param {number} width
   * @param {number} height
   */
  constructor(width, height) {
    this.width = width;
    this.height = height;
    /** @type {string[]} */
    this.parts = [];
    this.patterns = 0;
  }

  /** @param {Box} box @param {string} colour */
  box(box, colour) {
    this.parts.push(`<rect ${place(box)} fill="${colour}"/>`);
  }

  /** @param {Box} box @param {string} colour */
  frame(box, colour) {
    const {x, y, width, height} = box;
    const around =
        {x: x - 0.5, y: y - 0.5, width: width + 1, height: height + 1};
    this.parts.push(`<rect ${place(around)} fill="none" stroke="${colour}"/>`);
  }

  /**
   * @param {string} text
   * @param {number} x
   * @param {number} y
   * @param {TextStyle} style
   */
  text(text, x, y, {size, colour, anchor = 'start', up, bold}) {
    const turn = up ? ` transform="rotate(-90 ${short(x)} ${short(y)})"` : '';
    // Baselines are placed by hand: not all readers of SVG know others.
    this.parts.push(
        `<text x="${short(x)}" y="${short(y)}" dy="0.35em" ` +
        `font-size="${size}" fill="${colour}" text-anchor="${anchor}"` +
        `${bold ? ' font-weight="600"' : ''}${turn}>${escapeXml(text)}</text>`);
  }

  /** @param {Cells} cells @param {Box} box */
  cells(cells, box) {
    const {rows, cols, pixels} = cells;
    if (rows * cols > mostBoxes) {
      const href = cellsCanvas(cells).toDataURL('image/png');
      this.parts.push(
          `<image ${place(box)} preserveAspectRatio="none" ` +
          `style="image-rendering:pixelated" href="${href}"/>`);
      return;
    }
    const width = box.width / cols;
    const height = box.height / rows;
    this.parts.push('<g shape-rendering="crispEdges">');
    for (let i = 0; i < rows * cols; ++i) {
      const [r, g, b] = pixels.subarray(4 * i, 4 * i + 3);
      const cell = {
        x: box.x + (i % cols) * width,
        y: box.y + Math.floor(i / cols) * height,
        width,
        height
      };
      this.box(cell, css([r, g, b]));
    }
    this.parts.push('</g>');
  }

  /** @param {Box[]} boxes @param {HatchColours} colours */
  hatch(boxes, {ground, stripe}) {
    if (boxes.length === 0) return;
    const id = `hatch${this.patterns++}`;
    const side = hatchPeriod;
    const way = boxes.map(
        (box) => `M${short(box.x)} ${short(box.y)}` +
            `h${short(box.width)}v${short(box.height)}h${short(-box.width)}z`);
    this.parts.push(
        `<pattern id="${id}" width="${side}" height="${side}" ` +
        `patternUnits="userSpaceOnUse"><rect width="${side}" height="${
            side}" ` +
        `fill="${css(ground)}"/><path d="M-1 1L1 -1M0 ${side}L${side} 0` +
        `M${side - 1} ${side + 1}L${side + 1} ${side - 1}" ` +
        `stroke="${css(stripe)}"/></pattern>` +
        `<path d="${way.join('')}" fill="url(#${id})"/>`);
  }

  /** The figure as a document of its own. @param {string} title */
  toString(title) {
    const {width, height} = this;
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" ` +
        `height="${height}" viewBox="0 0 ${width} ${height}" ` +
        `font-family="${escapeXml(fontFamily)}" role="img">` +
        `<title>${escapeXml(title)}</title>${this.parts.join('')}</svg>\n`;
  }
}
