#include "frontend/kernel_notation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <charconv>

#include "ir/diagnostic.hpp"

namespace braid {
namespace {

using Way = KernelParameter::Role;

constexpr size_t kMaxText = 200;  // characters of an extent
constexpr int kMaxDepth = 64;     // parentheses
constexpr const char* kForms =
    "a parameter is written as in \"in x: f32[T, 64]\", \"out y: f32[T]\", \"inout c: f32[64]\", "
    "\"i32 T\" or \"f32 0.5\"";

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_name(std::string_view s) {
  if (s.empty() || is_digit(s[0])) return false;
  for (const char c : s) {
    if (!is_word(c)) return false;
  }
  return true;
}

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

std::string_view take_word(std::string_view& s) {
  s = trimmed(s);
  size_t n = 0;
  while (n < s.size() && is_word(s[n])) ++n;
  const std::string_view word = s.substr(0, n);
  s = trimmed(s.substr(n));
  return word;
}

/// Whether a ceil stands in it.
bool rounds(std::string_view text) {
  for (size_t at = text.find("ceil"); at != text.npos; at = text.find("ceil", at + 1)) {
    if (at > 0 && is_word(text[at - 1])) continue;
    if (trimmed(text.substr(at + 4)).starts_with('(')) return true;
  }
  return false;
}

/// The parts between commas that stand in no parentheses.
std::vector<std::string> parts_of(std::string_view list) {
  std::vector<std::string> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= list.size(); ++i) {
    if (i < list.size() && list[i] == '(') ++depth;
    if (i < list.size() && list[i] == ')') --depth;
    if (i < list.size() && (list[i] != ',' || depth > 0)) continue;
    parts.emplace_back(trimmed(list.substr(begin, i - begin)));
    begin = i + 1;
  }
  return parts;
}

/// sum := product { ('+'|'-') product }; product := atom { ('*'|'/') atom };
/// atom := integer | name | '(' sum ')' | 'ceil' '(' sum ',' sum ')'
class ExtentParser {
 public:
  ExtentParser(DimTable& dims, std::string_view text,
               const std::function<std::optional<Dim>(const std::string&)>& of)
      : dims_(dims), text_(text), of_(of) {}

  std::optional<ir::Extent> run(std::string* why) {
    std::optional<ir::Extent> e;
    if (text_.size() > kMaxText) {
      fail(fmt::format("an extent is longer than {} characters", kMaxText));
    } else {
      try {
        e = sum();
        skip();
        if (why_.empty() && at_ < text_.size()) unexpected();
      } catch (const Error& error) {  // overflow, or below 0
        fail(error.diagnostics().front().message);
      }
    }
    if (why_.empty()) return e;
    *why = why_;
    return std::nullopt;
  }

 private:
  using Value = std::optional<ir::Extent>;

  static bool plain(const ir::Extent& e) { return e == ir::Extent(e.factor); }

  Value fail(std::string why) {
    if (why_.empty()) why_ = std::move(why);
    return std::nullopt;
  }
  Value unexpected() {
    if (at_ >= text_.size()) return fail(fmt::format("'{}' ends too early", text_));
    return fail(fmt::format("unexpected '{}' in '{}'", text_[at_], text_));
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Value sum() {
    Value a = product();
    while (a && why_.empty()) {
      const bool plus = take('+');
      if (!plus && !take('-')) break;
      const Value b = product();
      if (!b) return std::nullopt;
      if (!plain(*a) || !plain(*b)) return fail("ceil(a, b) may be a factor, but no summand");
      a = plus ? dims_.add(a->factor, b->factor) : dims_.sub(a->factor, b->factor);
    }
    return a;
  }

  Value product() {
    Value a = atom();
    while (a && why_.empty()) {
      const bool times = take('*');
      if (!times && !take('/')) break;
      const Value b = atom();
      if (!b) return std::nullopt;
      if (times) {
        if (!plain(*a) && !plain(*b)) return fail("an extent may have one ceil(a, b)");
        const ir::Extent& rounded = plain(*a) ? *b : *a;
        a = ir::Extent(dims_.mul(a->factor, b->factor), rounded.dividend, rounded.divisor);
        continue;
      }
      const std::optional<Dim> q =
          plain(*a) && plain(*b) ? dims_.div(a->factor, b->factor) : std::nullopt;
      if (!q) {
        return fail(fmt::format("{} is not divisible by {}: ceil(a, b) rounds a / b up",
                                to_string(*a), to_string(*b)));
      }
      a = *q;
    }
    return a;
  }

  std::string to_string(const ir::Extent& e) const {
    return plain(e) ? dims_.str(e.factor) : "what ceil gives";
  }

  Value atom() {
    if (take('(')) {
      if (++depth_ > kMaxDepth) return fail("an extent has too many parentheses");
      const Value inner = sum();
      if (inner && !take(')')) return unexpected();
      --depth_;
      return inner;
    }
    skip();
    const size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    const std::string word(text_.substr(begin, at_ - begin));
    if (word.empty()) return unexpected();
    if (word == "ceil" && take('(')) return rounded();
    if (is_name(word)) {
      const std::optional<Dim> d = of_(word);
      if (d) return ir::Extent(*d);
      return fail(
          fmt::format("nothing says what '{}' is: it is neither a dim of the model nor, by "
                      "itself, an extent of an 'in' or 'inout' parameter",
                      word));
    }
    int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size()) {
      return fail(fmt::format("'{}' is neither an integer nor a name", word));
    }
    return ir::Extent(Dim(value));
  }

