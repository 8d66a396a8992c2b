#include "engine/core/field_error.h"

#include <string>

#include "gtest/gtest.h"

namespace attn {
namespace {

TEST(FieldErrorTest, SaysFieldWhatCameAndWhatWasExpected) {
  const absl::Status status = FieldError("kv_lengths[3]", "9", "0 to 7");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "kv_lengths[3]: got 9, expected 0 to 7");
}

TEST(FieldErrorTest, TheFieldTravelsWithTheStatus) {
  const absl::Status status = FieldError("spec.softcap", "0", "> 0");
  EXPECT_EQ(FieldOf(status), "spec.softcap");
  const absl::Status copy = status;
  EXPECT_EQ(FieldOf(copy), "spec.softcap");
}

// Headers have room for some kilobytes, so that a client would see another
// error.
TEST(FieldErrorTest, WhatCameIsShortenedBetweenCharacters) {
  std::string text(255, 'x');
  for (int i = 0; i < 10000; ++i) text += "\u00e9";
  const absl::Status status = FieldError("kernel", text, "a kernel");
  EXPECT_LT(status.message().size(), 400u);
  const std::string message(status.message());
  EXPECT_NE(message.find(std::string(255, 'x') + "... (20255 bytes)"),
            std::string::npos)
      << message;
}

TEST(FieldErrorTest, OtherStatusesNameNoField) {
  EXPECT_EQ(FieldOf(absl::OkStatus()), std::nullopt);
  EXPECT_EQ(FieldOf(absl::InvalidArgumentError("q.shape: got 1, expected 2")),
            std::nullopt);
}

}  // namespace
}  // namespace attn
