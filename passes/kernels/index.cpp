#include "passes/kernels/index.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "ir/diagnostic.hpp"

namespace braid::kernels {
namespace {

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }
int64_t floor_mod(int64_t a, int64_t b) { return a - floor_div(a, b) * b; }

bool fits_int(int64_t lo, int64_t hi) {
  return lo >= std::numeric_limits<int32_t>::min() && hi <= std::numeric_limits<int32_t>::max();
}

}  // namespace

size_t IndexPool::ExprHash::operator()(const Expr& e) const {
  // Fowler, Noll and Vo's, by words in place of bytes.
  uint64_t hash = 14695981039346656037u;
  const auto add = [&hash](auto word) {
    hash = (hash ^ static_cast<uint64_t>(word)) * 1099511628211u;
  };
  add(e.constant);
  for (const Term& t : e.terms) {
    add(t.atom);
    add(t.coefficient);
  }
  return static_cast<size_t>(hash ^ hash >> 32);
}

Index IndexPool::intern(Expr e) {
  std::sort(e.terms.begin(), e.terms.end());
  size_t merged = 0;
  for (const Term& t : e.terms) {
    if (merged > 0 && e.terms[merged - 1].atom == t.atom) {
      e.terms[merged - 1].coefficient += t.coefficient;
    } else {
      e.terms[merged++] = t;
    }
  }
  e.terms.resize(merged);
  std::erase_if(e.terms, [](const Term& t) { return t.coefficient == 0; });
  if (recombine(e)) return intern(std::move(e));
  const auto [it, added] = index_.try_emplace(std::move(e), static_cast<uint32_t>(exprs_.size()));
  if (added) exprs_.push_back(&it->first);
  return Index{it->second};
}

bool IndexPool::recombine(Expr& e) {
  for (size_t m = 0; m < e.terms.size(); ++m) {
    const Term low = e.terms[m];
    if (atoms_[low.atom].kind != Atom::Kind::mod) continue;
    const Index of = atoms_[low.atom].of;
    const int64_t by = atoms_[low.atom].by;
    const Index quotient = div(of, by);
    for (size_t k = 0; k < e.terms.size(); ++k) {
      if (k == m || e.terms[k].coefficient != low.coefficient * by) continue;
      const Expr& q = expr(quotient);
      const bool whole = q.constant == 0 && q.terms.size() == 1 && q.terms[0].coefficient == 1 &&
                         q.terms[0].atom == e.terms[k].atom;
      const Atom& high = atoms_[e.terms[k].atom];
      const bool part = high.kind == Atom::Kind::mod && high.of == quotient;
      if (!whole && !part) continue;
      const Expr joined = expr((whole ? of : mod(of, by * high.by)));
      e.terms.erase(e.terms.begin() + static_cast<std::ptrdiff_t>(std::max(k, m)));
      e.terms.erase(e.terms.begin() + static_cast<std::ptrdiff_t>(std::min(k, m)));
      for (const Term& t : joined.terms) {
        e.terms.push_back({t.atom, t.coefficient * low.coefficient});
      }
      e.constant += joined.constant * low.coefficient;
      return true;
    }
  }
  return false;
}

Index IndexPool::constant(int64_t c) { return intern(Expr{{}, c}); }

Index IndexPool::variable(std::string_view name, int64_t extent) {
  if (extent <= 1) return constant(0);
  auto it = variables_.find(name);
  if (it == variables_.end()) {
    const auto atom = static_cast<uint32_t>(atoms_.size());
    atoms_.push_back({Atom::Kind::variable, std::string(name), {}, 0, extent});
    it = variables_.emplace(std::string(name), intern(Expr{{{atom, 1}}, 0})).first;
  }
  ensure(max(it->second) == extent - 1, "an index variable has two extents");
  return it->second;
}

