// @ts-check
// ZIP archives as NumPy and others write them: members stored or deflated, 64
// bit sizes, CRC-32 checked. https://pkware.cachefly.net/webdocs/APPNOTE/

/** @typedef {{name: string, bytes: Uint8Array<ArrayBuffer>}} ZipMember */

const localHeader = 0x04034b50;
const centralHeader = 0x02014b50;
const endRecord = 0x06054b50;
const endLocator64 = 0x07064b50;
const endRecord64 = 0x06064b50;
const saturated = 0xffffffff;
// Beyond it, an archive is surely not of tensors for this page.
const mostBytes = 2 ** 31;
// Deflate cannot do better: 258 bytes for 2 bits.
const bestRatio = 1032;

const crcTable = Uint32Array.from({length: 256}, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; ++bit) {
    crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  return crc;
});

/** @param {Uint8Array} bytes */
export function crc32(bytes) {
  let crc = saturated;
  for (let i = 0; i < bytes.length; ++i) {
    crc = crcTable[(crc ^ bytes[i]) & 255] ^ (crc >>> 8);
  }
  return (crc ^ saturated) >>> 0;
}

/**
 * @param {ArrayBuffer} buffer
 * @returns {Promise<ZipMember[]>}
 */
export async function readZip(buffer) {
  const view = new DataView(buffer);
  const {count, offset} = directoryOf(view);
  const members = [];
  let at = offset;
  let total = 0;
  for (let i = 0; i < count; ++i) {
    const entry = centralEntry(view, at);
    at = entry.next;
    total += entry.size;
    if (total > mostBytes) {
      throw new RangeError(
          `archive holds more than ${mostBytes} bytes at '${entry.name}'`,
      );
    }
    if (entry.name.endsWith('/')) continue;
    members.push({name: entry.name, bytes: await contentOf(view, entry)});
  }
  return members;
}

/**
 * @param {DataView} view
 * @param {number} at
 * @param {number} size
 */
function need(view, at, size) {
  if (at < 0 || at + size > view.byteLength) {
    throw new RangeError(
        `archive has ${view.byteLength} bytes; expected ${at + size} or more`,
    );
  }
}

/** @param {DataView} view @param {number} at */
function long(view, at) {
  need(view, at, 8);
  const value = Number(view.getBigUint64(at, true));
  if (!Number.isSafeInteger(value)) {
    throw new RangeError(`archive has a length of ${value} at byte ${at}`);
  }
  return value;
}

/** Where the list of members is. @param {DataView} view */
function directoryOf(view) {
  const recordSize = 22;
  // A comment of 16-bit length may follow the record.
  const first = Math.max(view.byteLength - recordSize - 0xffff, 0);
  for (let at = view.byteLength - recordSize; at >= first; --at) {
    if (view.getUint32(at, true) !== endRecord) continue;
    const count = view.getUint16(at + 10, true);
    const offset = view.getUint32(at + 16, true);
    const isLong = count === 0xffff || offset === saturated;
    if (!isLong) return {count, offset};
    const locator = at - 20;
    need(view, locator, 20);
    if (view.getUint32(locator, true) !== endLocator64) {
      return {count, offset};
    }
    const record = long(view, locator + 8);
    need(view, record, 56);
    if (view.getUint32(record, true) !== endRecord64) {
      throw new RangeError('archive has no 64-bit end record where it says so');
    }
    return {count: long(view, record + 32), offset: long(view, record + 48)};
  }
  throw new RangeError('file is not a ZIP archive: it has no end record');
}

/**
 * One row of the directory.
 * @param {DataView} view
 * @param {number} at
 */
function centralEntry(view, at) {
  need(view, at, 46);
  if (view.getUint32(at, true) !== centralHeader) {
    throw new RangeError(`archive has no directory entry at byte ${at}`);
  }
  const nameLength = view.getUint16(at + 28, true);
  const extraLength = view.getUint16(at + 30, true);
  const next =
      at + 46 + nameLength + extraLength + view.getUint16(at + 32, true);
  need(view, at, next - at);
  const name = new TextDecoder().decode(
      new Uint8Array(view.buffer, at + 46, nameLength));
  const entry = {
    name,
    encrypted: (view.getUint16(at + 8, true) & 1) !== 0,
    method: view.getUint16(at + 10, true),
    crc: view.getUint32(at + 16, true),
    packed: view.getUint32(at + 20, true),
    size: view.getUint32(at + 24, true),
    offset: view.getUint32(at + 42, true),
    next,
  };
  widen(view, at + 46 + nameLength, extraLength, entry);
  return entry;
}

/**
 * Takes the 64-bit fields, which are there for those that do not fit in 32.
 * @param {DataView} view
 * @param {number} begin
 * @param {number} length
 * @param {{size: number, packed: number, offset: number}} entry
 */
