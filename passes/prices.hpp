// Prices: what kernels, edges and launches cost, in microseconds. Measured on one H200 (driver 580,
// CUDA 13.0) and checked in, so that a plan does not depend on the machine that makes it.
#pragma once

namespace braid {

struct Prices {
  // Edges, in a graph.
  double chain_edge_us = 0.5;   // to the next node of a graph that is one chain: empty kernels
  double forked_edge_us = 0.8;  // the same where lanes run side by side: two chains, per step
  double cross_edge_us = 0.1;   // more where an edge leaves its lane: cross edges at every step
  double issue_us = 0.176;      // between two starts, whatever the lanes: 1024 empty kernels
  double join_us = 0.15;        // what one more cross edge may delay a node to be avoided: a choice
  double stream_launch_us = 4;  // between two kernels launched one by one: the encoder's 23 in 92.8

  double full_us = 0;      // more for a full edge, where others are programmatic
  double early_us = 0.35;  // what a programmatic edge saves: axpy 0.39, perceptrons 0.55 to 0.87
  double longest_early_us = 3;  // a kernel that takes longer gains nothing by an early start

  // Kernels. An empty one costs its edge alone.
  double row_us = 0.57;          // a small elementwise kernel more than an empty one: axpy, 32 Ki
  double dot_us = 0.35;          // a product beyond what its tile says: perceptron, encoder, towers
  double cycles_per_us = 1600;   // in which the families count: 34 to 640 products, one to 32 lanes
  double bytes_per_us = 4.3e6;   // of device memory, copied
  double flops_per_us = 0.2e6;   // of one SM, f32 outside products
  double threads_per_sm = 2048;  // that one SM holds ...
  double shared_per_sm = 233472;  // ... and its bytes of shared memory

  // Regions, beyond what their kernels take.
  double branch_us = 8;  // a conditional node that takes a side: a setter and an IF of 16 in 16.6
  double skipped_us = 4.7;     // one that takes none, or an empty one
  double while_us = 3.9;       // one that runs a loop's body once
  double leaves_us = 0.2;      // a guarded kernel that leaves at once: 0.69 a step of a chain
  double host_sync_us = 6.4;   // the host waits for a value of the device, and goes on
  double graph_launch_us = 2;  // one graph more, back to back

  // Host functions, beyond what they take themselves.
  // In a graph of 20 kernels, a function that copies; with the host's own copies of its tensors.
  double handshake_us = 8.4;         // a kernel that hands over, waits and takes; the launch's end
  double bus_bytes_per_us = 9.3e3;   // that one block moves to or from the host's memory
  double dma_us = 3;                 // a copy to or from the host, between graphs
  double dma_bytes_per_us = 8.5e3;   // that such copies move of the first ...
  double dma_first_bytes = 1 << 20;  // ... so many, of all arguments and results
  double dma_rest_per_us = 10.5e3;   // and of the rest
  double host_node_us = 39;          // a kernel, a host node and a kernel

  // Lanes are kept where they are predicted to save this part of one chain's time and this much.
  double least_gain = 0.05;
  double least_gain_us = 1;
};

inline constexpr Prices kPrices{};

/// Where edges may be programmatic: those of `full`, with edges as cheap as programmatic ones are,
/// and the rest of their prices in full_us.
constexpr Prices with_early_starts(Prices full) {
  full.chain_edge_us -= full.early_us;
  full.forked_edge_us -= full.early_us;
  full.full_us += full.early_us;
  return full;
}

/// The same where all edges are full after all.
constexpr Prices with_full_edges(Prices early) {
  early.chain_edge_us += early.full_us;
  early.forked_edge_us += early.full_us;
  early.full_us = 0;
  return early;
}

}  // namespace braid
