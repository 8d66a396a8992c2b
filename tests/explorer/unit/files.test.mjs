// Files against what NumPy and Python's zipfile write and read.
import assert from 'node:assert/strict';
import {spawnSync} from 'node:child_process';
import {test} from 'node:test';

import {readNpy, readNpz, readSafetensors, writeNpz} from '../../../server/http/explorer/files.js';
import {crc32, readZip, writeZip} from '../../../server/http/explorer/zip.js';

const python = process.env.ATTN_PYTHON ?? '/usr/bin/python3';

/** What a Python program writes to its output. */
function run(program, input = new Uint8Array()) {
  const done = spawnSync(
      python,
      ['-c', `import io, json, sys, zipfile\nimport numpy as np\n${program}`],
      {input, maxBuffer: 2 ** 26});
  assert.equal(done.status, 0, String(done.stderr));
  return done.stdout;
}

/** A buffer of its own, as a browser's File gives it. */
function buffer(bytes) {
  return Uint8Array.from(bytes).buffer;
}

const arrays = `
a = {
  'f2': np.array([[1.5, -0.0], [6e-8, 65504]], '<f2'),
  'f4': np.array([[0.1, np.inf, -3]], '<f4'),
  'f8': np.array(0.1),
  'i1': np.array([-128, 127], 'i1'),
  'i4': np.array([[[-2147483648]], [[7]]], '<i4'),
  'i8': np.array([-5, 2**40], '<i8'),
  'big': np.array([2**60 + 1], '<i8'),
  'b1': np.array([True, False, True]),
  'V2': np.array([0x3fc0, 0xc020], '<u2').view('V2'),
  'none': np.zeros((0, 3), '<f4'),
}
`;
const expected = {
  f2: ['f16', [2, 2], [1.5, -0, 2 ** -24, 65504]],
  f4: ['f32', [1, 3], [Math.fround(0.1), Infinity, -3]],
  f8: ['f64', [], [0.1]],
  i1: ['i8', [2], [-128, 127]],
  i4: ['i32', [2, 1, 1], [-2147483648, 7]],
  i8: ['i64', [2], [-5, 2 ** 40]],
  big: ['i64', [1], [2n ** 60n + 1n]],
  b1: ['bool', [3], [1, 0, 1]],
  V2: ['bf16', [2], [1.5, -2.5]],
  none: ['f32', [0, 3], []],
};

function assertExpected(tensors) {
  assert.deepEqual([...tensors.keys()].sort(), Object.keys(expected).sort());
  for (const [name, [dtype, shape, data]] of Object.entries(expected)) {
    const tensor = tensors.get(name);
    assert.equal(tensor.dtype, dtype, name);
    assert.deepEqual(tensor.shape, shape, name);
    assert.deepEqual(Array.from(tensor.data), data, name);
  }
}

for (const save of ['savez', 'savez_compressed']) {
  test(`numpy.${save} is read`, async () => {
    const file = run(`${arrays}
f = io.BytesIO(); np.${save}(f, **a); sys.stdout.buffer.write(f.getvalue())`);
    assertExpected(await readNpz(buffer(file)));
  });
}

test('an archive written here is what NumPy and zipfile read', async () => {
  const file = run(`${arrays}
f = io.BytesIO(); np.savez(f, **a); sys.stdout.buffer.write(f.getvalue())`);
  const blob = writeNpz(await readNpz(buffer(file)));
  const written = new Uint8Array(await blob.arrayBuffer());
  assertExpected(await readNpz(written.buffer));
  const verdict =
      run(`${arrays}
b = np.load(io.BytesIO(sys.stdin.buffer.read()))
z = b.zip
print(json.dumps({'bad': z.testzip(), 'same': {
  n: b[n].dtype == a[n].dtype and b[n].shape == a[n].shape
     and b[n].tobytes() == a[n].tobytes() for n in a}}))`,
          written);
  const {bad, same} = JSON.parse(String(verdict));
  assert.equal(bad, null);
  for (const name of Object.keys(expected)) assert.ok(same[name], name);
});

test(
    'a tensor without a type is written as NumPy would name its array',
    async () => {
      const map = new Map([
        ['plain', {shape: [2], data: [1, 2]}],
        ['double', {shape: [1], data: Float64Array.of(0.1)}],
        ['mask', {shape: [2], data: Uint8Array.of(1, 0)}]
      ]);
      const written = new Uint8Array(await writeNpz(map).arrayBuffer());
      const types =
          run(`
b = np.load(io.BytesIO(sys.stdin.buffer.read()))
print(json.dumps({n: b[n].dtype.str for n in b}))`,
              written);
      assert.deepEqual(
          JSON.parse(String(types)),
          {plain: '<f4', double: '<f8', mask: '|b1'});
    });

