// The settings of a model file that change no result: [compile] and [weights].
#include <fmt/format.h>

#include <filesystem>

#include "frontend/toml_internal.hpp"
#include "ir/program.hpp"

namespace braid::toml_reader {

std::optional<std::string> read_string(const Item& table, std::string_view key, Report& report) {
  const Entry* e = table.find(key);
  if (!e || !report.expect(e->value, Item::Kind::string, fmt::format("'{}'", key))) return {};
  return e->value.text;
}

TomlCompile read_compile(const Item& root, Report& report) {
  TomlCompile compile;
  const Entry* e = root.find("compile");
  if (!e || !report.expect(e->value, Item::Kind::table, "'compile'")) return compile;
  report.check_keys(e->value, {"target", "math", "streams", "fuse", "reuse", "reduce", "simplify"},
                    "[compile]");
  for (const Entry& entry : e->value.entries) compile.places[entry.key] = entry.value.place;
  for (const auto& [key, value] : {std::pair("fuse", &compile.fuse),
                                   {"reuse", &compile.reuse},
                                   {"reduce", &compile.reduce},
                                   {"simplify", &compile.simplify}}) {
    const Entry* given = e->value.find(key);
    if (given && report.expect(given->value, Item::Kind::boolean, fmt::format("'{}'", key))) {
      *value = given->value.boolean;
    }
  }
  compile.math = read_string(e->value, "math", report);
  if (compile.math && *compile.math != "strict" && *compile.math != "tf32") {
    report.error("E0107", compile.places["math"],
                 fmt::format("'math' is strict or tf32, not '{}'", *compile.math),
                 suggest(*compile.math, {"strict", "tf32"}));
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
  if (const Entry* streams = e->value.find("streams");
      streams && report.expect(streams->value, Item::Kind::integer, "'streams'")) {
    if (streams->value.integer >= 1 && streams->value.integer <= kMaxStreams) {
      compile.streams = streams->value.integer;
    } else {
      report.error(
          "E0107", streams->value.place,
          fmt::format("'streams' is from 1 to {}, not {}", kMaxStreams, streams->value.integer));
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
