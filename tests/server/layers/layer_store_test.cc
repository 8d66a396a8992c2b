#include "server/layers/layer_store.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/layers/layer_file.h"
#include "tests/client/testing/scratch_folder.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

StoredTensor MakeTensor(const std::string& name, std::vector<float> values) {
  StoredTensor tensor;
  tensor.name = name;
  tensor.shape = Shape{static_cast<int64_t>(values.size())};
  tensor.data = AlignedBuffer(values.size() * sizeof(float));
  if (values.empty()) return tensor;
  std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
  return tensor;
}

std::vector<StoredTensor> Tensors(const std::string& name,
                                  std::vector<float> values) {
  std::vector<StoredTensor> tensors;
  tensors.push_back(MakeTensor(name, std::move(values)));
  return tensors;
}

std::vector<float> Values(const StoredTensor& tensor) {
  std::vector<float> values(tensor.data.size() / sizeof(float));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

// A store over one directory, opened as often as wanted.
// What a layer counts beside its elements: 1 KiB, a name of one letter, and one
// tensor of 256 bytes and such a name.
constexpr int64_t kOneTensor = 1024 + 1 + 256 + 1;

class LayerStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<LayerStore> Open(int64_t max_bytes = 1 << 20) {
    lines_.clear();
    auto store = LayerStore::Open(
        {.directory = folder_.path(), .max_bytes = max_bytes},
        [this](absl::string_view line) { lines_.emplace_back(line); });
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  std::string Contents(const std::string& file) const {
    std::ifstream stream(folder_.File(file), std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  size_t FileCount() const {
    return static_cast<size_t>(
        std::distance(std::filesystem::directory_iterator(folder_.path()), {}));
  }

  ScratchFolder folder_;
  std::vector<std::string> lines_;
};

TEST_F(LayerStoreTest, ALayerIsFoundWithItsTensorsAligned) {
  const auto store = Open();
  ASSERT_TRUE(store->Put("a", Tensors("w", {1, 2, 3})).ok());
  const auto layer = store->Find("a");
  ASSERT_NE(layer, nullptr);
  ASSERT_NE(layer->Find("w"), nullptr);
  EXPECT_THAT(Values(*layer->Find("w")), ElementsAre(1, 2, 3));
  EXPECT_EQ(layer->Find("v"), nullptr);
  EXPECT_EQ(store->Find("b"), nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(layer->Find("w")->data.data()) % 64,
            0u);
}

TEST_F(LayerStoreTest, ARestartHasThemAll) {
  uint64_t version = 0;
  {
    const auto store = Open();
    std::vector<StoredTensor> tensors = Tensors("w", {1, 2});
    StoredTensor flags;
    flags.name = "keep";
    flags.dtype = DType::kBool;
    flags.shape = Shape{1, 3};
    flags.data = AlignedBuffer(3);
    std::memcpy(flags.data.data(), "\1\0\1", 3);
    tensors.push_back(std::move(flags));
    ASSERT_TRUE(store->Put("first.layer", std::move(tensors)).ok());
    ASSERT_TRUE(store->Put("second", Tensors("v", {7})).ok());
    version = store->Find("first.layer")->version;
  }
  const auto store = Open();
  EXPECT_THAT(lines_, IsEmpty());
  const auto first = store->Find("first.layer");
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->version, version);
  ASSERT_THAT(first->tensors, SizeIs(2));
  EXPECT_EQ(first->Find("keep")->shape, (Shape{1, 3}));
  EXPECT_EQ(std::memcmp(first->Find("keep")->data.data(), "\1\0\1", 3), 0);
  EXPECT_THAT(Values(*first->Find("w")), ElementsAre(1, 2));
  EXPECT_THAT(Values(*store->Find("second")->Find("v")), ElementsAre(7));
  EXPECT_EQ(store->bytes(), 2 * 4 + 3 + 4);
}

TEST_F(LayerStoreTest, AWriteThatDiedBeforeTheRenameLeavesTheOldLayer) {
  {
    const auto store = Open();
    ASSERT_TRUE(store->Put("a", Tensors("w", {1})).ok());
  }
  // What a process that is killed there leaves.
  folder_.Write(".a.safetensors.tmp-Xy12Zw", Contents("a.safetensors") + "x");
  folder_.Write(".b.safetensors.tmp-Xy12Zw", "half a hea");
  const auto store = Open();
  EXPECT_THAT(lines_, IsEmpty());
  EXPECT_THAT(Values(*store->Find("a")->Find("w")), ElementsAre(1));
  EXPECT_THAT(store->List("", 10), SizeIs(1));
  EXPECT_EQ(FileCount(), 1u);
}

TEST_F(LayerStoreTest, ABrokenFileIsReportedLeftAloneAndNotServed) {
  {
    const auto store = Open();
    ASSERT_TRUE(store->Put("good", Tensors("w", {1})).ok());
  }
  const std::string good = Contents("good.safetensors");
  folder_.Write("short.safetensors", good.substr(0, good.size() - 1));
  folder_.Write("long.safetensors", good + "x");
  folder_.Write("empty.safetensors", "");
  folder_.Write("bad name.safetensors", good);
  folder_.Write("notes.txt", "not ours");
  std::filesystem::create_directory(folder_.File("folder.safetensors"));
  const auto store = Open();
  EXPECT_THAT(store->List("", 10), SizeIs(1));
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("bad name.safetensors"),
                                  HasSubstr("empty.safetensors"),
                                  HasSubstr("folder.safetensors"),
                                  HasSubstr("long.safetensors"),
                                  HasSubstr("short.safetensors")));
  EXPECT_EQ(Contents("long.safetensors"), good + "x");
  EXPECT_EQ(FileCount(), 7u);
}

