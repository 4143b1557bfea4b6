#include "frontend/weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "frontend/compile.hpp"
#include "frontend/npy.hpp"
#include "frontend/safetensors.hpp"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxShown = 10;
constexpr std::string_view kTensors = ".safetensors", kArray = ".npy";

/// One tensor, wherever it stands.
struct Stored {
  std::string name;
  TensorType type;
  std::string file;  // a .npy, or the name of the archive
  const Safetensors* archive = nullptr;
  size_t index = 0;  // in the archive
  HostTensor read() const {
    return archive ? archive->read(archive->tensors()[index]) : read_npy(file);
  }
};

/// Everything that a file or folder holds, by name.
struct Weights {
  std::vector<std::unique_ptr<Safetensors>> archives;
  std::vector<Stored> tensors;

  void add_archive(const std::string& path) {
    const Safetensors& a = *archives.emplace_back(std::make_unique<Safetensors>(path));
    for (size_t i = 0; i < a.tensors().size(); ++i) {
      tensors.push_back({a.tensors()[i].name, a.tensors()[i].type, path, &a, i});
    }
  }
};

bool same_kind(DType a, DType b) {
  return a == b || (is_float(a) && is_float(b)) || (is_int(a) && is_int(b));
}

std::string text_of(const WeightSpec& s) {
  std::string out(name_of(s.dtype));
  out += '[';
  for (size_t i = 0; i < s.extents.size(); ++i) {
    out += i ? "," : "";
    out += s.extents[i] < 0 ? "?" : std::to_string(s.extents[i]);
  }
  return out + ']';
}

/// Names are compared in this form.
std::string dotted(std::string name) {
  std::replace(name.begin(), name.end(), '/', '.');
  return name;
}

/// `pattern` with '*' for any characters: after a mismatch the last star takes one more.
bool matches(std::string_view pattern, std::string_view name) {
  size_t p = 0, star = std::string_view::npos, taken = 0;
  for (size_t n = 0; n < name.size();) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

Diagnostic about(const WeightsFrom& from, std::string code, std::string message) {
  Diagnostic d;
  d.code = std::move(code);
  d.message = std::move(message);
  d.place = from.place;
  return d;
}

Weights open_weights(const WeightsFrom& from) {
  std::error_code ec;
  const fs::file_status status = fs::status(from.path, ec);
  if (!fs::exists(status)) {
    Diagnostic d = about(from, "E0100",
                         fmt::format("cannot read the weights '{}': {}", from.path,
                                     ec ? ec.message() : "No such file or directory"));
    d.suggestion = from.place.known()
                       ? "the path counts from the model file; --weights PATH names another"
                       : "--weights takes a .safetensors file or a folder";
    throw Error(std::move(d));
  }
  Weights w;
  if (!fs::is_directory(status)) {
    w.add_archive(from.path);
    return w;
  }
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator it(from.path, ec), end; !ec && it != end;
       it.increment(ec)) {
    if (it->is_regular_file(ec)) files.push_back(it->path());
  }
  if (ec) {
    throw Error(about(from, "E0100",
                      fmt::format("cannot read the folder '{}': {}", from.path, ec.message())));
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    if (file.extension() == kTensors) w.add_archive(file.string());
    if (file.extension() != kArray) continue;
    fs::path name = file.lexically_relative(from.path);
    name.replace_extension();
    w.tensors.push_back({name.generic_string(), npy_type(file.string()), file.string()});
  }
  if (w.tensors.empty()) {
    throw Error(
        about(from, "E0112",
              fmt::format("the folder '{}' holds no .npy and no .safetensors file", from.path)));
  }
  std::stable_sort(w.tensors.begin(), w.tensors.end(),
                   [](const Stored& a, const Stored& b) { return a.name < b.name; });
  for (size_t i = 1; i < w.tensors.size(); ++i) {
    const Stored &a = w.tensors[i - 1], &b = w.tensors[i];
    if (a.name != b.name) continue;
    throw Error(
        about(from, "E0115", fmt::format("'{}' is in '{}' and in '{}'", a.name, a.file, b.file)));
  }
  return w;
}

/// Finds the tensor of each param and collects what does not fit.
class Matcher {
 public:
  Matcher(const std::vector<WeightSpec>& specs, const WeightsFrom& from, const Weights& weights)
      : specs_(specs), from_(from), weights_(weights) {
    for (const WeightSpec& s : specs) names_.insert(s.name);
    for (size_t i = 0; i < weights.tensors.size(); ++i) {
      const std::string& name = weights.tensors[i].name;
      if (std::any_of(from.ignore.begin(), from.ignore.end(),
                      [&](const std::string& p) { return matches(p, name); })) {
        continue;
      }
      exact_[name] = i;
      // A tensor that is one param's by its very name is no other's.
      if (names_.count(name) == 0) near_.emplace(dotted(name), i);
    }
  }

