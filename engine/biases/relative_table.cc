// A learned bias for each clipped distance (Shaw et al. 2018, section 3.2).
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/biases/add_in_chunks.h"
#include "engine/biases/members.h"
#include "engine/core/field_error.h"
#include "engine/tile/parameter_view.h"

namespace attn {
namespace {

class RelativeTable final : public Bias {
 public:
  explicit RelativeTable(uint32_t table) : table_(table) {}

  void Add(const CallView& call, const Tile<float>& tile) const override {
    AddTo(call, tile);
  }
  void Add(const CallView& call, const Tile<double>& tile) const override {
    AddTo(call, tile);
  }
  void Backward(const CallView& call, const Tile<double>& gradient,
                const GradientSink& sink) const override {
    double* of_table = sink.Of(table_);
    if (of_table == nullptr) return;
    const Slice slice = SliceOf(call, gradient.bounds);
    const TileBounds& b = gradient.bounds;
    for (int64_t r = 0; r < b.rows; ++r) {
      for (int64_t j = 0; j < b.keys; ++j) {
        of_table[slice.Index(b.row_begin + r, b.key_begin + j)] +=
            gradient.Row(r)[j];
      }
    }
  }

 private:
  // One head's row of the table.
  struct Slice {
    int64_t offset = 0;
    int64_t reach = 0;     // the largest distance, n
    int64_t diagonal = 0;  // position of query row 0

    int64_t Index(int64_t row, int64_t key) const {
      return offset + reach + std::clamp(key - row - diagonal, -reach, reach);
    }
  };

  Slice SliceOf(const CallView& call, const TileBounds& bounds) const {
    const ParameterView table(call.args.inputs[table_]);
    return {table.HeadOffset(bounds.head, 1), table.extent(1) / 2,
            call.position_offset(bounds.batch)};
  }

  template <typename T>
  void AddTo(const CallView& call, const Tile<T>& tile) const {
    const ParameterView table(call.args.inputs[table_]);
    const Slice slice = SliceOf(call, tile.bounds);
    AddInChunks(tile, [&](int64_t row, int64_t key, int64_t count, T* out) {
      for (int64_t j = 0; j < count; ++j) {
        table.Load(slice.Index(row, key + j), 1, out + j);
      }
    });
  }

  uint32_t table_;
};

absl::Status Validate(const BiasSpec& spec, const Problem& problem,
                      absl::string_view list_field) {
  const uint32_t input = std::get<RelativeTableBias>(spec).table;
  const std::string field =
      absl::StrCat(list_field, ".relative_table.table.input");
  int64_t width = 1;
  if (input < problem.inputs.size() &&
      problem.inputs[input].shape.rank() == 2) {
    width = problem.inputs[input].shape[1];
  }
  if (width % 2 == 0) {
    return FieldError(field, absl::StrCat(width, " distances"),
                      "an odd number: -n to n");
  }
  return CheckParameter(problem, input,
                        {Shape{problem.shape.q_heads, width}, Shape{1, width}},
                        field);
}

std::string Describe(const BiasSpec& /*spec*/) { return "relative_table"; }

std::unique_ptr<Bias> Make(const BiasSpec& spec, const Problem& /*problem*/) {
  return std::make_unique<RelativeTable>(
      std::get<RelativeTableBias>(spec).table);
}

}  // namespace

BiasEntry RelativeTableBiasEntry() {
  return {"relative_table",
          "a learned value for each head and clipped distance",
          2,
          Validate,
          Describe,
          Make};
}

}  // namespace attn
