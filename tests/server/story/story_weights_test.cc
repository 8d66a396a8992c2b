#include "server/story/story_weights.h"

#include <cstring>
#include <limits>
#include <string>

#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/story/embedded_model.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kHeaderSize = 7 * sizeof(int32_t);

const char* const kSizes[] = {"width",       "feed_forward", "layers",
                              "heads",       "kv_heads",     "vocabulary",
                              "longest_text"};

template <typename Value>
std::string With(size_t offset, Value value) {
  std::string bytes(StoryWeightsFile());
  std::memcpy(bytes.data() + offset, &value, sizeof(value));
  return bytes;
}

absl::Status WeightsStatus(absl::string_view bytes) {
  return ParseStoryWeights(bytes).status();
}

TEST(StoryWeights, AMatrixMultipliesEachRow) {
  // (1 2 3; 4 5 6) by (1 0 2) and (0 1 -1).
  const StoryMatrix matrix(2, 3, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(matrix.Times({1, 0, 2, 0, 1, -1}), ElementsAre(7, 16, -1, -1));
  EXPECT_THAT(matrix.Times({}), ElementsAre());
}

TEST(StoryWeights, TheShippedFileIsRead) {
  const auto weights = ParseStoryWeights(StoryWeightsFile());
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->layers.size(), 5u);
  EXPECT_EQ(weights->embedding.size(), 32768u);  // 512 x 64
}

TEST(StoryWeights, AFileThatIsCutAnywhereIsRefused) {
  const absl::string_view file = StoryWeightsFile();
  for (size_t size = 0; size <= 64; ++size) {
    EXPECT_FALSE(WeightsStatus(file.substr(0, size)).ok()) << size;
  }
  for (size_t size = 65; size < file.size(); size += 7919) {
    EXPECT_FALSE(WeightsStatus(file.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(WeightsStatus(file.substr(0, file.size() - 1)).ok());
  EXPECT_TRUE(WeightsStatus(file).ok());
}

TEST(StoryWeights, BytesBehindTheEndAreRefused) {
  const absl::Status status =
      WeightsStatus(std::string(StoryWeightsFile()) + "x");
  EXPECT_EQ(FieldOf(status), "weights");
  EXPECT_THAT(status.message(), HasSubstr("got 1370881 bytes after the sizes, "
                                          "expected 1370880 bytes"));
}

TEST(StoryWeights, SizesThatAreNoneAreNamed) {
  for (size_t i = 0; i < std::size(kSizes); ++i) {
    for (const int32_t bad : {0, -1, 65537, std::numeric_limits<int32_t>::min(),
                              std::numeric_limits<int32_t>::max()}) {
      EXPECT_EQ(FieldOf(WeightsStatus(With(i * sizeof(bad), bad))),
                std::string("weights.") + kSizes[i])
          << bad;
    }
  }
}

// Each size as large as may be: no sum overflows, and nothing is allocated for
// what is not there.
TEST(StoryWeights, HugeSizesAskForBytesThatAreNotThere) {
  std::string header;
  for (const int32_t size : {65536, 65536, 65536, 1, 1, 65536, 65536}) {
    header.append(reinterpret_cast<const char*>(&size), sizeof(size));
  }
  // Floats: 2^16 layers of 7 matrices of 2^32 and 2 gains of 2^16, 2^32 for the
  // embedding, 2^16 for the last gain, 2^32 for the rotary tables.
  constexpr int64_t kFloats =
      (int64_t{7} << 48) + (int64_t{1} << 33) + (int64_t{2} << 32) + (1 << 16);
  const absl::Status status = WeightsStatus(header);
  EXPECT_EQ(FieldOf(status), "weights");
  EXPECT_THAT(status.message(),
              HasSubstr("got 0 bytes after the sizes, expected " +
                        std::to_string(4 * kFloats) + " bytes"));
}

TEST(StoryWeights, EveryOtherSizeIsNotTheFiles) {
  for (size_t i = 0; i < std::size(kSizes); ++i) {
    int32_t size = 0;
    std::memcpy(&size, StoryWeightsFile().data() + i * sizeof(size),
                sizeof(size));
    EXPECT_FALSE(WeightsStatus(With(i * sizeof(size), size * 2)).ok())
        << kSizes[i];
  }
}

TEST(StoryWeights, HeadsMustFillTheWidthAndShareEvenly) {
  // 64 wide: neither 7 heads nor 64 of one element, which cannot be turned.
  for (const int32_t heads : {7, 64, 128}) {
    EXPECT_EQ(FieldOf(WeightsStatus(With(3 * sizeof(heads), heads))),
              "weights.heads");
  }
  for (const int32_t kv_heads : {3, 16}) {
    EXPECT_EQ(FieldOf(WeightsStatus(With(4 * sizeof(kv_heads), kv_heads))),
              "weights.kv_heads");
  }
}

TEST(StoryWeights, WeightsThatAreNotFiniteAreRefused) {
  // The first and the last float that is used, and one between.
  for (const size_t offset : {kHeaderSize, size_t{700000}, size_t{1362712}}) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                            -std::numeric_limits<float>::infinity()}) {
      EXPECT_THAT(WeightsStatus(With(offset, bad)).message(),
                  HasSubstr("an infinity or a NaN"))
          << offset;
    }
  }
}

}  // namespace
}  // namespace attn