  Value rounded() {
    if (++depth_ > kMaxDepth) return fail("an extent has too many parentheses");
    const Value a = sum();
    if (!a) return std::nullopt;
    if (!take(',')) return fail("ceil takes two numbers, as in ceil(T, 4)");
    const Value b = sum();
    if (!b) return std::nullopt;
    if (!take(')')) return unexpected();
    --depth_;
    if (!plain(*a) || !plain(*b)) return fail("an extent may have one ceil(a, b)");
    if (b->factor == Dim(0)) return fail("ceil(a, b) divides by b, which is 0");
    const ir::Extent e(Dim(1), a->factor, b->factor);
    const std::optional<int64_t> n = e.value();
    return n ? ir::Extent(Dim(*n)) : e;
  }

  DimTable& dims_;
  std::string_view text_;
  const std::function<std::optional<Dim>(const std::string&)>& of_;
  size_t at_ = 0;
  int depth_ = 0;
  std::string why_;
};

}  // namespace

std::string KernelParameter::text() const {
  if (role == Way::number) {
    return name.empty() ? fmt::format("{} {}", dtype, value)
                        : fmt::format("{} {} = {}", dtype, name, value);
  }
  const std::string_view what = role == Way::in ? "in" : role == Way::out ? "out" : "inout";
  return fmt::format("{} {}: {}[{}]", what, name, dtype, fmt::join(extents, ", "));
}

std::optional<KernelParameter> parse_kernel_parameter(std::string_view text, std::string* why) {
  const auto fail = [&](std::string reason) {
    *why = fmt::format("'{}': {}", text, reason);
    return std::nullopt;
  };
  KernelParameter p;
  std::string_view rest = text;
  const std::string_view first = take_word(rest);
  if (first.empty()) return fail(kForms);
  if (first != "in" && first != "out" && first != "inout") {
    p.role = Way::number;
    p.dtype = first;
    if (const size_t equals = rest.find('='); equals != std::string_view::npos) {
      p.name = trimmed(rest.substr(0, equals));
      if (!is_name(p.name)) return fail(kForms);
      rest = trimmed(rest.substr(equals + 1));
    }
    p.value = rest;
    if (p.value.empty() || p.value.find(':') != std::string::npos) return fail(kForms);
    return p;
  }
  p.role = first == "in" ? Way::in : first == "out" ? Way::out : Way::inout;
  p.name = take_word(rest);
  if (!is_name(p.name)) return fail(kForms);
  if (rest.empty() || rest[0] != ':') return fail("after the name stands ':' and the type");
  rest.remove_prefix(1);
  p.dtype = take_word(rest);
  if (p.dtype.empty()) return fail("after ':' stands a type, as in f32[T, 64]");
  if (rest.size() < 2 || rest.front() != '[' || rest.back() != ']') {
    return fail(
        fmt::format("after the dtype stand the extents in brackets: {0}[T, 64], or {0}[] "
                    "for one element",
                    p.dtype));
  }
  rest = trimmed(rest.substr(1, rest.size() - 2));
  if (rest.empty()) return p;
  p.extents = parts_of(rest);
  for (const std::string& e : p.extents) {
    if (e.empty()) return fail("an extent is missing between the commas");
    if (rounds(e)) return fail("a tensor's extent is exact: ceil stands in launches and numbers");
  }
  return p;
}

std::set<std::string, std::less<>> bound_names(const std::vector<KernelParameter>& parameters) {
  std::set<std::string, std::less<>> names;
  for (const KernelParameter& p : parameters) {
    if (!p.is_operand()) continue;
    for (const std::string& e : p.extents) {
      if (is_name(e)) names.insert(e);
    }
  }
  return names;
}

std::string replace_names(std::string_view text,
                          const std::function<std::string(const std::string&)>& of) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    size_t n = 0;
    while (i + n < text.size() && is_word(text[i + n])) ++n;
    const std::string word(text.substr(i, n));
    const bool ceil = word == "ceil" && trimmed(text.substr(i + n)).starts_with('(');
    if (n > 0 && is_name(word) && !ceil) {
      out += of(word);
    } else {
      out += n > 0 ? word : std::string(1, text[i]);
    }
    i += std::max<size_t>(n, 1);
  }
  return out;
}

std::vector<std::string> names_in_extent(std::string_view text) {
  std::vector<std::string> names;
  replace_names(text, [&](const std::string& name) {
    names.push_back(name);
    return name;
  });
  return names;
}

std::optional<ir::Extent> parse_kernel_extent(
    DimTable& dims, std::string_view text,
    const std::function<std::optional<Dim>(const std::string&)>& of, std::string* why) {
  return ExtentParser(dims, text, of).run(why);
}

}  // namespace braid
