// @ts-check
// A decode, token by token, against a session that the page opens on the
// server: rows of the triangle fill as steps are answered, the cache grows.

import {messageOf, windowOf} from './answers.js';
import {ApiError} from './api.js';
import {BLOCK_TOKENS} from './cache_blocks.js';
import {bytesOfRow, decodeCallOf, undecodable, wholeRequest} from './decode_call.js';
import {DecodePanel} from './decode_panel.js';
import {DecodeSession} from './decode_session.js';
import {decodeTensor, matrixAt} from './tensors.js';

/** @typedef {import('./answers.js').Result} Result */
/** @typedef {import('./decode_call.js').DecodeCall} DecodeCall */
/** @typedef {import('./decode_panel.js').Action} Action */

const PACE_MS = 350;
const MOST_SESSIONS = 4;

/** Reasons of errors, for people. @type {Record<string, string>} */
const REASONS = {
  SESSION_BUSY: 'Another step of this session is being computed. Step again ' +
      'in a moment.',
  SESSION_EXPIRED: 'The session is gone: nobody stepped for too long, or ' +
      'others needed its memory.',
  SESSION_NOT_HERE: 'The server does not have this session any more: it was ' +
      'closed, or the server was started anew.',
  SESSION_WRONG_EPOCH: 'Somebody else rolled this session back.',
  SESSION_STEP_GAP: 'Somebody else stepped this session.',
  KV_MEMORY: 'The server has no memory left for keys and values.',
};
// After these the session is of no use.
const LOST = new Set(['SESSION_EXPIRED', 'SESSION_NOT_HERE',
                      'SESSION_WRONG_EPOCH', 'SESSION_STEP_GAP']);

export class DecodeView {
  /** @param {import('./api.js').Api} api @param {HTMLElement} container */
  constructor(api, container) {
    this.api = api;
    this.panel = new DecodePanel(container, (action) => this.#act(action));
    /** @type {Result | null} What the page shows. */
    this.result = null;
    /** @type {DecodeCall | null} What the sessions are of. */
    this.call = null;
    /** @type {import('./tensors.js').Tensor | null} */
    this.wholeOutput = null;
    /** @type {import('./decode_panel.js').Triangle | null} */
    this.triangle = null;
    /** @type {DecodeSession[]} The first and its forks. */
    this.sessions = [];
    this.chosen = 0;
    this.blockBytes = 0;
    // Grows as the sessions are left: what was asked before is for nobody.
    this.wish = 0;
    this.refused = '';
    // What is being done, and what waits for it.
    this.running = 0;
    this.turn = Promise.resolve();
    this.playing = false;
    this.timer = 0;
    addEventListener('pagehide', () => this.leave(
        'The session was closed when the page was left.'));
  }

  get session() { return this.sessions[this.chosen]; }

  /** What the page shows now. @param {Result} result */
  async update(result) {
    this.result = result;
    const reason = undecodable(result);
    if (reason) {
      // Said once, however often the page shows something else of it.
      if (this.refused !== reason) await this.leave(reason);
      this.refused = reason;
      this.panel.allow(false);
      return;
    }
    if (!this.call) {
      if (this.refused) this.panel.close('');
      this.refused = '';
      return;
    }
    if (decodeCallOf(result).key !== this.call.key) {
      await this.leave(
          'The tensors or the setting changed, so the session was closed.');
      return;
    }
    if (result.head !== this.triangle?.head) {
      await this.#guard(() => this.#readWeights());
    }
    this.#draw();
  }

  /** Closes every session, and says why. @param {string} [words] */
  leave(words = '') {
    ++this.wish;
    return this.#drop(words);
  }

  /** @param {string} words */
  async #drop(words) {
    this.#pause();
    const {sessions} = this;
    this.sessions = [];
    this.chosen = 0;
    this.call = null;
    this.triangle = null;
    this.panel.close(words);
    await Promise.all(sessions.map((session) => session.close()));
  }

