// The rows of the serving benchmark. Each starts the servers that it needs and
// stops them.
#pragma once

#include "tests/bench/serving/bench_row.h"
#include "tests/bench/serving/bench_servers.h"

namespace attn {

// A tiny call beside a bare echo of its bytes: the time of one caller, and the
// rate of many.
BenchRow TinyRow(const ServingSetting& setting);

// 16 MiB up, down and both ways beside a bare echo, over TCP and a Unix socket.
BenchRow TransportRow(const ServingSetting& setting);

// A call that computes for some milliseconds, served and in process.
BenchRow LargeRow(const ServingSetting& setting);

// The slowest tiny calls while another connection keeps every worker busy.
BenchRow PrefillRow(const ServingSetting& setting);

// What batching costs a caller that is alone.
BenchRow LoneCallerRow(const ServingSetting& setting);

// How full batches are when more waits than fits.
BenchRow BatchFillRow(const ServingSetting& setting);

// The first calls of shapes that the server has never seen.
BenchRow FirstCallsRow(const ServingSetting& setting);

// PyTorch behind gRPC for Python, with the same callers.
BenchRow TorchRow(const ServingSetting& setting);

// A step of a session beside the kernel that it runs.
BenchRow SessionRow(const ServingSetting& setting);

// Tokens a second of a small model that decodes, by steps and without a server.
BenchRow StoryRow(const ServingSetting& setting);

// What a session costs before its first step.
BenchRow OpenSessionRow(const ServingSetting& setting);

// From the start of the process to SERVING.
BenchRow StartRow(const ServingSetting& setting);

}  // namespace attn
