#include "server/story/embedded_model.h"

#include <fstream>
#include <map>
#include <regex>
#include <string>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"
#include "openssl/sha.h"
#include "server/story/story_weights.h"
#include "server/story/tokenizer.h"

namespace attn {
namespace {

std::string Sha256(absl::string_view bytes) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return absl::BytesToHexString(digest);
}

// Digests by file, from lines "    <digest>  <file>" of the model's README.
std::map<std::string, std::string> Checksums() {
  std::ifstream stream(std::string(ATTN_SOURCE_DIR) +
                       "/server/story/model/README.md");
  const std::regex pattern("    ([0-9a-f]{64})  (\\S+)");
  std::map<std::string, std::string> digests;
  for (std::string line; std::getline(stream, line);) {
    std::smatch match;
    if (std::regex_match(line, match, pattern)) digests[match[2]] = match[1];
  }
  return digests;
}

TEST(EmbeddedModel, TheProgramCarriesTheFilesOfTheReadme) {
  const std::map<std::string, std::string> expected = {
      {"tiny.bin", Sha256(StoryWeightsFile())},
      {"tok512.bin", Sha256(StoryTokenizerFile())},
      {"heads.json", Sha256(StoryHeadsFile())}};
  EXPECT_EQ(Checksums(), expected);
}

TEST(EmbeddedModel, ModelAndTokenizerHaveOneVocabulary) {
  EXPECT_EQ(ParseStoryWeights(StoryWeightsFile())->shape.vocabulary,
            StoryTokenizer::Parse(StoryTokenizerFile())->size());
}

}  // namespace
}  // namespace attn
