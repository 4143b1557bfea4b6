// How the simulator launches a graph: what is ready runs in a random order, over all graphs that
// have started. A conditional node that starts adds the nodes of one of its bodies, and ends with
// them.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "runtime/simulator_state.hpp"

namespace braid::runtime::sim {

/// One launch.
class Run {
 public:
  Run(State& state, const Nest& nest)
      : state_(state),
        nest_(nest),
        after_(nest.nodes.size()),
        waiting_(nest.nodes.size()),
        left_(nest.graphs.size()),
        rounds_(nest.nodes.size()) {
    for (uint32_t n = 0; n < nest.nodes.size(); ++n) {
      for (const uint32_t from : nest.nodes[n].before) after_[from].push_back(n);
      if (const auto& c = nest.nodes[n].conditional) {
        values_[c->handle] = {c->initial, c->initial.has_value()};
      }
    }
  }

  /// Ends early when something failed, which was then reported.
  void run() {
    bool good = start(0);
    while (good && !ready_.empty()) {
      std::swap(ready_[state_.random_() % ready_.size()], ready_.back());
      const uint32_t n = ready_.back();
      ready_.pop_back();
      if (nest_.nodes[n].conditional) {
        rounds_[n] = 0;
        good = decide(n);
      } else if (const auto& host = nest_.nodes[n].host) {
        host->fn(host->userData);
        good = complete(n);
      } else {
        good = state_.execute(nest_.nodes[n].call, node_text(nest_, n), &values_) && complete(n);
      }
    }
  }

 private:
  bool fail(uint32_t node, const std::string& why) {
    state_.fail(CUDA_ERROR_LAUNCH_FAILED, node_text(nest_, node) + ": " + why);
    return false;
  }

  /// A graph begins, once more perhaps.
  bool start(uint32_t graph) {
    const Nest::Graph& g = nest_.graphs[graph];
    left_[graph] = g.end - g.first;
    for (uint32_t n = g.first; n < g.end; ++n) {
      if (const auto& c = nest_.nodes[n].conditional) {
        HandleValue& value = values_.at(c->handle);
        if (!value.keeps) value.now.reset();
      }
      waiting_[n] = nest_.nodes[n].before.size();
      if (waiting_[n] == 0) ready_.push_back(n);
    }
    return left_[graph] > 0 || end(graph);
  }

  bool end(uint32_t graph) {
    const uint32_t owner = nest_.graphs[graph].owner;
    if (owner == UINT32_MAX) return true;
    const bool again = nest_.nodes[owner].conditional->type == CU_GRAPH_COND_TYPE_WHILE;
    return again ? decide(owner) : complete(owner);
  }

  bool complete(uint32_t node) {
    for (const uint32_t next : after_[node]) {
      if (--waiting_[next] == 0) ready_.push_back(next);
    }
    const uint32_t graph = nest_.nodes[node].graph;
    return --left_[graph] > 0 || end(graph);
  }

  /// Takes the value of a conditional node: it is undefined until it is set again.
  bool decide(uint32_t node) {
    const Nest::Node& n = nest_.nodes[node];
    HandleValue& value = values_.at(n.conditional->handle);
    if (!value.now) {
      return fail(node, rounds_[node] == 0
                            ? "nothing has set its value since the graph it is in began"
                            : "its body has run and not set its value");
    }
    const uint32_t now = *value.now;
    if (!value.keeps) value.now.reset();
    size_t side = now;
    if (n.conditional->type != CU_GRAPH_COND_TYPE_SWITCH) side = now != 0 ? 0 : 1;
    if (side >= n.sides.size()) return complete(node);
    const Nest::Graph& body = nest_.graphs[n.sides[side]];
    if (n.conditional->type == CU_GRAPH_COND_TYPE_WHILE) {
      if (body.first == body.end) return fail(node, "it never ends, as its body is empty");
      if (++rounds_[node] > state_.options_.most_iterations) {
        return fail(node, fmt::format("it has not ended after {} iterations",
                                      state_.options_.most_iterations));
      }
    }
    return start(n.sides[side]);
  }

  State& state_;
  const Nest& nest_;
  std::vector<std::vector<uint32_t>> after_;  // by node
  std::vector<size_t> waiting_;               // by node: for how many
  std::vector<size_t> left_;                  // by graph: nodes that have not ended
  std::vector<uint64_t> rounds_;              // by WHILE: iterations begun
  std::vector<uint32_t> ready_;
  HandleValues values_;
};

CUresult State::launch(Exec& exec, uint64_t stream) {
  if (failed_ != CUDA_SUCCESS) return CUDA_SUCCESS;
  uint64_t most = 0;
  uint32_t largest = 0;
  const std::vector<Nest::Node>& nodes = exec.nest.nodes;
  for (uint32_t n = 0; n < nodes.size(); ++n) {
    const uint64_t bytes = nodes[n].is_kernel() ? bytes_to_run(nodes[n].call) : 0;
    if (bytes > most) std::tie(most, largest) = std::pair(bytes, n);
  }
  if (most > 0 && !room_for(most, "to simulate " + node_text(exec.nest, largest))) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  begin_operation(stream);
  StreamState& state = streams_.at(stream);
  merge(state.clock, exec.clock);
  exec.clock = state.clock;

  if (options_.report_races) {
    if (!exec.races) exec.races = find_races(exec.nest);
    for (const std::string& race : *exec.races) fail(CUDA_ERROR_LAUNCH_FAILED, race);
    if (failed_ != CUDA_SUCCESS) return CUDA_SUCCESS;
  }
  for (uint32_t n = 0; n < nodes.size(); ++n) {
    touch(stream, ranges_of(nodes[n]), node_text(exec.nest, n));
  }
  if (failed_ == CUDA_SUCCESS) Run(*this, exec.nest).run();
  return CUDA_SUCCESS;
}

CUresult State::cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  Exec* launched = find(execs_, number_of(exec));
  if (!launched || !find_stream(number_of(stream))) return CUDA_ERROR_INVALID_HANDLE;
  if (find_stream(number_of(stream))->capture) return forbidden_on(number_of(stream));
  return launch(*launched, number_of(stream));
}

}  // namespace braid::runtime::sim
