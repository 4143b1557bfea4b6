// Dimensions, shapes and tensor types.
#pragma once

#include <array>
#include <cassert>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/dtype.hpp"

namespace braid {

inline constexpr int kMaxRank = 8;

/// One extent: a constant >= 0, or a reference to a polynomial over symbols in a DimTable.
/// Equal dims compare equal: polynomials are kept in one canonical form and interned.
class Dim {
 public:
  constexpr Dim(int64_t value = 0) : raw_(value) { assert(value >= 0); }  // NOLINT: implicit
  constexpr bool is_const() const { return raw_ >= 0; }
  constexpr int64_t value() const {
    assert(is_const());
    return raw_;
  }
  constexpr bool operator==(const Dim&) const = default;

 private:
  friend class DimTable;
  static constexpr Dim from_raw(int64_t raw) {
    Dim d;
    d.raw_ = raw;
    return d;
  }
  int64_t raw_;  // negative: -(index + 1) into the DimTable
};

/// A row-major shape of at most kMaxRank dims, stored in place.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<Dim> dims);
  explicit Shape(std::span<const Dim> dims);
  static Shape of(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  Dim operator[](int i) const {
    assert(i >= 0 && i < rank_);
    return dims_[static_cast<size_t>(i)];
  }
  Dim& operator[](int i) {
    assert(i >= 0 && i < rank_);
    return dims_[static_cast<size_t>(i)];
  }
  void push_back(Dim d);
  const Dim* begin() const { return dims_.data(); }
  const Dim* end() const { return dims_.data() + rank_; }
  bool operator==(const Shape& o) const;
  /// True if no dim is symbolic.
  bool is_static() const;
  /// Number of elements of a static shape. Overflow was excluded when the shape was made
  /// (Graph::add_op refuses a static type of more than 2^62 bytes).
  int64_t numel() const;
  /// The extents of a static shape.
  std::vector<int64_t> extents() const;

 private:
  int rank_ = 0;
  std::array<Dim, kMaxRank> dims_{};
};

struct TensorType {
  DType dtype = DType::f32;
  Shape shape;
  bool operator==(const TensorType&) const = default;
  int64_t bytes() const { return shape.numel() * size_of(dtype); }
};

/// Row-major element strides of a static shape.
std::vector<int64_t> row_major_strides(std::span<const int64_t> extents);

/// The symbols of a graph and the polynomials over them that its shapes use.
class DimTable {
 public:
  struct Symbol {
    std::string name;
    std::optional<int64_t> default_value;  // used when compile() gets no value
    std::optional<int64_t> max;            // inclusive upper bound
  };
  using Bindings = std::vector<std::pair<std::string, int64_t>>;

  /// The dim that is this symbol; declares it on first use. Later calls may add a default or max.
  Dim symbol(std::string_view name, std::optional<int64_t> default_value = {},
             std::optional<int64_t> max = {});
  const std::vector<Symbol>& symbols() const { return symbols_; }

  Dim add(Dim a, Dim b);
  Dim sub(Dim a, Dim b);  // a constant result below 0 is the caller's error to check first
  Dim mul(Dim a, Dim b);
  /// a / b when b divides a exactly as a polynomial by a monomial or constant; otherwise nothing.
  std::optional<Dim> div(Dim a, Dim b);

  /// "768", "B", "4*D", "B*T + 1".
  std::string str(Dim d) const;
  /// Reads what str() writes (integers, names, + - * and parentheses). Nothing if it is malformed.
  std::optional<Dim> parse(std::string_view text);
  /// The value under a full set of bindings (symbol index -> value); nothing on overflow or < 0.
  std::optional<int64_t> eval(Dim d, std::span<const int64_t> values) const;

 private:
  // monomial: sorted symbol indices with repetition; polynomial: monomial -> coefficient != 0
  using Monomial = std::vector<uint32_t>;
  using Poly = std::map<Monomial, int64_t>;
  Poly poly(Dim d) const;
  Dim intern(Poly p);
  std::vector<Symbol> symbols_;
  std::vector<Poly> polys_;
  std::map<Poly, int64_t> index_;
};

/// "f32[2,B,768]"; with a table symbolic dims print by name.
std::string to_string(const TensorType& t, const DimTable* dims = nullptr);

}  // namespace braid