  /// Per param its tensor, or none if it may miss. Throws Error.
  std::vector<const Stored*> run() {
    std::vector<const Stored*> found;
    for (const WeightSpec& s : specs_) found.push_back(find(s));
    for (const WeightSpec* s : lost_) lack(*s);
    left_over();
    std::vector<Diagnostic> errors;
    const auto report = [&](const std::vector<std::string>& lines, std::string code,
                            std::string message, std::string suggestion = {}) {
      if (lines.empty()) return;
      Diagnostic d = about(from_, std::move(code), std::move(message));
      if (!d.place.known()) d.place.file = from_.path;
      d.suggestion = std::move(suggestion);
      d.details.assign(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(
                                                          std::min(lines.size(), kMaxShown)));
      if (lines.size() > kMaxShown) {
        d.details.push_back(fmt::format("and {} more", lines.size() - kMaxShown));
      }
      errors.push_back(std::move(d));
    };
    const auto of = [](size_t n, size_t all, std::string_view what) {
      return fmt::format("{} of the {} {}{}", n, all, what, all == 1 ? "" : "s");
    };
    report(ambiguous_, "E0115",
           fmt::format("names in '{}' are ambiguous: '/' and '.' are the same there", from_.path));
    report(missing_, "E0112",
           fmt::format("'{}' lacks {} of the model", from_.path,
                       of(missing_.size(), specs_.size(), "param")));
    report(extra_, "E0113",
           fmt::format("the model has no param for {} in '{}'",
                       of(extra_.size(), weights_.tensors.size(), "tensor"), from_.path),
           "if that is right, list them: [weights] ignore = [\"name\", \"head.*\"]");
    report(wrong_, "E0114",
           fmt::format("{} in '{}' {} not fit the params",
                       of(wrong_.size(), weights_.tensors.size(), "tensor"), from_.path,
                       wrong_.size() == 1 ? "does" : "do"));
    if (!errors.empty()) throw Error(std::move(errors));
    return found;
  }

 private:
  const Stored* find(const WeightSpec& s) {
    std::vector<size_t> candidates;
    if (const auto it = exact_.find(s.name); it != exact_.end()) {
      candidates.push_back(it->second);
    } else {
      const auto [begin, end] = near_.equal_range(dotted(s.name));
      for (auto n = begin; n != end; ++n) candidates.push_back(n->second);
    }
    if (candidates.empty()) {
      lost_.push_back(&s);
      return nullptr;
    }
    std::string all;
    for (size_t i : candidates) {
      all += fmt::format("{}'{}'", all.empty() ? "" : " or ", weights_.tensors[i].name);
    }
    const auto [used, first] = used_.emplace(candidates[0], &s);
    if (candidates.size() > 1) {
      for (size_t i : candidates) used_.emplace(i, &s);
      ambiguous_.push_back(fmt::format("param '{}' could be {}", s.name, all));
      return nullptr;
    }
    if (!first) {
      ambiguous_.push_back(
          fmt::format("{} could be param '{}' or '{}'", all, used->second->name, s.name));
      return nullptr;
    }
    const Stored& t = weights_.tensors[candidates[0]];
    compare(s, t);
    return &t;
  }

  void compare(const WeightSpec& s, const Stored& t) {
    const std::vector<int64_t> have = t.type.shape.extents();
    const auto fits = [](int64_t want, int64_t is) { return want < 0 || want == is; };
    const bool shape =
        std::equal(s.extents.begin(), s.extents.end(), have.begin(), have.end(), fits);
    if (shape && same_kind(s.dtype, t.type.dtype)) return;
    std::string line =
        fmt::format("'{}' is {}, the tensor is {}", s.name, text_of(s), to_string(t.type));
    if (!shape && have.size() == 2 && s.extents.size() == 2 &&
        std::equal(s.extents.begin(), s.extents.end(), have.rbegin(), have.rend(), fits)) {
      line += ": transposed; declare it as the file has it and use linear or matmul with tb = true";
    } else if (shape) {
      line += ": a float, an integer and a b1 do not become each other";
    }
    wrong_.push_back(std::move(line));
  }

  void lack(const WeightSpec& s) {
    const auto& given = from_.given;
    if (s.may_miss || std::find(given.begin(), given.end(), s.name) != given.end()) return;
    std::string line = fmt::format("'{}'  {}", s.name, text_of(s));
    const std::string hint = missing_.size() < kMaxShown ? nearest(s) : std::string();
    if (!hint.empty()) line += "  " + hint;
    missing_.push_back(std::move(line));
  }

