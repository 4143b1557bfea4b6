// What a kernel writes, and at which element of each value the current thread stands.
#pragma once

#include <map>
#include <vector>

#include "passes/kernels/expr.hpp"

namespace braid::kernels {

/// An output, a param that is assigned or updated, a conditional node that gets its value, or a
/// message.
struct Sink {
  enum class Kind : uint8_t { output, assign, update, handle, send } kind;
  ir::ValueId value;  // what is written
  size_t arg;         // where to
  ir::OpId op;        // the assign, update or send
  /// Whether each element is stored by the thread that has it. The others are for one thread.
  bool stores() const { return kind != Kind::handle && kind != Kind::send; }
};

/// Outputs in order, then the others in op order; those that store no elements are left out.
std::vector<Sink> sinks_of(const ir::Graph& body, const Signature& signature);
/// The value whose elements a kernel without reductions and products walks.
ir::ValueId walked(const std::vector<Sink>& sinks);
/// Takes out of `sinks` those that set a handle or send one element where the kernel has more
/// elements or rows than one: that is for the first thread of the grid.
std::vector<Sink> take_single(const ir::Graph& body, std::vector<Sink>& sinks, int64_t elements);
/// By value index: whether a sink needs it.
std::vector<bool> needed_by(const ir::Graph& body, const std::vector<Sink>& sinks);

/// The element of each value that belongs to the thread's place in the domain. Known at some
/// values, it follows through maps and through views of computed values that keep every element.
class Elements {
 public:
  Elements(const ir::Graph& body, IndexPool& pool) : body_(body), pool_(pool) {}
  void set(ir::ValueId v, At at) { at_.try_emplace(v, std::move(at)); }
  void propagate();
  const At* find(ir::ValueId v) const;

 private:
  bool forward(const ir::Op& op);
  bool backward(const ir::Op& op);

  const ir::Graph& body_;
  IndexPool& pool_;
  std::map<ir::ValueId, At> at_;
};

/// A value at its place, ready to be stored.
struct PlacedSink {
  Sink sink;
  At at;
};

/// Writes the values of all sinks, then their stores. `memory` names the element to write in place
/// of arg[linear]; may be empty.
void write_sinks(ExprWriter& writer, const std::vector<PlacedSink>& sinks,
                 const ExprWriter::Memory& memory = {});

/// Writes those that take_single took, inside an if that only one thread of the grid passes.
void write_single(ExprWriter& writer, const std::vector<Sink>& sinks, std::string_view first);

/// Throws Refusal if a param that the kernel writes is read at another place than it is written,
/// where threads would race. To be called once everything is written.
void check_in_place(ExprWriter& writer, const std::vector<PlacedSink>& sinks);

}  // namespace braid::kernels
