// The section [kernels], and nodes with `kernel`.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "frontend/toml_internal.hpp"
#include "ir/file.hpp"

namespace braid::toml_reader {
namespace {

using Way = KernelParameter::Role;

constexpr const char* kExample = "as in parameters = [\"in x: f32[T, 64]\", \"out y: f32[T, 64]\"]";

class KernelReader {
 public:
  KernelReader(const Entry& entry, Types& types, Report& report)
      : entry_(entry), types_(types), report_(report) {}

  KernelDeclaration read() {
    KernelDeclaration k;
    k.name = {entry_.key, entry_.place};
    k.spec.name = entry_.key;
    const std::string where = fmt::format("kernel '{}'", entry_.key);
    const size_t before = report_.list.size();
    report_.check_name(entry_.key, entry_.place, "a kernel");
    if (report_.expect(entry_.value, Item::Kind::table, where) &&
        report_.check_keys(entry_.value,
                           {"file", "code", "function", "parameters", "grid", "block", "shared",
                            "include", "reference"},
                           where)) {
      texts_ = types_.dims.texts();
      code(k, where);
      k.spec.function = text("function").value_or("");
      k.spec.reference = text("reference").value_or("");
      parameters(k, where);
      extents(k, "grid", k.spec.grid, where);
      extents(k, "block", k.spec.block, where);
      if (const Entry* e = entry_.value.find("shared")) {
        if (auto d = extent(k, e->value, "'shared'")) k.spec.shared = *d;
      }
      if (const Entry* e = entry_.value.find("include")) include(k, e->value);
    }
    k.bad = report_.list.size() > before;
    return k;
  }

 private:
  std::optional<std::string> text(std::string_view key) {
    return read_string(entry_.value, key, report_);
  }

  /// A path as the model's file means it.
  std::string path(const std::string& text) const {
    const std::filesystem::path folder = std::filesystem::path(entry_.place.file).parent_path();
    return (folder / text).lexically_normal().string();
  }

  void code(KernelDeclaration& k, const std::string& where) {
    const Entry* file = entry_.value.find("file");
    const Entry* code = entry_.value.find("code");
    if ((file != nullptr) == (code != nullptr)) {
      report_.error("E0325", file ? code->place : entry_.place,
                    fmt::format("{} has {}", where,
                                file ? "both 'file' and 'code'" : "neither 'file' nor 'code'"),
                    "the code stands in a file, as in file = \"rope.cu\", or in the model, as in "
                    "code = '''..'''");
      return;
    }
    const Item& item = file ? file->value : code->value;
    if (!report_.expect(item, Item::Kind::string, file ? "'file'" : "'code'")) return;
    if (code) {
      k.spec.code = item.text;
      k.spec.file = item.place.file;
      // A line's end right behind the quotes is no part of the text.
      const bool lines = item.place.end_line > item.place.line;
      const auto ends = static_cast<uint32_t>(std::count(item.text.begin(), item.text.end(), '\n'));
      k.spec.line = lines ? item.place.end_line - ends : item.place.line;
    } else {
      k.spec.file = path(item.text);
      std::error_code ec;
      if (std::filesystem::exists(k.spec.file, ec) &&
          !std::filesystem::is_regular_file(k.spec.file, ec)) {
        report_.error("E0325", item.place, fmt::format("{} is no file", k.spec.file),
                      "the path is relative to the model's file");
        return;
      }
      try {
        // "-" is a file here, not the standard input.
        k.spec.code = read_file(k.spec.file == "-" ? "./-" : k.spec.file);
      } catch (const Error& e) {
        report_.error("E0325", item.place, e.diagnostics().front().message,
                      "the path is relative to the model's file");
      }
    }
    if (k.spec.code.empty() && !item.text.empty() && code) return;
    if (item.text.empty()) {
      report_.error("E0325", item.place, fmt::format("{} has no code", where));
    }
  }

