#include "passes/script.hpp"

#include <algorithm>
#include <unordered_map>

namespace braid {
namespace {

/// Whether a host function with side effects is called in what has these arguments.
bool acts_on_host(const Program& p, const std::vector<ArgSlot>& slots,
                  const std::vector<uint32_t>& args) {
  for (size_t s = 0; s < slots.size(); ++s) {
    const View& v = p.views[args[s]];
    const bool header = p.buffers[v.buffer].segment == Segment::mailbox && v.offset == 0;
    if (header && slots[s].role == Role::inout) return true;
  }
  return false;
}

}  // namespace

std::vector<Step> write_script(const Program& p, const std::vector<Step>& order) {
  // By value: how many steps of `order` must be over before it is there.
  std::unordered_map<uint32_t, size_t> there;
  std::vector<std::vector<Step>> reads(order.size() + 1);
  size_t acted = 0;  // how many must be over before the next call, lest it comes before theirs
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i].kind == Step::Kind::launch) {
      for (const Node& node : p.bodies[order[i].index].nodes) {
        const std::vector<ArgSlot>& slots = slots_of(p, node);
        for (size_t s = 0; s < slots.size(); ++s) {
          if (slots[s].role != Role::in) there[node.values[s]] = i + 1;
        }
        if (acts_on_host(p, slots, node.args)) acted = i + 1;
        // What a predicated region leaves is the value of none of its nodes.
        if (node.region == UINT32_MAX) continue;
        for (const Region::State& s : p.regions[node.region].states) there[s.after] = i + 1;
      }
      continue;
    }
    if (order[i].kind == Step::Kind::region) {
      const Region& region = p.regions[order[i].index];
      for (const Region::State& s : region.states) there[s.after] = i + 1;
      if (acts_on_host(p, region.slots, region.args)) acted = i + 1;
      continue;
    }
    const Call& call = p.calls[order[i].index];
    size_t at = acted;
    for (uint32_t v : call.values) {
      const auto made = there.find(v);
      if (made != there.end()) at = std::max(at, made->second);
    }
    reads[at].push_back({Step::Kind::read, order[i].index});
    for (uint32_t v : call.result_values) there[v] = i + 1;
  }
  std::vector<Step> script = reads[0];
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i].kind != Step::Kind::call) {
      script.push_back(order[i]);
    } else {
      for (Step::Kind kind : {Step::Kind::wait, Step::Kind::call, Step::Kind::write}) {
        script.push_back({kind, order[i].index});
      }
    }
    script.insert(script.end(), reads[i + 1].begin(), reads[i + 1].end());
  }
  return script;
}

}  // namespace braid
