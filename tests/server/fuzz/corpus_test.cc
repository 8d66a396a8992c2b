// The fuzz target on its corpus, whole, cut short, and with each byte spoilt.
#include <cstdint>
#include <string>

#include "gtest/gtest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace attn {
namespace {

int Replay(const std::string& text) {
  return LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()),
                                text.size());
}

class TextCorpus : public testing::TestWithParam<const char*> {};

TEST_P(TextCorpus, Replays) {
  const std::string text = GetParam();
  for (size_t size = 0; size <= text.size(); ++size) {
    EXPECT_EQ(Replay(text.substr(0, size)), 0);
  }
  for (size_t i = 0; i < text.size(); ++i) {
    for (const char other :
         {'\0', '\n', ' ', '-', '0', 'f', '#', '=', '\xff'}) {
      std::string spoilt = text;
      spoilt[i] = other;
      EXPECT_EQ(Replay(spoilt), 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Texts, TextCorpus,
    testing::Values("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                    "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
                    "alice wonderland max-requests=8 max-inflight-bytes=1024\n"
                    "# both of bob's are good\r\n"
                    "bob\told\nbob new # from today\n"
                    "spiffe://a/listed -\n"));

}  // namespace
}  // namespace attn
