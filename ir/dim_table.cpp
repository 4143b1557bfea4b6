#include <algorithm>
#include <cctype>
#include <iterator>

#include "ir/diagnostic.hpp"
#include "ir/type.hpp"

namespace braid {
namespace {

// Extents of real models have a handful of terms. Without a bound, (a+b)*(c+d)*... in a few hundred
// characters would fill the memory.
constexpr size_t kMaxTerms = 128;
constexpr size_t kMaxDegree = 32;

[[noreturn]] void refuse(std::string message) {
  Diagnostic d;
  d.code = "E0604";
  d.message = std::move(message);
  throw Error(std::move(d));
}

int64_t checked_add(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) refuse("an extent overflows 64 bits");
  return r;
}

int64_t checked_mul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) refuse("an extent overflows 64 bits");
  return r;
}

using Monomial = std::vector<uint32_t>;
using Poly = std::map<Monomial, int64_t>;

void add_term(Poly& sum, const Monomial& m, int64_t c) {
  const auto it = sum.find(m);
  const int64_t total = it == sum.end() ? c : checked_add(it->second, c);
  if (total == 0) {
    if (it != sum.end()) sum.erase(it);
  } else if (it != sum.end()) {
    it->second = total;
  } else {
    if (sum.size() == kMaxTerms) refuse("an extent has more than 128 terms");
    sum.emplace(m, total);
  }
}

void accumulate(Poly& sum, const Poly& p, int64_t sign) {
  for (const auto& [m, c] : p) add_term(sum, m, checked_mul(c, sign));
}

Poly multiply(const Poly& a, const Poly& b) {
  Poly product;
  for (const auto& [ma, ca] : a) {
    for (const auto& [mb, cb] : b) {
      Monomial m;
      std::merge(ma.begin(), ma.end(), mb.begin(), mb.end(), std::back_inserter(m));
      if (m.size() > kMaxDegree) refuse("an extent is a product of more than 32 dims");
      add_term(product, m, checked_mul(ca, cb));
    }
  }
  return product;
}

bool is_constant(const Poly& p) { return p.empty() || (p.size() == 1 && p.begin()->first.empty()); }

bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_name_char(char c) {
  return is_name_start(c) || std::isdigit(static_cast<unsigned char>(c));
}

}  // namespace

Dim DimTable::symbol(std::string_view name, std::optional<int64_t> default_value,
                     std::optional<int64_t> max) {
  auto it = std::find_if(symbols_.begin(), symbols_.end(),
                         [&](const Symbol& s) { return s.name == name; });
  if (it == symbols_.end()) it = symbols_.insert(it, Symbol{std::string(name), {}, {}});
  if (default_value) it->default_value = default_value;
  if (max) it->max = max;
  return intern({{{static_cast<uint32_t>(it - symbols_.begin())}, 1}});
}

DimTable::Poly DimTable::poly(Dim d) const {
  if (!d.is_const()) return polys_[static_cast<size_t>(-(d.raw_ + 1))];
  if (d.value() == 0) return {};
  return {{{}, d.value()}};
}

Dim DimTable::intern(Poly p) {
  if (p.empty()) return Dim(0);
  if (is_constant(p)) {
    const int64_t value = p.begin()->second;
    if (value < 0) refuse("an extent would be " + std::to_string(value));
    return Dim(value);
  }
  const auto [it, added] = index_.emplace(p, -static_cast<int64_t>(polys_.size()) - 1);
  if (added) polys_.push_back(std::move(p));
  return Dim::from_raw(it->second);
}

Dim DimTable::add(Dim a, Dim b) {
  if (a.is_const() && b.is_const()) return Dim(checked_add(a.value(), b.value()));
  Poly sum = poly(a);
  accumulate(sum, poly(b), 1);
  return intern(std::move(sum));
}

Dim DimTable::sub(Dim a, Dim b) {
  Poly difference = poly(a);
  accumulate(difference, poly(b), -1);
  return intern(std::move(difference));
}

Dim DimTable::mul(Dim a, Dim b) {
  if (a.is_const() && b.is_const()) return Dim(checked_mul(a.value(), b.value()));
  return intern(multiply(poly(a), poly(b)));
}

