// The settings of a model file that change no result: [compile] and [weights].
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
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
  report.check_keys(e->value, {"target", "streams"}, "[compile]");
  if (std::optional<std::string> target = read_string(e->value, "target", report)) {
    const std::string_view digits = std::string_view(*target).substr(0, 3) == "sm_"
                                        ? std::string_view(*target).substr(3)
                                        : std::string_view();
    if (digits.size() >= 2 && digits.size() <= 3 &&
        std::all_of(digits.begin(), digits.end(),
                    [](unsigned char c) { return std::isdigit(c); })) {
      compile.target = std::move(target);
    } else {
      report.error("E0107", e->value.find("target")->value.place,
                   fmt::format("'target' is an architecture like \"sm_90\", not '{}'", *target));
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
