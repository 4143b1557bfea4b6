// Host: how each host function is called, inside a graph or between two.
// needs: a static graph. breaks: nothing.
//
// A handshake costs a kernel that waits, and its bytes pass over the bus by one block. A break
// costs a wait of the host, a graph more, and copies by DMA, which are faster for many bytes. A
// host node is for those who ask.
#pragma once

#include "ir/graph.hpp"
#include "passes/options.hpp"

namespace braid {

/// Microseconds that a call adds to the graph it interrupts, beyond the function itself.
struct HostPrices {
  double handshake = 0, broken = 0, node = 0;
  double copies = 0;  // of `broken`: arguments to the host, results from it
};
/// Of a host op of `graph`, which has fixed shapes. In a body a break also has the host drive the
/// branch or loop around it.
HostPrices price_host_op(const ir::Graph& graph, const ir::Op& op, bool in_body);

/// Gives every host op of the graph and its bodies a HostAttr::way other than automatic, and the
/// reason, HostAttr::why.
///
/// An op's own way is granted, then that of the options; else prices decide. A call that no work
/// of the device follows ends the last graph anyway, so it breaks at no price, unless the options
/// want one graph. What is asked to be a host node in a body becomes a handshake: it may come to
/// lie in the body of a conditional node, which holds none. In a loop without a limit whose
/// condition follows from what host functions give every call is a break: a graph goes on with
/// zeros when a function fails, on which such a loop may never end, where the host ends the launch.
/// O(size of the graph), but for such loops: by the number of values that they carry.
void choose_host_ways(ir::Graph& graph, const Options& options);

}  // namespace braid
