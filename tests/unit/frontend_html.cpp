// The HTML page: what it holds is the Program, and nothing that a Program says becomes markup.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>

#include "frontend/report/html.hpp"
#include "frontend_plans.hpp"
#include "ir/file.hpp"
#include "plan_help.hpp"

using namespace braid;
using Json = nlohmann::json;

namespace {

size_t count(const std::string& text, std::string_view what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

const std::string kOpen = R"(<script type="application/json" id="data">)";

std::string data_text(const std::string& page) {
  const size_t from = page.find(kOpen) + kOpen.size();
  return page.substr(from, page.find("</script>", from) - from);
}

Json data_of(const std::string& page) {
  REQUIRE(count(page, kOpen) == 1);
  return Json::parse(data_text(page));
}

/// How often each tag, comment or entity begins outside the JSON.
std::map<std::string, size_t> markup(std::string page) {
  page.replace(page.find(data_text(page)), data_text(page).size(), "");
  std::map<std::string, size_t> found;
  const std::regex tag("<[a-zA-Z/!?][a-zA-Z0-9]*");
  for (std::sregex_iterator i(page.begin(), page.end(), tag), end; i != end; ++i) ++found[i->str()];
  return found;
}

bool near(const Json& j, double us) { return std::abs(j.get<double>() - us) <= 0.0005001; }

void same_node(const Json& j, const Node& n) {
  CHECK(j["kernel"] == (n.kernel == kNoKernel ? Json() : Json(n.kernel)));
  CHECK(j.contains("region") == (n.region != UINT32_MAX));
  if (n.region != UINT32_MAX) {
    CHECK(j["region"] == n.region);
    CHECK(j["branch"] == n.branch);
  }
  CHECK(j["ops"] == Json(n.ops));
  CHECK(j["place"] == n.place);
  CHECK(j["lane"] == n.lane);
  CHECK(j["level"] == n.level);
  CHECK(j["earliest"] == n.earliest);
  CHECK(j["latest"] == n.latest);
  CHECK(j["args"] == Json(n.args));
  CHECK(near(j["us"], n.estimate_us));
}

void same_body(const Json& j, const Body& b) {
  CHECK(j["lanes"] == b.lanes);
  CHECK(j["stream"] == b.stream);
  CHECK(j.contains("region") == (b.region != UINT32_MAX));
  if (b.region != UINT32_MAX) {
    CHECK(j["region"] == b.region);
    CHECK(j["branch"] == b.branch);
  }
  REQUIRE(j["nodes"].size() == b.nodes.size());
  for (size_t n = 0; n < b.nodes.size(); ++n) same_node(j["nodes"][n], b.nodes[n]);
  REQUIRE(j["edges"].size() == b.edges.size());
  for (size_t e = 0; e < b.edges.size(); ++e) {
    CHECK(j["edges"][e][0] == b.edges[e].from);
    CHECK(j["edges"][e][1] == b.edges[e].to);
    CHECK(j["edges"][e][2] == std::string(name_of(b.edges[e].reason)));
    if (b.edges[e].buffer != UINT32_MAX) CHECK(j["edges"][e][3] == b.edges[e].buffer);
  }
}

void same_script(const Json& j, const std::vector<Step>& script) {
  REQUIRE(j.size() == script.size());
  for (size_t s = 0; s < script.size(); ++s) {
    CHECK(j[s][0] == std::string(name_of(script[s].kind)));
    CHECK(j[s][1] == script[s].index);
  }
}

void same_region(const Json& j, const Region& r, const Program& p) {
  CHECK(j["kind"] == std::string(name_of(r.kind)));
  CHECK(j["loop"] == r.loop);
  CHECK(j["region"] == (r.region == UINT32_MAX ? Json() : Json(r.region)));
  CHECK(j["branch"] == r.branch);
  CHECK(j["flag_type"] == std::string(name_of(p.views[r.flag].type.dtype)));
  CHECK(j["sides"] == r.sides);
  CHECK(j["bodies"] == Json(r.bodies));
  CHECK(j["args"] == Json(r.args));
  CHECK(j["unrolled"] == r.unrolled);
  CHECK(j["op"] == r.op);
  CHECK(j["place"] == r.place);
  CHECK(j["why"] == r.why);
  CHECK(near(j["us"], r.estimate_us));
  REQUIRE(j["slots"].size() == r.slots.size());
  for (size_t s = 0; s < r.slots.size(); ++s) {
    CHECK(j["slots"][s][0] == r.slots[s].name);
    CHECK(j["slots"][s][1] == std::string(name_of(r.slots[s].role)));
  }
  REQUIRE(j["scripts"].size() == r.scripts.size());
  for (size_t s = 0; s < r.scripts.size(); ++s) same_script(j["scripts"][s], r.scripts[s]);
}

void same_program(const Json& j, const Program& p) {
  CHECK(j["schema"] == "braid.page/1");
  CHECK(j["name"] == p.name);
  CHECK(j["source_ops"] == p.source_ops);
  CHECK(j["arena_bytes"] == p.arena_bytes);
  CHECK(j["certificate"] == Json(p.certificate));
  REQUIRE(j["kernels"].size() == p.kernels.size());
  for (size_t k = 0; k < p.kernels.size(); ++k) {
    CHECK(j["kernels"][k]["symbol"] == p.kernels[k].symbol);
    CHECK(j["kernels"][k]["grid"] == Json(p.kernels[k].launch.grid));
    REQUIRE(j["kernels"][k]["args"].size() == p.kernels[k].args.size());
    for (size_t a = 0; a < p.kernels[k].args.size(); ++a) {
      CHECK(j["kernels"][k]["args"][a][0] == p.kernels[k].args[a].name);
      CHECK(j["kernels"][k]["args"][a][1] == std::string(name_of(p.kernels[k].args[a].role)));
    }
  }
  REQUIRE(j["buffers"].size() == p.buffers.size());
  for (size_t b = 0; b < p.buffers.size(); ++b) {
    CHECK(j["buffers"][b]["name"] == p.buffers[b].name);
    CHECK(j["buffers"][b]["offset"] == p.buffers[b].offset);
    CHECK(j["buffers"][b]["bytes"] == p.buffers[b].bytes);
  }
  REQUIRE(j["views"].size() == p.views.size());
  for (size_t v = 0; v < p.views.size(); ++v) {
    CHECK(j["views"][v][0] == p.views[v].buffer);
    CHECK(j["views"][v][1] == p.views[v].offset);
  }
  REQUIRE(j["bodies"].size() == p.bodies.size());
  for (size_t b = 0; b < p.bodies.size(); ++b) same_body(j["bodies"][b], p.bodies[b]);
  same_script(j["script"], p.script);
  REQUIRE(j["regions"].size() == p.regions.size());
  for (size_t r = 0; r < p.regions.size(); ++r) same_region(j["regions"][r], p.regions[r], p);
  REQUIRE(j["dissolved"].size() == p.dissolved.size());
  for (size_t d = 0; d < p.dissolved.size(); ++d) {
    CHECK(j["dissolved"][d]["op"] == p.dissolved[d].op);
    CHECK(j["dissolved"][d]["lowering"] == std::string(name_of(p.dissolved[d].lowering)));
    CHECK(j["dissolved"][d]["copies"] == p.dissolved[d].copies);
    CHECK(j["dissolved"][d]["why"] == p.dissolved[d].why);
  }
  REQUIRE(j["messages"].size() == p.messages.size());
  for (size_t m = 0; m < p.messages.size(); ++m) {
    CHECK(j["messages"][m]["kind"] == std::string(name_of(p.messages[m].kind)));
    CHECK(j["messages"][m]["text"] == p.messages[m].text);
    CHECK(j["messages"][m]["type"] == to_string(p.messages[m].type));
    CHECK(j["messages"][m]["loops"] == p.messages[m].loops);
    CHECK(j["messages"][m]["op"] == p.messages[m].op);
    CHECK(j["messages"][m]["place"] == p.messages[m].place);
  }
}

/// Two graphs with a host call between them, on two streams each; every name is `name` of a number.
template <class Name>
Program with_names(const Name& name) {
  int n = 0;
  test::PlanMaker maker;
  const uint32_t x = maker.buffer(Segment::input, 64);
  const uint32_t t = maker.temp(64), y = maker.temp(64, 64);
  maker.node({{x, Role::in}, {t, Role::out}});
  maker.node({{t, Role::in}, {y, Role::out}}, 1);
  Program p = std::move(maker.p);
  p.bodies[0].edges.push_back({0, 1, EdgeKind::full, EdgeReason::raw, t});
  p.bodies.push_back(p.bodies[0]);
  p.name = name(n++);
  p.options = name(n++);
  p.dims.emplace_back(name(n++), 3);
  for (Buffer& b : p.buffers) b.name = name(n++);
  for (Kernel& k : p.kernels) {
    k.symbol = name(n++);
    k.family = name(n++);
    for (ArgSlot& a : k.args) a.name = name(n++);
  }
  for (Body& b : p.bodies) {
    for (Node& node : b.nodes) {
      node.place = name(n++);
      node.ops = {name(n), name(n + 1)};
      n += 2;
      node.estimate_us = 1.5;
    }
  }
  Call c;
  c.function = name(n++);
  c.op = name(n++);
  c.place = name(n++);
  c.args = {t};
  c.results = {y};
  p.calls.push_back(c);
  p.breaks.push_back({c.op, c.place, 1, name(n), name(n + 1)});
  p.certificate = {name(n + 2), name(n + 3)};
  p.second_certificate = {name(n + 4)};
  p.repeats.push_back({name(n + 5), 3});
  Region r;
  r.kind = Region::Kind::host;
  r.flag = t;
  r.op = name(n + 6);
  r.place = name(n + 7);
  r.why = name(n + 8);
  r.slots = {{name(n + 9), Role::in, p.views[t].type}};
  r.args = {t};
  r.scripts = {{{Step::Kind::launch, 1}}};
  p.regions.push_back(r);
  p.dissolved.push_back({name(n + 10), name(n + 11), ir::Lowering::unroll, 3, name(n + 12)});
  p.messages.push_back(
      {ir::MessageKind::item, name(n + 13), {f32, {}}, 2, name(n + 14), name(n + 15)});
  using Kind = Step::Kind;
  p.script = {{Kind::launch, 0}, {Kind::read, 0},  {Kind::wait, 0},
              {Kind::call, 0},   {Kind::write, 0}, {Kind::launch, 1}};
  return p;
}

}  // namespace

TEST_CASE("html: the page holds the Program") {
  for (const testing::Plan& plan : testing::plans()) {
    CAPTURE(plan.name);
    const std::string page = to_html(plan.program);
    same_program(data_of(page), plan.program);
    CHECK(to_html(plan.program) == page);
  }
  std::mt19937 random(20);
  const auto name = [&](int n) { return fmt::format("name{}_{}", n, random()); };
  const Program p = with_names(name);
  const Json j = data_of(to_html(p));
  same_program(j, p);
  CHECK(j["calls"][0]["function"] == p.calls[0].function);
  CHECK(j["calls"][0]["args"] == Json(p.calls[0].args));
  CHECK(j["breaks"][0]["reason"] == p.breaks[0].reason);
  CHECK(j["breaks"][0]["remedy"] == p.breaks[0].remedy);
  CHECK(j["repeats"][0]["prefix"] == p.repeats[0].prefix);
  CHECK(j["dims"][p.dims[0].first] == 3);
}

TEST_CASE("html: branches, loops and messages") {
  using ir::Lowering;
  for (const Lowering lowering : {Lowering::node, Lowering::predicate, Lowering::host}) {
    const Lowering loops = lowering == Lowering::predicate ? Lowering::node : lowering;
    Graph g("regions");
    const Tensor x = g.input("x", {f32, {16, 16}}), w = g.param("w", {f32, {16, 16}});
    const auto step = [&](Tensor i, Tensor v) {
      g.print(i, "<i>");
      return g.if_(
          greater(sum(v, {.axes = {0, 1}}), 1), [&] { return matmul(v, w); },
          [&] { return v + 1.0; }, {.lowering = lowering});
    };
    const Tensor y = g.loop(9, x, step, {.lowering = loops, .unroll = 1});
    g.output("y", g.loop(2, y, [&](Tensor, Tensor v) { return exp(v); },
                         {.lowering = Lowering::unroll}));
    const Program p = compile(g);
    REQUIRE(p.regions.size() == 2);
    REQUIRE(p.dissolved.size() == 1);
    REQUIRE(p.messages.size() >= 1);
    const std::string page = to_html(p);
    same_program(data_of(page), p);
    CHECK(count(page, "<i>") == 0);
    CHECK((count(page, "<td>loop node: ") == 1) == (loops == Lowering::node));
    CHECK((count(page, "<td>branch node: ") == 1) == (lowering == Lowering::node));
    CHECK((count(page, ", where r1 takes side 0<td>") >= 1) == (lowering == Lowering::predicate));
  }
}

TEST_CASE("html: names cannot become markup") {
  const auto plain = markup(to_html(with_names([](int n) { return fmt::format("n{}", n); })));
  CHECK(plain.at("<script") == 2);
  CHECK(plain.at("</script") == 2);
  const std::vector<std::string> hostile{"</script><script>alert(1)</script>",
                                         "</SCRIPT >",
                                         "<!--<script>",
                                         "]]>",
                                         "\" onload=\"alert(1)",
                                         "' onload='alert(1)",
                                         "</noscript><img src=x>",
                                         "</title><b>",
                                         "</style><i>",
                                         "{{data}}",
                                         "{{script}}",
                                         "{{style}}",
                                         "{{title}}",
                                         "&lt;b&gt;",
                                         "\\u003c/script>",
                                         std::string("a\0b", 3)};
  for (size_t first = 0; first < hostile.size(); ++first) {
    CAPTURE(hostile[first]);
    const auto name = [&](int n) {
      return hostile[(first + static_cast<size_t>(n)) % hostile.size()];
    };
    const Program p = with_names(name);
    const std::string page = to_html(p);
    CHECK(markup(page) == plain);
    CHECK(!data_text(page).empty());
    CHECK(count(data_text(page), "<") == 0);
    same_program(data_of(page), p);
  }
}

TEST_CASE("html: names that are not UTF-8 keep what is") {
  const Program p = with_names([](int n) { return fmt::format("a{}\xff\xc3(", n); });
  const std::string page = to_html(p);
  const Json j = data_of(page);
  CHECK(j["name"] == "a0\xef\xbf\xbd\xef\xbf\xbd(");
  CHECK(count(page, "\xff") == 0);
  CHECK(count(page, "<title>a0\xef\xbf\xbd\xef\xbf\xbd( - Braid</title>") == 1);
}

TEST_CASE("html: the page asks nobody for anything") {
  const std::string page = to_html(testing::plans().front().program);
  for (const char* word :
       {"http:", "https:", "src=", "@import", "url(", "fetch(", "XMLHttpRequest", "import "}) {
    CAPTURE(word);
    CHECK(count(page, word) == 0);
  }
  CHECK(count(page, "default-src 'none'") == 1);
  CHECK(count(page, "{{") == 0);
  CHECK(page.starts_with("<!doctype html>\n"));
  CHECK(page.ends_with("</html>\n"));
}

TEST_CASE("html: the page's files are in it as they are") {
  const std::string page = to_html(testing::plans().front().program);
  size_t files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(BRAID_SOURCE_DIR "/frontend/report/page")) {
    if (entry.path().extension() == ".html") continue;
    CAPTURE(entry.path().filename().string());
    CHECK(count(page, read_file(entry.path().string())) == 1);
    ++files;
  }
  CHECK(files == 12);
}

