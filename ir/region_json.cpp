#include "ir/region_json.hpp"

namespace braid {
namespace {

/// What the index of a step counts.
const char* step_key(Step::Kind k) {
  return k == Step::Kind::launch ? "body" : k == Step::Kind::region ? "region" : "call";
}

Json state_json(const Region::State& s) {
  return {{"view", s.view},
          {"before", s.before},
          {"after", s.after},
          {"entry", s.entry},
          {"exit", s.exit}};
}

Region::State state_from(const Json& j) {
  return {integer<uint32_t>(j.at("view")), integer<uint32_t>(j.at("before")),
          integer<uint32_t>(j.at("after")), integers<uint32_t>(j.at("entry")),
          integers<uint32_t>(j.at("exit"))};
}

}  // namespace

Json slots_json(const std::vector<ArgSlot>& slots) {
  Json out = Json::array();
  for (const ArgSlot& a : slots) {
    out.push_back({{"name", a.name}, {"role", name_of(a.role)}, {"type", type_json(a.type)}});
    if (a.fixed) out.back()["fixed"] = true;
  }
  return out;
}

std::vector<ArgSlot> slots_from(const Json& j) {
  std::vector<ArgSlot> out;
  for (const Json& a : j) {
    out.push_back({a.at("name").get<std::string>(), enum_from(a.at("role"), Role::inout),
                   type_from(a.at("type"))});
    if (a.contains("fixed")) out.back().fixed = a.at("fixed").get<bool>();  // since 1.5
  }
  return out;
}

Json steps_json(const std::vector<Step>& steps) {
  Json out = Json::array();
  for (const Step& s : steps) {
    out.push_back({{"step", name_of(s.kind)}, {step_key(s.kind), s.index}});
  }
  return out;
}

std::vector<Step> steps_from(const Json& j) {
  std::vector<Step> out;
  for (const Json& s : j) {
    const auto kind = enum_from(s.at("step"), Step::Kind::region);
    out.push_back({kind, integer<uint32_t>(s.at(step_key(kind)))});
  }
  return out;
}

Json region_json(const Region& r) {
  Json j = {{"kind", name_of(r.kind)}, {"loop", r.loop}, {"op", r.op},
            {"place", r.place},        {"why", r.why},   {"estimate_us", r.estimate_us}};
  if (r.region != UINT32_MAX) {
    j["region"] = r.region;
    j["branch"] = r.branch;
  }
  j["flag"] = r.flag;
  j["sides"] = r.sides;
  if (r.loop) j["unrolled"] = r.unrolled;
  if (r.kind == Region::Kind::node) j["bodies"] = r.bodies;
  if (r.kind == Region::Kind::host) {
    j["scripts"] = Json::array();
    for (const std::vector<Step>& script : r.scripts) j["scripts"].push_back(steps_json(script));
  }
  j["args"] = r.args;
  j["slots"] = slots_json(r.slots);
  j["values"] = r.values;
  j["values_before"] = r.values_before;
  j["states"] = Json::array();
  for (const Region::State& s : r.states) j["states"].push_back(state_json(s));
  if (r.slab != UINT32_MAX) j["slab"] = r.slab;
  return j;
}

Region region_from(const Json& j) {
  Region r;
  r.kind = enum_from(j.at("kind"), Region::Kind::host);
  r.loop = j.at("loop").get<bool>();
  r.op = j.at("op").get<std::string>();
  r.place = j.at("place").get<std::string>();
  r.why = j.at("why").get<std::string>();
  r.estimate_us = j.at("estimate_us").get<double>();
  if (j.contains("region")) {
    r.region = integer<uint32_t>(j.at("region"));
    r.branch = integer<uint32_t>(j.at("branch"));
  }
  r.flag = integer<uint32_t>(j.at("flag"));
  r.sides = integer<uint32_t>(j.at("sides"));
  if (r.loop) r.unrolled = integer<uint32_t>(j.at("unrolled"));
  if (r.kind == Region::Kind::node) r.bodies = integers<uint32_t>(j.at("bodies"));
  if (r.kind == Region::Kind::host) {
    for (const Json& script : j.at("scripts")) r.scripts.push_back(steps_from(script));
  }
  r.args = integers<uint32_t>(j.at("args"));
  r.slots = slots_from(j.at("slots"));
  r.values = integers<uint32_t>(j.at("values"));
  r.values_before = integers<uint32_t>(j.at("values_before"));
  for (const Json& s : j.at("states")) r.states.push_back(state_from(s));
  if (j.contains("slab")) r.slab = integer<uint32_t>(j.at("slab"));
  return r;
}

Json dissolved_json(const Dissolved& d) {
  return {{"op", d.op},
          {"place", d.place},
          {"lowering", ir::name_of(d.lowering)},
          {"copies", d.copies},
          {"why", d.why}};
}

Dissolved dissolved_from(const Json& j) {
  return {j.at("op").get<std::string>(), j.at("place").get<std::string>(),
          enum_from(j.at("lowering"), ir::Lowering::host), integer<int64_t>(j.at("copies")),
          j.at("why").get<std::string>()};
}

Json message_json(const MessageSource& m) {
  return {{"kind", ir::name_of(m.kind)},
          {"text", m.text},
          {"type", type_json(m.type)},
          {"loops", m.loops},
          {"op", m.op},
          {"place", m.place}};
}

MessageSource message_from(const Json& j) {
  return {enum_from(j.at("kind"), ir::MessageKind::check),
          j.at("text").get<std::string>(),
          type_from(j.at("type")),
          integer<uint32_t>(j.at("loops")),
          j.at("op").get<std::string>(),
          j.at("place").get<std::string>()};
}

}  // namespace braid
