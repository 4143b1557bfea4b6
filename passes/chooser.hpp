// Inside choose: how a graph and its bodies become nodes, buffers and regions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "passes/kernel_table.hpp"
#include "passes/plan.hpp"

namespace braid {

class Chooser {
 public:
  Chooser(Compilation& c, const Options& o) : c_(c), p_(c.program), options_(o), kernels_(p_, o) {}
  void run();

 private:
  /// A graph or a body while it becomes part of the Program.
  struct Frame {
    const ir::Graph& graph;
    const PlannedGraph& plan;
    uint32_t region = UINT32_MAX;  // the one around it that owns temporaries, or none
    uint32_t branch = 0;           // as which of its sides
    // Of a predicated branch: the region that its kernels belong to, the side, and what they ask.
    uint32_t guarded_by = UINT32_MAX;
    uint32_t side = 0;
    uint32_t flag = 0, flag_value = 0;  // a view, and the value it holds
    std::vector<uint32_t> ids{};        // by value: among the source values of the whole program
    std::vector<uint32_t> buffers{};    // by value; UINT32_MAX for what has none yet
    std::vector<uint32_t> views{};      // by value
    std::vector<ir::ValueId> newest{};  // by value: the last version of a param, at the param
    std::vector<ir::ValueId> params{};  // by value: the param that a version is of
    std::vector<Step> order{};          // bodies and calls and regions in turn
  };

  // choose.cpp
  Frame open(const ir::Graph& graph, const PlannedGraph& plan);
  void interface(Frame& f);
  void place_state(Frame& f);
  void work(Frame& f);
  void kernel(Frame& f, const Group& group);
  uint32_t call(Frame& f, const Group& group);
  /// The body that takes the next conditional node or kernel.
  Body& body_for(Frame& f, uint32_t run, bool outside);
  Node node(Frame& f, const Group& group);
  uint32_t add_buffer(std::string name, Segment segment, const TensorType& type, uint32_t region);
  uint32_t buffer_of(Frame& f, ir::ValueId v);
  uint32_t view_of(Frame& f, ir::ValueId v);
  /// The memory that holds `v` as a whole: a view of v's type, and the value that it holds.
  std::pair<uint32_t, uint32_t> in_memory(Frame& f, ir::ValueId v);
  uint32_t view_as(Frame& f, ir::ValueId v, const TensorType& type);
  void messages(const ir::Graph& graph);
  void addressable() const;

  // choose_regions.cpp
  void region(Frame& f, const Group& group);
  Frame side(Frame& f, const ir::Op& op, uint32_t region, uint32_t index);
  void describe(Frame& f, const ir::Op& op, uint32_t region);
  void accesses(Frame& f, const ir::Op& op, uint32_t region);
  /// What the sides needed came after `first_buffer`.
  void add_slab(Frame& f, uint32_t region, size_t first_buffer);

  // choose_exchanges.cpp
  void exchange(Frame& f, const Group& group);
  /// The view of the mailbox at an offset, made if `offset` is a new one.
  uint32_t mailbox_view(int64_t offset);
  /// The mailbox has room for all exchanges.
  void finish_mailbox();
  /// The slots of a region for the exchanges from `first` on, which its sides hold.
  void mailbox_slots(uint32_t region, size_t first);

  Compilation& c_;
  Program& p_;
  const Options& options_;
  KernelTable kernels_;
  uint32_t next_id_ = 0;
  uint32_t mailbox_ = UINT32_MAX;              // the buffer; made on first use
  std::map<int64_t, uint32_t> mailbox_views_;  // by offset
};

/// The first and last run that all ops of a group can belong to.
std::pair<uint32_t, uint32_t> window(const Levels& levels, const Group& group);

}  // namespace braid
