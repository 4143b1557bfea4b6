#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "frontend/report/report.hpp"
#include "ir/naming.hpp"

namespace braid::report {
namespace {

using Json = nlohmann::ordered_json;

std::string_view name_of(Fragment::Kind k) {
  constexpr std::string_view kNames[] = {"graph", "stream", "call"};
  return kNames[static_cast<size_t>(k)];
}

Json names_json(const Program& p, uint32_t body, const std::vector<uint32_t>& nodes) {
  Json out = Json::array();
  for (uint32_t n : nodes) out.push_back(name_of_node(p, body, n));
  return out;
}

Json width_json(const Program& p, const Fragment& f, const Width& w) {
  return {{"nodes", w.nodes}, {"exact", w.exact}, {"at", names_json(p, f.index, w.at)}};
}

Json fragment_json(const Program& p, const Fragment& f) {
  Json j{{"part", f.name}, {"kind", name_of(f.kind)}, {"run", f.run},
         {"ops", f.ops},   {"from", f.from},          {"live_bytes", f.live_bytes}};
  if (f.region != UINT32_MAX) {
    j["region"] = fmt::format("r{}", f.region);
    j["side"] = f.side;
  }
  if (f.kind == Fragment::Kind::call) {
    const Call& c = p.calls[f.index];
    j["op"] = c.op;
    j["function"] = c.function;
    j["place"] = c.place;
    return j;
  }
  j["kernels"] = f.kernels;
  if (f.conditional > 0) j["conditional_nodes"] = f.conditional;
  j["streams"] = f.streams.size();
  j["predicted_us"] = f.predicted_us;
  j["kernel_us"] = f.kernel_us;
  j["critical_path"] = {{"us", f.critical.us}, {"nodes", names_json(p, f.index, f.critical.nodes)}};
  j["width"] = width_json(p, f, f.width_before);
  j["width_on_streams"] = width_json(p, f, f.width_after);
  return j;
}

Json launch_json(const LaunchTime& t) {
  return {{"us", t.us()},
          {"parts_us", t.parts_us},
          {"graphs", t.graphs},
          {"graphs_us", t.graphs_us},
          {"stretches", t.stretches},
          {"stretches_us", t.stretches_us},
          {"waits", t.waits},
          {"waits_us", t.waits_us},
          {"copies_us", t.copies_us},
          {"host_regions", t.regions},
          {"host_regions_us", t.regions_us}};
}

Json regions_json(const Report& r) {
  Json list = Json::array();
  for (const RegionRow& row : r.regions) {
    Json j{{"region", row.name}, {"what", row.what},   {"op", row.op},
           {"place", row.place}, {"where", row.where}, {"why", row.why}};
    j["around"] = row.around == UINT32_MAX ? Json() : Json(fmt::format("r{}", row.around));
    if (row.around != UINT32_MAX) j["as_side"] = row.side;
    j["sides"] = Json::array();
    for (size_t s = 0; s < row.sides.size(); ++s) {
      j["sides"].push_back(
          {{"side", row.sides[s]}, {"kernels", row.kernels[s]}, {"parts", row.parts[s]}});
    }
    j["loop"] = row.loop;
    if (row.loop) j["unrolled"] = row.unrolled;
    j["us"] = row.us;
    j["slab_bytes"] = row.slab_bytes;
    list.push_back(std::move(j));
  }
  return list;
}

Json codes_json(const Report& r) {
  Json list = Json::array();
  for (const CodeRow& c : r.codes) {
    list.push_back({{"function", c.function},
                    {"where", c.where},
                    {"op", c.op},
                    {"place", c.place},
                    {"why", c.why},
                    {"us", c.us}});
  }
  return list;
}

Json exchanges_json(const Report& r) {
  Json list = Json::array();
  for (const ExchangeRow& x : r.exchanges) {
    list.push_back({{"exchange", x.name},
                    {"function", x.function},
                    {"way", x.way},
                    {"where", x.where},
                    {"op", x.op},
                    {"place", x.place},
                    {"pure", x.pure},
                    {"us", x.us},
                    {"why", x.why}});
  }
  return list;
}

Json armed_json(const ArmedBodies& a) {
  return {{"units", a.units}, {"safe", a.safe}, {"slow", a.slow()}, {"us_a_kernel", a.us}};
}

Json reference_json(const Reference& ref) {
  Json where = Json::array();
  for (const Reference::At& w : ref.where) {
    where.push_back({{"rule", w.rule},
                     {"op", w.op},
                     {"place", w.place},
                     {"times", w.times},
                     {"each_iteration", w.each_iteration}});
  }
  return {{"by", "torch.compile"},
          {"graphs", ref.graphs},
          {"breaks", ref.breaks},
          {"graphs_an_iteration", ref.each_iteration},
          {"where", where}};
}

Json comparison_json(const Comparison& c) {
  const auto cut = [](const Comparison::Cut& of) {
    return Json{{"graphs", of.graphs}, {"runs", of.runs}};
  };
  Json j{{"in_order", cut(c.in_order)}, {"host_first", cut(c.host_first)}};
  j["host_first"]["reordered"] = c.reordered;
  return j;
}

Json breaks_json(const Report& r) {
  Json j{{"ops_outside", r.ops_outside}, {"breaks", Json::array()}, {"avoided", Json::array()}};
  for (const BreakRow& b : r.breaks) {
    j["breaks"].push_back({{"op", b.op},
                           {"place", b.place},
                           {"run", b.run},
                           {"after", b.before.empty() ? Json() : Json(b.before)},
                           {"before", b.after.empty() ? Json() : Json(b.after)},
                           {"reason", b.reason},
                           {"fix", b.remedy}});
  }
  for (const Avoided& a : r.avoided) {
    j["avoided"].push_back({{"op", a.op}, {"place", a.place}, {"how", a.how}});
  }
  if (r.reference && !r.reference->where.empty()) j["reference"] = reference_json(*r.reference);
  return j;
}

Json streams_json(const Report& r) {
  Json j{{"allowed", r.streams_allowed}, {"used", r.streams_used}, {"parts", Json::array()}};
  for (const Fragment& f : r.with_bodies()) {
    if (f.kind == Fragment::Kind::call) continue;
    Json streams = Json::array();
    for (const StreamUse& s : f.streams) {
      streams.push_back({{"stream", s.stream}, {"kernels", s.kernels}, {"busy_us", s.busy_us}});
    }
    j["parts"].push_back({{"part", f.name},
                          {"predicted_us", f.predicted_us},
                          {"one_stream_us", f.chain_us},
                          {"streams", streams}});
  }
  return j;
}

Json memory_json(const Memory& m) {
  Json j{{"arena_bytes", m.arena},  {"lower_bound", m.lower_bound}, {"without_sharing", m.unshared},
         {"params", m.params},      {"constants", m.constants},     {"inputs", m.inputs},
         {"outputs", m.outputs},    {"scalars", m.scalars},         {"temporaries", m.temporaries},
         {"largest", Json::array()}};
  if (m.cut.limit > 0) {
    j["limit"] = {{"bytes", m.cut.limit},
                  {"arena_before", m.cut.bytes_before},
                  {"streams_before", m.cut.streams_before},
                  {"streams_after", m.cut.streams_after},
                  {"us_before", m.cut.us_before},
                  {"us_after", m.cut.us_after}};
  }
  for (const Temporary& t : m.largest) {
    j["largest"].push_back({{"name", t.name},
                            {"type", t.type},
                            {"bytes", t.bytes},
                            {"offset", t.offset},
                            {"made_by", t.made_by},
                            {"place", t.place},
                            {"shares_bytes_with", t.shares}});
    if (t.region != UINT32_MAX) j["largest"].back()["slab_of"] = fmt::format("r{}", t.region);
  }
  return j;
}

Json edges_json(const Report& r, const Program& p) {
  Json j = Json::array();
  for (const Fragment& f : r.with_bodies()) {
    if (f.kind == Fragment::Kind::call) continue;
    Json list = Json::array();
    for (const Edge& e : p.bodies[f.index].edges) {
      list.push_back(
          {{"from", name_of_node(p, f.index, e.from)},
           {"to", name_of_node(p, f.index, e.to)},
           {"reason", braid::name_of(e.reason)},
           {"kind", e.kind == EdgeKind::full ? "full" : "programmatic"},
           {"buffer", e.buffer < p.buffers.size() ? Json(p.buffers[e.buffer].name) : Json()}});
    }
    const EdgeCounts& c = f.edges;
    j.push_back({{"part", f.name},
                 {"raw", c.raw},
                 {"war", c.war},
                 {"waw", c.waw},
                 {"lane", c.lane},
                 {"programmatic", c.programmatic},
                 {"asked_for", c.asked_for},
                 {"edges", list}});
  }
  return j;
}

Json kernels_json(const Report& r) {
  Json j = Json::array();
  for (const KernelRow& k : r.kernel_rows) {
    j.push_back({{"symbol", k.symbol},
                 {"family", k.family},
                 {"uses", k.uses},
                 {"parts", k.parts},
                 {"grid", k.launch.grid},
                 {"block", k.launch.block},
                 {"shared_bytes", k.launch.shared_bytes},
                 {"flops", k.flops},
                 {"bytes", k.bytes},
                 {"us", k.us},
                 {"ops", k.ops}});
    if (k.function.empty()) continue;
    j.back()["function"] = k.function;
    j.back()["workspace"] = k.workspace;
    if (!k.why.empty()) j.back()["why"] = k.why;
  }
  return j;
}

}  // namespace

std::string to_json(const Report& r, const Program& p, const std::vector<Section>& sections) {
  Json j;
  j["schema"] = "braid.report/1";
  j["minor"] = 1;
  j["name"] = r.name;
  j["target"] = r.target;
  j["options"] = r.options;
  j["dims"] = Json::object();
  for (const auto& [name, value] : r.dims) j["dims"][name] = value;
  j["source_ops"] = r.source_ops;
  j["launches"] = r.kernels;
  j["grouped_launches"] = r.grouped;
  j["distinct_kernels"] = r.distinct;
  for (Section s : sections) {
    const std::string key(name_of(s));
    switch (s) {
      case Section::partitions: {
        Json parts = Json::array(), bodies = Json::array();
        for (const Fragment& f : r.fragments) parts.push_back(fragment_json(p, f));
        for (const Fragment& f : r.bodies) bodies.push_back(fragment_json(p, f));
        j[key] = {{"graphs", r.graphs},
                  {"runs", r.runs},
                  {"launch", launch_json(r.launch)},
                  {"certificate", r.certificate},
                  {"second_certificate", r.second_certificate},
                  {"parts", parts},
                  {"bodies", bodies},
                  {"regions", regions_json(r)},
                  {"exchanges", exchanges_json(r)},
                  {"codes", codes_json(r)},
                  {"conditional_bodies", armed_json(r.armed)}};
        if (r.comparison) j[key]["compare"] = comparison_json(*r.comparison);
        break;
      }
      case Section::breaks:
        j[key] = breaks_json(r);
        break;
      case Section::streams:
        j[key] = streams_json(r);
        break;
      case Section::memory:
        j[key] = memory_json(r.memory);
        break;
      case Section::edges:
        j[key] = edges_json(r, p);
        break;
      case Section::kernels:
        j[key] = kernels_json(r);
        break;
    }
  }
  return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace braid::report
