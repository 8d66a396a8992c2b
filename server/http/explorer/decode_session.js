// @ts-check
// A session on the server, and what this page knows of it.

import {real} from './answers.js';
import {ApiError} from './api.js';
import {openRequest, tokenOf} from './decode_call.js';
import {decodeTensor} from './tensors.js';

/** @typedef {import('./api.js').Api} Api */
/** @typedef {import('./decode_call.js').DecodeCall} DecodeCall */

const IDLE_MS = 2 * 60 * 1000;

/**
 * What a step gave.
 * @typedef {object} DecodeStep
 * @property {number} row
 * @property {import('./tensors.js').Tensor} output [1, Hq, 1, D]
 * @property {number} sent Bytes of the request as JSON.
 */

export class DecodeSession {
  /**
   * @param {Api} api
   * @param {DecodeCall} call
   * @param {any} opened OpenSessionResponse or ForkResponse.
   * @param {number} length
   */
  constructor(api, call, opened, length) {
    this.api = api;
    this.call = call;
    this.id = String(opened.sessionId);
    this.epoch = String(opened.epoch);
    this.step = 0;
    // Tokens in the cache.
    this.length = length;
    this.bytes = real(opened.session?.bytes);
    this.ownBytes = real(opened.session?.ownBytes);
    this.idleMs = real(opened.session?.idleTimeoutMs);
    /** @type {DecodeStep[]} By row. */
    this.steps = [];
  }

  /** @param {Api} api @param {DecodeCall} call */
  static async open(api, call) {
    const request = openRequest(call);
    let opened;
    try {
      opened =
          await api.openSession({...request, idleTimeoutMs: String(IDLE_MS)});
    } catch (error) {
      // A server may allow less than that: then it is as long as it allows.
      const less = error instanceof ApiError && error.field === 'idle_timeout_ms';
      if (!less) throw error;
      opened = await api.openSession(request);
    }
    return new DecodeSession(api, call, opened, 0);
  }

  get next() { return this.length < this.call.tokens ? this.length : -1; }

  #who() { return {sessionId: this.id, epoch: this.epoch}; }

  /** Sends the next token. Nothing is counted if that fails, so that it may be sent again. */
  async advance() {
    const row = this.length;
    const request = {
      ...this.#who(),
      step: String(this.step),
      position: String(row),
      ...tokenOf(this.call, row),
    };
    const answer = await this.api.step(request);
    this.step += 1;
    this.length = real(answer.length);
    this.steps[row] = {
      row,
      output: decodeTensor(answer.output[0]),
      sent: JSON.stringify(request).length,
    };
    return this.steps[row];
  }

  /** @param {number} position */
  async rollback(position) {
    const answer = await this.api.rollback(
        {...this.#who(), position: String(position)});
    this.epoch = String(answer.epoch);
    this.step = real(answer.step);
    this.length = position;
    this.steps.length = Math.min(this.steps.length, position);
  }

  async fork() {
    const answer = await this.api.fork(this.#who());
    const fork = new DecodeSession(this.api, this.call, answer, this.length);
    fork.steps = [...this.steps];
    return fork;
  }

  /** Reads what its cache holds. */
  async look() {
    const {session} = await this.api.session(this.id);
    this.bytes = real(session.bytes);
    this.ownBytes = real(session.ownBytes);
  }

  /** As well as can be: one that is not here is closed. */
  async close() {
    try {
      await this.api.closeSession(this.id);
    } catch {
      // The server forgets it when it has been idle.
    }
  }
}
