// K and V in blocks are the same K and V: every kernel gives the same bits.
#include <cstring>
#include <memory>
#include <vector>

#include "engine/core/dtype.h"
#include "tests/engine/properties/one_member.h"

namespace attn::testing {
namespace {

// The rows of k and v of a call without padding, in blocks of so many tokens,
// each in memory of its own. What no row of the call is, is NaN.
class BlocksOf {
 public:
  BlocksOf(const AttentionArgs& args, int64_t tokens) : tokens_(tokens) {
    const Shape& k = args.k.shape;
    const Shape& v = args.v.shape;
    const auto size = static_cast<int64_t>(SizeOf(args.k.dtype));
    const int64_t k_row = k[3] * size;
    const int64_t v_row = v[3] * size;
    v_offset_ = k[1] * tokens * k_row;
    for (int64_t begin = 0; begin < k[2]; begin += tokens) {
      const auto bytes = static_cast<size_t>(v_offset_ + k[1] * tokens * v_row);
      memory_.push_back(std::make_unique<std::byte[]>(bytes));
      std::byte* block = memory_.back().get();
      std::memset(block, 0xff, bytes);
      const int64_t rows = std::min(tokens, k[2] - begin);
      for (int64_t h = 0; h < k[1]; ++h) {
        Copy(args.k, h, begin, rows, k_row, block);
        Copy(args.v, h, begin, rows, v_row, block + v_offset_);
      }
      pointers_.push_back(block);
    }
  }

  KvBlocks view() const {
    return {.block_tokens = tokens_,
            .blocks = pointers_.data(),
            .v_offset = v_offset_};
  }

 private:
  // Dense [1, H, S, D].
  void Copy(const TensorView& from, int64_t head, int64_t begin, int64_t rows,
            int64_t row_bytes, std::byte* to) const {
    if (rows * row_bytes == 0) return;
    std::memcpy(to + head * tokens_ * row_bytes,
                from.data + (head * from.shape[2] + begin) * row_bytes,
                static_cast<size_t>(rows * row_bytes));
  }

  int64_t tokens_;
  int64_t v_offset_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  std::vector<const std::byte*> pointers_;
};

void PutIntoBlocks(AttentionArgs& args, const BlocksOf& blocks) {
  args.kv_blocks = blocks.view();
  args.k.data = nullptr;
  args.v.data = nullptr;
}

size_t ExpectBlocksGiveTheSameBits(const oracle::VariantCase& call, DType dtype,
                                   int64_t tokens) {
  size_t runs = 0;
  for (const std::string& kernel : AllKernelsOf(call, dtype)) {
    const VariantOutcome want =
        VariantRun(call, dtype).Run(kernel, Rows::kWherePossible);
    VariantRun run(call, dtype);
    const BlocksOf blocks(run.args(), tokens);
    PutIntoBlocks(run.args(), blocks);
    const VariantOutcome got = run.Run(kernel, Rows::kWherePossible);
    EXPECT_TRUE(got.SameBits(want))
        << kernel << ", blocks of " << tokens << ", " << Name(dtype) << ", "
        << Describe(call);
    ++runs;
  }
  return runs;
}

AttentionShape OneSequence(AttentionShape shape) {
  shape.batch = 1;
  return shape;
}

TEST(KvBlocksTest, GiveTheSameBitsForEveryMember) {
  oracle::Random random(71);
  size_t runs = 0;
  ForEachMember([&](const std::string&, const auto& generator) {
    for (const AttentionShape& shape : kSmallShapes) {
      const auto call = CaseAround(random, generator, OneSequence(shape));
      runs += ExpectBlocksGiveTheSameBits(call, DType::kF32, 4);
    }
  });
  EXPECT_GT(runs, 200U);
}

TEST(KvBlocksTest, GiveTheSameBitsOverManyBlocks) {
  oracle::Random random(72);
  for (int trial = 0; trial < 40; ++trial) {
    oracle::VariantCase call;
    call.shape = OneSequence(oracle::RandomLongShape(random));
    call.shape.q_length = 1 + oracle::Below(random, 3);
    const DType dtype =
        std::vector{DType::kF32, DType::kF16, DType::kBF16}[trial % 3];
    oracle::FillTensors(random, call, dtype);
    // A window that begins anywhere in a block.
    call.spec.masks.emplace_back(
        WindowMask{.left = oracle::Below(random, call.shape.kv_length),
                   .right = std::nullopt,
                   .alignment = Alignment::kBottomRight});
    if (trial % 2 == 0) call.spec.masks.clear();
    ExpectBlocksGiveTheSameBits(call, dtype, trial % 4 == 3 ? 16 : 64);
  }
}

// Decoding finds them by its sums and reads the rows again.
TEST(KvBlocksTest, GiveTheSameBitsBesideNumbersThatAreNone) {
  oracle::Random random(73);
  for (const double bad : {NAN, INFINITY}) {
    oracle::VariantCase call;
    call.shape = {.batch = 1,
                  .q_heads = 4,
                  .kv_heads = 2,
                  .q_length = 1,
                  .kv_length = 150,
                  .q_dim = 16,
                  .k_dim = 16,
                  .v_dim = 16};
    oracle::FillTensors(random, call, DType::kF32);
    call.v[16 * 77 + 3] = bad;
    call.k[16 * 200 + 1] = bad;
    ExpectBlocksGiveTheSameBits(call, DType::kF32, 64);
  }
}

// q in F32 over keys kept in BF16 is q over keys that were rounded.
TEST(KvBlocksTest, KeysOfAnotherTypeAreWidened) {
  oracle::Random random(74);
  oracle::VariantCase call;
  call.shape = {.batch = 1,
                .q_heads = 4,
                .kv_heads = 2,
                .q_length = 3,
                .kv_length = 90,
                .q_dim = 16,
                .k_dim = 16,
                .v_dim = 8};
  for (const DType kept : {DType::kBF16, DType::kF16}) {
    oracle::FillTensors(random, call, kept);
    for (const std::string& kernel : AllKernelsOf(call)) {
      const VariantOutcome want =
          VariantRun(call).Run(kernel, Rows::kWherePossible);
      VariantRun run(call);
      VariantRun narrow(call, kept);
      const BlocksOf blocks(narrow.args(), 64);
      run.args().k = narrow.args().k;
      run.args().v = narrow.args().v;
      PutIntoBlocks(run.args(), blocks);
      EXPECT_TRUE(run.Run(kernel, Rows::kWherePossible).SameBits(want))
          << kernel << ", kept in " << Name(kept);
    }
  }
}

TEST(KvBlocksTest, AreOfOneSequence) {
  Engine engine({.workers = 1});
  AttentionArgs args;
  args.q = args.k = args.v =
      TensorView::Dense(nullptr, DType::kF32, {2, 1, 4, 8});
  const std::byte block{};
  const std::byte* pointer = &block;
  args.kv_blocks = {.block_tokens = 64, .blocks = &pointer};
  const auto plan = engine.Plan({}, args, {}, DType::kF32);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(plan.status().message().find("kv_blocks"), std::string::npos);
}

}  // namespace
}  // namespace attn::testing
