#include "client/cli/stage_flags.h"

#include <cstdint>
#include <iterator>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

// What a flag may change. The tables of programs are known before the programs.
struct Target {
  const ReadOptions& options;
  AttentionSpec& spec;
  std::vector<HostTensor>& inputs;
  std::vector<ProgramTable> tables;
};

struct FlagRow {
  const char* name;
  const char* group;
  const char* value;
  const char* help;
  // `flag` is the name, for errors.
  absl::Status (*apply)(const std::string& text, const char* flag,
                        Target& target);
};

absl::Status BadFlag(const char* flag, const std::string& text,
                     absl::string_view expected) {
  return FieldError(flag, absl::StrCat("\"", text, "\""), expected);
}

absl::Status AddFile(const std::string& file, Target& target, uint32_t& input) {
  auto tensor = ReadTensor(file, target.options);
  if (!tensor.ok()) return tensor.status();
  input = static_cast<uint32_t>(target.inputs.size());
  target.inputs.push_back(*std::move(tensor));
  return absl::OkStatus();
}

// "NAME" or "NAME:NUMBER".
struct NamedNumber {
  std::string name;
  std::optional<double> number;
};

absl::StatusOr<NamedNumber> SplitNumber(const std::string& text,
                                        const char* flag) {
  const std::vector<std::string> parts =
      absl::StrSplit(text, absl::MaxSplits(':', 1));
  NamedNumber named{parts[0], {}};
  if (parts.size() == 1) return named;
  double number = 0;
  if (!absl::SimpleAtod(parts[1], &number)) {
    return BadFlag(flag, text, "a number after the colon");
  }
  named.number = number;
  return named;
}

// --------------------------------------------------------------- programs

absl::Status ApplyTable(const std::string& text, const char* flag,
                        Target& target) {
  const std::vector<std::string> parts =
      absl::StrSplit(text, absl::MaxSplits('=', 1));
  if (parts.size() != 2) return BadFlag(flag, text, "NAME=FILE");
  uint32_t input = 0;
  absl::Status status = AddFile(parts[1], target, input);
  if (status.ok()) target.tables.push_back({parts[0], input});
  return status;
}

absl::Status ApplyScoreProgram(const std::string& text, const char* /*flag*/,
                               Target& target) {
  target.spec.score_program = ProgramSpec{text, target.tables};
  return absl::OkStatus();
}

absl::Status ApplyMaskProgram(const std::string& text, const char* /*flag*/,
                              Target& target) {
  target.spec.masks.emplace_back(ProgramMask{ProgramSpec{text, target.tables}});
  return absl::OkStatus();
}

absl::Status ApplyWeightProgram(const std::string& text, const char* /*flag*/,
                                Target& target) {
  target.spec.weight_program = ProgramSpec{text, target.tables};
  return absl::OkStatus();
}

// ------------------------------------------------------- score, transforms

template <Distance kDistance>
ScoreSpec MakeDistance() {
  DistanceScore score;
  score.distance = kDistance;
  return score;
}

struct ScoreRow {
  const char* name;
  ScoreSpec (*make)();
};
constexpr ScoreRow kScores[] = {
    {"dot", [] { return ScoreSpec(DotScore{}); }},
    {"cosine", [] { return ScoreSpec(CosineScore{}); }},
    {"distance", [] { return ScoreSpec(DistanceScore{}); }},
    {"squared_l2", MakeDistance<Distance::kSquaredL2>},
    {"l1", MakeDistance<Distance::kL1>},
    {"l2", MakeDistance<Distance::kL2>},
};

template <typename Row, size_t kCount>
std::string KindNames(const Row (&rows)[kCount]) {
  return absl::StrJoin(rows, ", ", [](std::string* out, const Row& row) {
    absl::StrAppend(out, row.name);
  });
}

