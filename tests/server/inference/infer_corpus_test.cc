// The fuzz target on requests of every model: whole, cut short, and with bytes
// spoilt.
#include <cstdint>
#include <random>
#include <string>

#include "gtest/gtest.h"
#include "tests/server/inference/infer_requests.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace attn {
namespace {

int Replay(const std::string& bytes) {
  return LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()),
                                bytes.size());
}

// Deterministic: the corpus is the same on every machine.
class Spoiler {
 public:
  std::string Spoil(std::string bytes) {
    const size_t changes = 1 + random_() % 3;
    for (size_t i = 0; i < changes && !bytes.empty(); ++i) {
      const size_t at = random_() % bytes.size();
      switch (random_() % 4) {
        case 0:
          bytes[at] = static_cast<char>(random_());
          break;
        case 1:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << random_() % 8));
          break;
        case 2:
          bytes.erase(at, 1 + random_() % 8);
          break;
        default:
          bytes.insert(at, bytes.substr(random_() % bytes.size(), 12));
      }
    }
    return bytes;
  }

 private:
  std::minstd_rand random_{7};
};

TEST(InferCorpus, RequestsOfEveryModelReplayWholeCutAndSpoilt) {
  constexpr int kSpoilt = 60;
  constexpr size_t kCuts = 40;
  Spoiler spoiler;
  for (const InferModel& model : InferModels()) {
    for (const ContentForm form : {ContentForm::kRaw, ContentForm::kTyped}) {
      const std::string bytes =
          InferRequestOf(model, RandomCallOf(model, 1), form)
              .SerializeAsString();
      EXPECT_EQ(Replay(bytes), 0);
      const size_t step = bytes.size() / kCuts + 1;
      for (size_t size = 0; size < bytes.size(); size += step) {
        EXPECT_EQ(Replay(bytes.substr(0, size)), 0);
      }
      for (int i = 0; i < kSpoilt; ++i) {
        EXPECT_EQ(Replay(spoiler.Spoil(bytes)), 0);
      }
    }
  }
}

}  // namespace
}  // namespace attn
