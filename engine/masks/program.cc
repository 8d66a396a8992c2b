// A predicate that the call brings as an expression.
#include "engine/programs/program.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/masks/members.h"

namespace attn {
namespace {

constexpr char kAnyField[] = "";

// What a program allows is not known before it runs.
class ProgramOf final : public Mask {
 public:
  explicit ProgramOf(std::unique_ptr<const Program> program)
      : program_(std::move(program)) {}

  KeyRange Visible(const CallView& call,
                   const TileBounds& /*rows*/) const override {
    return {0, call.shape.kv_length};
  }
  bool Covers(const CallView& /*call*/,
              const TileBounds& /*tile*/) const override {
    return false;
  }
  void Exclude(const CallView& call, const Tile<float>& tile) const override {
    program_->Exclude(call, tile);
  }
  void Exclude(const CallView& call, const Tile<double>& tile) const override {
    program_->Exclude(call, tile);
  }

 private:
  std::unique_ptr<const Program> program_;
};

absl::StatusOr<std::unique_ptr<const Program>> Compile(
    const MaskSpec& spec, const Problem& problem, absl::string_view field) {
  return Program::Compile(std::get<ProgramMask>(spec).program, problem,
                          ProgramKind::kMask, field);
}

absl::Status Validate(const MaskSpec& spec, const Problem& problem,
                      absl::string_view field) {
  return Compile(spec, problem, absl::StrCat(field, ".program.program"))
      .status();
}

std::string Describe(const MaskSpec& spec) {
  return absl::StrCat("program(", std::get<ProgramMask>(spec).program.source,
                      ")");
}

std::unique_ptr<Mask> Make(const MaskSpec& spec, const Problem& problem) {
  return std::make_unique<ProgramOf>(*Compile(spec, problem, kAnyField));
}

}  // namespace

MaskEntry ProgramMaskEntry() {
  return {"program", "allowed where an expression of the call is true",
          14,        Validate,
          Describe,  Make};
}

}  // namespace attn