absl::Status ApplyScore(const std::string& text, const char* flag,
                        Target& target) {
  for (const ScoreRow& row : kScores) {
    if (text != row.name) continue;
    target.spec.score = row.make();
    return absl::OkStatus();
  }
  return BadFlag(
      flag, text,
      absl::StrCat("one of ", KindNames(kScores),
                   "; by --spec FILE those that take tensors: bilinear, "
                   "additive, concat, trilinear"));
}

absl::Status ApplyRope(const std::string& text, const char* flag,
                       Target& target) {
  auto named = SplitNumber(text, flag);
  if (!named.ok()) return named.status();
  RotaryTransform rotary;
  if (named->name == "half_split") {
    rotary.layout = RotaryLayout::kHalfSplit;
  } else if (named->name != "interleaved") {
    return BadFlag(flag, text, "interleaved or half_split, then perhaps :BASE");
  }
  rotary.base = named->number.value_or(rotary.base);
  target.spec.transforms.emplace_back(rotary);
  return absl::OkStatus();
}

absl::Status ApplyQkNorm(const std::string& text, const char* flag,
                         Target& target) {
  NormTransform norm;
  if (text == "l2") {
    norm.kind = NormKind::kL2;
  } else if (text != "rms") {
    return BadFlag(flag, text, "l2 or rms");
  }
  target.spec.transforms.emplace_back(norm);
  return absl::OkStatus();
}

// ------------------------------------------------------------- normalizers

template <auto kMember>
struct MemberOf;
template <typename T, typename V, V T::*kMember>
struct MemberOf<kMember> {
  using Spec = T;
};

// A normalizer with one number that may be left out.
template <auto kMember>
NormalizerSpec WithNumber(const std::optional<double>& number) {
  typename MemberOf<kMember>::Spec spec;
  if (number.has_value()) spec.*kMember = *number;
  return spec;
}

template <typename Spec>
NormalizerSpec Plain(const std::optional<double>& /*number*/) {
  return Spec{};
}

struct NormalizerRow {
  const char* name;
  bool has_number;
  NormalizerSpec (*make)(const std::optional<double>& number);
};
constexpr NormalizerRow kNormalizers[] = {
    {"softmax", false, Plain<SoftmaxNormalizer>},
    {"softmax_plus", true, WithNumber<&SoftmaxPlusNormalizer::n>},
    {"sparsemax", false, Plain<SparsemaxNormalizer>},
    {"entmax", true, WithNumber<&EntmaxNormalizer::alpha>},
    {"sigmoid", true, WithNumber<&SigmoidNormalizer::bias>},
    {"relu", true, WithNumber<&ReluNormalizer::power>},
    {"divisive", true, WithNumber<&DivisiveNormalizer::eps>},
    {"hard", false, Plain<HardNormalizer>},
    {"identity", false, Plain<IdentityNormalizer>},
    {"linear", false, Plain<LinearNormalizer>},
};

absl::Status ApplyNormalizer(const std::string& text, const char* flag,
                             Target& target) {
  auto named = SplitNumber(text, flag);
  if (!named.ok()) return named.status();
  for (const NormalizerRow& row : kNormalizers) {
    if (named->name != row.name) continue;
    if (named->number.has_value() && !row.has_number) break;
    target.spec.normalizer = row.make(named->number);
    return absl::OkStatus();
  }
  return BadFlag(
      flag, text,
      absl::StrCat("one of ", KindNames(kNormalizers),
                   "; a number only where there is one; by --spec FILE "
                   "local, which takes tensors"));
}

absl::Status ApplySinks(const std::string& text, const char* flag,
                        Target& target) {
  auto* softmax = std::get_if<SoftmaxNormalizer>(&target.spec.normalizer);
  if (softmax == nullptr) return BadFlag(flag, text, "none but with softmax");
  uint32_t input = 0;
  absl::Status status = AddFile(text, target, input);
  if (status.ok()) softmax->sink = input;
  return status;
}

// ------------------------------------------------------ sparsifiers, dropout

absl::Status ApplyTopK(const std::string& text, const char* flag,
                       Target& target) {
  TopKSparsifier top_k;
  if (!absl::SimpleAtoi(text, &top_k.k)) return BadFlag(flag, text, "a number");
  target.spec.sparsifiers.emplace_back(top_k);
  return absl::OkStatus();
}