  /** @param {Action} action */
  async #act(action) {
    if (action.name === 'pause') return this.#pause();
    // A click more than was answered is none.
    if (this.running > 0) return;
    await this.#guard(() => this.#do(action));
    this.#draw();
  }

  /** @param {Action} action */
  async #do({name, value}) {
    if (name !== 'step' && name !== 'play') this.#pause();
    switch (name) {
      case 'open': return this.#open();
      case 'step': return this.#step();
      case 'play': return this.#play();
      case 'rollback': return this.#rollback(value ?? NaN);
      case 'fork': return this.#fork();
      case 'choose':
        this.chosen = value ?? 0;
        return undefined;
      default: return this.#close();
    }
  }

  /** One thing at a time; what goes wrong is said. @param {() => Promise<void>} work */
  #guard(work) {
    ++this.running;
    this.turn = this.turn.then(() => this.#try(work)).then(() => {
      --this.running;
    });
    return this.turn;
  }

  /** @param {() => Promise<void>} work */
  async #try(work) {
    this.panel.problem('');
    const {wish} = this;
    try {
      await work();
    } catch (error) {
      // What was left meanwhile is nobody's any more.
      if (wish !== this.wish) return;
      this.#pause();
      this.#fail(error);
    }
  }

  /** @param {unknown} error */
  #fail(error) {
    const reason = error instanceof ApiError ? error.reason : '';
    const words = REASONS[reason] ?? '';
    // What the server says names the numbers and the limit.
    const said = LOST.has(reason) || reason === 'SESSION_BUSY' ? ''
                                                               : messageOf(error);
    this.panel.problem([words, said].filter(Boolean).join(' '));
  }

  async #open() {
    const {result} = this;
    if (!result) return undefined;
    const {wish} = this;
    await this.#drop('');
    const call = decodeCallOf(result);
    const session = await DecodeSession.open(this.api, call);
    if (wish !== this.wish) return session.close();
    this.call = call;
    this.sessions = [session];
    this.blockBytes = 0;
    try {
      const {output} = await this.api.attend(
          {...wholeRequest(call), outputs: ['OUTPUT_OUTPUT']});
      this.wholeOutput = decodeTensor(output);
      await this.#readWeights();
    } catch (error) {
      await this.#drop('');
      throw error;
    }
    if (wish !== this.wish) return undefined;
    return this.panel.open(
        `A session is open. It is forgotten ${session.idleMs / 1000} s after ` +
        'the last step.');
  }

  /** The whole call's weights, which a step does not answer with. */
  async #readWeights() {
    const {call, result} = this;
    if (!call || !result) return;
    const answer = await this.api.inspect({
      ...wholeRequest(call),
      views: ['INSPECT_VIEW_WEIGHTS', 'INSPECT_VIEW_MASKED_LOGITS'],
      window: windowOf(0, result.head),
    });
    this.triangle = {
      head: result.head,
      weights: matrixAt(decodeTensor(answer.weights), 0, 0),
      logits: matrixAt(decodeTensor(answer.maskedLogits), 0, 0),
      labels: result.source.queryLabels,
    };
  }

  async #step() {
    const {session} = this;
    if (!session || session.next < 0) return;
    await session.advance();
    await this.#look();
  }

  /** What each cache holds: a step changes what forks share. */
  async #look() {
    await Promise.all(this.sessions.map((session) => session.look()));
    const one = this.sessions.find(
        ({length}) => length > 0 && length <= BLOCK_TOKENS);
    if (this.blockBytes === 0 && one) this.blockBytes = one.bytes;
  }

  async #play() {
    this.playing = true;
    this.#draw();
    await this.#step();
    this.#goOn();
  }

  #goOn() {
    clearTimeout(this.timer);
    if (!this.playing) return;
    if (!this.session || this.session.next < 0) return this.#pause();
    this.timer = window.setTimeout(async () => {
      if (!this.playing) return;
      if (this.running > 0) return this.#goOn();
      await this.#guard(async () => {
        // A page that nobody looks at does not step.
        if (!document.hidden) await this.#step();
        this.#goOn();
      });
      this.#draw();
    }, PACE_MS);
  }

  #pause() {
    clearTimeout(this.timer);
    if (!this.playing) return;
    this.playing = false;
    this.#draw();
  }

  /** @param {number} position */
  async #rollback(position) {
    const {session} = this;
    const fits = Number.isInteger(position) && position >= 0 &&
        position <= session.length;
    if (!fits) {
      throw new Error(`The row is ${Number.isNaN(position) ? 'nothing' : position}` +
                      `; expected 0 to ${session.length}.`);
    }
    await session.rollback(position);
    await this.#look();
  }

  async #fork() {
    if (this.sessions.length >= MOST_SESSIONS) {
      throw new Error(`The page keeps ${MOST_SESSIONS} sessions at the most: ` +
                      'close one.');
    }
    const {wish} = this;
    const fork = await this.session.fork();
    if (wish !== this.wish) return fork.close();
    this.sessions.push(fork);
    this.chosen = this.sessions.length - 1;
    return this.#look();
  }

  async #close() {
    const [session] = this.sessions.splice(this.chosen, 1);
    this.chosen = Math.max(0, this.chosen - 1);
    await session.close();
    if (this.sessions.length === 0) return this.#drop('The session is closed.');
    return this.#look();
  }

  #draw() {
    const {call, triangle, wholeOutput} = this;
    if (!call || !triangle || !wholeOutput || this.sessions.length === 0) return;
    this.panel.show({
      call,
      triangle,
      wholeOutput,
      sessions: this.sessions,
      chosen: this.chosen,
      playing: this.playing,
      blockBytes: this.blockBytes,
      bytesOfRow: (row) => bytesOfRow(call, row),
    });
  }
}
