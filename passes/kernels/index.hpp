// Integer index expressions with known ranges, and how an index travels backwards through views.
// Fusion compares them to see that two ops walk the same domain; kernels print them as CUDA.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "ir/inplace_vector.hpp"
#include "ir/op.hpp"

namespace braid::kernels {

/// An expression of one pool. Canonical: equal expressions of a pool have equal ids, as far as
/// linear arithmetic and the ranges of the variables show.
struct Index {
  uint32_t id = 0;
  auto operator<=>(const Index&) const = default;
};

/// Where an element of a tensor stands, axis by axis.
using At = InplaceVector<Index, kMaxRank>;

/// Expressions are sums of constant * atom plus a constant; an atom is a variable, or a div or mod
/// that could not be resolved. (a*T + b) / T with 0 <= b < T becomes a, and so on.
class IndexPool {
 public:
  IndexPool() = default;
  IndexPool(const IndexPool&) = delete;
  IndexPool& operator=(const IndexPool&) = delete;
  Index constant(int64_t c);
  /// A variable with values in [0, extent). The name is its CUDA text. Same name, same variable.
  Index variable(std::string_view name, int64_t extent);
  Index add(Index a, Index b);
  Index mul(Index a, int64_t c);
  Index div(Index a, int64_t c);  // floor; a >= 0, c >= 1
  Index mod(Index a, int64_t c);

  bool is_constant(Index a, int64_t* value = nullptr) const;
  int64_t min(Index a) const;
  int64_t max(Index a) const;  // inclusive
  /// Whether the variable occurs in the expression, also inside a div or mod.
  bool depends_on(Index a, Index variable) const;
  /// The factor of the variable in the sum, occurrences inside div and mod aside.
  int64_t coefficient(Index a, Index variable) const;
  /// a = base + local, where `base` has the constant and what depends on no other than these
  /// variables, and `local` on none of them. False if a part depends on both sorts.
  bool separate(Index a, std::span<const Index> variables, Index* base, Index* local);
  /// CUDA text; 32-bit arithmetic where the range allows, else long long.
  std::string text(Index a) const;

 private:
  struct Term {
    uint32_t atom;
    int64_t coefficient;
    auto operator<=>(const Term&) const = default;
  };
  struct Expr {
    std::vector<Term> terms;  // by atom
    int64_t constant = 0;
    bool operator==(const Expr&) const = default;
  };
  struct ExprHash {
    size_t operator()(const Expr& e) const;
  };
  struct Atom {
    enum class Kind : uint8_t { variable, div, mod } kind;
    std::string name;
    Index of{};
    int64_t by = 0;
    int64_t extent = 0;  // values in [0, extent)
  };
  struct Split {
    Index quotient, rest;
  };
  Index intern(Expr e);
  /// c * (x mod d) + c * d * (x div d) becomes c * x; the same where x div d is cut by a mod.
  bool recombine(Expr& e);
  /// Whether the atom depends on one of the variables, and whether on others.
  void find_sorts(uint32_t atom, std::span<const Index> variables, bool* these, bool* others) const;
  Split split(Index a, int64_t c);
  /// a = factor * big + small with 0 <= small < factor, factor > 1 dividing c; false if none.
  bool factor(Index a, int64_t c, int64_t* factor, Index* big, Index* small);
  Index atom(bool is_div, Index of, int64_t by);
  std::string atom_text(uint32_t id) const;
  const Expr& expr(Index a) const { return *exprs_[a.id]; }
  std::unordered_map<Expr, uint32_t, ExprHash> index_;
  std::vector<const Expr*> exprs_;  // by id, in index_
  std::vector<Atom> atoms_;
  std::map<std::string, Index, std::less<>> variables_;
  std::map<std::tuple<uint8_t, uint32_t, int64_t>, uint32_t> divmods_;
};

/// Row-major linear index, and its inverse.
Index linearize(IndexPool& pool, std::span<const Index> at, std::span<const int64_t> extents);
At delinearize(IndexPool& pool, Index linear, std::span<const int64_t> extents);

/// The operand's index for the element of a view's result at `at`. Static types.
At through_view(IndexPool& pool, const ir::ViewAttr& view, const TensorType& operand,
                const TensorType& result, std::span<const Index> at);

}  // namespace braid::kernels
