#include "client/capacity/workload.h"

#include <string>

#include "engine/cache/kv_layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/capacity/plain_machine.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

// 64 blocks of 64 tokens, 8 heads, 128 elements of k and of v, 2 bytes: 16 MiB
// a layer; 32 layers with 200 bytes each, 1 KiB, and an answer of 32 * 128 * 2.
TEST(WorkloadTest, AModelOf32LayersKeepsHalfAGibibyteOf4096Tokens) {
  const SessionWorkload workload;
  EXPECT_EQ(workload.session_bytes(),
            512.0 * (1 << 20) + 32 * 200 + 1024 + 8192);
}

TEST(WorkloadTest, BlocksAreThoseOfTheServersCache) {
  for (const DType dtype :
       {DType::kF32, DType::kF16, DType::kBF16, DType::kI8}) {
    for (const int64_t heads : {1, 3, 8}) {
      for (const int64_t dim : {1, 5, 64, 128}) {
        SessionWorkload workload = PlainWorkload();
        workload.tokens = 100;
        workload.q_heads = heads;
        workload.kv_heads = heads;
        workload.k_dim = dim;
        workload.v_dim = dim + 3;
        workload.kv_dtype = dtype;
        const KvLayout layout{heads, dim, dim + 3, dtype};
        const double answer = 4.0 * static_cast<double>(heads * (dim + 3));
        EXPECT_EQ(
            workload.session_bytes(),
            static_cast<double>(2 * layout.block_bytes()) + 200 + 1024 + answer)
            << heads << " " << dim << " " << std::string(Name(dtype));
      }
    }
  }
}

TEST(WorkloadTest, AnAnswerOfMoreThan256KibIsNotKept) {
  SessionWorkload workload;
  workload.q_heads = 1024;
  workload.dtype = DType::kBF16;  // 1024 * 128 * 2 = 256 KiB
  const double kept = workload.session_bytes();
  workload.dtype = DType::kF32;
  EXPECT_EQ(workload.session_bytes(), kept - (256 << 10));
}

TEST(WorkloadTest, MoreTokensNeverNeedLess) {
  SessionWorkload workload;
  double bytes = 0;
  CallVolume before;
  for (int64_t tokens = 1; tokens < 5000; tokens += 37) {
    workload.tokens = tokens;
    EXPECT_GE(workload.session_bytes(), bytes) << tokens;
    const CallVolume volume = StepVolume(workload);
    EXPECT_GT(volume.bytes, before.bytes);
    EXPECT_GT(volume.multiply_adds, before.multiply_adds);
    EXPECT_EQ(volume.payload_in, 2.0 * 128 * (32 + 8 + 8));
    bytes = workload.session_bytes();
    before = volume;
  }
}

TEST(WorkloadTest, AStepReadsAllKeysAndValuesOnce) {
  SessionWorkload workload;
  workload.layers_per_call = 4;
  const CallVolume volume = StepVolume(workload);
  EXPECT_EQ(workload.calls_per_token(), 8);
  EXPECT_EQ(volume.elements, 4.0 * 8 * 4096 * 256);
  EXPECT_EQ(volume.bytes, 2 * volume.elements);
  EXPECT_EQ(volume.multiply_adds, 4.0 * 32 * 4096 * 256);
  workload.kv_dtype = DType::kI8;
  EXPECT_EQ(StepVolume(workload).bytes, 4.0 * 8 * 4096 * (256 + 8));
}

// Token i sees i + 1 keys.
TEST(WorkloadTest, ChunksOfAPromptSumUpToTheTriangle) {
  SessionWorkload workload;
  workload.tokens = 2000;
  workload.prompt = 1300;
  ASSERT_EQ(PrefillChunks(workload), 3);
  double products = 0;
  double sent = 0;
  for (int64_t chunk = 0; chunk < 3; ++chunk) {
    const CallVolume volume = PrefillVolume(workload, chunk);
    products += volume.multiply_adds;
    sent += volume.payload_out;
  }
  EXPECT_EQ(products, 32.0 * (1300.0 * 1301 / 2) * 256);
  EXPECT_EQ(sent, 1300.0 * 32 * 128 * 2);
}

TEST(WorkloadTest, WhatIsOutOfRangeIsNamed) {
  const auto says = [](auto change) {
    SessionWorkload workload;
    change(workload);
    return std::string(CheckWorkload(workload, "--").message());
  };
  EXPECT_EQ(says([](auto&) {}), "");
  EXPECT_THAT(says([](auto& w) { w.tokens = 0; }),
              HasSubstr("--tokens: got 0"));
  EXPECT_THAT(says([](auto& w) { w.tokens = INT64_MAX; }),
              HasSubstr("--tokens"));
  EXPECT_THAT(says([](auto& w) { w.layers = -1; }), HasSubstr("--layers"));
  EXPECT_THAT(says([](auto& w) { w.rate = 0; }), HasSubstr("--rate"));
  EXPECT_THAT(says([](auto& w) { w.rate = 1e300; }), HasSubstr("--rate"));
  EXPECT_THAT(says([](auto& w) { w.q_heads = 12; }), HasSubstr("--q-heads"));
  EXPECT_THAT(says([](auto& w) { w.prompt = 4096; }), HasSubstr("--prompt"));
  EXPECT_THAT(says([](auto& w) { w.layers_per_call = 5; }),
              HasSubstr("--layers-per-call"));
}

}  // namespace
}  // namespace attn
