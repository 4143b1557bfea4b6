#include "frontend/report/plan_index.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ir/naming.hpp"

namespace braid::report {

PlanIndex::PlanIndex(const Program& p) : p_(p) {
  size_t nodes = 0;
  for (const Body& b : p.bodies) {
    body_begin_.push_back(nodes);
    nodes += b.nodes.size();
  }
  node_at_.assign(nodes, 0);
  call_at_.assign(p.calls.size(), 0);
  follow(p.script);
  needed_.assign(p.buffers.size(), {SIZE_MAX, 0});
  for (size_t at = 0; at < order_.size(); ++at) {
    const Ref r = order_[at];
    const auto touch = [&](const Value& v) {
      auto& [first, last] = needed_[p.views[v.view].buffer];
      first = std::min(first, at);
      last = at;
    };
    for (const Value& v : reads(r)) {
      touch(v);
      std::vector<Ref>& users = users_[v.value];
      if (users.empty() || users.back() != r) users.push_back(r);
    }
    for (const Value& v : writes(r)) {
      touch(v);
      maker_.try_emplace(v.value, r);
    }
  }
}

void PlanIndex::follow(const std::vector<Step>& script) {
  for (const Step& s : script) {
    if (s.kind == Step::Kind::call) {
      call_at_[s.index] = order_.size();
      order_.push_back({true, s.index, 0});
    } else if (s.kind == Step::Kind::launch) {
      enter(s.index);
    } else if (s.kind == Step::Kind::region) {
      for (const std::vector<Step>& side : p_.regions[s.index].scripts) follow(side);
    }
  }
}

void PlanIndex::enter(uint32_t body) {
  for (uint32_t n = 0; n < p_.bodies[body].nodes.size(); ++n) {
    node_at_[body_begin_[body] + n] = order_.size();
    order_.push_back({false, body, n});
    const Ref r{false, body, n};
    if (!conditional(r)) continue;
    for (uint32_t side : p_.regions[node(r).region].bodies) enter(side);
  }
}

std::string PlanIndex::name(Ref r) const {
  return r.call ? fmt::format("c{}", r.body) : name_of_node(p_, r.body, r.node);
}

std::vector<std::string> PlanIndex::ops(Ref r) const {
  if (r.call) return {p_.calls[r.body].op};
  return p_.bodies[r.body].nodes[r.node].ops;
}

std::string PlanIndex::title(Ref r) const {
  const std::vector<std::string> all = ops(r);
  return all.empty() ? name(r) : std::string(op_name(all.back()));
}

const std::string& PlanIndex::place(Ref r) const {
  return r.call ? p_.calls[r.body].place : p_.bodies[r.body].nodes[r.node].place;
}

PlanIndex::Window PlanIndex::window(Ref r) const {
  if (r.call) {
    const Call& c = p_.calls[r.body];
    return {c.level, c.earliest, c.latest};
  }
  const Node& n = p_.bodies[r.body].nodes[r.node];
  return {n.level, n.earliest, n.latest};
}

size_t PlanIndex::position(Ref r) const {
  return r.call ? call_at_[r.body] : node_at_[body_begin_[r.body] + r.node];
}

/// The mailbox is there for order alone.
bool PlanIndex::no_value(uint32_t view) const {
  return p_.buffers[p_.views[view].buffer].segment == Segment::mailbox;
}

std::vector<PlanIndex::Value> PlanIndex::reads(Ref r) const {
  std::vector<Value> out;
  if (r.call) {
    const Call& c = p_.calls[r.body];
    for (size_t i = 0; i < c.args.size(); ++i) out.push_back({c.values[i], c.args[i]});
    return out;
  }
  const Node& n = p_.bodies[r.body].nodes[r.node];
  const std::vector<ArgSlot>& slots = slots_of(p_, n);
  for (size_t s = 0; s < slots.size(); ++s) {
    if (no_value(n.args[s])) continue;
    if (slots[s].role == Role::in) out.push_back({n.values[s], n.args[s]});
    if (slots[s].role == Role::inout && n.values_before[s] != UINT32_MAX) {
      out.push_back({n.values_before[s], n.args[s]});
    }
  }
  return out;
}

std::vector<PlanIndex::Value> PlanIndex::writes(Ref r) const {
  std::vector<Value> out;
  if (r.call) {
    const Call& c = p_.calls[r.body];
    for (size_t i = 0; i < c.results.size(); ++i) out.push_back({c.result_values[i], c.results[i]});
    return out;
  }
  const Node& n = p_.bodies[r.body].nodes[r.node];
  const std::vector<ArgSlot>& slots = slots_of(p_, n);
  for (size_t s = 0; s < slots.size(); ++s) {
    if (no_value(n.args[s])) continue;
    if (slots[s].role != Role::in) out.push_back({n.values[s], n.args[s]});
  }
  return out;
}

const Ref* PlanIndex::maker(uint32_t value) const {
  const auto it = maker_.find(value);
  return it == maker_.end() ? nullptr : &it->second;
}

const std::vector<Ref>& PlanIndex::users(uint32_t value) const {
  static const std::vector<Ref> none;
  const auto it = users_.find(value);
  return it == users_.end() ? none : it->second;
}

uint32_t PlanIndex::region(Ref r) const { return r.call ? UINT32_MAX : p_.bodies[r.body].region; }

std::string PlanIndex::symbol(Ref r) const {
  if (r.call) return p_.calls[r.body].function;
  if (!conditional(r)) return p_.kernels[node(r).kernel].symbol;
  return fmt::format("{} r{}", name_of_region(p_, p_.regions[node(r).region]), node(r).region);
}

bool PlanIndex::holds(uint32_t slab, uint32_t buffer) const {
  for (uint32_t r = p_.buffers[buffer].region; r != UINT32_MAX; r = p_.regions[r].region) {
    if (p_.regions[r].slab == slab) return true;
  }
  return false;
}

std::vector<uint32_t> PlanIndex::sharing(uint32_t buffer) const {
  const Buffer& mine = p_.buffers[buffer];
  std::vector<uint32_t> out;
  if (mine.segment != Segment::temp) return out;
  for (uint32_t b = 0; b < p_.buffers.size(); ++b) {
    const Buffer& other = p_.buffers[b];
    if (b == buffer || other.segment != Segment::temp || holds(b, buffer) || holds(buffer, b)) {
      continue;
    }
    if (other.offset < mine.offset + mine.bytes && mine.offset < other.offset + other.bytes) {
      out.push_back(b);
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [&](uint32_t a, uint32_t b) { return needed_[a] < needed_[b]; });
  return out;
}

}  // namespace braid::report
