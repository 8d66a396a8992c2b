#include "client/cli/error_line.h"

#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(ErrorLineTest, WhateverComesIsOneLineThatDrawsNothing) {
  EXPECT_EQ(OneLine("not JSON:\n\n  ^\n"), "not JSON:   ^");
  EXPECT_EQ(OneLine("a\x1b[31mred\r\n"), "a [31mred");
  EXPECT_EQ(OneLine("é ü 語"), "é ü 語");
  // U+009B is what ESC [ is to some terminals, as the byte 9B is to others.
  EXPECT_EQ(OneLine("a\xC2\x9B"
                    "31m"),
            "a\xEF\xBF\xBD"
            "31m");
  EXPECT_EQ(OneLine("a\x9B"
                    "31m"),
            "a\xEF\xBF\xBD"
            "31m");
}

TEST(ErrorLineTest, OptionsOfTheLibraryAreCalledByTheirFlags) {
  EXPECT_EQ(NameFlags(absl::InvalidArgumentError(
                "look at tls_ca, tls_cert and tls_server_name")),
            "look at --tls-ca, --tls-cert and --tls-server-name");
  EXPECT_THAT(NameFlags(FieldError("address", "\"foo\"", "host:port")),
              StartsWith("--address: got \"foo\""));
}

TEST(ErrorLineTest, AFileThatIsCalledLikeAnOptionKeepsItsName) {
  EXPECT_EQ(NameFlags(FieldError("tls_ca", "keys/tls_ca.pem", "a PEM file")),
            "--tls-ca: got keys/tls_ca.pem, expected a PEM file");
  EXPECT_EQ(NameFlags(FieldError("token_file", "token_file (No such file)",
                                 "a file that can be read")),
            "--token-file: got token_file (No such file), expected a file that "
            "can be read");
  EXPECT_EQ(NameFlags(absl::InvalidArgumentError("tls_key: No such file")),
            "tls_key: No such file");
  EXPECT_EQ(NameFlags(absl::NotFoundError("no layer \"max_isa\"")),
            "no layer \"max_isa\"");
  // Only the field of an error is meant by a word that is common.
  EXPECT_EQ(NameFlags(absl::InvalidArgumentError("no address in it")),
            "no address in it");
}

TEST(ErrorLineTest, WhatCanBeDoneIsSaid) {
  EXPECT_THAT(AdviceFor(FieldError("q.dtype", "I64", "F32")),
              HasSubstr("--dtype"));
  EXPECT_THAT(
      AdviceFor(FieldError("spec.masks[0].causal.alignment", "none", "one")),
      HasSubstr("--causal=bottom_right"));
  EXPECT_THAT(AdviceFor(absl::DeadlineExceededError("Deadline Exceeded")),
              HasSubstr("--timeout"));
  EXPECT_THAT(AdviceFor(absl::UnimplementedError("")), HasSubstr("version"));
  EXPECT_EQ(AdviceFor(absl::InternalError("what")), "");
}

TEST(ErrorLineTest, AxesAreAskedForWhereTheyAreMissing) {
  EXPECT_THAT(
      AdviceFor(FieldError("q.shape", "[4, 8]", "rank 4: [batch, ...]")),
      HasSubstr("q[None]"));
  EXPECT_EQ(AdviceFor(FieldError("k.shape", "dim 7", "dim 8 as in q.shape")),
            "");
}

}  // namespace
}  // namespace attn
