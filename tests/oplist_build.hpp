// What the parts of the op list share: the list itself, and shapes and operands of all sorts.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "frontend/builder.hpp"
#include "oplist.hpp"

namespace braid {

using Extents = std::vector<int64_t>;
inline constexpr DType kDTypes[] = {f32, f16, bf16, i32, i64, b1};
inline constexpr DType kNumbers[] = {f32, f16, bf16, i32, i64};

inline uint8_t class_of(DType t) { return is_float(t) ? kFloats : is_int(t) ? kInts : kBool; }

class OpList {
 public:
  explicit OpList(uint64_t seed) : random_(seed) {}
  std::vector<OpCase> run();

 private:
  using Body = std::function<void(Graph&)>;

  void add(const std::string& name, DType dtype, const Body& body, double factor = 1) {
    Graph g(name);
    body(g);
    cases_.push_back({name, g.ir(), factor * tolerance_of(dtype)});
  }

  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  Extents shape() {
    static const std::vector<Extents> kFixed{{},       {1},       {0},          {7},
                                             {33, 65}, {4, 0, 3}, {2, 3, 5, 7}, {3, 1, 2, 4, 5}};
    const auto i = static_cast<size_t>(pick(0, static_cast<int64_t>(kFixed.size()) + 5));
    if (i < kFixed.size()) return kFixed[i];
    Extents e;
    for (int64_t r = pick(1, 3); r > 0; --r) e.push_back(pick(1, 40));
    return e;
  }
  static TypeArg type(DType t, const Extents& e) {
    return {t, std::vector<DimArg>(e.begin(), e.end())};
  }

  Tensor signed_input(Graph& g, const char* name, DType t, const Extents& e) {
    const Tensor x = g.input(name, type(t, e));
    return is_int(t) ? x - 4.0 : x;  // random integers are 0 .. 7
  }

  /// x of the given shape, but reached through a view or a broadcast.
  Tensor disguised(Graph& g, const char* name, DType t, const Extents& e) {
    switch (pick(0, 4)) {
      case 0:  // transposed
        if (e.size() >= 2) {
          Extents swapped = e;
          std::swap(swapped[e.size() - 1], swapped[e.size() - 2]);
          std::vector<int> perm;
          for (size_t i = 0; i < e.size(); ++i) perm.push_back(static_cast<int>(i));
          std::swap(perm[e.size() - 1], perm[e.size() - 2]);
          return transpose(signed_input(g, name, t, swapped), perm);
        }
        break;
      case 1:  // every other element of a larger one, off by one: misaligned
        if (!e.empty()) {
          Extents wide = e;
          wide.back() = 2 * wide.back() + 1;
          return slice(signed_input(g, name, t, wide),
                       {.axis = -1, .start = 1, .stop = 1 + 2 * e.back(), .step = 2});
        }
        break;
      case 2:  // one row for all
        if (e.size() >= 2) {
          return broadcast_to(signed_input(g, name, t, {e.back()}),
                              std::vector<DimArg>(e.begin(), e.end()));
        }
        break;
      case 3: {  // another shape with the same elements
        int64_t n = 1;
        for (int64_t x : e) n *= x;
        return reshape(signed_input(g, name, t, {n}), std::vector<DimArg>(e.begin(), e.end()));
      }
      default:
        break;
    }
    return signed_input(g, name, t, e);
  }

  // oplist_scalar.cpp
  void scalar_functions_everywhere();
  void scalar_case(Graph& g, const ScalarInfo& f, DType t, const Extents& e, int variant);
  void casts();
  void specials();
  void other_dtypes();
  void int_specials();
  // oplist.cpp
  /// A case whose products go through tensor cores; those of f32 as tf32.
  void tensor_cores(const std::string& name, DType dtype, const Body& body, double factor = 1);
  void reductions();
  void dots();
  void views();
  void indexing();
  void state();
  void compositions();
  // oplist_composites.cpp
  void scatters();
  void randoms();
  void arrangements();
  void norms_and_losses();
  void masked_attention();
  // oplist_select.cpp
  void selections();
  // oplist_group.cpp
  void grouped();
  // oplist_odd.cpp
  void odd_sizes();
  void odd_maps();
  void odd_reductions();
  void odd_dots();
  void odd_chains();
  void odd_interactions();
  void odd_selections();
  // oplist_shapes.cpp
  void random_shapes();
  Extents any_extents(int64_t min_rank, int64_t limit);
  int64_t any_axis(const Extents& e);
  Extents narrowed(const Extents& e);
  Tensor viewed(Tensor x);

  std::mt19937_64 random_;
  std::vector<OpCase> cases_;
};

}  // namespace braid