TEST_CASE("html: starts that nobody predicted follow edges and lanes") {
  test::PlanMaker maker;
  const uint32_t x = maker.buffer(Segment::input, 64);
  std::vector<uint32_t> t;
  for (int i = 0; i < 4; ++i) t.push_back(maker.temp(64, 64 * i));
  maker.node({{x, Role::in}, {t[0], Role::out}}, 0);
  maker.node({{x, Role::in}, {t[1], Role::out}}, 1);
  maker.node({{x, Role::in}, {t[2], Role::out}}, 1);
  maker.node({{t[0], Role::in}, {t[2], Role::in}, {t[3], Role::out}}, 1);
  Program p = std::move(maker.p);
  const std::vector<double> us{10, 1, 2, 4};
  for (size_t n = 0; n < us.size(); ++n) p.bodies[0].nodes[n].estimate_us = us[n];
  p.bodies[0].edges = {{0, 3, EdgeKind::full, EdgeReason::raw, t[0]}};  // those of lanes: none yet
  p.script = {{Step::Kind::launch, 0}};
  Json body = data_of(to_html(p))["bodies"][0];
  const auto starts = [&body] {
    std::vector<double> result;
    for (const Json& n : body["nodes"]) result.push_back(n["start"].get<double>());
    return result;
  };
  CHECK(starts() == std::vector<double>{0, 0, 1.5, 10.5});  // an edge takes half a microsecond
  CHECK(body["predicted_us"] == 14.5);
  CHECK(body["chain_us"] == 18.5);

  // What a predictor says stays, to a nanosecond.
  const std::vector<double> given{0, 0.25, 1.3333333, 11};
  for (size_t n = 0; n < us.size(); ++n) p.bodies[0].nodes[n].start_us = given[n];
  p.bodies[0].predicted_us = 15.25;
  p.bodies[0].chain_us = 20;
  body = data_of(to_html(p))["bodies"][0];
  CHECK(starts() == std::vector<double>{0, 0.25, 1.333, 11});
  CHECK(body["predicted_us"] == 15.25);
  CHECK(body["chain_us"] == 20);
}

