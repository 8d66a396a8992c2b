// The fuzz target on its corpus: the golden messages, whole and cut short.
#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "tests/proto/golden/golden_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace attn {
namespace {

class FuzzCorpus : public testing::TestWithParam<const char*> {};

TEST_P(FuzzCorpus, Replays) {
  const std::string bytes = ReadGoldenHex(std::string(GetParam()) + ".hex");
  for (size_t size = 0; size <= bytes.size(); ++size) {
    EXPECT_EQ(LLVMFuzzerTestOneInput(
                  reinterpret_cast<const uint8_t*>(bytes.data()), size),
              0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Golden, FuzzCorpus,
    testing::Values("attend_minimal", "attend_full", "response", "backward",
                    "backward_response", "stream_header", "stream_chunk",
                    "stream_status", "step", "step_stream", "step_response"),
    [](const auto& file) { return std::string(file.param); });

}  // namespace
}  // namespace attn
