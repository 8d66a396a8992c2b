#include "client/io/replacement_file.h"

#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

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

mode_t MaskOfTheProcess() {
  const mode_t mask = umask(S_IRWXG | S_IRWXO);
  umask(mask);
  return mask;
}

TEST(ReplacementFileTest, ANewFileHasTheUsualRights) {
  const ScratchFolder folder;
  const std::string path = folder.File("a");
  auto file = ReplacementFile::Create(path, Existing::kKeep);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(fs::status(path).permissions(),
            fs::perms(0666U & ~MaskOfTheProcess()));
}

// Reading the mask sets it: two threads at it left the process without one.
TEST(ReplacementFileTest, CommitsAtOnceLeaveTheMaskOfTheProcess) {
  const ScratchFolder folder;
  const mode_t before = MaskOfTheProcess();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&folder, thread] {
      for (int i = 0; i < 50; ++i) {
        const std::string name =
            std::to_string(thread) + "-" + std::to_string(i);
        auto file = ReplacementFile::Create(folder.File(name), Existing::kKeep);
        EXPECT_TRUE(file.ok() && file->Commit().ok()) << name;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const mode_t after = umask(before);
  EXPECT_EQ(after, before);
}

// It replaced the link.
TEST(ReplacementFileTest, FollowsALinkToWhatIsNotThereYet) {
  for (const Existing existing : {Existing::kKeep, Existing::kReplace}) {
    const ScratchFolder folder;
    folder.Write("other/file", "");
    fs::create_symlink("other/next", folder.File("link"));
    fs::create_symlink("new", folder.File("other/next"));
    auto file = ReplacementFile::Create(folder.File("link"), existing);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(WriteFile(file->path(), "new").ok());
    const absl::Status status = file->Commit();
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(fs::is_symlink(folder.File("link")));
    EXPECT_EQ(*ReadFile(folder.File("other/new"), 100), "new");
  }
}

// Whoever writes goes by the ending of the name that was given.
TEST(ReplacementFileTest, KeepsTheEndingOfALinkNotOfWhatItLinksTo) {
  const ScratchFolder folder;
  folder.Write("data.bin", "old");
  fs::create_symlink("data.bin", folder.File("a.npz"));
  auto file = ReplacementFile::Create(folder.File("a.npz"), Existing::kReplace);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->path(), EndsWith(".npz"));
  ASSERT_TRUE(WriteFile(file->path(), "new").ok());
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(*ReadFile(folder.File("data.bin"), 100), "new");
}

// It was replaced.
TEST(ReplacementFileTest, RefusesLinksInACircle) {
  const ScratchFolder folder;
  fs::create_symlink("b", folder.File("a"));
  fs::create_symlink("a", folder.File("b"));
  EXPECT_THAT(ReplacementFile::Create(folder.File("a"), Existing::kReplace)
                  .status()
                  .ToString(),
              HasSubstr("/a: Too many levels of symbolic links"));
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