function widen(view, begin, length, entry) {
  const end = begin + length;
  for (let at = begin; at + 4 <= end;) {
    const id = view.getUint16(at, true);
    const size = view.getUint16(at + 2, true);
    at += 4;
    if (id === 1) {
      let field = at;
      for (const name of /** @type {const} */ (['size', 'packed', 'offset'])) {
        if (entry[name] !== saturated || field + 8 > at + size) continue;
        entry[name] = long(view, field);
        field += 8;
      }
      return;
    }
    at += size;
  }
}

/**
 * The bytes of a member, checked against what the directory says of them.
 * @param {DataView} view
 * @param {ReturnType<typeof centralEntry>} entry
 */
async function contentOf(view, entry) {
  const {name, offset} = entry;
  if (entry.encrypted) throw new TypeError(`member '${name}' is encrypted`);
  need(view, offset, 30);
  if (view.getUint32(offset, true) !== localHeader) {
    throw new RangeError(`member '${name}' is not where the archive says`);
  }
  const begin = offset + 30 + view.getUint16(offset + 26, true) +
      view.getUint16(offset + 28, true);
  need(view, begin, entry.packed);
  const packed = new Uint8Array(
      /** @type {ArrayBuffer} */ (view.buffer), begin, entry.packed);
  const bytes = await unpacked(packed, entry);
  if (bytes.length !== entry.size) {
    throw new RangeError(
        `member '${name}' has ${bytes.length} bytes; expected ${entry.size}`,
    );
  }
  if (crc32(bytes) !== entry.crc) {
    throw new RangeError(`member '${name}' is damaged: its CRC-32 differs`);
  }
  return bytes;
}

/**
 * @param {Uint8Array<ArrayBuffer>} packed
 * @param {{name: string, method: number, size: number}} entry
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
async function unpacked(packed, {name, method, size}) {
  if (method === 0) return packed;
  if (method !== 8) {
    throw new TypeError(
        `member '${name}' has compression ${
            method}; expected 0 (stored) or 8 ` +
            '(deflated)',
    );
  }
  if (size > bestRatio * packed.length) {
    throw new RangeError(
        `member '${name}' cannot have ${size} bytes: ${
            packed.length} are packed`,
    );
  }
  const stream = new Blob([packed]).stream().pipeThrough(
      new DecompressionStream('deflate-raw'));
  const bytes = new Uint8Array(size);
  let filled = 0;
  const reader = stream.getReader();
  try {
    for (;;) {
      const {done, value} = await reader.read();
      if (done) break;
      // No more is unpacked than the directory says.
      if (filled + value.length > size) {
        throw new RangeError(`member '${name}' is longer than ${size} bytes`);
      }
      bytes.set(value, filled);
      filled += value.length;
    }
  } catch (error) {
    await reader.cancel().catch(() => {});
    if (error instanceof RangeError) throw error;
    throw new RangeError(`member '${name}' is damaged: ${error}`);
  }
  return bytes.subarray(0, filled);
}

/**
 * An archive of stored members.
 * @param {readonly ZipMember[]} members
 * @returns {Blob}
 */
export function writeZip(members) {
  /** @type {Uint8Array<ArrayBuffer>[]} */
  const parts = [];
  /** @type {Uint8Array<ArrayBuffer>[]} */
  const directory = [];
  let offset = 0;
  for (const {name, bytes} of members) {
    const nameBytes = new TextEncoder().encode(name);
    const common = commonHeader(bytes, nameBytes);
    const local = joined(u32(localHeader), common, nameBytes);
    directory.push(joined(
        u32(centralHeader), u16(20), common, u16(0), u16(0), u16(0), u32(0),
        u32(offset), nameBytes));
    parts.push(local, bytes);
    offset += local.length + bytes.length;
  }
  const size = directory.reduce((sum, part) => sum + part.length, 0);
  if (offset + size >= saturated || members.length >= 0xffff) {
    throw new RangeError(`archive would have ${offset + size} bytes`);
  }
  const end = joined(
      u32(endRecord), u16(0), u16(0), u16(members.length), u16(members.length),
      u32(size), u32(offset), u16(0));
  return new Blob([...parts, ...directory, end], {type: 'application/zip'});
}

/**
 * What both headers of a member have: version 2.0, names in UTF-8, stored, the
 * first day that the format knows, lengths.
 * @param {Uint8Array} bytes
 * @param {Uint8Array} name
 */
function commonHeader(bytes, name) {
  const firstDay = (1 << 5) | 1;
  return joined(
      u16(20), u16(0x800), u16(0), u16(0), u16(firstDay), u32(crc32(bytes)),
      u32(bytes.length), u32(bytes.length), u16(name.length), u16(0));
}

/** @param {number} x */
function u16(x) {
  return Uint8Array.of(x & 255, x >> 8);
}

/** @param {number} x */
function u32(x) {
  return Uint8Array.of(x & 255, (x >> 8) & 255, (x >> 16) & 255, x >>> 24);
}

/** @param {...Uint8Array} parts @returns {Uint8Array<ArrayBuffer>} */
function joined(...parts) {
  const bytes = new Uint8Array(parts.reduce((n, part) => n + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}
