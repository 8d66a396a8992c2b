// @ts-check
// Which tiles of a large matrix are seen, and by which requests they come.
// A level's cells stand for 2^level x 2^level elements; a tile is 256 x 256
// cells, 256 KiB of float32. A tile comes in bands of rows, so that the first
// part of a tile that costs much is seen early.

/**
 * @typedef {{rows: number, cols: number}} Size in elements
 * @typedef {{level: number, row: number, col: number}} TileId
 * @typedef {{queryBegin: number, queryEnd: number, keyBegin: number,
 *     keyEnd: number}} Ranges ends are one past the last
 * @typedef {Ranges & {level: number, tileRow: number, band: number,
 *     colBegin: number, colEnd: number, tile: number}} Strip one band of
 *     neighbouring tiles; colBegin and colEnd count tiles
 */

export const tileSide = 256;
// Elements of a band: what a server computes in a fraction of a second.
const bandRows = 2048;

/** The level whose one tile holds the whole matrix. @param {Size} size */
export function topLevel({rows, cols}) {
  const most = Math.max(rows, cols, 1);
  return Math.max(Math.ceil(Math.log2(most / tileSide)), 0);
}

/**
 * The level whose cells are about one pixel.
 * @param {number} scale pixels for each element
 * @param {number} top
 */
export function levelFor(scale, top) {
  const level = Math.ceil(Math.log2(1 / scale) - 0.5);
  return Math.min(Math.max(level, 0), top);
}

/** How many cells of a tile one band has. @param {number} level */
export function bandCells(level) {
  return Math.min(Math.max(Math.floor(bandRows / 2 ** level), 1), tileSide);
}

/**
 * The cells of a tile: fewer at the far edges.
 * @param {TileId} id
 * @param {Size} size
 */
export function tileCells({level, row, col}, {rows, cols}) {
  const cells = (/** @type {number} */ elements, /** @type {number} */ tile) =>
      Math.min(Math.ceil(elements / 2 ** level) - tile * tileSide, tileSide);
  return {rows: cells(rows, row), cols: cells(cols, col)};
}

/** @param {TileId} id @param {Size} size */
export function bandCount(id, size) {
  return Math.ceil(tileCells(id, size).rows / bandCells(id.level));
}

/** @param {TileId} id */
export function tileKey({level, row, col}) {
  return `${level}/${row}/${col}`;
}

/**
 * The tiles of a level that meet a part of the matrix, nearest to its middle
 * first.
 * @param {Ranges} seen
 * @param {number} level
 * @param {Size} size
 * @returns {TileId[]}
 */
export function tilesOf(seen, level, {rows, cols}) {
  const elements = tileSide * 2 ** level;
  const span =
      (/** @type {number} */ begin, /** @type {number} */ end,
       /** @type {number} */ all) =>
          [Math.floor(Math.max(begin, 0) / elements),
           Math.ceil(Math.min(end, all) / elements)];
  const [rowBegin, rowEnd] = span(seen.queryBegin, seen.queryEnd, rows);
  const [colBegin, colEnd] = span(seen.keyBegin, seen.keyEnd, cols);
  const middle = {
    row: (seen.queryBegin + seen.queryEnd) / 2 / elements,
    col: (seen.keyBegin + seen.keyEnd) / 2 / elements
  };
  const away = (/** @type {TileId} */ {row, col}) =>
      Math.hypot(row + 0.5 - middle.row, col + 0.5 - middle.col);
  const tiles = [];
  for (let row = rowBegin; row < rowEnd; ++row) {
    for (let col = colBegin; col < colEnd; ++col) {
      tiles.push({level, row, col});
    }
  }
  return tiles.sort((x, y) => away(x) - away(y));
}

/**
 * The requests for bands that are missing: neighbours in a row of tiles come by
 * one request, since a row of weights is computed whole in any case. Order is
 * that of the tiles.
 * @param {readonly TileId[]} tiles
 * @param {Size} size
 * @param {(id: TileId, band: number) => boolean} isMissing
 * @returns {Strip[]}
 */
export function stripsOf(tiles, size, isMissing) {
  /** @type {Map<string, TileId[]>} */
  const rows = new Map();
  for (const id of tiles) {
    const key = `${id.level}/${id.row}`;
    rows.set(key, [...(rows.get(key) ?? []), id]);
  }
  const strips = [];
  for (const row of rows.values()) {
    row.sort((x, y) => x.col - y.col);
    for (let band = 0; band < bandCount(row[0], size); ++band) {
      const cols = row.filter((id) => isMissing(id, band)).map((id) => id.col);
      for (const [begin, end] of runsOf(cols)) {
        strips.push(strip(row[0], band, begin, end, size));
      }
    }
  }
  return strips;
}

/**
 * Runs of neighbours among rising numbers, as begin and one past the last.
 * @param {readonly number[]} numbers
 * @returns {[number, number][]}
 */
function runsOf(numbers) {
  /** @type {[number, number][]} */
  const runs = [];
  for (const number of numbers) {
    const run = runs[runs.length - 1];
    if (run && run[1] === number)
      run[1] = number + 1;
    else
      runs.push([number, number + 1]);
  }
  return runs;
}

/**
 * @param {TileId} id
 * @param {number} band
 * @param {number} colBegin
 * @param {number} colEnd
 * @param {Size} size
 * @returns {Strip}
 */
function strip({level, row}, band, colBegin, colEnd, size) {
  const tile = 2 ** level;
  const cells = bandCells(level);
  const first = row * tileSide + band * cells;
  const last = Math.min(first + cells, (row + 1) * tileSide);
  return {
    level,
    tileRow: row,
    band,
    colBegin,
    colEnd,
    tile,
    queryBegin: first * tile,
    queryEnd: Math.min(last * tile, size.rows),
    keyBegin: colBegin * tileSide * tile,
    keyEnd: Math.min(colEnd * tileSide * tile, size.cols),
  };
}

/** @param {Strip} strip */
export function stripKey({level, tileRow, band, colBegin, colEnd}) {
  return `${level}/${tileRow}/${band}/${colBegin}-${colEnd}`;
}