TEST_F(LayerStoreTest, ReplacingGivesANewVersionAndLeavesTheOldToItsHolders) {
  const auto store = Open();
  ASSERT_TRUE(store->Put("a", Tensors("w", {1})).ok());
  const auto old = store->Find("a");
  ASSERT_TRUE(store->Put("a", Tensors("v", {2, 3})).ok());
  EXPECT_NE(old->version, 0u);
  EXPECT_GT(store->Find("a")->version, old->version);
  EXPECT_EQ(store->Find("a")->Find("w"), nullptr);
  EXPECT_THAT(Values(*old->Find("w")), ElementsAre(1));
  EXPECT_EQ(store->bytes(), 8);
}

TEST_F(LayerStoreTest, ADeletedLayerDoesNotComeBack) {
  uint64_t version = 0;
  {
    const auto store = Open();
    ASSERT_TRUE(store->Put("a", Tensors("w", {1})).ok());
    version = store->Find("a")->version;
    EXPECT_TRUE(store->Delete("a").ok());
    EXPECT_EQ(store->Find("a"), nullptr);
    EXPECT_EQ(store->bytes(), 0);
    EXPECT_TRUE(absl::IsNotFound(store->Delete("a")));
  }
  const auto store = Open();
  EXPECT_THAT(store->List("", 10), IsEmpty());
  ASSERT_TRUE(store->Put("a", Tensors("w", {1})).ok());
  EXPECT_GT(store->Find("a")->version, version);
}

TEST_F(LayerStoreTest, TheBudgetHoldsForAllLayersAndIgnoresTheReplaced) {
  const auto store = Open(16 + kOneTensor);
  ASSERT_TRUE(store->Put("a", Tensors("w", {1, 2, 3})).ok());
  const auto full = store->Put("b", Tensors("w", {1, 2}));
  EXPECT_TRUE(absl::IsResourceExhausted(full.status()));
  EXPECT_THAT(full.status().message(), HasSubstr("--max-layer-bytes=1298"));
  EXPECT_EQ(store->Find("b"), nullptr);
  EXPECT_TRUE(store->Put("a", Tensors("w", {1, 2, 3, 4})).ok());
  EXPECT_EQ(FileCount(), 1u);
}

TEST_F(LayerStoreTest, TheReplacedCountUntilTheirLastHolderLetsThemGo) {
  // Room for two.
  const auto store = Open(2 * (4 + kOneTensor));
  std::vector<std::shared_ptr<const Layer>> held;
  for (int turn = 0; turn < 20; ++turn) {
    const absl::Status put = store->Put("a", Tensors("w", {1})).status();
    EXPECT_EQ(put.ok(), turn < 2) << turn << ": " << put;
    held.push_back(store->Find("a"));
  }
  EXPECT_EQ(store->bytes(), 4);
  held.clear();
  EXPECT_TRUE(store->Put("a", Tensors("w", {2})).ok());
  EXPECT_TRUE(store->Put("b", Tensors("w", {2})).ok());
}