void IndexPool::find_sorts(uint32_t atom, std::span<const Index> variables, bool* these,
                           bool* others) const {
  const Atom& a = atoms_[atom];
  if (a.kind != Atom::Kind::variable) {
    for (const Term& t : expr(a.of).terms) find_sorts(t.atom, variables, these, others);
    return;
  }
  const bool one = std::any_of(variables.begin(), variables.end(), [&](Index v) {
    const Expr& e = expr(v);
    return e.terms.size() == 1 && e.terms[0].atom == atom;
  });
  *(one ? these : others) = true;
}

bool IndexPool::separate(Index a, std::span<const Index> variables, Index* base, Index* local) {
  const Expr& whole = expr(a);
  Expr of_these{{}, whole.constant}, of_others;
  for (const Term& t : whole.terms) {
    bool these = false, others = false;
    find_sorts(t.atom, variables, &these, &others);
    if (these && others) return false;
    (these ? of_these : of_others).terms.push_back(t);
  }
  *base = intern(std::move(of_these));
  *local = intern(std::move(of_others));
  return true;
}

Index IndexPool::add(Index a, Index b) {
  const Expr& o = expr(b);
  if (o.terms.empty() && o.constant == 0) return a;
  if (expr(a).terms.empty() && expr(a).constant == 0) return b;
  Expr e;
  e.terms.reserve(expr(a).terms.size() + o.terms.size());
  e = expr(a);
  e.terms.insert(e.terms.end(), o.terms.begin(), o.terms.end());
  e.constant += o.constant;
  return intern(std::move(e));
}

Index IndexPool::mul(Index a, int64_t c) {
  if (c == 1) return a;
  Expr e = expr(a);
  for (Term& t : e.terms) t.coefficient *= c;
  e.constant *= c;
  return intern(std::move(e));
}

IndexPool::Split IndexPool::split(Index a, int64_t c) {
  // a = c * quotient + rest, exactly, with every coefficient of the rest in [0, c).
  Expr quotient, rest;
  const Expr& e = expr(a);
  for (const Term& t : e.terms) {
    const Term whole{t.atom, floor_div(t.coefficient, c)},
        left{t.atom, floor_mod(t.coefficient, c)};
    if (whole.coefficient != 0) quotient.terms.push_back(whole);
    if (left.coefficient != 0) rest.terms.push_back(left);
  }
  quotient.constant = floor_div(e.constant, c);
  rest.constant = floor_mod(e.constant, c);
  return {intern(std::move(quotient)), intern(std::move(rest))};
}

bool IndexPool::factor(Index a, int64_t c, int64_t* factor, Index* big, Index* small) {
  Expr e = expr(a);
  std::sort(e.terms.begin(), e.terms.end(), [](const Term& x, const Term& y) {
    return std::make_pair(-x.coefficient, x.atom) < std::make_pair(-y.coefficient, y.atom);
  });
  int64_t g = c;
  for (size_t k = 0; k < e.terms.size(); ++k) {
    g = std::gcd(g, e.terms[k].coefficient);
    if (g == 1) return false;
    Expr high, low;
    for (size_t i = 0; i < e.terms.size(); ++i) {
      if (i <= k) {
        high.terms.push_back({e.terms[i].atom, e.terms[i].coefficient / g});
      } else {
        low.terms.push_back(e.terms[i]);
      }
    }
    high.constant = floor_div(e.constant, g);
    low.constant = floor_mod(e.constant, g);
    const Index rest = intern(std::move(low));
    if (max(rest) >= g) continue;
    *factor = g;
    *big = intern(std::move(high));
    *small = rest;
    return true;
  }
  return false;
}

Index IndexPool::atom(bool is_div, Index of, int64_t by) {
  const auto key = std::make_tuple(static_cast<uint8_t>(is_div), of.id, by);
  auto it = divmods_.find(key);
  if (it == divmods_.end()) {
    it = divmods_.emplace(key, static_cast<uint32_t>(atoms_.size())).first;
    const int64_t extent = is_div ? max(of) / by + 1 : std::min(by, max(of) + 1);
    atoms_.push_back({is_div ? Atom::Kind::div : Atom::Kind::mod, {}, of, by, extent});
  }
  return intern(Expr{{{it->second, 1}}, 0});
}

