#include "server/rpc/variant_name.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <variant>

namespace attn {
namespace {

// One name for each member of the spec's variants, in their order.
constexpr std::array<const char*, std::variant_size_v<ScoreSpec>> kScores = {
    "dot"};
constexpr std::array<const char*, std::variant_size_v<NormalizerSpec>>
    kNormalizers = {"softmax"};
constexpr std::array<const char*, std::variant_size_v<BiasSpec>> kBiases = {
    "_bias", "_alibi"};
constexpr std::array<const char*, std::variant_size_v<MaskSpec>> kMasks = {
    "_causal", "_window", "_mask"};

// Ranks of the members: the highest of a spec names it.
constexpr std::array<int, std::variant_size_v<BiasSpec>> kBiasRanks = {1, 2};
constexpr std::array<int, std::variant_size_v<MaskSpec>> kMaskRanks = {2, 3, 1};

template <typename Members, typename Names, typename Ranks>
std::string MostTelling(const Members& members, const Names& names,
                        const Ranks& ranks) {
  int best = 0;
  std::string name;
  for (const auto& member : members) {
    if (ranks[member.index()] <= best) continue;
    best = ranks[member.index()];
    name = names[member.index()];
  }
  return name;
}

std::string Base(size_t score, size_t normalizer) {
  return std::string(kScores[score]) + "_" + kNormalizers[normalizer];
}

}  // namespace

std::string VariantName(const AttentionSpec& spec) {
  return Base(spec.score.index(), spec.normalizer.index()) +
         MostTelling(spec.biases, kBiases, kBiasRanks) +
         MostTelling(spec.masks, kMasks, kMaskRanks);
}

std::vector<std::string> AllVariantNames() {
  std::vector<std::string> biases = {""};
  biases.insert(biases.end(), kBiases.begin(), kBiases.end());
  std::vector<std::string> masks = {""};
  masks.insert(masks.end(), kMasks.begin(), kMasks.end());
  std::vector<std::string> names;
  for (size_t score = 0; score < kScores.size(); ++score) {
    for (size_t normalizer = 0; normalizer < kNormalizers.size();
         ++normalizer) {
      for (const std::string& bias : biases) {
        for (const std::string& mask : masks) {
          names.push_back(Base(score, normalizer) + bias + mask);
        }
      }
    }
  }
  return names;
}

}  // namespace attn