  void parameters(KernelDeclaration& k, const std::string& where) {
    const Entry* e = report_.need(entry_.value, "parameters", where);
    if (!e || !report_.expect(e->value, Item::Kind::array, "'parameters'", kExample)) return;
    std::vector<Place> places;
    for (const Item& item : e->value.items) {
      if (!report_.expect(item, Item::Kind::string, "a parameter", kExample)) continue;
      std::string why;
      std::optional<KernelParameter> p = parse_kernel_parameter(item.text, &why);
      if (!p) {
        report_.error("E0321", item.place, std::move(why));
        continue;
      }
      Item dtype = item;
      dtype.text = p->dtype;
      const std::optional<DType> known = types_.dtypes.read(dtype, "the parameter's dtype");
      if (!known) continue;
      p->dtype = name_of(*known);
      k.parameters.push_back(std::move(*p));
      places.push_back(item.place);
    }
    bound_ = bound_names(k.parameters);
    lost_ = places.size() < e->value.items.size();
    for (size_t i = 0; i < k.parameters.size(); ++i) {
      KernelParameter& p = k.parameters[i];
      for (std::string& x : p.extents) x = in_model_terms(x, places[i]);
      if (p.role == Way::number) p.value = in_model_terms(p.value, places[i]);
      k.spec.parameters.push_back(p.text());
    }
    const bool results = std::any_of(k.parameters.begin(), k.parameters.end(), [](const auto& p) {
      return p.role == Way::out || p.role == Way::inout;
    });
    if (!results && places.size() == e->value.items.size()) {
      report_.error(
          "E0321", e->place,
          fmt::format("{} has no 'out' and no 'inout' parameter, so nothing comes of it", where));
    }
  }

  /// With the names of dims replaced by what they are; others are bound where the kernel is used.
  std::string in_model_terms(const std::string& text, const Place& place) {
    // "1e-5" is a number.
    char* end = nullptr;
    std::strtod(text.c_str(), &end);
    if (end && *end == '\0') return text;
    return replace_names(text, [&](const std::string& name) {
      if (const auto it = texts_.find(name); it != texts_.end()) {
        const bool plain = std::all_of(it->second.begin(), it->second.end(),
                                       [](unsigned char c) { return std::isalnum(c) || c == '_'; });
        return plain || it->second == text ? it->second : "(" + it->second + ")";
      }
      if (!bound_.contains(name) && !lost_ && !report_.section_lost) {
        std::vector<std::string> known(bound_.begin(), bound_.end());
        for (const auto& [dim, what] : texts_) known.push_back(dim);
        const std::string near = suggest(name, known);
        report_.error(
            "E0403", place, fmt::format("unknown dim '{}'", name),
            near.empty() ? fmt::format("declare it, as in [dims] {} = 8, or let it be an extent of "
                                       "an 'in' parameter",
                                       name)
                         : near);
      }
      return name;
    });
  }

  std::optional<LaunchExtent> extent(const KernelDeclaration& k, const Item& item,
                                     std::string_view what) {
    if (item.kind == Item::Kind::integer) {
      if (item.integer >= 0) return LaunchExtent(item.integer);
      report_.error("E0321", item.place, fmt::format("{} cannot be {}", what, item.integer));
      return std::nullopt;
    }
    if (item.kind != Item::Kind::string) {
      report_.error("E0104", item.place,
                    fmt::format("{} is an integer or an expression like \"ceil(T, 4)\"", what));
      return std::nullopt;
    }
    // What it is made of may be known only where the kernel is used, but not how it is written.
    const std::string text = in_model_terms(item.text, item.place);
    DimTable scratch;
    std::string why;
    const auto any = [&](const std::string& name) { return std::optional(scratch.symbol(name)); };
    if (!parse_kernel_extent(scratch, text, any, &why)) {
      report_.error("E0321", item.place,
                    fmt::format("kernel '{}', {}: {}", k.name.text, what, why));
      return std::nullopt;
    }
    return LaunchExtent(text);
  }

  void extents(const KernelDeclaration& k, std::string_view key, std::vector<LaunchExtent>& to,
               const std::string& where) {
    const Entry* e = report_.need(entry_.value, key, where);
    if (!e) return;
    const bool list = e->value.kind == Item::Kind::array;
    const std::vector<Item> items = list ? e->value.items : std::vector<Item>{e->value};
    if (items.empty() || items.size() > 3) {
      report_.error("E0321", e->value.place,
                    fmt::format("'{}' has {} extents: one to three", key, items.size()));
      return;
    }
    to.clear();
    for (const Item& item : items) {
      if (auto d = extent(k, item, fmt::format("'{}'", key))) to.push_back(*d);
    }
  }