Index IndexPool::div(Index a, int64_t c) {
  ensure(c >= 1, "an index is divided by less than one");
  if (c == 1) return a;
  const auto [quotient, rest] = split(a, c);
  ensure(min(rest) >= 0, "a negative index is divided");
  if (max(rest) < c) return quotient;
  int64_t g = 1;
  Index big, small;
  if (factor(rest, c, &g, &big, &small)) return add(quotient, div(big, c / g));

  const Expr& e = expr(rest);
  if (e.terms.size() == 1 && e.terms[0].coefficient == 1) {
    const Atom inner = atoms_[e.terms[0].atom];
    if (inner.kind == Atom::Kind::div) {
      const Index of = add(inner.of, constant(e.constant * inner.by));
      return add(quotient, div(of, inner.by * c));
    }
    if (inner.kind == Atom::Kind::mod && inner.by % c == 0 && e.constant == 0) {
      return add(quotient, mod(div(inner.of, c), inner.by / c));
    }
  }
  return add(quotient, atom(true, rest, c));
}

Index IndexPool::mod(Index a, int64_t c) {
  ensure(c >= 1, "an index is taken modulo less than one");
  const Index rest = split(a, c).rest;
  ensure(min(rest) >= 0, "a negative index is taken modulo");
  if (max(rest) < c) return rest;
  int64_t g = 1;
  Index big, small;
  if (factor(rest, c, &g, &big, &small)) return add(mul(mod(big, c / g), g), small);

  const Expr& e = expr(rest);
  for (const Term& t : e.terms) {
    const Atom inner = atoms_[t.atom];
    if (inner.kind != Atom::Kind::mod || (t.coefficient * inner.by) % c != 0) continue;
    // k * (x mod m) = k * x - (k * m) * (x div m), and c divides k * m.
    Expr without = e;
    std::erase(without.terms, t);
    return mod(add(intern(std::move(without)), mul(inner.of, t.coefficient)), c);
  }
  return atom(false, rest, c);
}

bool IndexPool::is_constant(Index a, int64_t* value) const {
  const Expr& e = expr(a);
  if (e.terms.empty() && value) *value = e.constant;
  return e.terms.empty();
}

int64_t IndexPool::min(Index a) const {
  const Expr& e = expr(a);
  int64_t m = e.constant;
  for (const Term& t : e.terms) {
    if (t.coefficient < 0) m += t.coefficient * (atoms_[t.atom].extent - 1);
  }
  return m;
}

int64_t IndexPool::max(Index a) const {
  const Expr& e = expr(a);
  int64_t m = e.constant;
  for (const Term& t : e.terms) {
    if (t.coefficient > 0) m += t.coefficient * (atoms_[t.atom].extent - 1);
  }
  return m;
}

bool IndexPool::depends_on(Index a, Index variable) const {
  const Expr& v = expr(variable);
  if (v.terms.empty()) return false;
  for (const Term& t : expr(a).terms) {
    const Atom& inner = atoms_[t.atom];
    if (t.atom == v.terms[0].atom) return true;
    if (inner.kind != Atom::Kind::variable && depends_on(inner.of, variable)) return true;
  }
  return false;
}

int64_t IndexPool::coefficient(Index a, Index variable) const {
  const Expr& v = expr(variable);
  for (const Term& t : expr(a).terms) {
    if (!v.terms.empty() && t.atom == v.terms[0].atom) return t.coefficient;
  }
  return 0;
}

std::string IndexPool::atom_text(uint32_t id) const {
  const Atom& a = atoms_[id];
  if (a.kind == Atom::Kind::variable) return a.name;
  const Expr& of = expr(a.of);
  const bool plain = of.constant == 0 && of.terms.size() == 1 && of.terms[0].coefficient == 1 &&
                     atoms_[of.terms[0].atom].kind == Atom::Kind::variable;
  const char sign = a.kind == Atom::Kind::div ? '/' : '%';
  return plain ? fmt::format("{} {} {}", text(a.of), sign, a.by)
               : fmt::format("({}) {} {}", text(a.of), sign, a.by);
}

