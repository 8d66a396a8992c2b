#include "client/io/npy.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Bytes as numpy.lib.format describes them: magic, version, little-endian
// header length, the header, the elements.
std::string Npy(const std::string& header, const std::string& elements,
                int version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(version);
  bytes += '\0';
  const size_t length = header.size();
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) {
    bytes += static_cast<char>(length >> (8 * i) & 0xff);
  }
  return bytes + header + elements;
}

std::string Header(const std::string& descr, const std::string& shape,
                   const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order +
         ", 'shape': " + shape + ", }\n";
}

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<double> All(const HostTensor& tensor) {
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.element_count(); ++i) {
    values.push_back(tensor.At(i));
  }
  return values;
}

std::string ErrorOf(const std::string& bytes) {
  const auto tensor = ParseNpy(bytes, "x.npy");
  if (tensor.ok()) return "no error";
  return std::string(tensor.status().message());
}

TEST(NpyTest, ReadsSinglePrecision) {
  const auto tensor = ParseNpy(
      Npy(Header("<f4", "(2, 3)"), Bytes<float>({1, 2, 3, 4, 5, 6})), "x");
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->dtype(), DType::kF32);
  EXPECT_EQ(tensor->shape(), (Shape{2, 3}));
  EXPECT_THAT(All(*tensor), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(NpyTest, TurnsFortranOrderIntoRows) {
  // Column-major: columns (1, 4), (2, 5), (3, 6).
  const auto tensor = ParseNpy(
      Npy(Header("<f8", "(2, 3)", "True"), Bytes<double>({1, 4, 2, 5, 3, 6})),
      "x");
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_THAT(All(*tensor), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(NpyTest, ReadsHalfPrecision) {
  // 0x3C00 is 1, 0xC000 is -2.
  const auto tensor = ParseNpy(
      Npy(Header("<f2", "(2,)"), Bytes<uint16_t>({0x3C00, 0xC000})), "x");
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_THAT(All(*tensor), ElementsAre(1, -2));
}

TEST(NpyTest, ReadsIntegersAndBools) {
  const auto wide =
      ParseNpy(Npy(Header("<i8", "(2,)"), Bytes<int64_t>({-1, 1LL << 40})), "");
  ASSERT_TRUE(wide.ok()) << wide.status();
  EXPECT_THAT(wide->values<int64_t>(), ElementsAre(-1, 1LL << 40));
  const auto narrow =
      ParseNpy(Npy(Header("|i1", "(2,)"), Bytes<int8_t>({-128, 127})), "");
  ASSERT_TRUE(narrow.ok()) << narrow.status();
  EXPECT_THAT(All(*narrow), ElementsAre(-128, 127));
  const auto truth =
      ParseNpy(Npy(Header("|b1", "(2,)"), Bytes<int8_t>({1, 0})), "");
  ASSERT_TRUE(truth.ok()) << truth.status();
  EXPECT_THAT(All(*truth), ElementsAre(1, 0));
}

TEST(NpyTest, ReadsBfloat16WhereItIsSaid) {
  // 0x3F80 is the upper half of 1.0f.
  const std::string void2 =
      Npy(Header("<V2", "(1,)"), Bytes<uint16_t>({0x3F80}));
  const std::string u2 = Npy(Header("<u2", "(1,)"), Bytes<uint16_t>({0x3F80}));
  EXPECT_THAT(All(*ParseNpy(void2, "x")), ElementsAre(1));
  EXPECT_THAT(All(*ParseNpy(u2, "x", {.u2_is_bf16 = true})), ElementsAre(1));
  EXPECT_THAT(ErrorOf(u2), HasSubstr("bfloat16"));
}

TEST(NpyTest, ReadsScalarsEmptyTensorsAndLaterVersions) {
  EXPECT_EQ(ParseNpy(Npy(Header("<f4", "()"), Bytes<float>({7})), "x")
                ->shape()
                .rank(),
            0);
  EXPECT_EQ(ParseNpy(Npy(Header("<f4", "(0, 5)"), ""), "x")->shape(),
            (Shape{0, 5}));
  for (const int version : {2, 3}) {
    EXPECT_TRUE(
        ParseNpy(Npy(Header("<f4", "(1,)"), Bytes<float>({7}), version), "x")
            .ok());
  }
}

TEST(NpyTest, WritesWhatItReads) {
  HostTensor tensor(DType::kF32, {2, 1, 3});
  for (int64_t i = 0; i < 6; ++i) tensor.Set(i, 0.5 * static_cast<double>(i));
  const std::string bytes = SerializeNpy(tensor);
  const auto read = ParseNpy(bytes, "x");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->shape(), tensor.shape());
  EXPECT_EQ(All(*read), All(tensor));
  // The elements begin at a multiple of 64, as numpy writes them.
  EXPECT_EQ((bytes.size() - tensor.byte_count()) % 64, 0);
  EXPECT_THAT(bytes, StartsWith(std::string("\x93NUMPY\x01\x00", 8)));
}

TEST(NpyTest, EveryTruncationIsOneLineThatNamesTheFile) {
  const std::string whole =
      Npy(Header("<f4", "(2, 3)"), Bytes<float>({1, 2, 3, 4, 5, 6}));
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string error = ErrorOf(whole.substr(0, size));
    EXPECT_THAT(error, StartsWith("x.npy: ")) << size;
    EXPECT_EQ(error.find('\n'), std::string::npos) << size;
  }
}

TEST(NpyTest, NoFlippedByteCrashes) {
  const std::string whole =
      Npy(Header("<f4", "(2, 3)"), Bytes<float>({1, 2, 3, 4, 5, 6}));
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const unsigned flip : {0x01U, 0x10U, 0x80U, 0xFFU}) {
      std::string bytes = whole;
      bytes[at] =
          static_cast<char>(static_cast<unsigned char>(bytes[at]) ^ flip);
      const auto tensor = ParseNpy(bytes, "x.npy");
      if (tensor.ok()) EXPECT_EQ(tensor->byte_count(), 24U);
    }
  }
}

