// Settings that shape a plan, from weakest to strongest: the default, [compile] of the model file,
// BRAID_* variables, flags.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>

#include "frontend/byte_count.hpp"
#include "frontend/cli/cli.hpp"

namespace braid::cli {
namespace {

/// Collects "name=value (where from)" for what is not a default.
class Chooser {
 public:
  explicit Chooser(const TomlCompile& file) : file_(file) {}

  /// The strongest of the three as text; nothing if none is given.
  std::optional<std::string> choose(const std::string& name, std::optional<std::string> in_file,
                                    std::optional<std::string> flag, const std::string& flag_text) {
    std::optional<std::string> value;
    if (in_file) take(value, *in_file, where(name));
    if (const char* set = std::getenv(variable(name).c_str()); set && *set) {
      take(value, set, variable(name));
    }
    if (flag) take(value, *flag, flag_text);
    if (value) origins.push_back(fmt::format("{}={} ({})", name, *value, origin));
    return value;
  }

  bool choose(const std::string& name, std::optional<bool> in_file, std::optional<bool> flag,
              bool otherwise = true) {
    const auto text = [](std::optional<bool> b) {
      return b ? std::optional<std::string>(*b ? "on" : "off") : std::nullopt;
    };
    const std::string flag_text =
        fmt::format("--{}{}", flag.value_or(true) ? "" : "no-", flag_of(name));
    const auto value = choose(name, text(in_file), text(flag), flag_text);
    if (!value) return otherwise;
    const bool on = *value == "on" || *value == "1" || *value == "true";
    if (!on && *value != "off" && *value != "0" && *value != "false") {
      refuse(name, *value, "takes 1 or 0");
    }
    origins.back() = fmt::format("{}={} ({})", name, on ? "on" : "off", origin);
    return on;
  }

  [[noreturn]] void refuse(const std::string& name, const std::string& value,
                           std::string_view takes) const {
    throw UsageError(fmt::format(
        "{} {}, not '{}'", origin == variable(name) ? origin : "--" + flag_of(name), takes, value));
  }

  std::vector<std::string> origins;
  std::string origin;  // of the newest choice

  /// "on_break", as files write it, is the flag "on-break".
  static std::string flag_of(std::string name) {
    std::replace(name.begin(), name.end(), '_', '-');
    return name;
  }

 private:
  void take(std::optional<std::string>& value, std::string text, std::string from) {
    value = std::move(text);
    origin = std::move(from);
  }
  static std::string variable(const std::string& name) {
    std::string upper = "BRAID_";
    for (unsigned char c : name) upper += static_cast<char>(std::toupper(c));
    return upper;
  }
  std::string where(const std::string& name) const {
    const auto it = file_.places.find(name);
    if (it == file_.places.end()) return "[compile]";
    return fmt::format("{}:{}:{}", it->second.file, it->second.line, it->second.column);
  }

