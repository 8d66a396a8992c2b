#include "client/cli/heatmap_command.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "client/cli/attend_inputs.h"
#include "client/cli/call_info_flags.h"
#include "client/cli/colour.h"
#include "client/cli/heatmap_figure.h"
#include "client/cli/heatmap_flags.h"
#include "client/cli/seen_scores.h"
#include "client/cli/spec_flags.h"
#include "client/cli/waiting_line.h"
#include "client/draw/figure_layout.h"
#include "client/draw/figure_painter.h"
#include "client/draw/font.h"
#include "client/draw/png_canvas.h"
#include "client/draw/svg_canvas.h"
#include "client/io/replacement_file.h"
#include "engine/core/problem.h"

namespace attn {
namespace {

constexpr char kHeatmapFooter[] = R"(
Colours: weights from dark violet (0) to yellow; logits blue below 0 and
orange above, both readable without red or green. Masked cells are hatched,
cells that are not finite are black. Logits are scaled scores, before softcap,
bias and mask.

Examples:
  attn heatmap --input qkv.npz --causal --output heads.png
  attn heatmap --input qkv.npz --causal --heads 0,2,5-7 --tokens tokens.txt \
      --output heads.svg
  attn heatmap --input long.npz --heads 0 --rows 4096:8192 --what weights \
      --pool mean --output part.png
  attn heatmap --input qkv.npz --causal --max-weight 0.1 --output heads.png
  attn heatmap --q q.npy --k k.npy --v v.npy --heads 1
  attn heatmap --input qkv.npz --output heads.png --json)";

// Of a terminal that does not say.
constexpr int kUsualColumns = 80;
constexpr int64_t kTerminalRows = 48;
// Labels of rows and gaps between panels.
constexpr int kTerminalMargin = 20;
constexpr int64_t kLeastTerminalCells = 8;

struct HeatmapCommandFlags {
  InputFlags input;
  SpecFlags spec;
  HeatmapFlags heatmap;
  CallInfoFlags info;
};

// How --output is drawn; of a terminal nothing is set.
struct FigureTarget {
  FigureKind kind = FigureKind::kTerminal;
  std::string path;
  // Absent for an SVG without a font at hand: it brings no letters.
  std::optional<Font> font;
  std::optional<ReplacementFile> file;
  PanelGrid grid;
};

int TerminalColumns() {
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  return known && size.ws_col > 0 ? size.ws_col : kUsualColumns;
}

int64_t StepFor(int64_t elements, int64_t cells) {
  return (elements + cells - 1) / cells;
}

// Everything that can be wrong before the server is asked, and the steps.
absl::StatusOr<FigureTarget> PrepareTarget(const HeatmapFlags& flags,
                                           ScoreQuestion& question) {
  FigureTarget target;
  const auto kind = KindOfOutput(flags.output);
  if (!kind.ok()) return kind.status();
  target.kind = *kind;
  target.path = flags.output;
  const int panels = (question.logits ? 1 : 0) + (question.weights ? 1 : 0);
  if (target.kind == FigureKind::kTerminal) {
    const int64_t columns = std::max<int64_t>(
        (TerminalColumns() - kTerminalMargin) / panels, kLeastTerminalCells);
    question.query_step = StepFor(question.query_count, kTerminalRows);
    question.key_step = StepFor(question.key_count, columns);
    return target;
  }
  auto font = Font::Load(flags.font);
  const bool needed = target.kind == FigureKind::kPng || !flags.font.empty();
  if (font.ok()) {
    target.font = *std::move(font);
  } else if (needed) {
    return font.status();
  }
  const auto grid =
      ChoosePanelGrid(static_cast<int>(question.heads.size()), panels,
                      question.query_count, question.key_count, flags.size);
  if (!grid.ok()) return grid.status();
  target.grid = *grid;
  question.query_step = grid->query_step;
  question.key_step = grid->key_step;
  auto file = ReplacementFile::Create(flags.output,
                                      ReplacementFile::Existing::kReplace);
  if (!file.ok()) return file.status();
  target.file = *std::move(file);
  return target;
}

// The names that are drawn; whether the font can is found out by them.
bool LacksLetters(const Font& font, const FigureLayout& layout) {
  return std::any_of(
      layout.texts.begin(), layout.texts.end(),
      [&font](const FigureText& text) { return font.Lacks(text.text); });
}

// Draws, and says how large the figure is.
absl::StatusOr<FigureLayout> WriteFigure(const AttentionFigure& figure,
                                         FigureTarget& target) {
  const EstimatingRuler estimate;
  const TextRuler& ruler =
      target.font ? static_cast<const TextRuler&>(*target.font) : estimate;
  FigureLayout layout = LayOutFigure(figure, target.grid, ruler);
  std::unique_ptr<Canvas> canvas;
  if (target.kind == FigureKind::kPng) {
    canvas =
        std::make_unique<PngCanvas>(layout.width, layout.height, *target.font);
    if (LacksLetters(*target.font, layout)) {
      std::fputs(
          "attn: note: the font lacks letters of some labels; name one that "
          "has them with --font FILE\n",
          stderr);
    }
  } else {
    canvas = std::make_unique<SvgCanvas>(layout.width, layout.height);
  }
  PaintFigure(figure, layout, ruler, *canvas);
  absl::Status status = canvas->Write(target.file->path());
  if (!status.ok()) return target.file->Blame(status);
  status = target.file->Commit();
  if (!status.ok()) return status;
  return layout;
}

// "qkv.npz", "q.npy"
std::string DefaultTitle(const InputFlags& input) {
  const std::string& file = input.input.empty() ? input.q : input.input;
  return std::filesystem::path(file).filename().string();
}

ExitCode PresentFigure(const AttentionFigure& figure,
                       const ScoreQuestion& question, FigureTarget& target,
                       bool json) {
  nlohmann::json document = FigureToJson(figure, question);
  document["file"] = nullptr;
  std::string text;
  if (target.kind == FigureKind::kTerminal) {
    text = FigureToText(figure, WantsColour() && !json);
  } else {
    const auto layout = WriteFigure(figure, target);
    if (!layout.ok()) return ReportUsageError(layout.status());
    document["file"] = target.path;
    document["format"] = target.kind == FigureKind::kPng ? "png" : "svg";
    document["width"] = layout->width;
    document["height"] = layout->height;
    document["bytes"] = std::filesystem::file_size(target.path);
    text = absl::StrCat(target.path, ": ", layout->width, " x ", layout->height,
                        " pixels, ", question.heads.size(),
                        question.heads.size() == 1 ? " head: " : " heads: ",
                        DescribeFigure(figure), "\n");
  }
  if (json) {
    // A path need not be UTF-8.
    text =
        document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
        "\n";
  }
  std::fputs(text.c_str(), stdout);
  return ExitCode::kOk;
}

ExitCode RunHeatmap(const HeatmapCommandFlags& flags,
                    const GlobalOptions& options) {
  const auto inputs = ReadInputs(flags.input, flags.spec);
  if (!inputs.ok()) return ReportUsageError(inputs.status());
  const AttendMessage call = inputs->Message();
  const auto problem =
      MakeProblem(call.spec, call.args, {}, call.args.q.dtype, "");
  if (!problem.ok()) return ReportUsageError(problem.status());
  auto question = ReadScoreQuestion(flags.heatmap, problem->shape);
  if (!question.ok()) return ReportUsageError(question.status());
  const auto names = ReadTokenNames(flags.heatmap, problem->shape);
  if (!names.ok()) return ReportUsageError(names.status());
  auto target = PrepareTarget(flags.heatmap, *question);
  if (!target.ok()) return ReportUsageError(target.status());
  const auto client = ConnectTo(options);
  if (!client.ok()) return ReportUsageError(client.status());
  auto message = static_cast<const CallMessage&>(call);
  ApplyCallInfo(flags.info, message);
  const auto seen = [&] {
    const WaitingLine waiting("attn heatmap");
    return SeeScores(*client, message, *question);
  }();
  if (!seen.ok()) return ReportCallError(seen.status());
  AttentionFigure figure = MakeFigure(
      *seen, *question, *names,
      {.weight = flags.heatmap.max_weight, .logit = flags.heatmap.max_logit});
  figure.title = flags.heatmap.title.value_or(DefaultTitle(flags.input));
  const int64_t heads = problem->shape.q_heads;
  if (flags.heatmap.heads.empty() && heads > kMostHeads && !options.json) {
    std::fprintf(stderr,
                 "attn: note: the first %d of %d heads; --heads names others\n",
                 static_cast<int>(kMostHeads), static_cast<int>(heads));
  }
  return PresentFigure(figure, *question, *target, options.json);
}

}  // namespace

void AddHeatmapCommand(CLI::App& app, GlobalOptions& options) {
  CLI::App* command = app.add_subcommand(
      "heatmap", "Draw logits beside weights: PNG, SVG or on the terminal");
  command->footer(kHeatmapFooter);
  auto flags = std::make_shared<HeatmapCommandFlags>();
  AddHeatmapFlags(*command, flags->heatmap);
  AddInputFlags(*command, flags->input);
  AddSpecFlags(*command, flags->spec);
  AddCallInfoFlags(*command, flags->info);
  command->callback([flags, &options] {
    options.run = [flags, &options] { return RunHeatmap(*flags, options); };
  });
}

}  // namespace attn
