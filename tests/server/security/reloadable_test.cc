#include "server/security/reloadable.h"

#include <atomic>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using Text = Reloadable<std::string>;

TEST(Reloadable, DoesNotOpenWithoutAValue) {
  EXPECT_EQ(Text::Open([] { return absl::NotFoundError("no file"); })
                .status()
                .message(),
            "no file");
}

TEST(Reloadable, AChangeIsANewVersion) {
  std::string file = "one";
  const auto text = *Text::Open([&file] { return file; });
  EXPECT_EQ(text->version(), 1U);
  EXPECT_FALSE(*text->Reload());
  EXPECT_EQ(text->version(), 1U);
  file = "two";
  EXPECT_TRUE(*text->Reload());
  EXPECT_EQ(text->version(), 2U);
  EXPECT_EQ(*text->Current(), "two");
}

TEST(Reloadable, ABadChangeLeavesTheOldValue) {
  absl::StatusOr<std::string> file = std::string("one");
  const auto text = *Text::Open([&file] { return file; });
  file = absl::InvalidArgumentError("half written");
  EXPECT_EQ(text->Reload().status().message(), "half written");
  EXPECT_EQ(*text->Current(), "one");
  EXPECT_EQ(text->version(), 1U);
}

TEST(Reloadable, AValueInUseStaysWhole) {
  std::string file(1000, 'a');
  const auto text = *Text::Open([&file] { return file; });
  std::atomic<bool> done = false;
  std::thread reader([&] {
    while (!done) {
      const auto value = text->Current();
      EXPECT_EQ(value->find_first_not_of((*value)[0]), std::string::npos);
    }
  });
  for (int round = 0; round < 1000; ++round) {
    file.assign(1000, static_cast<char>('a' + round % 26));
    EXPECT_TRUE(text->Reload().ok());
  }
  done = true;
  reader.join();
}

}  // namespace
}  // namespace attn