TEST_F(LayerStoreTest, TheDeletedCountUntilTheirLastHolderLetsThemGo) {
  auto store = Open(4 + kOneTensor);
  ASSERT_TRUE(store->Put("a", Tensors("w", {1})).ok());
  auto held = store->Find("a");
  ASSERT_TRUE(store->Delete("a").ok());
  EXPECT_TRUE(absl::IsUnavailable(store->Put("b", Tensors("w", {1})).status()));
  held.reset();
  ASSERT_TRUE(store->Put("b", Tensors("w", {1})).ok());
  // A transport may have the last of it when the store is gone.
  held = store->Find("b");
  store.reset();
  EXPECT_THAT(Values(*held->Find("w")), ElementsAre(1));
}

TEST_F(LayerStoreTest, WhatFitsOnceTheHeldGoIsToldFromWhatNeverDoes) {
  // Room for two.
  const auto store = Open(2 * (4 + kOneTensor));
  std::vector<std::shared_ptr<const Layer>> held;
  for (int turn = 0; turn < 2; ++turn) {
    ASSERT_TRUE(store->Put("a", Tensors("w", {1})).ok());
    held.push_back(store->Find("a"));
  }
  for (const char* name : {"a", "b"}) {
    const absl::Status later = store->Put(name, Tensors("w", {1})).status();
    EXPECT_TRUE(absl::IsUnavailable(later)) << later;
    EXPECT_THAT(later.message(), HasSubstr("that calls still hold"));
  }
  // Beside the other layer, which stays.
  const absl::Status never = store->Put("b", Tensors("w", {1, 2})).status();
  EXPECT_TRUE(absl::IsResourceExhausted(never)) << never;
  EXPECT_THAT(never.message(), Not(HasSubstr("hold")));
  // In its place.
  EXPECT_TRUE(
      absl::IsUnavailable(store->Put("a", Tensors("w", {1, 2})).status()));
  held.clear();
  EXPECT_TRUE(store->Put("b", Tensors("w", {1})).ok());
  EXPECT_TRUE(
      absl::IsResourceExhausted(store->Put("c", Tensors("w", {1})).status()));
  ASSERT_TRUE(store->Delete("b").ok());
  EXPECT_TRUE(store->Put("c", Tensors("w", {1})).ok());
}

TEST_F(LayerStoreTest, LayersOfTensorsWithoutElementsCountToo) {
  {
    const auto store = Open(2 * kOneTensor);
    ASSERT_TRUE(store->Put("a", Tensors("w", {})).ok());
    ASSERT_TRUE(store->Put("b", Tensors("w", {})).ok());
    EXPECT_TRUE(
        absl::IsResourceExhausted(store->Put("c", Tensors("w", {})).status()));
    ASSERT_TRUE(store->Delete("a").ok());
    EXPECT_TRUE(store->Put("c", Tensors("w", {})).ok());
    EXPECT_TRUE(absl::IsResourceExhausted(
        store->Put("c", Tensors("a_longer_name", {})).status()));
    EXPECT_EQ(store->bytes(), 0);
  }
  const auto store = Open(2 * kOneTensor - 1);
  EXPECT_THAT(store->List("", 10), SizeIs(1));
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("--max-layer-bytes")));
}

TEST_F(LayerStoreTest, AfterAFailedSyncMemoryAndDiskAgreeAndTheErrorSaysSo) {
  const auto store = LayerStore::Open(
      {.directory = folder_.path(),
       .sync =
           [](const std::string&) {
             return absl::FailedPreconditionError("no sync today");
           }},
      nullptr);
  ASSERT_TRUE(store.ok());
  const absl::Status put = (*store)->Put("a", Tensors("w", {2})).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(put)) << put;
  EXPECT_THAT(put.message(), HasSubstr("replaced and served"));
  EXPECT_THAT(put.message(), HasSubstr("no sync today"));
  ASSERT_NE((*store)->Find("a"), nullptr);
  EXPECT_THAT(Values(*(*store)->Find("a")->Find("w")), ElementsAre(2));
  EXPECT_THAT(Values(*Open()->Find("a")->Find("w")), ElementsAre(2));
  const absl::Status deleted = (*store)->Delete("a");
  EXPECT_TRUE(absl::IsFailedPrecondition(deleted)) << deleted;
  EXPECT_THAT(deleted.message(), HasSubstr("deleted"));
  EXPECT_EQ((*store)->Find("a"), nullptr);
  EXPECT_EQ(FileCount(), 0u);
}

