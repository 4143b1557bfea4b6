#include "ir/program_json.hpp"

#include <fmt/format.h>

#include <array>
#include <stdexcept>
#include <utility>

#include "ir/region_json.hpp"
#include "ir/text.hpp"

namespace braid {
namespace {

constexpr std::string_view kSchema = "braid.program/1";

std::array<uint32_t, 3> three(const Json& j) {
  const std::vector<uint32_t> x = integers<uint32_t>(j);
  if (x.size() != 3) throw std::runtime_error("a launch shape has not three extents");
  return {x[0], x[1], x[2]};
}

Json bindings_json(const std::vector<Binding>& bindings) {
  Json out = Json::array();
  for (const Binding& b : bindings) {
    out.push_back({{"name", b.name}, {"buffer", b.buffer}, {"value", b.value}});
  }
  return out;
}

std::vector<Binding> bindings_from(const Json& j) {
  std::vector<Binding> out;
  for (const Json& b : j) {
    out.push_back({b.at("name").get<std::string>(), integer<uint32_t>(b.at("buffer")),
                   integer<uint32_t>(b.at("value"))});
  }
  return out;
}

Json parameter_json(const Parameter& p) {
  if (p.slot != UINT32_MAX) return {{"slot", p.slot}};
  return {{"dtype", name_of(p.dtype)}, {"number", p.number}};
}

Parameter parameter_from(const Json& j) {
  Parameter p;
  if (j.contains("slot")) {
    p.slot = integer<uint32_t>(j.at("slot"));
    return p;
  }
  const std::optional<DType> dtype = dtype_from_name(j.at("dtype").get<std::string>());
  if (!dtype) throw std::runtime_error("a parameter of an unknown dtype");
  p.dtype = *dtype;
  p.number = j.at("number").get<double>();
  return p;
}

Json kernel_json(const Kernel& k) {
  Json in_place = Json::array();
  for (const InPlace& i : k.in_place) in_place.push_back({{"out", i.out}, {"in", i.in}});
  Json j = {{"symbol", k.symbol},
            {"family", k.family},
            {"args", slots_json(k.args)},
            {"grid", k.launch.grid},
            {"block", k.launch.block},
            {"shared_bytes", k.launch.shared_bytes},
            {"module", k.module},
            {"flops", k.flops},
            {"bytes_moved", k.bytes_moved},
            {"waits", k.waits},
            {"parts", k.parts},
            {"in_place", in_place},
            {"body", ir::print(k.body)}};
  if (k.guard) j["guard"] = *k.guard;
  if (k.code != Code::generated) {
    j["code"] = name_of(k.code);
    j["function"] = k.function;
  }
  if (k.code == Code::user) {
    j["parameters"] = Json::array();
    for (const Parameter& p : k.parameters) j["parameters"].push_back(parameter_json(p));
  }
  if (k.workspace != 0) j["workspace"] = k.workspace;
  if (k.exchanges) j["exchanges"] = true;
  return j;
}

Kernel kernel_from(const Json& j) {
  Kernel k;
  k.symbol = j.at("symbol").get<std::string>();
  k.family = j.at("family").get<std::string>();
  k.args = slots_from(j.at("args"));
  k.launch.grid = three(j.at("grid"));
  k.launch.block = three(j.at("block"));
  k.launch.shared_bytes = integer<uint32_t>(j.at("shared_bytes"));
  k.module = integer<uint32_t>(j.at("module"));
  k.flops = integer<int64_t>(j.at("flops"));
  k.bytes_moved = integer<int64_t>(j.at("bytes_moved"));
  k.waits = j.at("waits").get<bool>();
  if (j.contains("parts")) {  // since 1.2
    k.parts = integer<uint32_t>(j.at("parts"));
    for (const Json& i : j.at("in_place")) {
      k.in_place.push_back({integer<uint32_t>(i.at("out")), integer<uint32_t>(i.at("in"))});
    }
  }
  if (j.contains("guard")) k.guard = integer<int32_t>(j.at("guard"));  // since 1.3
  if (j.contains("code")) {  // since 1.4, as all that follows
    k.code = enum_from(j.at("code"), Code::library);
    k.function = j.at("function").get<std::string>();
  }
  if (j.contains("parameters")) {
    for (const Json& p : j.at("parameters")) k.parameters.push_back(parameter_from(p));
  }
  if (j.contains("workspace")) k.workspace = integer<int64_t>(j.at("workspace"));
  if (j.contains("exchanges")) k.exchanges = j.at("exchanges").get<bool>();
  k.body = ir::parse(j.at("body").get<std::string>(), k.symbol);
  return k;
}

/// A conditional node has a region and no kernel, a guarded kernel both.
Json node_json(const Node& n) {
  Json j;
  if (n.kernel != kNoKernel) j["kernel"] = n.kernel;
  if (n.region != UINT32_MAX) j["region"] = n.region;
  if (n.region != UINT32_MAX && n.kernel != kNoKernel) j["branch"] = n.branch;
  j["args"] = n.args;
  j["values"] = n.values;
  j["values_before"] = n.values_before;
  j["ops"] = n.ops;
  j["place"] = n.place;
  j["level"] = n.level;
  j["earliest"] = n.earliest;
  j["latest"] = n.latest;
  j["stream"] = n.lane;
  j["position"] = n.position;
  j["estimate_us"] = n.estimate_us;
  j["start_us"] = n.start_us;
  return j;
}

Node node_from(const Json& j) {
  Node n;
  if (j.contains("region")) n.region = integer<uint32_t>(j.at("region"));  // since 1.3
  if (j.contains("branch")) n.branch = integer<uint32_t>(j.at("branch"));
  const bool conditional = j.contains("region") && !j.contains("kernel");
  n.kernel = conditional ? kNoKernel : integer<uint32_t>(j.at("kernel"));
  n.args = integers<uint32_t>(j.at("args"));
  n.values = integers<uint32_t>(j.at("values"));
  n.values_before = integers<uint32_t>(j.at("values_before"));
  n.ops = j.at("ops").get<std::vector<std::string>>();
  n.place = j.at("place").get<std::string>();
  n.level = integer<uint32_t>(j.at("level"));
  n.lane = integer<uint32_t>(j.at("stream"));
  n.position = integer<uint32_t>(j.at("position"));
  n.estimate_us = j.at("estimate_us").get<double>();
  if (j.contains("start_us")) {  // since 1.2
    n.earliest = integer<uint32_t>(j.at("earliest"));
    n.latest = integer<uint32_t>(j.at("latest"));
    n.start_us = j.at("start_us").get<double>();
  }
  return n;
}

Json body_json(const Body& b) {
  Json nodes = Json::array(), edges = Json::array();
  for (const Node& n : b.nodes) nodes.push_back(node_json(n));
  for (const Edge& e : b.edges) {
    edges.push_back({{"from", e.from},
                     {"to", e.to},
                     {"kind", e.kind == EdgeKind::full ? "full" : "programmatic"},
                     {"reason", name_of(e.reason)},
                     {"buffer", e.buffer}});
  }
  Json j = {{"streams", b.lanes},
            {"run", b.run},
            {"stream", b.stream},
            {"predicted_us", b.predicted_us},
            {"chain_us", b.chain_us}};
  if (b.region != UINT32_MAX) {
    j["region"] = b.region;
    j["branch"] = b.branch;
  }
  j["nodes"] = std::move(nodes);
  j["edges"] = std::move(edges);
  return j;
}

Body body_from(const Json& j) {
  Body b;
  b.lanes = integer<uint32_t>(j.at("streams"));
  if (j.contains("run")) {  // since 1.2
    b.run = integer<uint32_t>(j.at("run"));
    b.stream = j.at("stream").get<bool>();
    b.predicted_us = j.at("predicted_us").get<double>();
    b.chain_us = j.at("chain_us").get<double>();
  }
  if (j.contains("region")) {  // since 1.3
    b.region = integer<uint32_t>(j.at("region"));
    b.branch = integer<uint32_t>(j.at("branch"));
  }
  for (const Json& n : j.at("nodes")) b.nodes.push_back(node_from(n));
  // A lane without nodes would only cost the checker memory.
  if (b.lanes > b.nodes.size() + 1) throw std::runtime_error("more streams than nodes");
  for (const Json& e : j.at("edges")) {
    const auto kind = e.at("kind").get<std::string>();
    if (kind != "full" && kind != "programmatic") throw std::runtime_error("unknown edge kind");
    b.edges.push_back({integer<uint32_t>(e.at("from")), integer<uint32_t>(e.at("to")),
                       kind == "full" ? EdgeKind::full : EdgeKind::programmatic,
                       enum_from(e.at("reason"), EdgeReason::lane),
                       integer<uint32_t>(e.at("buffer"))});
  }
  return b;
}

Json call_json(const Call& c) {
  return {{"function", c.function},
          {"args", c.args},
          {"results", c.results},
          {"values", c.values},
          {"result_values", c.result_values},
          {"op", c.op},
          {"place", c.place},
          {"copies_us", c.copies_us},
          {"level", c.level},
          {"earliest", c.earliest},
          {"latest", c.latest}};
}

Call call_from(const Json& j) {
  Call c;
  c.function = j.at("function").get<std::string>();
  c.args = integers<uint32_t>(j.at("args"));
  c.results = integers<uint32_t>(j.at("results"));
  c.values = integers<uint32_t>(j.at("values"));
  c.result_values = integers<uint32_t>(j.at("result_values"));
  c.op = j.at("op").get<std::string>();
  c.place = j.at("place").get<std::string>();
  c.copies_us = j.value("copies_us", 0.0);  // since 1.5
  c.level = integer<uint32_t>(j.at("level"));
  c.earliest = integer<uint32_t>(j.at("earliest"));
  c.latest = integer<uint32_t>(j.at("latest"));
  return c;
}

Json types_json(const std::vector<TensorType>& types) {
  Json out = Json::array();
  for (const TensorType& t : types) out.push_back(type_json(t));
  return out;
}

std::vector<TensorType> types_from(const Json& j) {
  std::vector<TensorType> out;
  for (const Json& t : j) out.push_back(type_from(t));
  return out;
}

Json exchange_json(const Exchange& e) {
  return {{"function", e.function},
          {"arguments", types_json(e.arguments)},
          {"results", types_json(e.results)},
          {"pure", e.pure},
          {"way", ir::name_of(e.way)},
          {"op", e.op},
          {"place", e.place},
          {"why", e.why}};
}

Exchange exchange_from(const Json& j) {
  return {j.at("function").get<std::string>(),
          types_from(j.at("arguments")),
          types_from(j.at("results")),
          j.at("pure").get<bool>(),
          enum_from(j.at("way"), ir::HostWay::node),
          j.at("op").get<std::string>(),
          j.at("place").get<std::string>(),
          j.at("why").get<std::string>()};
}

Json break_json(const Break& b) {
  return {{"op", b.op},
          {"place", b.place},
          {"level", b.level},
          {"reason", b.reason},
          {"remedy", b.remedy}};
}

Break break_from(const Json& j) {
  return {j.at("op").get<std::string>(), j.at("place").get<std::string>(),
          integer<uint32_t>(j.at("level")), j.at("reason").get<std::string>(),
          j.at("remedy").get<std::string>()};
}

Json buffer_json(const Buffer& b) {
  Json j = {{"name", b.name},
            {"segment", name_of(b.segment)},
            {"type", type_json(b.type)},
            {"bytes", b.bytes},
            {"offset", b.offset}};
  if (b.region != UINT32_MAX) j["region"] = b.region;
  return j;
}

Buffer buffer_from(const Json& j) {
  Buffer b{j.at("name").get<std::string>(), enum_from(j.at("segment"), Segment::mailbox),
           type_from(j.at("type")), integer<int64_t>(j.at("bytes")),
           integer<int64_t>(j.at("offset"))};
  if (j.contains("region")) b.region = integer<uint32_t>(j.at("region"));  // since 1.3
  return b;
}

Json scalar_json(const ScalarBinding& b) {
  return {{"name", b.name}, {"buffer", b.buffer}, {"value", b.value}, {"initial", b.initial}};
}

ScalarBinding scalar_from(const Json& j) {
  return {j.at("name").get<std::string>(), integer<uint32_t>(j.at("buffer")),
          integer<uint32_t>(j.at("value")), j.at("initial").get<double>()};
}

Json memory_cut_json(const MemoryCut& m) {
  return {{"limit", m.limit},
          {"bytes_before", m.bytes_before},
          {"streams_before", m.streams_before},
          {"streams_after", m.streams_after},
          {"us_before", m.us_before},
          {"us_after", m.us_after}};
}

MemoryCut memory_cut_from(const Json& j) {
  return {integer<int64_t>(j.at("limit")),           integer<int64_t>(j.at("bytes_before")),
          integer<uint32_t>(j.at("streams_before")), integer<uint32_t>(j.at("streams_after")),
          j.at("us_before").get<double>(),           j.at("us_after").get<double>()};
}

Json param_json(const ParamBinding& b) {
  return {{"name", b.name},
          {"buffer", b.buffer},
          {"init", name_of(b.init)},
          {"scale", b.scale},
          {"written", b.written},
          {"first_value", b.first_value},
          {"last_value", b.last_value}};
}

ParamBinding param_from(const Json& j) {
  ParamBinding b;
  b.name = j.at("name").get<std::string>();
  b.buffer = integer<uint32_t>(j.at("buffer"));
  b.init = enum_from(j.at("init"), ir::Init::ones);
  b.scale = j.at("scale").get<double>();
  b.written = j.at("written").get<bool>();
  b.first_value = integer<uint32_t>(j.at("first_value"));
  b.last_value = integer<uint32_t>(j.at("last_value"));
  return b;
}

}  // namespace

Json program_json(const Program& p) {
  Json j;
  j["schema"] = kSchema;
  j["name"] = p.name;
  j["target"] = {{"arch", p.target.arch},
                 {"sms", p.target.sms},
                 {"max_threads_per_block", p.target.max_threads_per_block},
                 {"shared_bytes_per_block", p.target.shared_bytes_per_block}};
  j["options"] = p.options;
  j["dims"] = Json::object();
  for (const auto& [name, value] : p.dims) j["dims"][name] = value;
  j["source_ops"] = p.source_ops;
  j["graphs"] = p.graphs;
  j["runs"] = p.runs;
  j["certificate"] = p.certificate;
  j["second_certificate"] = p.second_certificate;
  j["breaks"] = Json::array();
  for (const Break& b : p.breaks) j["breaks"].push_back(break_json(b));
  j["arena_bytes"] = p.arena_bytes;
  j["arena_lower_bound"] = p.arena_lower_bound;
  j["temp_bytes_unshared"] = p.temp_bytes_unshared;
  if (p.memory_cut.limit != 0) j["memory_cut"] = memory_cut_json(p.memory_cut);
  j["inputs"] = bindings_json(p.inputs);
  j["outputs"] = bindings_json(p.outputs);
  j["params"] = Json::array();
  for (const ParamBinding& b : p.params) j["params"].push_back(param_json(b));
  j["scalar_bytes"] = p.scalar_bytes;
  j["scalars"] = Json::array();
  for (const ScalarBinding& b : p.scalars) j["scalars"].push_back(scalar_json(b));
  j["buffers"] = Json::array();
  for (const Buffer& b : p.buffers) j["buffers"].push_back(buffer_json(b));
  j["views"] = Json::array();
  for (const View& v : p.views) {
    j["views"].push_back({{"buffer", v.buffer},
                          {"offset", v.offset},
                          {"type", type_json(v.type)},
                          {"strides", v.strides},
                          {"value", v.value}});
  }
  j["kernels"] = Json::array();
  for (const Kernel& k : p.kernels) j["kernels"].push_back(kernel_json(k));
  j["bodies"] = Json::array();
  for (const Body& b : p.bodies) j["bodies"].push_back(body_json(b));
  j["script"] = steps_json(p.script);
  j["calls"] = Json::array();
  for (const Call& c : p.calls) j["calls"].push_back(call_json(c));
  j["exchanges"] = Json::array();
  for (const Exchange& e : p.exchanges) j["exchanges"].push_back(exchange_json(e));
  j["regions"] = Json::array();
  for (const Region& r : p.regions) j["regions"].push_back(region_json(r));
  j["dissolved"] = Json::array();
  for (const Dissolved& d : p.dissolved) j["dissolved"].push_back(dissolved_json(d));
  j["messages"] = Json::array();
  for (const MessageSource& m : p.messages) j["messages"].push_back(message_json(m));
  j["repeats"] = Json::array();
  for (const ir::Repeat& r : p.repeats) {
    j["repeats"].push_back({{"prefix", r.prefix}, {"count", r.count}});
  }
  return j;
}

Program program_from_json(const Json& j) {
  if (j.at("schema").get<std::string>() != kSchema) {
    throw std::runtime_error("the schema is not " + std::string(kSchema));
  }
  Program p;
  p.name = j.at("name").get<std::string>();
  const Json& t = j.at("target");
  p.target = {t.at("arch").get<std::string>(), integer<int>(t.at("sms")),
              integer<int64_t>(t.at("max_threads_per_block")),
              integer<int64_t>(t.at("shared_bytes_per_block"))};
  p.options = j.at("options").get<std::string>();
  for (const auto& [name, value] : j.at("dims").items()) {
    p.dims.emplace_back(name, integer<int64_t>(value));
  }
  p.source_ops = integer<uint32_t>(j.at("source_ops"));
  p.graphs = integer<uint32_t>(j.at("graphs"));
  p.certificate = j.at("certificate").get<std::vector<std::string>>();
  p.arena_bytes = integer<int64_t>(j.at("arena_bytes"));
  p.arena_lower_bound = integer<int64_t>(j.at("arena_lower_bound"));
  p.temp_bytes_unshared = integer<int64_t>(j.at("temp_bytes_unshared"));
  if (j.contains("memory_cut")) p.memory_cut = memory_cut_from(j.at("memory_cut"));
  p.inputs = bindings_from(j.at("inputs"));
  p.outputs = bindings_from(j.at("outputs"));
  for (const Json& b : j.at("params")) p.params.push_back(param_from(b));
  if (j.contains("scalars")) {  // since 1.1
    p.scalar_bytes = integer<int64_t>(j.at("scalar_bytes"));
    for (const Json& b : j.at("scalars")) p.scalars.push_back(scalar_from(b));
  }
  for (const Json& b : j.at("buffers")) p.buffers.push_back(buffer_from(b));
  for (const Json& v : j.at("views")) {
    p.views.push_back({integer<uint32_t>(v.at("buffer")), integer<int64_t>(v.at("offset")),
                       type_from(v.at("type")), integers<int64_t>(v.at("strides")),
                       integer<uint32_t>(v.at("value"))});
  }
  for (const Json& k : j.at("kernels")) p.kernels.push_back(kernel_from(k));
  for (const Json& b : j.at("bodies")) p.bodies.push_back(body_from(b));
  p.script = steps_from(j.at("script"));
  if (j.contains("calls")) {  // since 1.2
    for (const Json& c : j.at("calls")) p.calls.push_back(call_from(c));
    p.runs = integer<uint32_t>(j.at("runs"));
    p.second_certificate = j.at("second_certificate").get<std::vector<std::string>>();
    for (const Json& b : j.at("breaks")) p.breaks.push_back(break_from(b));
  }
  if (j.contains("exchanges")) {  // since 1.4
    for (const Json& e : j.at("exchanges")) p.exchanges.push_back(exchange_from(e));
  }
  if (j.contains("regions")) {  // since 1.3
    for (const Json& r : j.at("regions")) p.regions.push_back(region_from(r));
    for (const Json& d : j.at("dissolved")) p.dissolved.push_back(dissolved_from(d));
    for (const Json& m : j.at("messages")) p.messages.push_back(message_from(m));
  }
  for (const Json& r : j.at("repeats")) {
    p.repeats.push_back({r.at("prefix").get<std::string>(), integer<int64_t>(r.at("count"))});
  }
  return p;
}

std::string to_json(const Program& p, bool with_source) {
  Json j = program_json(p);
  if (with_source) {
    j["modules"] = Json::array();
    for (const Module& m : p.modules)
      j["modules"].push_back({{"arch", m.arch}, {"source", m.source}});
  }
  return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace braid
