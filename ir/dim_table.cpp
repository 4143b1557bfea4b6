#include <algorithm>
#include <cctype>

#include "ir/diagnostic.hpp"
#include "ir/type.hpp"

namespace braid {
namespace {

[[noreturn]] void overflow() {
  Diagnostic d;
  d.code = "E0604";
  d.message = "an extent overflows 64 bits";
  throw Error(std::move(d));
}

int64_t checked_add(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) overflow();
  return r;
}

int64_t checked_mul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) overflow();
  return r;
}

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
  // A constant below 0 cannot be a Dim; it stays a polynomial, which eval() and users refuse.
  if (p.size() == 1 && p.begin()->first.empty() && p.begin()->second >= 0) {
    return Dim(p.begin()->second);
  }
  const auto [it, added] = index_.emplace(p, -static_cast<int64_t>(polys_.size()) - 1);
  if (added) polys_.push_back(std::move(p));
  return Dim::from_raw(it->second);
}

Dim DimTable::add(Dim a, Dim b) {
  if (a.is_const() && b.is_const()) return Dim(checked_add(a.value(), b.value()));
  Poly sum = poly(a);
  for (const auto& [m, c] : poly(b)) {
    const int64_t total = checked_add(sum[m], c);
    if (total == 0) {
      sum.erase(m);
    } else {
      sum[m] = total;
    }
  }
  return intern(std::move(sum));
}

Dim DimTable::sub(Dim a, Dim b) {
  Poly difference = poly(a);
  for (const auto& [m, c] : poly(b)) {
    const int64_t total = checked_add(difference[m], checked_mul(c, -1));
    if (total == 0) {
      difference.erase(m);
    } else {
      difference[m] = total;
    }
  }
  return intern(std::move(difference));
}

Dim DimTable::mul(Dim a, Dim b) {
  if (a.is_const() && b.is_const()) return Dim(checked_mul(a.value(), b.value()));
  Poly product;
  const Poly right = poly(b);
  for (const auto& [ma, ca] : poly(a)) {
    for (const auto& [mb, cb] : right) {
      Monomial m = ma;
      m.insert(m.end(), mb.begin(), mb.end());
      std::sort(m.begin(), m.end());
      const int64_t total = checked_add(product[m], checked_mul(ca, cb));
      if (total == 0) {
        product.erase(m);
      } else {
        product[m] = total;
      }
    }
  }
  return intern(std::move(product));
}

std::optional<Dim> DimTable::div(Dim a, Dim b) {
  const Poly divisor = poly(b);
  if (divisor.size() != 1)
    return a == b && !divisor.empty() ? std::optional<Dim>(Dim(1)) : std::nullopt;
  const auto& [mb, cb] = *divisor.begin();
  Poly quotient;
  for (const auto& [ma, ca] : poly(a)) {
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
  const auto sum = [&](const auto& self) -> std::optional<Dim> {
    const auto atom = [&]() -> std::optional<Dim> {
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
        return Dim(value);
      }
      if (!is_name_start(text[at])) return std::nullopt;
      while (at < text.size() && is_name_char(text[at])) ++at;
      return symbol(text.substr(start, at - start));
    };
    const auto product = [&]() -> std::optional<Dim> {
      auto left = atom();
      for (skip(); left && at < text.size() && text[at] == '*'; skip()) {
        ++at;
        const auto right = atom();
        if (!right) return std::nullopt;
        left = mul(*left, *right);
      }
      return left;
    };
    skip();
    const bool negative = at < text.size() && text[at] == '-';
    if (negative) ++at;
    auto left = product();
    if (left && negative) left = sub(Dim(0), *left);
    for (skip(); left && at < text.size() && (text[at] == '+' || text[at] == '-'); skip()) {
      const bool minus = text[at++] == '-';
      const auto right = product();
      if (!right) return std::nullopt;
      left = minus ? sub(*left, *right) : add(*left, *right);
    }
    return left;
  };
  const auto result = sum(sum);
  skip();
  if (!result || at != text.size()) return std::nullopt;
  return result;
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