TEST_CASE("html: small for small graphs, and readable without JavaScript") {
  test::PlanMaker maker;
  const uint32_t x = maker.buffer(Segment::input, 64);
  for (int i = 0; i < 300; ++i) {
    const uint32_t t = maker.temp(64);
    const uint32_t n = maker.node({{x, Role::in}, {t, Role::out}});
    Node& node = maker.body().nodes[n];
    maker.p.kernels[n].symbol = fmt::format("dot_add_relu_{:08x}", i);
    node.place = fmt::format("model.toml:{}:5", i);
    node.ops = {fmt::format("block.{}/dot", i), fmt::format("block.{}/h (add)", i)};
    if (i == 99) CHECK(to_html(maker.p).size() < 150'000);
  }
  const std::string page = to_html(maker.p);
  const size_t from = page.find("<noscript>"), to = page.find("</noscript>");
  const std::string plain = page.substr(from, to - from);
  CHECK(count(plain, "300 kernels") == 1);
  CHECK(count(plain, "<tr>") == 201);  // with the head
  CHECK(count(plain, "<td>dot_add_relu_000000c7<td>model.toml:199:5") == 1);
  CHECK(count(plain, "and 100 more") == 1);
}

TEST_CASE("html: an empty Program is a page") {
  const Program p;
  same_program(data_of(to_html(p)), p);
}