TEST_F(LayerStoreTest, AFileBeyondTheBudgetIsReportedAtTheStart) {
  {
    const auto store = Open();
    ASSERT_TRUE(store->Put("a", Tensors("w", {1, 2})).ok());
    ASSERT_TRUE(store->Put("b", Tensors("w", {1, 2})).ok());
  }
  const auto store = Open(12 + kOneTensor);
  EXPECT_NE(store->Find("a"), nullptr);
  EXPECT_EQ(store->Find("b"), nullptr);
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("--max-layer-bytes")));
}

TEST_F(LayerStoreTest, ADirectoryThatCannotBeWrittenKeepsTheOldLayer) {
  const auto store = Open();
  ASSERT_TRUE(store->Put("a", Tensors("w", {1})).ok());
  std::filesystem::remove_all(folder_.path());
  const auto failed = store->Put("a", Tensors("w", {2}));
  EXPECT_TRUE(absl::IsFailedPrecondition(failed.status())) << failed.status();
  EXPECT_THAT(Values(*store->Find("a")->Find("w")), ElementsAre(1));
}

TEST_F(LayerStoreTest, ListsByNameFromAnyPoint) {
  const auto store = Open();
  for (const char* name : {"c", "a", "B", "b"}) {
    ASSERT_TRUE(store->Put(name, Tensors("w", {1})).ok());
  }
  const auto page = store->List("B", 2);
  ASSERT_THAT(page, SizeIs(2));
  EXPECT_EQ(page[0]->name, "a");
  EXPECT_EQ(page[1]->name, "b");
}

TEST_F(LayerStoreTest, NamesThatCouldLeaveTheDirectoryAreRefused) {
  const auto store = Open();
  for (const std::string& name :
       {std::string(), std::string("../x"), std::string(".x"),
        std::string("a/b"), std::string("a b"), std::string(129, 'a'),
        std::string("a\0b", 3)}) {
    const auto put = store->Put(name, Tensors("w", {1}));
    EXPECT_EQ(FieldOf(put.status()), "name") << name;
  }
  EXPECT_TRUE(store->Put(std::string(128, 'a'), Tensors("w", {1})).ok());
}

TEST_F(LayerStoreTest, TensorsNeedNamesOfTheirOwn) {
  const auto store = Open();
  EXPECT_EQ(FieldOf(store->Put("a", {}).status()), "tensors");
  EXPECT_EQ(FieldOf(store->Put("a", Tensors("", {1})).status()),
            "tensors[0].name");
  // The file's own entry: a restart would not have the layer.
  EXPECT_EQ(FieldOf(store->Put("a", Tensors("__metadata__", {1})).status()),
            "tensors[0].name");
  std::vector<StoredTensor> twice = Tensors("w", {1});
  twice.push_back(MakeTensor("w", {2}));
  EXPECT_EQ(FieldOf(store->Put("a", std::move(twice)).status()),
            "tensors[1].name");
}

TEST(LayerStoreWithoutDirectoryTest, KeepsLayersInMemory) {
  const auto store = LayerStore::Open({}, nullptr);
  ASSERT_TRUE(store.ok());
  ASSERT_TRUE((*store)->Put("a", Tensors("w", {1})).ok());
  EXPECT_NE((*store)->Find("a"), nullptr);
  EXPECT_TRUE((*store)->Delete("a").ok());
}

TEST_F(LayerStoreTest, ReadersSeeWholeLayersWhileOthersReplaceThem) {
  const auto store = Open();
  ASSERT_TRUE(store->Put("a", Tensors("w", {0, 0})).ok());
  std::thread writer([&store] {
    for (int i = 1; i <= 50; ++i) {
      const auto value = static_cast<float>(i);
      EXPECT_TRUE(store->Put("a", Tensors("w", {value, value})).ok());
    }
  });
  for (int i = 0; i < 500; ++i) {
    const auto values = Values(*store->Find("a")->Find("w"));
    EXPECT_EQ(values[0], values[1]);
  }
  writer.join();
}

}  // namespace
}  // namespace attn
