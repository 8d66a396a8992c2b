// @ts-check
// What the server measured: of one row, of every row, of every head, and of the
// call. Each number has its exact value in data-value.

import {real} from './answers.js';
import {el, fill, number, percent} from './dom.js';
import {noteOf} from './explain.js';

/** @typedef {import('./answers.js').Result} Result */

const TOP_KEYS = 6;

/**
 * A name, a value and a line of context; data-testid is "readout-" and the id.
 * @param {string} id
 * @param {string} name
 * @param {number} value
 * @param {string} text
 * @param {string} [context]
 */
function readout(id, name, value, text, context = '') {
  return el('div', {class: 'readout'}, el('dt', {text: name}),
      el('dd', {'data-testid': `readout-${id}`, 'data-value': value},
         el('strong', {text}), context && el('span', {text: context})));
}

/** A share as a bar under its number. @param {number} share @param {string} [name] */
function bar(share, name = '') {
  const inside = el('i');
  inside.style.width = `${100 * Math.min(1, Math.max(0, share))}%`;
  return el('span', {class: 'bar', role: 'presentation', title: name}, inside);
}

/** @param {Result} result @param {number} key @returns {string} */
function keyName(result, key) {
  if (key < 0) return 'none';
  const label = result.source.keyLabels[key];
  return label === String(key) ? `key ${key}` : `${key} “${label}”`;
}

/** @param {Result} result @param {number} wanted @returns {number} */
export function chosenRow(result, wanted) {
  const last = result.weights.rows - 1;
  return wanted >= 0 && wanted <= last ? wanted : last;
}

/**
 * The row that is looked at.
 * @param {HTMLElement} place
 * @param {Result} result
 * @param {number} row
 */
export function showRow(place, result, row) {
  if (result.weights.rows === 0) return;
  const {rows, source, detail} = result;
  const visible = rows.visibleKeys[row];
  const label = source.queryLabels[row];
  const entropy = rows.entropy[row];
  const share = rows.entropyRatio[row];
  const lse = detail?.lse?.[row];
  fill(place,
      el('h3', {'data-testid': 'row-name'},
         /^\d+$/.test(label) ? 'Row ' : `Row ${row} `,
         el('span', {class: 'token', text: label})),
      el('dl', {},
          readout('peak', 'Peak attention', rows.peakWeight[row],
                  number(rows.peakWeight[row])),
          readout('top', 'Top token', rows.topKey[row],
                  keyName(result, rows.topKey[row])),
          readout('entropy', 'Entropy', entropy, `${number(entropy)} nats`),
          readout('share', 'Share of the most', share, percent(share),
                  visible > 1 ? `of ln ${visible}` : 'one key: no choice'),
          readout('visible', 'Visible tokens', visible,
                  `${visible} of ${source.keys}`),
          readout('effective', 'Effective tokens', rows.effectiveKeys[row],
                  number(rows.effectiveKeys[row], 2), 'exp of the entropy'),
          lse === undefined ? null
              : readout('lse', 'Log-sum-exp', lse, number(lse)),
          readout('contribution', 'Σ |weight| · |v|', rows.contribution[row],
                  number(rows.contribution[row]))),
      topKeys(result, row));
}

/** Where the row looks most, as bars. @param {Result} result @param {number} row */
function topKeys(result, row) {
  const {cols, data} = result.weights;
  const weights = Array.from(data.slice(row * cols, (row + 1) * cols));
  const order = weights.map((_, key) => key)
      .filter((key) => weights[key] !== 0)
      .sort((a, b) => weights[b] - weights[a] || a - b);
  const most = Math.max(...weights, 0) || 1;
  return el('ol', {class: 'top-keys', 'aria-label': 'Largest weights of the row'},
      ...order.slice(0, TOP_KEYS).map((key) => el('li', {},
          el('span', {class: 'token', text: result.source.keyLabels[key]}),
          bar(weights[key] / most),
          el('span', {class: 'figure', 'data-value': weights[key],
                      text: number(weights[key])}))));
}

/** @param {HTMLElement} place @param {Result} result */
export function showHead(place, result) {
  const one = result.statistics;
  const note = noteOf(result);
  const ratio = real(one.meanEntropyRatio);
  const dead = one.deadReason ? `Dead: ${one.deadReason}` : '';
  fill(place,
      el('h3', {text: `Head ${result.head}`}),
      note && el('p', {class: 'note', text: note}),
      dead && el('p', {class: 'problem', 'data-testid': 'head-dead', text: dead}),
      el('dl', {},
          readout('head-entropy', 'Mean entropy', real(one.meanEntropy),
                  `${number(real(one.meanEntropy))} nats`),
          readout('head-share', 'Mean share of the most', ratio, percent(ratio)),
          readout('head-peak', 'Mean peak', real(one.meanPeakWeight),
                  number(real(one.meanPeakWeight))),
          readout('head-visible', 'Mean visible tokens', real(one.meanVisibleKeys),
                  number(real(one.meanVisibleKeys), 1)),
          readout('head-top', 'Top token', real(one.topKey),
                  keyName(result, real(one.topKey)),
                  `of ${percent(real(one.topKeyShare))} of the rows`),
          readout('head-saturated', 'Saturated rows', real(one.saturatedRows),
                  `${real(one.saturatedRows)} of ${real(one.rows)}`)));
}