  const TomlCompile& file_;
};

DimTable::Bindings dims_of(const std::vector<std::string>& args) {
  DimTable::Bindings dims;
  for (const std::string& d : args) {
    const size_t eq = d.find('=');
    char* end = nullptr;
    errno = 0;
    const long long value =
        eq == std::string::npos ? 0 : std::strtoll(d.c_str() + eq + 1, &end, 10);
    if (eq == 0 || eq == std::string::npos || eq + 1 == d.size() || *end || errno || value < 0) {
      throw UsageError(fmt::format("--dim takes NAME=NUMBER, not '{}'", d));
    }
    const std::string name = d.substr(0, eq);
    for (const auto& [other, before] : dims) {
      if (other == name) throw UsageError(fmt::format("--dim '{}' is given twice", name));
    }
    dims.emplace_back(name, value);
  }
  return dims;
}

}  // namespace

Settings settings_of(const PlanArgs& a, const TomlCompile& file) {
  Settings s;
  Options& o = s.options;
  Chooser chooser(file);
  const auto given = [](const std::string& text) {
    return text.empty() ? std::nullopt : std::optional(text);
  };
  if (const auto text = chooser.choose("target", file.target, given(a.target), "--target")) {
    const auto target = target_from_name(*text);
    if (!target) {
      chooser.refuse("target", *text,
                     "takes sm_80, sm_86, sm_87, sm_89, sm_90, sm_100, sm_103, sm_120 or sm_121");
    }
    o.target = *target;
    s.target_from_caller = chooser.origin == "--target" || chooser.origin == "BRAID_TARGET";
  }
  const auto number = [](std::optional<int64_t> n) {
    return n ? std::optional(std::to_string(*n)) : std::nullopt;
  };
  const auto in_range = [&](const std::string& name, std::optional<int64_t> in_file,
                            std::optional<int64_t> flag, int64_t low, int64_t high, auto& to) {
    const std::string flag_text = Chooser::flag_of(name);
    const auto text = chooser.choose(name, number(in_file), number(flag), "--" + flag_text);
    if (!text) return;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), to);
    if (error != std::errc() || end != text->data() + text->size() || to < low || to > high) {
      chooser.refuse(name, *text, fmt::format("takes a number from {} to {}", low, high));
    }
  };
  in_range("streams", file.streams,
           a.streams != 0 ? std::optional<int64_t>(a.streams) : std::nullopt, 1, kMaxStreams,
           o.streams);
  const auto lowering = [&](const std::string& name, const std::optional<std::string>& in_file,
                            const std::string& flag, std::initializer_list<ir::Lowering> known) {
    const auto text = chooser.choose(name, in_file, given(flag), "--" + name);
    if (!text) return ir::Lowering::automatic;
    std::vector<std::string_view> names;
    for (const ir::Lowering l : known) {
      if (name_of(l) == *text) return l;
      names.push_back(name_of(l));
    }
    chooser.refuse(name, *text, fmt::format("takes {}", fmt::join(names, ", ")));
  };
  using L = ir::Lowering;
  o.branches = lowering("branches", file.branches, a.branches,
                        {L::automatic, L::select, L::predicate, L::node, L::host});
  o.loops = lowering("loops", file.loops, a.loops, {L::automatic, L::unroll, L::node, L::host});
  if (const auto text = chooser.choose("host", file.host, given(a.host), "--host")) {
    const auto* const at =
        std::find(ir::kHostWayNames.begin(), ir::kHostWayNames.end(), std::string_view(*text));
    if (at == ir::kHostWayNames.end()) {
      chooser.refuse("host", *text, fmt::format("takes {}", fmt::join(ir::kHostWayNames, ", ")));
    }
    o.host = static_cast<ir::HostWay>(at - ir::kHostWayNames.begin());
  }
  in_range("unroll", file.unroll, a.unroll, 1, kMaxUnroll, o.unroll);
  in_range("unroll_limit", file.unroll_limit, a.unroll_limit, 0, kMaxUnrolledKernels,
           o.unroll_limit);
  if (const auto text = chooser.choose("dots", file.dots, given(a.dots), "--dots")) {
    const Dots known[] = {Dots::automatic, Dots::braid, Dots::cublaslt};
    const auto* at = std::find_if(std::begin(known), std::end(known),
                                  [&](Dots d) { return name_of(d) == *text; });
    if (at == std::end(known)) chooser.refuse("dots", *text, "takes auto, braid or cublaslt");
    o.dots = *at;
  }
  if (const auto text = chooser.choose("math", file.math, given(a.math), "--math")) {
    if (*text != "strict" && *text != "tf32") chooser.refuse("math", *text, "takes strict or tf32");
    o.math = *text == "tf32" ? Math::tf32 : Math::strict;
  }
  if (const auto text =
          chooser.choose("on_break", file.on_break, given(a.on_break), "--on-break")) {
    const auto known = {OnBreak::allow, OnBreak::warn, OnBreak::error};
    const auto it =
        std::find_if(known.begin(), known.end(), [&](OnBreak b) { return name_of(b) == *text; });
    if (it == known.end()) chooser.refuse("on_break", *text, "takes allow, warn or error");
    o.on_break = *it;
  }
  if (const auto text = chooser.choose("memory_limit", number(file.memory_limit),
                                       given(a.memory_limit), "--memory-limit")) {
    const std::optional<int64_t> bytes = byte_count(*text);
    if (!bytes) {
      chooser.refuse("memory_limit", *text,
                     "takes bytes above 0, as in 1000000, 64KiB, 3MiB, 2GiB");
    }
    o.memory_limit = *bytes;
  }
  o.require_single_graph =
      chooser.choose("require_single_graph", file.require_single_graph, a.single_graph, false);
  o.group = chooser.choose("group", file.group, a.group);
  o.simplify = chooser.choose("simplify", file.simplify, a.simplify);
  o.fuse = chooser.choose("fuse", file.fuse, a.fuse);
  o.chain = chooser.choose("chain", file.chain, a.chain);
  o.reuse = chooser.choose("reuse", file.reuse, a.reuse);
  o.reduce = chooser.choose("reduce", file.reduce, a.reduce);
  o.split = chooser.choose("split", file.split, a.split);
  o.pdl = chooser.choose("pdl", file.pdl, a.pdl);
  // To measure with: no setting of a model, so neither its file nor a variable has it.
  o.force_lanes = a.force_lanes;
  if (a.force_lanes) chooser.origins.push_back("force_lanes=on (--force-lanes)");
  o.dims = dims_of(a.dims);
  o.verify = a.verify;
  o.dump_dir = a.dump_dir;
  s.origins = fmt::format("{}", fmt::join(chooser.origins, ", "));
  return s;
}

}  // namespace braid::cli