  void include(KernelDeclaration& k, const Item& item) {
    if (!report_.expect(item, Item::Kind::array, "'include'", "as in include = [\"headers\"]")) {
      return;
    }
    for (const Item& folder : item.items) {
      if (report_.expect(folder, Item::Kind::string, "a folder of 'include'")) {
        k.spec.include.push_back(path(folder.text));
      }
    }
  }

  const Entry& entry_;
  Types& types_;
  Report& report_;
  std::map<std::string, std::string, std::less<>> texts_;
  std::set<std::string, std::less<>> bound_;
  bool lost_ = false;  // a parameter could not be read, so what it binds is not known
};

std::string listed(const KernelDeclaration& k, bool operands) {
  std::string list;
  for (const KernelParameter& p : k.parameters) {
    if (operands ? !p.is_operand() : !p.is_result()) continue;
    list += (list.empty() ? "" : ", ") + p.text();
  }
  return list;
}

}  // namespace

std::map<std::string, KernelDeclaration> read_kernels(const Item& root, Types& types,
                                                      Report& report) {
  std::map<std::string, KernelDeclaration> kernels;
  const Entry* e = root.find("kernels");
  if (!e) return kernels;
  if (!report.expect(e->value, Item::Kind::table, "'kernels'")) {
    report.lose_section();
    return kernels;
  }
  for (const Entry& k : e->value.entries) {
    kernels.emplace(k.key, KernelReader(k, types, report).read());
  }
  return kernels;
}

bool check_kernel_node(const Item& item, const Surroundings& around, Report& report, Node& node) {
  const bool keys =
      report.check_keys(item, {"kernel", "in", "out", "graph"}, "a node with a kernel");
  const auto it = around.kernels.find(node.target);
  if (it == around.kernels.end()) {
    if (report.section_lost) return false;
    std::vector<std::string> known;
    for (const auto& [name, k] : around.kernels) known.push_back(name);
    report.error("E0320", node.place, fmt::format("unknown kernel '{}'", node.target),
                 known.empty() ? fmt::format("define it in a section [kernels.{}]", node.target)
                               : suggest_or_list(node.target, known));
    return false;
  }
  const KernelDeclaration& k = it->second;
  if (k.bad || !keys) return false;
  size_t operands = 0, results = 0, changed = 0;
  for (const KernelParameter& p : k.parameters) {
    operands += p.is_operand();
    results += p.is_result();
    changed += p.role == Way::inout;
  }
  const auto refuse = [&](std::string message, const std::string& list) {
    Diagnostic& d = report.error("E0323", node.place, std::move(message));
    if (!list.empty()) d.details.push_back(list);
    return false;
  };
  if (node.in.size() != operands) {
    return refuse(fmt::format("kernel '{}' takes {} tensor{}, but 'in' names {}", node.target,
                              operands, operands == 1 ? "" : "s", node.in.size()),
                  listed(k, true));
  }
  if (node.out.size() != results && node.out.size() != results + changed) {
    std::string takes = fmt::format("{} result{}", results, results == 1 ? "" : "s");
    if (changed > 0) {
      takes += fmt::format(", and {} more where the new values of 'inout' are wanted", changed);
    }
    return refuse(
        fmt::format("kernel '{}' has {}, but 'out' names {}", node.target, takes, node.out.size()),
        listed(k, false));
  }
  size_t at = 0;
  for (const KernelParameter& p : k.parameters) {
    if (!p.is_operand()) continue;
    const std::string& name = node.in[at++].name;
    if (p.role != Way::inout) continue;
    const size_t out = results++;
    const bool param = std::any_of(around.params.begin(), around.params.end(),
                                   [&](const Declaration& d) { return d.name.text == name; });
    if (!param) continue;
    if (std::any_of(node.changes.begin(), node.changes.end(),
                    [&](const Node::Change& c) { return c.param == name; })) {
      return refuse(fmt::format("'{}' is given for two 'inout' parameters", name), {});
    }
    node.changes.push_back({name, out});
  }
  return true;
}

}  // namespace braid::toml_reader