  std::string nearest(const WeightSpec& s) const {
    const std::string want = dotted(s.name);
    std::map<std::string, std::string> open;  // tensors that nobody takes, by compared name
    for (size_t i = 0; i < weights_.tensors.size(); ++i) {
      const std::string& name = weights_.tensors[i].name;
      if (used_.count(i) > 0) continue;
      if (exact_.count(name) == 0 && dotted(name) == want) return "(it is listed in 'ignore')";
      open.emplace(dotted(name), name);
    }
    for (const auto& [compared, name] : open) {  // one more prefix, as "model.", on either side
      if (("." + compared).ends_with("." + want) || ("." + want).ends_with("." + compared)) {
        return fmt::format("did you mean '{}'?", name);
      }
    }
    std::vector<std::string> candidates;
    for (const auto& [compared, name] : open) candidates.push_back(compared);
    const std::vector<std::string> near = did_you_mean(want, candidates);
    return near.empty() ? std::string() : fmt::format("did you mean '{}'?", open.at(near[0]));
  }

  void left_over() {
    for (size_t i = 0; i < weights_.tensors.size(); ++i) {
      const Stored& t = weights_.tensors[i];
      if (used_.count(i) > 0 || exact_.count(t.name) == 0) continue;
      extra_.push_back(fmt::format("'{}'  {}", t.name, to_string(t.type)));
    }
  }

  const std::vector<WeightSpec>& specs_;
  const WeightsFrom& from_;
  const Weights& weights_;
  std::set<std::string> names_;               // of params
  std::map<std::string, size_t> exact_;       // tensors that are not ignored
  std::multimap<std::string, size_t> near_;   // those that are no param's by their very name
  std::map<size_t, const WeightSpec*> used_;  // the first param that takes a tensor
  std::vector<const WeightSpec*> lost_;
  std::vector<std::string> missing_, extra_, wrong_, ambiguous_;
};

}  // namespace

std::vector<WeightSpec> weight_specs(const Program& program) {
  std::vector<WeightSpec> specs;
  for (const ParamBinding& p : program.params) {
    const TensorType& t = program.buffers.at(p.buffer).type;
    specs.push_back({p.name, t.dtype, t.shape.extents(), p.written && p.init != ir::Init::normal});
  }
  return specs;
}

std::vector<WeightSpec> weight_specs(const ir::Graph& graph) {
  std::set<ir::ValueId> written;  // params' first versions
  for (const ir::Op& op : graph.ops()) {
    if (op.kind == ir::OpKind::read) continue;
    for (const ir::ValueId v : op.operands) {
      if (graph.value(v).state) written.insert(v);
    }
  }
  std::vector<WeightSpec> specs;
  for (const ir::Op& op : graph.ops()) {
    const auto* param = std::get_if<ir::ParamAttr>(&op.attrs);
    if (!param) continue;
    const TensorType& t = graph.type(op.result);
    std::vector<int64_t> extents;
    for (Dim d : t.shape) extents.push_back(d.is_const() ? d.value() : -1);
    specs.push_back({std::string(graph.strings[op.name]), t.dtype, std::move(extents),
                     written.count(op.result) > 0 && param->init != ir::Init::normal});
  }
  return specs;
}

void check_weights(const std::vector<WeightSpec>& specs, const WeightsFrom& from) {
  const Weights weights = open_weights(from);
  Matcher(specs, from, weights).run();
}

void load_weights(Store& store, const Program& program, const WeightsFrom& from) {
  const std::vector<WeightSpec> specs = weight_specs(program);
  const Weights weights = open_weights(from);
  const std::vector<const Stored*> found = Matcher(specs, from, weights).run();
  for (size_t i = 0; i < specs.size(); ++i) {
    if (!found[i]) continue;
    std::string why;
    const std::optional<HostTensor> value = convert_elements(found[i]->read(), specs[i].dtype, why);
    if (!value) {
      throw Error(
          about(from, "E0116",
                fmt::format("tensor '{}' in '{}': {}", found[i]->name, found[i]->file, why)));
    }
    store.set(specs[i].name, *value);
  }
}

std::optional<HostTensor> convert_elements(HostTensor from, DType to, std::string& why) {
  if (from.type.dtype == to) return from;
  ensure(same_kind(from.type.dtype, to), "elements of another kind");
  HostTensor out(TensorType{to, from.type.shape});
  const int64_t n = out.numel();
  for (int64_t i = 0; i < n; ++i) {
    if (is_float(to)) {
      const double x = from.at(i);
      out.set(i, x);
      if (!std::isfinite(x) || std::isfinite(out.at(i))) continue;
      why = fmt::format("element {} is {}, which {} cannot hold", i, x, name_of(to));
    } else {
      out.set_int(i, from.int_at(i));
      if (out.int_at(i) == from.int_at(i)) continue;
      why = fmt::format("element {} is {}, which {} cannot hold", i, from.int_at(i), name_of(to));
    }
    return std::nullopt;
  }
  return out;
}

}  // namespace braid
