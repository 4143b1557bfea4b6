// The settings of a model file that change no result: [compile] and [weights].
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "frontend/byte_count.hpp"
#include "frontend/toml_internal.hpp"
#include "ir/program.hpp"

namespace braid::toml_reader {

std::optional<std::string> read_string(const Item& table, std::string_view key, Report& report) {
  const Entry* e = table.find(key);
  if (!e || !report.expect(e->value, Item::Kind::string, fmt::format("'{}'", key))) return {};
  return e->value.text;
}

namespace {

/// A number of bytes, or the same as text with a unit.
std::optional<int64_t> read_limit(const Item& item, Report& report) {
  constexpr const char* kHow = "as in 1000000, \"64KiB\", \"3MiB\", \"2GiB\"";
  const bool text = item.kind == Item::Kind::string;
  if (!text && !report.expect(item, Item::Kind::integer, "'memory_limit'", kHow)) return {};
  const std::string given = text ? item.text : std::to_string(item.integer);
  const std::optional<int64_t> bytes = byte_count(given);
  if (!bytes) {
    report.error("E0107", item.place,
                 fmt::format("'memory_limit' is a number of bytes above 0, not {}",
                             text ? "'" + given + "'" : given),
                 kHow);
  }
  return bytes;
}

}  // namespace

TomlCompile read_compile(const Item& root, Report& report) {
  TomlCompile compile;
  const Entry* e = root.find("compile");
  if (!e || !report.expect(e->value, Item::Kind::table, "'compile'")) return compile;
  report.check_keys(e->value,
                    {"target",
                     "math",
                     "streams",
                     "fuse",
                     "chain",
                     "group",
                     "reuse",
                     "reduce",
                     "split",
                     "pdl",
                     "simplify",
                     "on_break",
                     "require_single_graph",
                     "memory_limit",
                     "branches",
                     "loops",
                     "host",
                     "unroll",
                     "unroll_limit",
                     "dots"},
                    "[compile]");
  for (const Entry& entry : e->value.entries) compile.places[entry.key] = entry.value.place;
  for (const auto& [key, value] : {std::pair("fuse", &compile.fuse),
                                   {"chain", &compile.chain},
                                   {"group", &compile.group},
                                   {"require_single_graph", &compile.require_single_graph},
                                   {"reuse", &compile.reuse},
                                   {"reduce", &compile.reduce},
                                   {"split", &compile.split},
                                   {"pdl", &compile.pdl},
                                   {"simplify", &compile.simplify}}) {
    const Entry* given = e->value.find(key);
    if (given && report.expect(given->value, Item::Kind::boolean, fmt::format("'{}'", key))) {
      *value = given->value.boolean;
    }
  }
  const auto one_of = [&](const char* key, const std::vector<std::string>& known,
                          std::string_view takes) {
    const std::optional<std::string> text = read_string(e->value, key, report);
    if (text && std::find(known.begin(), known.end(), *text) == known.end()) {
      report.error("E0107", compile.places[key],
                   fmt::format("'{}' is {}, not '{}'", key, takes, *text), suggest(*text, known));
    }
    return text;
  };
  compile.math = one_of("math", {"strict", "tf32"}, "strict or tf32");
  compile.dots = one_of("dots", {"auto", "braid", "cublaslt"}, "auto, braid or cublaslt");
  compile.on_break = one_of("on_break", {"allow", "warn", "error"}, "allow, warn or error");
  compile.branches = one_of("branches", {"auto", "select", "predicate", "node", "host"},
                            "auto, select, predicate, node or host");
  compile.loops = one_of("loops", {"auto", "unroll", "node", "host"}, "auto, unroll, node or host");
  compile.host =
      one_of("host", {"auto", "handshake", "break", "node"}, "auto, handshake, break or node");
  const auto number = [&](const char* key, int64_t low, int64_t high) -> std::optional<int64_t> {
    const Entry* n = e->value.find(key);
    if (!n || !report.expect(n->value, Item::Kind::integer, fmt::format("'{}'", key))) return {};
    if (n->value.integer >= low && n->value.integer <= high) return n->value.integer;
    report.error("E0107", n->value.place,
                 fmt::format("'{}' is from {} to {}, not {}", key, low, high, n->value.integer));
    return {};
  };
  compile.unroll = number("unroll", 1, kMaxUnroll);
  compile.unroll_limit = number("unroll_limit", 0, kMaxUnrolledKernels);
  compile.streams = number("streams", 1, kMaxStreams);
  if (const Entry* limit = e->value.find("memory_limit")) {
    compile.memory_limit = read_limit(limit->value, report);
  }
  if (std::optional<std::string> target = read_string(e->value, "target", report)) {
    if (target_from_name(*target)) {
      compile.target = std::move(target);
    } else {
      report.error("E0107", e->value.find("target")->value.place,
                   fmt::format("'target' is an architecture such as \"sm_90\", not '{}'", *target),
                   "known are sm_80, sm_86, sm_87, sm_89, sm_90, sm_100, sm_103, sm_120, sm_121");
    }
  }
  return compile;
}

std::optional<WeightsFrom> read_weights(const Item& root, Report& report) {
  const Entry* e = root.find("weights");
  if (!e || !report.expect(e->value, Item::Kind::table, "'weights'")) return {};
  const bool keys = report.check_keys(e->value, {"file", "ignore"}, "[weights]");
  WeightsFrom weights;
  if (const Entry* ignore = e->value.find("ignore");
      ignore && report.expect(ignore->value, Item::Kind::array, "'ignore'")) {
    for (const Item& i : ignore->value.items) {
      if (report.expect(i, Item::Kind::string, "each of 'ignore'"))
        weights.ignore.push_back(i.text);
    }
  }
  const Entry* file = e->value.find("file");
  if (!file && keys) report.need(e->value, "file", "[weights]");
  if (!file || !report.expect(file->value, Item::Kind::string, "'file'")) return {};
  weights.place = file->value.place;
  if (file->value.text.empty()) {
    report.error("E0107", file->value.place, "'file' names a .safetensors file or a folder");
    return {};
  }
  const std::filesystem::path model(file->value.place.file), path(file->value.text);
  weights.path = (model.parent_path() / path).string();  // an absolute path stays itself
  return weights;
}

}  // namespace braid::toml_reader