std::string IndexPool::text(Index a) const {
  const Expr& e = expr(a);
  std::vector<Term> terms = e.terms;
  std::sort(terms.begin(), terms.end(), [](const Term& x, const Term& y) {
    return std::make_pair(-x.coefficient, x.atom) < std::make_pair(-y.coefficient, y.atom);
  });
  // Partial sums of positive terms stay below the maximum, so the whole decides the width.
  const bool wide = !fits_int(min(a), max(a));
  std::string s;
  for (const Term& t : terms) {
    const int64_t c = t.coefficient;
    std::string piece = atom_text(t.atom);
    const bool compound = atoms_[t.atom].kind != Atom::Kind::variable;
    const int64_t magnitude = c < 0 ? -c : c;
    if (magnitude != 1) {
      // (x / 4) * 12 must not become x / (4 * 12) or x / 4 * 12 read from the left.
      piece = fmt::format("{} * {}{}", compound ? "(" + piece + ")" : piece, magnitude,
                          wide ? "LL" : "");
    } else if (wide && s.empty()) {
      piece = fmt::format("(long long){}", compound ? "(" + piece + ")" : piece);
    }
    if (s.empty()) {
      s = c < 0 ? "-" + (magnitude == 1 && compound ? "(" + piece + ")" : piece) : piece;
    } else {
      s += (c < 0 ? " - " : " + ") + piece;
    }
  }
  if (s.empty()) return fmt::format("{}{}", e.constant, wide ? "LL" : "");
  if (e.constant != 0) {
    s += fmt::format(" {} {}", e.constant < 0 ? '-' : '+',
                     e.constant < 0 ? -e.constant : e.constant);
  }
  return s;
}

Index linearize(IndexPool& pool, std::span<const Index> at, std::span<const int64_t> extents) {
  const std::vector<int64_t> strides = row_major_strides(extents);
  Index sum = pool.constant(0);
  for (size_t i = 0; i < at.size(); ++i) sum = pool.add(sum, pool.mul(at[i], strides[i]));
  return sum;
}

At delinearize(IndexPool& pool, Index linear, std::span<const int64_t> extents) {
  const std::vector<int64_t> strides = row_major_strides(extents);
  At at;
  const bool empty = std::find(extents.begin(), extents.end(), 0) != extents.end();
  for (size_t i = 0; i < extents.size(); ++i) {
    if (empty || extents[i] == 1) {
      at.push_back(pool.constant(0));
      continue;
    }
    const Index quotient = pool.div(linear, strides[i]);
    at.push_back(pool.max(quotient) < extents[i] ? quotient : pool.mod(quotient, extents[i]));
  }
  return at;
}

At through_view(IndexPool& pool, const ir::ViewAttr& view, const TensorType& operand,
                const TensorType& result, std::span<const Index> at) {
  const std::vector<int64_t> extents = operand.shape.extents();
  At to(extents.size());
  switch (view.kind) {
    case ir::ViewKind::reshape:
      return delinearize(pool, linearize(pool, at, result.shape.extents()), extents);
    case ir::ViewKind::transpose:
      for (size_t i = 0; i < at.size(); ++i) to[static_cast<size_t>(view.a[i])] = at[i];
      break;
    case ir::ViewKind::broadcast:
      for (size_t i = 0; i < to.size(); ++i) {
        to[i] = extents[i] == 1 ? pool.constant(0) : at[static_cast<size_t>(view.a[i])];
      }
      break;
    case ir::ViewKind::slice:
      for (size_t i = 0; i < to.size(); ++i) {
        to[i] = pool.add(pool.mul(at[i], view.b[i]), pool.constant(view.a[i]));
      }
      break;
  }
  return to;
}

}  // namespace braid::kernels