test('arrays begin at multiples of 64 bytes in a .npy', async () => {
  const map = new Map([['x', {shape: [3, 1], data: [1, 2, 3]}]]);
  const [member] = await readZip(await writeNpz(map).arrayBuffer());
  assert.equal(member.bytes.length % 64, 12);
  assert.equal(member.bytes[member.bytes.length - 13], 10);
});

test('Fortran order is refused by name', async () => {
  const file = run(`
f = io.BytesIO(); np.savez(f, weights=np.asfortranarray(np.ones((2, 3))))
sys.stdout.buffer.write(f.getvalue())`);
  await assert.rejects(
      readNpz(buffer(file)),
      /array 'weights': fortran_order is True; expected C order/);
});

test(
    'big-endian, structured and unknown elements are refused by name',
    async () => {
      for (const [dtype, text] of [
               ['>f4', /'>f4'; expected little-endian/],
               ['<c8', /'<c8'; expected one of f2/], ['<u2', /'<u2'/],
               ['[(\'x\', \'<f4\')]', /descr is not a text/]]) {
        const type = dtype.startsWith('[') ? dtype : `'${dtype}'`;
        const file = run(`np.save(sys.stdout.buffer, np.zeros(2, ${type}))`);
        assert.throws(() => readNpy(buffer(file)), text);
      }
    });

test('u2 holds bfloat16 where that is said', () => {
  const file = run('np.save(sys.stdout.buffer, np.array([0x3fc0], \'<u2\'))');
  const tensor = readNpy(buffer(file), {u2IsBf16: true});
  assert.equal(tensor.dtype, 'bf16');
  assert.deepEqual(Array.from(tensor.data), [1.5]);
});

test('versions 2 and 3 of .npy are read', () => {
  for (const version of [2, 3]) {
    const file = run(`
f = io.BytesIO()
np.lib.format.write_array(f, np.arange(6.).reshape(2, 3), (${version}, 0))
sys.stdout.buffer.write(f.getvalue())`);
    const tensor = readNpy(buffer(file));
    assert.deepEqual(tensor.shape, [2, 3]);
    assert.deepEqual(Array.from(tensor.data), [0, 1, 2, 3, 4, 5]);
  }
});

test('a .npy that is cut short says so', () => {
  const file = run('np.save(sys.stdout.buffer, np.zeros(4))');
  for (const length of [0, 5, 9, 40]) {
    assert.throws(() => readNpy(buffer(file.subarray(0, length))), /\.npy/);
  }
  assert.throws(
      () => readNpy(buffer(file.subarray(0, file.length - 1))),
      /data has 31 bytes; expected 32/);
});

test('zipfile with comments, folders and 64-bit sizes is read', async () => {
  const file = run(`
f = io.BytesIO()
with zipfile.ZipFile(f, 'w') as z:
  z.comment = b'PK' * 400
  z.mkdir('folder') if hasattr(z, 'mkdir') else z.writestr('folder/', b'')
  with z.open(zipfile.ZipInfo('folder/\\u00e4'), 'w', force_zip64=True) as m:
    m.write(b'stored')
  z.writestr('deflated', b'0123456789' * 1000, zipfile.ZIP_DEFLATED)
sys.stdout.buffer.write(f.getvalue())`);
  const members = await readZip(buffer(file));
  assert.deepEqual(members.map(({name}) => name), ['folder/ä', 'deflated']);
  assert.equal(Buffer.from(members[0].bytes).toString(), 'stored');
  assert.equal(
      Buffer.from(members[1].bytes).toString(), '0123456789'.repeat(1000));
});

test(
    'an archive that streams, with its sizes after the data, is read',
    async () => {
      const file = run(`
class Stream(io.RawIOBase):
  def __init__(self): self.parts = []
  def writable(self): return True
  def write(self, b): self.parts.append(bytes(b)); return len(b)
s = Stream()
with zipfile.ZipFile(s, 'w', zipfile.ZIP_DEFLATED) as z:
  z.writestr('x', b'abc' * 50)
sys.stdout.buffer.write(b''.join(s.parts))`);
      const [member] = await readZip(buffer(file));
      assert.equal(Buffer.from(member.bytes).toString(), 'abc'.repeat(50));
    });

