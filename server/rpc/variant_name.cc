#include "server/rpc/variant_name.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <variant>

namespace attn {
namespace {

// One name for each member of the spec's variants, in their order.
constexpr std::array<const char*, std::variant_size_v<ScoreSpec>> kScores = {
    "dot", "bilinear", "additive", "concat", "trilinear", "cosine", "distance"};
constexpr std::array<const char*, std::variant_size_v<NormalizerSpec>>
    kNormalizers = {"softmax", "softmax_plus", "sparsemax", "entmax",
                    "sigmoid", "relu",         "divisive",  "hard",
                    "local",   "identity",     "linear"};

// Members that serve alike share a name, so that the label stays bounded. Of
// the names of a spec's members the last of these lists is shown.
constexpr std::array<const char*, 4> kBiasNames = {"", "_bias", "_relative",
                                                   "_alibi"};
constexpr std::array<const char*, 4> kMaskNames = {"", "_mask", "_causal",
                                                   "_window"};
// Of each member, where its name is in the list.
constexpr std::array<size_t, std::variant_size_v<BiasSpec>> kBiasRanks = {
    1, 3, 2, 2, 2, 1};
constexpr std::array<size_t, std::variant_size_v<MaskSpec::variant>>
    kMaskRanks = {2, 3, 1, 2, 1, 1, 1, 3, 3, 3, 1, 3, 3, 1, 1};

template <typename Members, typename Names, typename Ranks>
std::string MostTelling(const Members& members, const Names& names,
                        const Ranks& ranks) {
  size_t best = 0;
  for (const auto& member : members) {
    best = std::max(best, ranks[member.index()]);
  }
  return names[best];
}

std::string Base(size_t score, size_t normalizer) {
  return std::string(kScores[score]) + "_" + kNormalizers[normalizer];
}

// Each name with each suffix, one of which is empty.
template <typename Suffixes>
std::vector<std::string> WithEachSuffix(const std::vector<std::string>& names,
                                        const Suffixes& suffixes) {
  std::vector<std::string> result;
  for (const std::string& name : names) {
    for (const char* suffix : suffixes) result.push_back(name + suffix);
  }
  return result;
}

}  // namespace

std::string VariantName(const AttentionSpec& spec) {
  return Base(spec.score.index(), spec.normalizer.index()) +
         MostTelling(spec.biases, kBiasNames, kBiasRanks) +
         MostTelling(spec.masks, kMaskNames, kMaskRanks);
}

std::vector<std::string> CommonVariantNames() {
  const size_t dot = ScoreSpec(DotScore{}).index();
  const size_t softmax = NormalizerSpec(SoftmaxNormalizer{}).index();
  return WithEachSuffix({Base(dot, softmax)}, kMaskNames);
}

std::vector<std::string> AllVariantNames() {
  std::vector<std::string> names;
  for (size_t score = 0; score < kScores.size(); ++score) {
    for (size_t normalizer = 0; normalizer < kNormalizers.size();
         ++normalizer) {
      names.push_back(Base(score, normalizer));
    }
  }
  names = WithEachSuffix(names, kBiasNames);
  return WithEachSuffix(names, kMaskNames);
}

}  // namespace attn
