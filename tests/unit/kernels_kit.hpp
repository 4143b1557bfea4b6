// Kernel bodies for tests: a short way to write them, and the list that every check runs through.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.hpp"
#include "passes/kernels/family.hpp"

namespace braid::test {

/// Writes a body as passes/fuse.hpp's extract_body would: inputs a0.., params s0.., outputs r0..
class Body {
 public:
  using V = ir::ValueId;

  V in(std::initializer_list<Dim> shape, DType dtype = DType::f32);
  V param(std::initializer_list<Dim> shape, DType dtype = DType::f32);
  V handle(DType dtype);
  V ring();
  V read(V state);
  V assign(V state, V value);
  V update(V state, V value, std::vector<V> starts);
  V splat(double x, std::initializer_list<Dim> shape, DType dtype = DType::f32);
  V iota(int axis, std::initializer_list<Dim> shape, DType dtype);
  V map(Fn fn, std::vector<V> operands);
  V cast(V v, DType dtype);
  V reduce(Fn fn, V v, std::vector<int> axes);
  V dot(V a, V b, bool ta = false, bool tb = false, bool tf32 = false);
  V dot_to(V a, V b, DType result);
  V reshape(V v, std::initializer_list<Dim> shape);
  V transpose(V v, std::vector<int64_t> axes);
  V broadcast(V v, std::initializer_list<Dim> shape, std::vector<int64_t> axes);
  V slice(V v, std::vector<int64_t> starts, std::vector<int64_t> steps,
          std::initializer_list<Dim> shape);
  V concat(std::vector<V> vs, int axis);
  V gather(V table, V indices, int axis);
  V scatter(std::optional<Fn> fn, V x, V indices, V updates, int axis);
  /// Both results are outputs.
  Body& compact(V mask, V rows);
  /// A host op; gives its results.
  std::vector<V> host(std::string_view function, std::vector<V> operands,
                      std::vector<TensorType> results);
  V send(V ring, ir::SendAttr attr, V value, std::vector<V> numbers = {});
  Body& out(V v);
  TensorType type(V v) const { return graph.type(v); }

  ir::Graph graph{"body"};

 private:
  V view(V v, TensorType to, ir::ViewAttr attr);
  V state(const TensorType& type, ir::Attrs attrs);
  int inputs_ = 0, params_ = 0;
};

struct KernelCase {
  std::string name;    // a C identifier
  std::string family;  // "row", "dot", "chain" or "compact"
  ir::Graph body;
  bool local_memory = false;  // allowed to use it
  uint32_t parts = 1;
  std::optional<kernels::Guard> guard{};
  std::vector<bool> fixed{};  // see kernels::Use
  bool exchanges = false;     // it takes a slot and the header of a mailbox as well
  /// In place of the family's; with use().
  std::function<kernels::Emitted(const ir::Graph& body, std::string_view symbol,
                                 const kernels::Use& use)>
      writes{};

  /// Every kernel that can waits, as in programs.
  kernels::Use use() const { return {parts, guard, !exchanges, fixed}; }
  kernels::Emitted emit(const Target& target = {}) const {
    return writes ? writes(body, name, use())
                  : kernels::family(family).emit(body, name, target, use());
  }
};
/// Of the operands of products some are fixed, of each case others.
void fix_some_operands(std::vector<KernelCase>& cases);
/// One case per thing that the families must get right.
std::vector<KernelCase> row_cases();
std::vector<KernelCase> dot_cases();
std::vector<KernelCase> chain_cases();
std::vector<KernelCase> compact_cases();

/// Emits every case, compiles them with NVRTC for sm_80 and sm_90 and fails the running test if
/// one is refused, does not compile, or uses local memory.
void check_compiles(const std::vector<KernelCase>& cases);
/// Runs every case on the CPU on random inputs and compares with the interpreter.
void check_numbers(const std::vector<KernelCase>& cases);

}  // namespace braid::test