test('damage, other compression and false sizes are refused', async () => {
  const archive = (method) => run(`
f = io.BytesIO()
with zipfile.ZipFile(f, 'w', ${method}) as z: z.writestr('x', b'abcd' * 99)
sys.stdout.buffer.write(f.getvalue())`);
  await assert.rejects(
      readZip(buffer(archive('zipfile.ZIP_BZIP2'))),
      /member 'x' has compression 12; expected 0 \(stored\) or 8/);
  for (const method of ['zipfile.ZIP_STORED', 'zipfile.ZIP_DEFLATED']) {
    const bytes = Uint8Array.from(archive(method));
    bytes[31 + 5] ^= 1;
    await assert.rejects(readZip(bytes.buffer), /member 'x'/);
  }
  const bytes = Uint8Array.from(archive('zipfile.ZIP_DEFLATED'));
  const directory = Buffer.from(bytes).indexOf('PK\x01\x02', 0, 'latin1');
  const view = new DataView(bytes.buffer);
  view.setUint32(directory + 24, 0x7fffffff, true);
  await assert.rejects(readZip(bytes.buffer), /cannot have 2147483647 bytes/);
  view.setUint32(directory + 24, 100, true);
  await assert.rejects(readZip(bytes.buffer), /longer than 100 bytes/);
  view.setUint32(directory + 24, 500, true);
  await assert.rejects(readZip(bytes.buffer), /has 396 bytes; expected 500/);
});

test('no cut of an archive is read as if it were whole', async () => {
  const file = Uint8Array.from(run(`${arrays}
f = io.BytesIO(); np.savez(f, **a); sys.stdout.buffer.write(f.getvalue())`));
  for (let length = 0; length < file.length; length += 37) {
    await assert.rejects(readNpz(file.slice(0, length).buffer), /archive/);
  }
});

test('CRC-32 has the check value of its definition', () => {
  assert.equal(crc32(new TextEncoder().encode('123456789')), 0xcbf43926);
  assert.equal(crc32(new Uint8Array()), 0);
});

test('an empty archive is written and read', async () => {
  assert.deepEqual(await readZip(await writeZip([]).arrayBuffer()), []);
});

/** The bytes of a .safetensors, from its definition. */
function safetensors(header, payload) {
  const text = new TextEncoder().encode(
      typeof header === 'string' ? header : JSON.stringify(header));
  const bytes = new Uint8Array(8 + text.length + payload.length);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(text.length), true);
  bytes.set(text, 8);
  bytes.set(payload, 8 + text.length);
  return bytes.buffer;
}

test('safetensors are read by their offsets', () => {
  const payload = [0, 0, 0xc0, 0x3f, 0x20, 0xc0, 1, 0x00, 0x3c];
  const tensors = readSafetensors(safetensors(
      {
        __metadata__: {format: 'pt'},
        q: {dtype: 'F32', shape: [1, 1], data_offsets: [0, 4]},
        k: {dtype: 'BF16', shape: [1], data_offsets: [4, 6]},
        mask: {dtype: 'BOOL', shape: [], data_offsets: [6, 7]},
        v: {dtype: 'F16', shape: [1], data_offsets: [7, 9]},
      },
      payload));
  assert.deepEqual([...tensors.keys()], ['q', 'k', 'mask', 'v']);
  const values = [...tensors.values()].map(({data}) => data[0]);
  assert.deepEqual(values, [1.5, -2.5, 1, 1]);
  assert.deepEqual(tensors.get('q').shape, [1, 1]);
});

test('safetensors that are wrong are refused by name', () => {
  const one = (entry) => () =>
      readSafetensors(safetensors({q: entry}, [0, 0, 0, 0]));
  assert.throws(
      one({dtype: 'F32', shape: [1], data_offsets: [0, 5]}),
      /array 'q': data_offsets are \[0,5\]; expected two numbers of 0 to 4/);
  assert.throws(
      one({dtype: 'F32', shape: [1], data_offsets: [4, 0]}), /data_offsets/);
  assert.throws(
      one({dtype: 'F32', shape: [2], data_offsets: [0, 4]}),
      /data has 4 bytes; expected 8/);
  assert.throws(
      one({dtype: 'F8', shape: [4], data_offsets: [0, 4]}),
      /dtype is 'F8'; expected one of F16/);
  assert.throws(
      one({dtype: 'F32', shape: [-1], data_offsets: [0, 4]}),
      /shape is \[-1\]/);
  assert.throws(one(null), /dtype is 'undefined'/);
  assert.throws(() => readSafetensors(safetensors('[1]', [])), /object/);
  assert.throws(() => readSafetensors(safetensors('{"q":', [])), /not JSON/);
  assert.throws(() => readSafetensors(Uint8Array.of(1, 2).buffer), /2 bytes/);
  const long = safetensors({}, []);
  new DataView(long).setBigUint64(0, 2n ** 63n, true);
  assert.throws(() => readSafetensors(long), /its header alone needs/);
});
