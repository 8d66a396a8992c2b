#include "client/io/replacement_file.h"

#include <filesystem>
#include <string>

#include "client/io/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/scratch_folder.h"

namespace attn {
namespace {

namespace fs = std::filesystem;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using Existing = ReplacementFile::Existing;

TEST(ReplacementFileTest, NothingIsThereBeforeTheCommit) {
  const ScratchFolder folder;
  const std::string path = folder.File("a.npz");
  auto file = ReplacementFile::Create(path, Existing::kKeep);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->path(), EndsWith(".npz"));
  EXPECT_EQ(fs::path(file->path()).parent_path(), folder.path());
  ASSERT_TRUE(WriteFile(file->path(), "new").ok());
  EXPECT_FALSE(fs::exists(path));
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(*ReadFile(path, 100), "new");
}

TEST(ReplacementFileTest, WithoutACommitItGoesAway) {
  const ScratchFolder folder;
  std::string temporary;
  {
    auto file = ReplacementFile::Create(folder.File("a"), Existing::kKeep);
    ASSERT_TRUE(file.ok()) << file.status();
    const ReplacementFile moved = *std::move(file);
    temporary = moved.path();
    EXPECT_TRUE(fs::exists(temporary));
  }
  EXPECT_FALSE(fs::exists(temporary));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(ReplacementFileTest, KeepsAFileThatCameMeanwhile) {
  const ScratchFolder folder;
  auto file = ReplacementFile::Create(folder.File("a"), Existing::kKeep);
  ASSERT_TRUE(file.ok()) << file.status();
  const std::string path = folder.Write("a", "theirs");
  EXPECT_EQ(file->Commit().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(*ReadFile(path, 100), "theirs");
}

TEST(ReplacementFileTest, KeepsTheRightsOfWhatItReplaces) {
  const ScratchFolder folder;
  const std::string path = folder.Write("a", "old");
  fs::permissions(path, fs::perms(0604));
  auto file = ReplacementFile::Create(path, Existing::kReplace);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(fs::status(path).permissions(), fs::perms(0604));
}

TEST(ReplacementFileTest, ErrorsNameTheFileThatIsMeant) {
  const ScratchFolder folder;
  auto file = ReplacementFile::Create(folder.File("a"), Existing::kKeep);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->Blame(absl::InternalError(file->path() + ": full")),
            absl::InternalError(folder.File("a") + ": full"));
}

TEST(ReplacementFileTest, RefusesWhatIsNoFile) {
  const ScratchFolder folder;
  EXPECT_THAT(ReplacementFile::Create(folder.path(), Existing::kReplace)
                  .status()
                  .ToString(),
              HasSubstr("Is a directory"));
  EXPECT_THAT(ReplacementFile::Create("/dev/null", Existing::kReplace)
                  .status()
                  .ToString(),
              HasSubstr("no regular file"));
}

}  // namespace
}  // namespace attn
