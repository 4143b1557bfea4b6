#include "frontend/report/html.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "frontend/report/page_parts.hpp"
#include "frontend/report/report.hpp"

namespace braid {
namespace {

using Json = nlohmann::ordered_json;

// Measured on an H200: a chain of empty kernels takes this much a kernel, so the edge does.
constexpr double kEdgeUs = 0.5;
// The table for readers without JavaScript is no place for ten thousand rows.
constexpr size_t kMostRows = 200;

/// Nanoseconds are more than an estimate is worth, and halve the digits.
double rounded(double us) { return std::round(us * 1000) / 1000; }

struct Times {
  std::vector<double> starts;
  double predicted_us = 0, chain_us = 0;
};

/// Every node as early as its edges and its place in its lane allow.
std::vector<double> starts_by_edges(const Body& body) {
  std::vector<double> starts(body.nodes.size(), 0), ready(body.lanes, 0);
  std::vector<std::vector<uint32_t>> sources(body.nodes.size());
  for (const Edge& e : body.edges) sources[e.to].push_back(e.from);
  for (size_t n = 0; n < starts.size(); ++n) {
    const Node& node = body.nodes[n];
    for (uint32_t s : sources[n]) {
      starts[n] = std::max(starts[n], starts[s] + body.nodes[s].estimate_us + kEdgeUs);
    }
    if (node.lane < ready.size()) {
      starts[n] = std::max(starts[n], ready[node.lane]);
      ready[node.lane] = starts[n] + node.estimate_us + kEdgeUs;
    }
  }
  return starts;
}

Times times_of(const Body& body) {
  Times t{{}, body.predicted_us, body.chain_us};
  bool predicted = body.nodes.size() <= 1;
  for (const Node& n : body.nodes) {
    predicted = predicted || n.start_us != 0;
    t.starts.push_back(n.start_us);
  }
  if (!predicted) t.starts = starts_by_edges(body);
  double chain = 0, end = 0;
  for (size_t n = 0; n < body.nodes.size(); ++n) {
    chain += body.nodes[n].estimate_us + (n > 0 ? kEdgeUs : 0);
    end = std::max(end, t.starts[n] + body.nodes[n].estimate_us);
  }
  if (t.predicted_us == 0) t.predicted_us = end;
  if (t.chain_us == 0) t.chain_us = chain;
  return t;
}

Json kernel_json(const Kernel& k) {
  Json args = Json::array();
  for (const ArgSlot& a : k.args) args.push_back({a.name, name_of(a.role)});
  return {{"symbol", k.symbol},
          {"family", k.family},
          {"grid", k.launch.grid},
          {"block", k.launch.block},
          {"shared", k.launch.shared_bytes},
          {"flops", k.flops},
          {"bytes", k.bytes_moved},
          {"parts", k.parts},
          {"args", args}};
}

/// null for none.
Json index_json(uint32_t index) { return index == UINT32_MAX ? Json() : Json(index); }

/// Which side of what: nothing for most.
void add_region(Json& j, uint32_t region, uint32_t branch) {
  if (region == UINT32_MAX) return;
  j["region"] = region;
  j["branch"] = branch;
}

Json node_json(const Node& n, double start) {
  Json j{{"kernel", index_json(n.kernel)},
         {"ops", n.ops},
         {"place", n.place},
         {"lane", n.lane},
         {"level", n.level},
         {"earliest", n.earliest},
         {"latest", n.latest},
         {"start", rounded(start)},
         {"us", rounded(n.estimate_us)},
         {"args", n.args}};
  add_region(j, n.region, n.branch);
  return j;
}

Json body_json(const Body& b) {
  const Times t = times_of(b);
  Json nodes = Json::array(), edges = Json::array();
  for (size_t n = 0; n < b.nodes.size(); ++n) nodes.push_back(node_json(b.nodes[n], t.starts[n]));
  for (const Edge& e : b.edges) {
    Json edge = {e.from, e.to, name_of(e.reason)};
    if (e.buffer != UINT32_MAX) edge.push_back(e.buffer);
    if (e.kind == EdgeKind::programmatic) {
      if (e.buffer == UINT32_MAX) edge.push_back(nullptr);
      edge.push_back("programmatic");
    }
    edges.push_back(std::move(edge));
  }
  Json j{{"lanes", b.lanes},
         {"run", b.run},
         {"stream", b.stream},
         {"predicted_us", rounded(t.predicted_us)},
         {"chain_us", rounded(t.chain_us)},
         {"nodes", nodes},
         {"edges", edges}};
  add_region(j, b.region, b.branch);
  return j;
}

Json script_json(const std::vector<Step>& script) {
  Json steps = Json::array();
  for (const Step& s : script) steps.push_back({name_of(s.kind), s.index});
  return steps;
}

Json region_json(const Program& p, const Region& r) {
  Json slots = Json::array(), scripts = Json::array();
  for (const ArgSlot& s : r.slots) slots.push_back({s.name, name_of(s.role)});
  for (const std::vector<Step>& s : r.scripts) scripts.push_back(script_json(s));
  Json j{{"kind", name_of(r.kind)},
         {"loop", r.loop},
         {"region", index_json(r.region)},
         {"branch", r.branch},
         {"flag_type", name_of(p.views[r.flag].type.dtype)},
         {"sides", r.sides},
         {"bodies", r.bodies},
         {"scripts", scripts},
         {"slots", slots},
         {"args", r.args},
         {"unrolled", r.unrolled},
         {"op", r.op},
         {"place", r.place},
         {"why", r.why},
         {"us", rounded(r.estimate_us)}};
  return j;
}

Json dissolved_json(const Dissolved& d) {
  return {{"op", d.op},
          {"place", d.place},
          {"lowering", name_of(d.lowering)},
          {"copies", d.copies},
          {"why", d.why}};
}

Json message_json(const MessageSource& m) {
  return {{"kind", name_of(m.kind)}, {"text", m.text}, {"type", to_string(m.type)},
          {"loops", m.loops},        {"op", m.op},     {"place", m.place}};
}

Json call_json(const Call& c) {
  return {{"function", c.function}, {"op", c.op},     {"place", c.place},
          {"level", c.level},       {"args", c.args}, {"results", c.results}};
}

Json exchange_json(const Exchange& e) {
  return {{"function", e.function}, {"way", ir::name_of(e.way)},
          {"pure", e.pure},         {"op", e.op},
          {"place", e.place},       {"why", e.why}};
}

/// A view's type is its buffer's unless it says so.
Json view_json(const Program& p, const View& v) {
  Json j = {v.buffer, v.offset};
  if (v.type != p.buffers[v.buffer].type) j.push_back(to_string(v.type));
  return j;
}

Json page_json(const Program& p) {
  Json j;
  j["schema"] = "braid.page/1";
  j["name"] = p.name;
  j["target"] = p.target.arch;
  j["options"] = p.options;
  j["dims"] = Json::object();
  for (const auto& [name, value] : p.dims) j["dims"][name] = value;
  j["source_ops"] = p.source_ops;
  j["graphs"] = p.graphs;
  j["runs"] = p.runs;
  j["certificate"] = p.certificate;
  j["second_certificate"] = p.second_certificate;
  j["break_us"] = report::kHostWaitUs;
  j["arena_bytes"] = p.arena_bytes;
  j["arena_lower_bound"] = p.arena_lower_bound;
  j["temp_bytes_unshared"] = p.temp_bytes_unshared;
  const auto list = [&j](const char* key, const auto& items, auto&& to_json_of) {
    j[key] = Json::array();
    for (const auto& item : items) j[key].push_back(to_json_of(item));
  };
  list("breaks", p.breaks, [](const Break& b) {
    return Json{{"op", b.op},
                {"place", b.place},
                {"level", b.level},
                {"reason", b.reason},
                {"remedy", b.remedy}};
  });
  list("repeats", p.repeats,
       [](const ir::Repeat& r) { return Json{{"prefix", r.prefix}, {"count", r.count}}; });
  j["script"] = script_json(p.script);
  list("regions", p.regions, [&p](const Region& r) { return region_json(p, r); });
  list("dissolved", p.dissolved, dissolved_json);
  list("messages", p.messages, message_json);
  list("calls", p.calls, call_json);
  list("exchanges", p.exchanges, exchange_json);
  list("buffers", p.buffers, [](const Buffer& b) {
    return Json{{"name", b.name},
                {"segment", name_of(b.segment)},
                {"type", to_string(b.type)},
                {"bytes", b.bytes},
                {"offset", b.offset}};
  });
  list("views", p.views, [&p](const View& v) { return view_json(p, v); });
  list("kernels", p.kernels, kernel_json);
  list("bodies", p.bodies, body_json);
  return j;
}

std::string dumped(const Json& j) { return j.dump(-1, ' ', false, Json::error_handler_t::replace); }

/// JSON that no parser of HTML finds a tag in: `<` stands in its strings alone.
std::string script_text(const Json& j) {
  std::string out;
  for (char c : dumped(j)) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

/// UTF-8 that is text and nothing else, in an element or an attribute.
std::string html_text(const std::string& s) {
  constexpr std::string_view kSpecial = "&<>\"'";
  constexpr std::array kInstead{"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
  std::string out;
  for (char c : Json::parse(dumped(s)).get<std::string>()) {
    const size_t i = kSpecial.find(c);
    if (i == std::string_view::npos) {
      out += c;
    } else {
      out += kInstead[i];
    }
  }
  return out;
}

size_t streams_of(const Program& p) {
  size_t most = 0;
  for (const Body& b : p.bodies) {
    std::set<uint32_t> lanes;
    for (const Node& n : b.nodes) lanes.insert(n.lane);
    most = std::max(most, lanes.size());
  }
  return most;
}

std::string kernel_text(const Program& p, const Node& n) {
  if (n.kernel == kNoKernel) {
    return fmt::format("{} node: {}", p.regions[n.region].loop ? "loop" : "branch",
                       p.regions[n.region].op);
  }
  const Kernel& k = p.kernels[n.kernel];
  if (n.region == UINT32_MAX) return k.symbol;
  return fmt::format("{}, where r{} takes side {}", k.symbol, n.region, n.branch);
}

/// Of one launch, with a run of each loop that the host drives.
double predicted_us(const Program& p) {
  double us = 0;
  for (const Body& b : p.bodies) us += b.region == UINT32_MAX ? times_of(b).predicted_us : 0;
  for (const Region& r : p.regions) {
    if (r.kind == Region::Kind::host && r.region == UINT32_MAX) us += r.estimate_us;
  }
  return us;
}

/// What somebody without JavaScript reads.
std::string plain_tables(const Program& p) {
  size_t nodes = 0, kernels = 0;
  std::string rows;
  for (size_t b = 0; b < p.bodies.size(); ++b) {
    const Times t = times_of(p.bodies[b]);
    for (size_t n = 0; n < p.bodies[b].nodes.size(); ++n, ++nodes) {
      const Node& node = p.bodies[b].nodes[n];
      kernels += node.kernel == kNoKernel ? 0 : 1;
      if (nodes >= kMostRows) continue;
      rows += fmt::format("<tr><td>{}{}.n{}<td>{}<td>{:.2f}<td>{:.2f}<td>{}<td>{}\n",
                          p.bodies[b].stream ? 's' : 'g', b, n, node.lane, t.starts[n],
                          node.estimate_us, html_text(kernel_text(p, node)), html_text(node.place));
    }
  }
  std::string out = fmt::format(
      "<p>{}: {} ops, {} kernels ({} distinct), {} graphs, {} streams, {:.1f} us predicted, arena "
      "{} bytes. The timeline needs JavaScript.</p>\n",
      html_text(p.name), p.source_ops, kernels, p.kernels.size(), p.graphs, streams_of(p),
      predicted_us(p), p.arena_bytes);
  out += "<table><thead><tr><th>node<th>stream<th>start us<th>us<th>kernel<th>place</thead>\n";
  out += rows + "</table>\n";
  if (nodes > kMostRows) out += fmt::format("<p>and {} more.</p>\n", nodes - kMostRows);
  return out;
}

/// Replaces the one occurrence of `mark`.
void fill(std::string& page, std::string_view mark, std::string_view with) {
  const size_t at = page.find(mark);
  ensure(at != std::string::npos, "the page has a place for each of its parts");
  page.replace(at, mark.size(), with);
}

}  // namespace

std::string to_html(const Program& p) {
  std::string page(page_parts::kHtml);
  // From the end, so that no mark is looked for in what a Program's names say.
  std::string script;
  for (std::string_view part : page_parts::kScripts) script += part;
  fill(page, "{{script}}", script);
  fill(page, "{{data}}", script_text(page_json(p)));
  fill(page, "{{plain}}", plain_tables(p));
  fill(page, "{{style}}", page_parts::kStyle);
  fill(page, "{{title}}", html_text(p.name));
  return page;
}

}  // namespace braid