absl::Status ApplyTopP(const std::string& text, const char* flag,
                       Target& target) {
  TopPSparsifier top_p;
  if (!absl::SimpleAtod(text, &top_p.p)) return BadFlag(flag, text, "a number");
  target.spec.sparsifiers.emplace_back(top_p);
  return absl::OkStatus();
}

absl::Status ApplyDropout(const std::string& text, const char* flag,
                          Target& target) {
  DropoutSpec dropout;
  if (!absl::SimpleAtod(text, &dropout.p))
    return BadFlag(flag, text, "a number");
  target.spec.dropout = dropout;
  return absl::OkStatus();
}

absl::Status ApplySeed(const std::string& text, const char* flag,
                       Target& target) {
  if (!target.spec.dropout.has_value()) {
    return BadFlag(flag, text, "none without --dropout");
  }
  if (absl::SimpleAtoi(text, &target.spec.dropout->seed)) {
    return absl::OkStatus();
  }
  return BadFlag(flag, text, "a number from 0 to 2^64 - 1");
}

// Applied in this order.
constexpr FlagRow kFlags[] = {
    {"--score", "Score", "NAME",
     "dot, cosine, distance (squared_l2, l1 or l2); bilinear, additive, concat "
     "and trilinear take tensors: --spec",
     ApplyScore},
    {"--rope", "Score", "interleaved|half_split[:BASE]", "Rotary positions",
     ApplyRope},
    {"--qk-norm", "Score", "l2|rms", "Normalise rows of q and k", ApplyQkNorm},
    {"--top-k", "Weights", "K", "Keep the K largest logits of a row",
     ApplyTopK},
    {"--top-p", "Weights", "P", "Keep the fewest keys whose weights sum to P",
     ApplyTopP},
    {"--normalizer", "Weights", "NAME[:NUMBER]",
     "softmax, softmax_plus[:n], sparsemax, entmax[:alpha], sigmoid[:bias], "
     "relu[:power], divisive[:eps], hard, identity, linear; local takes "
     "tensors: "
     "--spec",
     ApplyNormalizer},
    {"--sinks", "Weights", "FILE", "Sink logits of softmax, [Hq] or [Hq, n]",
     ApplySinks},
    {"--dropout", "Weights", "P", "Drop weights with probability P",
     ApplyDropout},
    {"--seed", "Weights", "N", "Of --dropout; default 0", ApplySeed},
    {"--program-table", "Programs", "NAME=FILE",
     "A tensor that programs index by NAME", ApplyTable},
    {"--score-program", "Programs", "EXPR",
     "New logits, e.g. 'score + table[h] * (k - q)'", ApplyScoreProgram},
    {"--mask-program", "Programs", "EXPR",
     "Where a query may attend, e.g. 'k <= p'", ApplyMaskProgram},
    {"--weight-program", "Programs", "EXPR", "New weights, e.g. 'weight / 2'",
     ApplyWeightProgram},
};

}  // namespace

void AddStageFlags(CLI::App& command, StageFlags& flags) {
  flags.texts.resize(std::size(kFlags));
  for (size_t i = 0; i < std::size(kFlags); ++i) {
    const FlagRow& row = kFlags[i];
    // One value for each time that the flag is given.
    command.add_option(row.name, flags.texts[i], row.help)
        ->type_name(row.value)
        ->group(row.group)
        ->allow_extra_args(false);
  }
}

absl::Status ApplyStageFlags(const StageFlags& flags,
                             const ReadOptions& options, AttentionSpec& spec,
                             std::vector<HostTensor>& inputs) {
  Target target{options, spec, inputs, {}};
  for (size_t i = 0; i < flags.texts.size(); ++i) {
    for (const std::string& text : flags.texts[i]) {
      absl::Status status = kFlags[i].apply(text, kFlags[i].name, target);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace attn