/** @param {HTMLElement} place @param {Result} result */
export function showWarnings(place, result) {
  const warnings = result.report.warnings ?? [];
  place.hidden = warnings.length === 0;
  fill(place, ...warnings.map((/** @type {any} */ warning) => el('li', {
    'data-kind': warning.kind, text: warning.message})));
}

/**
 * A table whose cells have their exact values.
 * @param {string} testid
 * @param {string} caption
 * @param {string[]} heads
 * @param {(string | number)[][]} rows
 */
function table(testid, caption, heads, rows) {
  return el('div', {class: 'scroll', tabindex: '0', role: 'region',
                    'aria-label': caption},
      el('table', {'data-testid': testid},
          el('caption', {text: caption}),
          el('thead', {}, el('tr', {},
              ...heads.map((text) => el('th', {scope: 'col', text})))),
          el('tbody', {}, ...rows.map((cells) => el('tr', {},
              ...cells.map((cell, column) => column === 0
                  ? el('th', {scope: 'row', text: cell})
                  : typeof cell === 'number'
                      ? el('td', {'data-value': cell, text: exact(cell)})
                      : el('td', {text: cell})))))));
}

/** @param {number} value */
function exact(value) {
  return Number.isInteger(value) ? String(value) : number(value, 6);
}

/** Every row of the head, for those who want each number. @param {HTMLElement} place @param {Result} result */
export function showRowsTable(place, result) {
  const {rows, source, detail} = result;
  const names = source.queryLabels.map((label, row) =>
      label === String(row) ? label : `${row} “${label}”`);
  fill(place, table('rows-table', `Rows of head ${result.head}`, [
    'row', 'peak', 'top key', 'entropy', 'share', 'visible', 'effective',
    'lse', 'logit min', 'max', 'mean', 'deviation', 'Σ|w||v|',
  ], names.map((name, row) => [
    name, rows.peakWeight[row], rows.topKey[row], rows.entropy[row],
    rows.entropyRatio[row], rows.visibleKeys[row], rows.effectiveKeys[row],
    detail?.lse?.[row] ?? '', rows.logitMin[row], rows.logitMax[row],
    rows.logitMean[row], rows.logitStd[row], rows.contribution[row],
  ])));
}

/** @param {HTMLElement} place @param {Result} result */
export function showHeadsTable(place, result) {
  const heads = result.detail?.headStatistics ?? [result.statistics];
  fill(place, table('heads-table', 'Heads', [
    'head', 'mean entropy', 'share', 'mean peak', 'largest peak', 'visible',
    'effective', 'top key', 'its share', 'saturated', 'logit min', 'max',
    'mean', 'deviation', 'Σ|w||v|', 'dead',
  ], heads.map((one) => [
    String(real(one.head)), real(one.meanEntropy), real(one.meanEntropyRatio),
    real(one.meanPeakWeight), real(one.maxPeakWeight), real(one.meanVisibleKeys),
    real(one.meanEffectiveKeys), real(one.topKey), real(one.topKeyShare),
    real(one.saturatedRows), real(one.logitMin), real(one.logitMax),
    real(one.logitMean), real(one.logitStd), real(one.meanContribution),
    one.deadReason ?? '',
  ])));
}

/** How the server computed it. @param {HTMLElement} place @param {Result} result */
export function showReport(place, result) {
  const {report, milliseconds} = result;
  const line = (/** @type {string} */ id, /** @type {string} */ name,
                /** @type {string} */ text) =>
      [el('dt', {text: name}), el('dd', {'data-testid': `report-${id}`, text})];
  const compute = Number(report.timings?.computeNs ?? 0) / 1e6;
  fill(place, ...line('pipeline', 'Pipeline', report.pipeline ?? ''),
      ...line('kernel', 'Kernel', report.kernel ?? ''),
      ...line('scale', 'Effective scale', String(report.effectiveScale ?? 0)),
      ...line('masked', 'Rows without a key', String(report.fullyMaskedRows ?? 0)),
      ...line('time', 'Time', `${number(compute, 2)} ms computing, ` +
          `${number(milliseconds, 0)} ms in all`),
      ...line('id', 'Request', report.requestId ?? ''));
}
