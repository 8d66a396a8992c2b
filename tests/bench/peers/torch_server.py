#!/usr/bin/env python3
"""AttentionService.Attend as a PyTorch user would serve it: gRPC for Python
around scaled_dot_product_attention. Plain attention of F32 only.

usage: torch_server.py HOST:PORT [--processes N]

One process computes each call on all cores; several share the port, and the
cores between them. On two cores these two were fastest of what was tried:
numbers of processes, of threads that take calls, of torch's threads, and
asyncio.
"""

import argparse
import concurrent.futures
import os
import signal
import sys
import warnings

import grpc
import torch
from torch.nn.functional import scaled_dot_product_attention

ATTEND = "/attention.v1.AttentionService/Attend"
HEALTH = "/grpc.health.v1.Health/Check"
# A HealthCheckResponse with status = SERVING.
SERVING = b"\x08\x01"
# One reads or writes while another computes.
CALL_THREADS = 2
UNLIMITED = -1
OPTIONS = [("grpc.max_receive_message_length", UNLIMITED),
           ("grpc.max_send_message_length", UNLIMITED),
           ("grpc.so_reuseport", 1)]

# Field numbers of AttendRequest, AttendResponse and Tensor. They are read and
# written here by hand: Debian's protobuf for Python has no compiled parser, and
# would cost more than all else.
QKV = (16, 17, 18)
OUTPUT = 16
DTYPE, SHAPE, DATA = 1, 2, 15
F32 = 1
VARINT, BYTES = 0, 2


def read_varint(data, at):
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value = byte & 0x7f
    shift = 7
    while True:
        at += 1
        byte = data[at]
        value |= (byte & 0x7f) << shift
        if byte < 0x80:
            return value, at + 1
        shift += 7


def fields_of(data, at, end):
    """(number, value): an integer, or where a string begins and ends."""
    while at < end:
        tag, at = read_varint(data, at)
        value, at = read_varint(data, at)
        if tag & 7 == BYTES:
            yield tag >> 3, (at, at + value)
            at += value
        elif tag & 7 == VARINT:
            yield tag >> 3, value
        else:
            raise ValueError("unexpected wire type")


def tensor_of(data, begin, end):
    shape = []
    for number, value in fields_of(data, begin, end):
        if number == DTYPE and value != F32:
            raise ValueError("F32 only")
        if number == SHAPE:
            at, stop = value
            while at < stop:
                extent, at = read_varint(data, at)
                shape.append(extent)
        elif number == DATA:
            at, stop = value
    # The message's own bytes, without a copy.
    return torch.frombuffer(data, dtype=torch.float32, offset=at,
                            count=(stop - at) // 4).view(shape)


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def string_head(number, size):
    return varint(number << 3 | BYTES) + varint(size)


def response_of(tensor):
    extents = b"".join(map(varint, tensor.shape))
    data = memoryview(tensor.contiguous().numpy()).cast("B")
    head = b"".join((varint(DTYPE << 3), varint(F32),
                     string_head(SHAPE, len(extents)), extents,
                     string_head(DATA, len(data))))
    return b"".join((string_head(OUTPUT, len(head) + len(data)), head, data))


def attend(request, context):
    try:
        where = dict(fields_of(request, 0, len(request)))
        q, k, v = (tensor_of(request, *where[number]) for number in QKV)
    except (IndexError, KeyError, ValueError) as error:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
    with torch.inference_mode():
        return response_of(scaled_dot_product_attention(
            q, k, v, enable_gqa=q.shape[1] != k.shape[1]))


class Handler(grpc.GenericRpcHandler):
    """The two methods that the benchmark calls."""

    def service(self, handler_call_details):
        if handler_call_details.method == ATTEND:
            return grpc.unary_unary_rpc_method_handler(attend)
        if handler_call_details.method == HEALTH:
            return grpc.unary_unary_rpc_method_handler(
                lambda request, context: SERVING)
        return None


def serve(address, threads):
    torch.set_num_threads(threads)
    pool = concurrent.futures.ThreadPoolExecutor(CALL_THREADS)
    server = grpc.server(pool, options=OPTIONS)
    server.add_generic_rpc_handlers((Handler(),))
    if server.add_insecure_port(address) == 0:
        sys.exit("cannot listen on " + address)
    server.start()
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    server.stop(0)


def main():
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("--processes", type=int, default=1)
    arguments = parser.parse_args()
    threads = max(1, cores // arguments.processes)
    # torch does not write to the tensors, which it cannot know.
    warnings.filterwarnings("ignore", message=".*not writable.*")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    children = []
    for _ in range(arguments.processes - 1):
        child = os.fork()
        if child == 0:
            serve(arguments.address, threads)
            return
        children.append(child)
    serve(arguments.address, threads)
    for child in children:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
