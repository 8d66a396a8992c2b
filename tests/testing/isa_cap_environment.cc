// Runs the tests of a binary under a cap: ATTN_MAX_ISA=sse4 bin/kernels_test.
// To be among the binary's own sources: a library would lose it.
#include <cstdlib>

#include "engine/engine.h"
#include "engine/tile/vector_isa.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

VectorIsa WidestUnder(IsaCap cap) {
  switch (cap) {
    case IsaCap::kSse4:
      return VectorIsa::kSse4;
    case IsaCap::kAvx2:
      return VectorIsa::kAvx2;
    case IsaCap::kAvx512:
      return VectorIsa::kAvx512;
    case IsaCap::kNative:
      break;
  }
  return WidestVectors();
}

class IsaCapEnvironment : public ::testing::Environment {
 public:
  void SetUp() override {
    // No other thread exists yet.
    const char* name = std::getenv("ATTN_MAX_ISA");  // NOLINT(concurrency-*)
    if (name == nullptr) return;
    const absl::StatusOr<IsaCap> cap = ParseIsaCap(name);
    ASSERT_TRUE(cap.ok()) << cap.status();
    const absl::Status limited = LimitIsa(*cap);
    ASSERT_TRUE(limited.ok()) << limited;
    if (WidestVectors() != WidestUnder(*cap)) {
      // ctest looks for these words, to count the run as skipped.
      GTEST_SKIP() << "this machine lacks the instruction set " << name;
    }
  }
};

const ::testing::Environment* const kEnvironment =
    ::testing::AddGlobalTestEnvironment(new IsaCapEnvironment);

}  // namespace
}  // namespace attn