std::optional<Dim> DimTable::div(Dim a, Dim b) {
  const Poly divisor = poly(b);
  if (divisor.size() != 1)
    return a == b && !divisor.empty() ? std::optional<Dim>(Dim(1)) : std::nullopt;
  const auto& [mb, cb] = *divisor.begin();
  Poly quotient;
  for (const auto& [ma, ca] : poly(a)) {
    if (cb == -1 && ca == INT64_MIN) return std::nullopt;
    if (ca % cb != 0 || !std::includes(ma.begin(), ma.end(), mb.begin(), mb.end())) {
      return std::nullopt;
    }
    Monomial m;
    std::set_difference(ma.begin(), ma.end(), mb.begin(), mb.end(), std::back_inserter(m));
    quotient[m] = ca / cb;
  }
  return intern(std::move(quotient));
}

std::string DimTable::str(Dim d) const {
  if (d.is_const()) return std::to_string(d.value());
  const Poly p = poly(d);
  std::string out;
  // Terms with symbols first, the constant last; the map's order puts the empty monomial first.
  const auto term = [&](const Monomial& m, int64_t c) {
    const bool negative = c < 0;
    const std::string magnitude = negative ? std::to_string(c).substr(1) : std::to_string(c);
    if (out.empty()) {
      if (negative) out += "-";
    } else {
      out += negative ? " - " : " + ";
    }
    std::string factors = magnitude == "1" && !m.empty() ? "" : magnitude;
    for (uint32_t s : m) factors += (factors.empty() ? "" : "*") + symbols_[s].name;
    out += factors;
  };
  for (const auto& [m, c] : p) {
    if (!m.empty()) term(m, c);
  }
  if (const auto it = p.find({}); it != p.end()) term({}, it->second);
  return out;
}

std::optional<Dim> DimTable::parse(std::string_view text) {
  // sum := ['-'] product { ('+'|'-') product };  product := atom { '*' atom }
  size_t at = 0;
  int depth = 0;
  const auto skip = [&] {
    while (at < text.size() && text[at] == ' ') ++at;
  };
  const auto sum = [&](const auto& self) -> std::optional<Poly> {
    const auto atom = [&]() -> std::optional<Poly> {
      skip();
      if (at >= text.size()) return std::nullopt;
      if (text[at] == '(') {
        if (++depth > 64) return std::nullopt;
        ++at;
        const auto inner = self(self);
        skip();
        if (!inner || at >= text.size() || text[at] != ')') return std::nullopt;
        ++at;
        --depth;
        return inner;
      }
      const size_t start = at;
      if (std::isdigit(static_cast<unsigned char>(text[at]))) {
        int64_t value = 0;
        for (; at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])); ++at) {
          if (__builtin_mul_overflow(value, 10, &value) ||
              __builtin_add_overflow(value, text[at] - '0', &value)) {
            return std::nullopt;
          }
        }
        return poly(Dim(value));
      }
      if (!is_name_start(text[at])) return std::nullopt;
      while (at < text.size() && is_name_char(text[at])) ++at;
      return poly(symbol(text.substr(start, at - start)));
    };
    const auto product = [&]() -> std::optional<Poly> {
      auto left = atom();
      for (skip(); left && at < text.size() && text[at] == '*'; skip()) {
        ++at;
        const auto right = atom();
        if (!right) return std::nullopt;
        left = multiply(*left, *right);
      }
      return left;
    };
    skip();
    const bool negative = at < text.size() && text[at] == '-';
    if (negative) ++at;
    auto left = product();
    if (left && negative) left = multiply(*left, {{{}, -1}});
    for (skip(); left && at < text.size() && (text[at] == '+' || text[at] == '-'); skip()) {
      const bool minus = text[at++] == '-';
      const auto right = product();
      if (!right) return std::nullopt;
      accumulate(*left, *right, minus ? -1 : 1);
    }
    return left;
  };
  const auto result = sum(sum);
  skip();
  if (!result || at != text.size()) return std::nullopt;
  if (is_constant(*result) && !result->empty() && result->begin()->second < 0) return std::nullopt;
  return intern(*result);
}

std::optional<int64_t> DimTable::eval(Dim d, std::span<const int64_t> values) const {
  if (d.is_const()) return d.value();
  int64_t total = 0;
  for (const auto& [m, c] : poly(d)) {
    int64_t term = c;
    for (uint32_t s : m) {
      if (s >= values.size() || __builtin_mul_overflow(term, values[s], &term)) return std::nullopt;
    }
    if (__builtin_add_overflow(total, term, &total)) return std::nullopt;
  }
  if (total < 0) return std::nullopt;
  return total;
}

}  // namespace braid
