#include "tests/layering/room_rules.h"

#include <algorithm>
#include <map>
#include <set>

namespace attn {
namespace {

// What an include belongs to, by the way its path begins.
struct Library {
  std::string prefix;
  std::string name;
};

const std::vector<Library>& Libraries() {
  static const std::vector<Library> kLibraries = {
      {"absl/", "absl"},
      {"benchmark/", "benchmark"},
      {"boost/", "Boost"},
      {"CLI/", "CLI11"},
      {"CivetServer.h", "CivetWeb"},
      {"dnnl", "oneDNN"},
      {"ft2build.h", "FreeType"},
      {"gmock/", "gtest"},
      {"google/protobuf/", "protobuf"},
      {"grpc/", "gRPC"},
      {"grpcpp/", "gRPC"},
      {"gtest/", "gtest"},
      {"hwy/", "Highway"},
      {"nlohmann/", "json"},
      {"omp.h", "oneDNN"},
      {"oneapi/dnnl/", "oneDNN"},
      {"openssl/", "OpenSSL"},
      {"png.h", "libpng"},
      {"prometheus/", "Prometheus"},
      {"zip.h", "libzip"},
      {"zlib.h", "zlib"},
      // Threads are a library here: stages must do without.
      {"atomic", "threads"},
      {"condition_variable", "threads"},
      {"future", "threads"},
      {"mutex", "threads"},
      {"pthread.h", "threads"},
      {"shared_mutex", "threads"},
      {"thread", "threads"},
  };
  return kLibraries;
}

bool StartsWith(const std::string& text, const std::string& prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

bool Contains(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

std::string Join(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) {
    text += (text.empty() ? "" : ", ") + item;
  }
  return text.empty() ? "nothing else" : text;
}

// Generated code is included by its path in the schema.
std::string WithRoom(const std::string& target) {
  for (const char* schema : {"attention/v1/", "inference/"}) {
    if (StartsWith(target, schema)) return "proto/" + target;
  }
  return target;
}

bool IsOurs(const std::string& target) {
  for (const char* top : {"engine/", "proto/", "server/", "client/", "tests/",
                          "deploy/", "attention/v1/", "inference/"}) {
    if (StartsWith(target, top)) return true;
  }
  return false;
}

// Empty for the standard library and the system's own headers.
std::string LibraryOf(const std::string& target) {
  for (const Library& library : Libraries()) {
    const bool folder =
        library.prefix.back() == '/' || library.prefix == "dnnl";
    if (folder ? StartsWith(target, library.prefix)
               : target == library.prefix) {
      return library.name;
    }
  }
  const bool system =
      target.find('/') == std::string::npos || StartsWith(target, "sys/") ||
      StartsWith(target, "netinet/") || StartsWith(target, "arpa/") ||
      StartsWith(target, "linux/");
  return system ? "" : "unknown library";
}

std::string Describe(const Include& include, const std::string& rule) {
  return include.file + ":" + std::to_string(include.line) + " includes \"" +
         include.target + "\": " + rule;
}

bool MayInclude(const Room& room, const Include& include) {
  const std::string& target = include.target;
  const Room* other = RoomOf(target);
  if (other == &room || Contains(room.may_include, target)) return true;
  for (const Grant& grant : Grants()) {
    if (target == grant.header && StartsWith(include.file, grant.files)) {
      return true;
    }
  }
  return other != nullptr && Contains(room.may_include, other->name);
}

// Rooms by the rooms that they really include, with one include as evidence.
using Graph = std::map<std::string, std::map<std::string, Include>>;

// Who includes whom. Thread-compatible.
struct Graphs {
  Graph rooms;
  Graph files;

  void Add(const Include& include) {
    const Room* from = RoomOf(include.file);
    const Room* to = IsOurs(include.target) ? RoomOf(include.target) : nullptr;
    if (from == nullptr || to == nullptr) return;
    files[include.file].emplace(include.target, include);
    if (from != to) rooms[from->name].emplace(to->name, include);
  }
};

// Depth first; `path` holds the nodes from the start to `node`.
void FindCycle(const Graph& graph, const std::string& node,
               std::vector<std::string>& path, std::set<std::string>& done,
               std::vector<std::string>& found) {
  const auto seen = std::find(path.begin(), path.end(), node);
  if (seen != path.end()) {
    std::string text = "cycle: ";
    for (auto it = seen; it != path.end(); ++it) text += *it + " -> ";
    const Include& proof = graph.at(path.back()).at(node);
    found.push_back(text + node + " (" + proof.file + " includes \"" +
                    proof.target + "\"): nothing may include in a circle");
    return;
  }
  if (done.contains(node)) return;
  path.push_back(node);
  const auto edges = graph.find(node);
  if (edges != graph.end()) {
    for (const auto& [next, proof] : edges->second) {
      FindCycle(graph, next, path, done, found);
    }
  }
  path.pop_back();
  done.insert(node);
}

std::vector<std::string> Cycles(const Graph& graph) {
  std::vector<std::string> found;
  std::set<std::string> done;
  for (const auto& [node, edges] : graph) {
    std::vector<std::string> path;
    FindCycle(graph, node, path, done, found);
  }
  return found;
}

}  // namespace

const std::vector<Room>& Rooms() {
  static const std::vector<Room> kRooms = {
      {"engine/core", {}, {"absl", "threads"}},
      {"engine/runtime", {"engine/core"}, {"absl", "threads"}},
      {"engine/tile", {"engine/core"}, {"absl", "Highway"}},
      {"engine/scores", {"engine/core", "engine/tile"}, {"absl", "Highway"}},
      {"engine/biases", {"engine/core", "engine/tile"}, {"absl", "Highway"}},
      {"engine/transforms",
       {"engine/core", "engine/tile"},
       {"absl", "Highway"}},
      {"engine/sparsifiers",
       {"engine/core", "engine/tile"},
       {"absl", "Highway"}},
      {"engine/programs", {"engine/core", "engine/tile"}, {"absl", "Highway"}},
      {"engine/masks",
       {"engine/core", "engine/tile", "engine/programs"},
       {"absl", "Highway"}},
      {"engine/normalizers",
       {"engine/core", "engine/tile"},
       {"absl", "Highway"}},
      {"engine/kernels",
       {"engine/core", "engine/runtime", "engine/tile", "engine/transforms",
        "engine/scores", "engine/biases", "engine/programs", "engine/masks",
        "engine/sparsifiers", "engine/normalizers"},
       {"absl", "Highway", "oneDNN", "threads"}},
      {"engine/projections",
       {"engine/core", "engine/runtime", "engine/tile", "engine/transforms",
        "engine/kernels"},
       {"absl"}},
      {"engine/cache",
       {"engine/core", "engine/runtime", "engine/tile", "engine/transforms",
        "engine/programs"},
       {"absl", "threads"}},
      {"engine/plan",
       {"engine/core", "engine/runtime", "engine/kernels", "engine/projections",
        "engine/tile", "engine/transforms", "engine/scores", "engine/biases",
        "engine/programs", "engine/masks", "engine/sparsifiers",
        "engine/normalizers"},
       {"absl", "threads"}},
      // The door: it looks at every room, so that nobody else has to.
      {"engine",
       {"engine/core", "engine/runtime", "engine/tile", "engine/transforms",
        "engine/scores", "engine/biases", "engine/programs", "engine/masks",
        "engine/sparsifiers", "engine/normalizers", "engine/kernels",
        "engine/cache", "engine/plan"},
       {"absl", "threads"}},
      {"proto", {"engine/core"}, {"absl", "protobuf", "gRPC"}},
      {"proto/safetensors", {"engine/core"}, {"absl", "json"}},
      {"server/batching",
       {"engine/core", "engine/runtime"},
       {"absl", "threads"}},
      {"server/security",
       {"engine/core", "engine/runtime", "server/batching"},
       {"absl", "OpenSSL", "threads"}},
      {"server/layers",
       {"engine/core", "engine/runtime", "proto/safetensors"},
       {"absl", "threads"}},
      {"server/sessions",
       {"engine/core", "engine/runtime", "engine/cache"},
       {"absl", "threads", "zlib"}},
      {"server/metrics", {}, {"CivetWeb", "Prometheus", "threads"}},
      {"server/story", {"engine/core"}, {"absl", "json"}},
      {"server/rpc",
       {"engine/core", "engine/runtime", "engine/engine.h", "engine/plan",
        "engine/cache", "proto", "server/batching", "server/security",
        "server/layers", "server/sessions", "server/metrics/metrics.h"},
       {"absl", "gRPC", "protobuf", "threads"}},
      {"server/inference",
       {"engine/core", "engine/engine.h", "proto", "server/rpc"},
       {"absl", "gRPC", "protobuf"}},
      // It calls the server as a client would, on a channel within the process.
      {"server/http",
       {"engine/core", "engine/runtime", "proto", "server/rpc",
        "server/security", "server/story"},
       {"absl", "Boost", "gRPC", "json", "OpenSSL", "protobuf", "threads",
        "zlib"}},
      {"server/app",
       {"engine/core", "engine/runtime", "engine/engine.h", "proto",
        "server/batching", "server/security", "server/layers",
        "server/sessions", "server/metrics", "server/http", "server/rpc",
        "server/inference"},
       {"absl", "gRPC", "threads"}},
      {"server/main", {"server/app"}, {"absl", "threads"}},
      {"client/io",
       {"engine/core", "client/library", "proto/safetensors"},
       {"absl", "json", "libzip"}},
      {"client/library",
       {"engine/core", "proto"},
       {"absl", "gRPC", "protobuf", "threads"}},
      {"client/load",
       {"engine/core", "proto", "client/io", "client/library"},
       {"absl", "gRPC", "json", "protobuf", "threads"}},
      {"client/capacity", {"engine/core"}, {"absl", "json"}},
      {"client/draw", {"engine/core"}, {"absl", "FreeType", "libpng"}},
      {"client/cli",
       {"engine/core", "proto", "client/io", "client/library", "client/load",
        "client/capacity", "client/draw"},
       {"absl", "CLI11", "json", "protobuf", "threads"}},
      // What a user of the library can do, and no more.
      {"client/examples",
       {"engine/core", "client/library"},
       {"absl", "CLI11", "threads"}},
  };
  return kRooms;
}

const std::vector<Confinement>& Confinements() {
  static const std::vector<Confinement> kConfinements = {
      {"Prometheus", "server/metrics/prometheus_metrics."},
      {"CivetWeb", "server/metrics/metrics_server."},
      {"oneDNN", "engine/kernels/onednn"},
      {"FreeType", "client/draw/font."},
      {"libpng", "client/draw/png_writer."},
  };
  return kConfinements;
}

const std::vector<Grant>& Grants() {
  static const std::vector<Grant> kGrants = {
      // `attn load --verify` computes the right answers itself.
      {"engine/engine.h", "client/load/reference_output."},
      // What `attn` itself computes, and how.
      {"engine/engine.h", "client/cli/local_"},
  };
  return kGrants;
}

const Room* RoomOf(const std::string& path) {
  const Room* best = nullptr;
  for (const Room& room : Rooms()) {
    if (StartsWith(WithRoom(path), room.name + "/") &&
        (best == nullptr || room.name.size() > best->name.size())) {
      best = &room;
    }
  }
  // The door is two files, not a roof over unknown folders.
  if (best != nullptr && best->name == "engine" &&
      path.find('/', best->name.size() + 1) != std::string::npos) {
    return nullptr;
  }
  return best;
}

std::string ViolationOf(const Include& include) {
  const Room* room = RoomOf(include.file);
  if (room == nullptr) {
    return Describe(include, "the file is in no room of the table");
  }
  if (IsOurs(include.target)) {
    if (MayInclude(*room, include)) return "";
    return Describe(include, room->name + " may include of ours " +
                                 Join(room->may_include));
  }
  const std::string library = LibraryOf(include.target);
  if (library.empty()) return "";
  for (const Confinement& confinement : Confinements()) {
    if (library == confinement.library &&
        !StartsWith(include.file, confinement.files)) {
      return Describe(include,
                      library + " belongs in " + confinement.files + "* only");
    }
  }
  if (Contains(room->libraries, library)) return "";
  return Describe(include, library + " is not for " + room->name +
                               ", which may use " + Join(room->libraries));
}

std::vector<std::string> Violations(const std::filesystem::path& root) {
  std::vector<std::string> violations;
  Graphs graphs;
  for (const char* top : {"engine", "proto", "server", "client"}) {
    for (const std::string& file : SourceFiles(root, top)) {
      for (const Include& include : ScanFile(root, file)) {
        const std::string violation = ViolationOf(include);
        if (!violation.empty()) violations.push_back(violation);
        graphs.Add(include);
      }
    }
  }
  for (const Graph* graph : {&graphs.rooms, &graphs.files}) {
    const std::vector<std::string> cycles = Cycles(*graph);
    violations.insert(violations.end(), cycles.begin(), cycles.end());
  }
  return violations;
}

}  // namespace attn
