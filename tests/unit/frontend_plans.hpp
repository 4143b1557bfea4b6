// Small graphs of every kind of plan, compiled: what the checker and the simulator are tried on.
#pragma once

#include <string>
#include <vector>

#include "frontend/compile.hpp"

namespace braid::testing {

struct Plan {
  std::string name;
  ir::Graph graph;
  Program program;
  bool reuses = false;  // some temporaries share bytes
};

/// Two branches, a join and two outputs of one type.
void build_mlp(Graph& g);
/// Layer norm, two heads of attention, a residual.
void build_attention(Graph& g);
/// Two params change places, through a third value.
void build_swap(Graph& g);
/// A cache that grows by a row a launch, read before and after.
void build_updates(Graph& g);
void build_softmax(Graph& g);

/// The same nodes on up to `lanes` lanes: with the edges that their accesses need, reduced.
Program spread(Program p, uint32_t lanes);

/// Each of them with and without fusion; on one lane with shared bytes, and on three without. Made
/// once.
const std::vector<Plan>& plans();

/// reach[b][a]: node a happens before node b, by the edges.
std::vector<std::vector<bool>> reach_of(const Body& body);

}  // namespace braid::testing