TEST(NpyTest, RefusesWhatItCannotMean) {
  const std::string one = Bytes<float>({1});
  EXPECT_THAT(ErrorOf(Npy(Header(">f4", "(1,)"), one)), HasSubstr("'>f4'"));
  EXPECT_THAT(ErrorOf(Npy(Header("|O", "(1,)"), one)), HasSubstr("'|O'"));
  EXPECT_THAT(ErrorOf(Npy(Header("<f4", "(-1,)"), one)), HasSubstr("shape"));
  EXPECT_THAT(ErrorOf(Npy(Header("<f4", "(1)"), one)), HasSubstr("shape"));
  EXPECT_THAT(ErrorOf(Npy(Header("<f4", "1"), one)), HasSubstr("shape"));
  EXPECT_THAT(ErrorOf(Npy(Header("<f4", "(1,)", "Maybe"), one)),
              HasSubstr("fortran_order"));
  EXPECT_THAT(ErrorOf(Npy(Header("<f4", "(1,)") + "x", one)),
              HasSubstr("follows"));
  EXPECT_THAT(ErrorOf(Npy("{'descr': '<f4', 'descr': '<f4'}", one)),
              HasSubstr("twice"));
  EXPECT_THAT(ErrorOf(Npy("{'descr': '<f4'}", one)), HasSubstr("missing"));
  EXPECT_THAT(ErrorOf(Npy("{'evil': 1}", one)), HasSubstr("'evil'"));
  EXPECT_THAT(ErrorOf(Npy(Header("|b1", "(1,)"), "\x02")),
              HasSubstr("neither 0 nor 1"));
  EXPECT_THAT(ErrorOf(Npy(Header("<f4", "(1,)"), one + "?")),
              HasSubstr("5 bytes"));
}

TEST(NpyTest, SizesThatOverflowAreRefusedBeforeAnyAllocation) {
  for (const char* shape :
       {"(999999999999999999,)", "(4294967296, 4294967296)",
        "(4611686018427387904,)", "(2147483647, 2147483647, 2147483647)",
        "(1, 1, 1, 1, 1, 1, 1)", "(99999999999999999999,)"}) {
    EXPECT_THAT(ErrorOf(Npy(Header("<f4", shape), "")), StartsWith("x.npy: "))
        << shape;
  }
}

TEST(NpyTest, RefusesAHeaderThatSaysItIsHuge) {
  std::string bytes("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12);
  EXPECT_THAT(ErrorOf(bytes), HasSubstr("4294967295 bytes"));
}

}  // namespace
}  // namespace attn
