#include "proto/safetensors/safetensors_header.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const std::string& json, int64_t data_bytes) {
  const auto header = ParseSafetensorsHeader(json, data_bytes);
  return header.ok() ? "no error" : std::string(header.status().message());
}

std::string Entry(const std::string& fields) {
  return "{\"w\":{" + fields + "}}";
}

TEST(SafetensorsHeaderTest, ReadsWhatTheFormatsOwnPageShows) {
  // The example of the format's README, but for the extents.
  const auto header = ParseSafetensorsHeader(
      R"({"TEST":{"dtype":"F16","shape":[1,16],"data_offsets":[0,32]},)"
      R"("__metadata__":{"format":"pt"}}   )",
      32);
  ASSERT_TRUE(header.ok()) << header.status();
  ASSERT_EQ(header->entries.size(), 1u);
  EXPECT_EQ(header->entries[0].name, "TEST");
  EXPECT_EQ(header->entries[0].dtype, DType::kF16);
  EXPECT_EQ(header->entries[0].shape, (Shape{1, 16}));
  EXPECT_EQ(header->metadata.at("format"), "pt");
}

TEST(SafetensorsHeaderTest, TheLengthIsLittleEndian) {
  const std::string prefix("\x02\x01\0\0\0\0\0\0", 8);
  const auto length = SafetensorsHeaderLength(prefix, 1000, 1000);
  ASSERT_TRUE(length.ok());
  EXPECT_EQ(*length, 0x102);
}

TEST(SafetensorsHeaderTest, ALengthBeyondTheFileOrTheBoundIsRefused) {
  const std::string prefix("\x02\x01\0\0\0\0\0\0", 8);
  EXPECT_FALSE(SafetensorsHeaderLength(prefix, 8 + 0x101, 1000).ok());
  EXPECT_FALSE(SafetensorsHeaderLength(prefix, 1000, 0x101).ok());
  EXPECT_FALSE(SafetensorsHeaderLength(prefix.substr(0, 7), 7, 1000).ok());
  EXPECT_FALSE(
      SafetensorsHeaderLength(std::string(8, '\xff'), 1000, 1000).ok());
}

TEST(SafetensorsHeaderTest, EveryTypeComesBackAsItWasWritten) {
  SafetensorsHeader header;
  header.metadata["k"] = "v";
  for (const DType dtype :
       {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kBool,
        DType::kI8, DType::kI32, DType::kI64}) {
    header.entries.push_back(
        {std::string(Name(dtype)) + "_tensor", dtype, Shape{3, 5}});
  }
  int64_t data = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    data += entry.byte_count();
  }
  const std::string bytes = WriteSafetensorsHeader(header);
  ASSERT_EQ(bytes.size() % 8, 0u);
  const auto length = SafetensorsHeaderLength(
      bytes.substr(0, 8), static_cast<int64_t>(bytes.size()) + data, 1 << 20);
  ASSERT_TRUE(length.ok());
  EXPECT_EQ(static_cast<size_t>(*length) + 8, bytes.size());
  const auto back = ParseSafetensorsHeader(bytes.substr(8), data);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->metadata, header.metadata);
  ASSERT_EQ(back->entries.size(), header.entries.size());
  for (size_t i = 0; i < header.entries.size(); ++i) {
    EXPECT_EQ(back->entries[i].name, header.entries[i].name);
    EXPECT_EQ(back->entries[i].dtype, header.entries[i].dtype);
    EXPECT_EQ(back->entries[i].shape, header.entries[i].shape);
    EXPECT_EQ(back->entries[i].offset %
                  static_cast<int64_t>(SizeOf(back->entries[i].dtype)),
              0);
  }
}

TEST(SafetensorsHeaderTest, ATensorWithoutElementsMayLieAnywhereBetween) {
  const auto header = ParseSafetensorsHeader(
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
      R"("b":{"dtype":"F32","shape":[0,7],"data_offsets":[0,0]},)"
      R"("c":{"dtype":"F32","shape":[],"data_offsets":[4,8]}})",
      8);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->entries[2].shape.rank(), 0);
}

TEST(SafetensorsHeaderTest, HolesOverlapsAndOtherSizesAreRefused) {
  const std::string one = R"("dtype":"F32","shape":[2],"data_offsets":)";
  EXPECT_EQ(ErrorOf(Entry(one + "[0,8]"), 8), "no error");
  EXPECT_THAT(ErrorOf(Entry(one + "[0,8]"), 9), HasSubstr("another size"));
  EXPECT_THAT(ErrorOf(Entry(one + "[0,8]"), 7), HasSubstr("another size"));
  EXPECT_THAT(ErrorOf(Entry(one + "[4,12]"), 12), HasSubstr("begins at 4"));
  EXPECT_THAT(ErrorOf(Entry(one + "[0,4]"), 4), HasSubstr("has 8"));
  EXPECT_THAT(ErrorOf(Entry(one + "[8,0]"), 8), HasSubstr("[begin, end]"));
  EXPECT_THAT(
      ErrorOf("{\"a\":{" + one + "[0,8]},\"b\":{" + one + "[4,12]}}", 12),
      HasSubstr("begins at 4, expected 8"));
}

TEST(SafetensorsHeaderTest, WhatCannotBeMeantIsRefusedByName) {
  const std::string rest = R"("data_offsets":[0,8])";
  EXPECT_THAT(ErrorOf(Entry(R"("dtype":"F8_E4M3","shape":[8],)" + rest), 8),
              HasSubstr("F8_E4M3"));
  EXPECT_THAT(ErrorOf(Entry(R"("dtype":"F32","shape":[-2],)" + rest), 8),
              HasSubstr("shape"));
  EXPECT_THAT(
      ErrorOf(Entry(R"("dtype":"F32","shape":[4294967296,4294967296],)" + rest),
              8),
      HasSubstr("shape"));
  EXPECT_THAT(ErrorOf(Entry(rest), 8), HasSubstr("dtype"));
  EXPECT_THAT(ErrorOf("[]", 0), HasSubstr("object"));
  EXPECT_THAT(ErrorOf("{", 0), HasSubstr("object"));
  EXPECT_THAT(ErrorOf(R"({"__metadata__":{"a":1}})", 0), HasSubstr("strings"));
  EXPECT_THAT(ErrorOf(R"({"__metadata__":{},"__metadata__":{}})", 0),
              HasSubstr("twice"));
  EXPECT_THAT(ErrorOf(R"({"a":[[[[[[1]]]]]]})", 0), HasSubstr("deeply"));
}

}  // namespace
}  // namespace attn
