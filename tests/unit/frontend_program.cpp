// The .braid file and the dumps: what is written is read back, and nothing that is read can do
// more than be refused.
#define XXH_INLINE_ALL
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "frontend_plans.hpp"
#include "passes/check.hpp"
#include "rounds.hpp"
#include "runtime/check_program.hpp"

using namespace braid;
using namespace braid::testing;
using Json = nlohmann::ordered_json;
using Bytes = std::vector<std::byte>;

namespace {

constexpr size_t kHeadBytes = 40;

/// The message with which a file is refused; empty if it is read.
std::string refusal(const Bytes& bytes) {
  try {
    read_program(bytes, "m.braid");
    return {};
  } catch (const Error& e) {
    REQUIRE(e.diagnostics().size() == 1);
    CHECK(e.diagnostics()[0].code == "E0840");
    CHECK(e.diagnostics()[0].message.find("m.braid") == 0);
    return e.diagnostics()[0].message;
  }
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

template <class T>
T number_at(const Bytes& bytes, size_t at) {
  T x;
  std::memcpy(&x, bytes.data() + at, sizeof x);
  return x;
}

template <class T>
void put_at(Bytes& bytes, size_t at, T x) {
  std::memcpy(bytes.data() + at, &x, sizeof x);
}

Json header_of(const Bytes& bytes) {
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + kHeadBytes;
  return Json::parse(text, text + number_at<uint64_t>(bytes, 16));
}

/// The file with another header, its lengths and checksum made right.
Bytes with_header(const Bytes& bytes, const std::string& header) {
  const auto old = static_cast<std::ptrdiff_t>(kHeadBytes + number_at<uint64_t>(bytes, 16));
  const auto* text = reinterpret_cast<const std::byte*>(header.data());
  Bytes out(bytes.begin(), bytes.begin() + kHeadBytes);
  out.insert(out.end(), text, text + header.size());
  out.insert(out.end(), bytes.begin() + old, bytes.end());
  put_at(out, 16, uint64_t{header.size()});
  put_at(out, 32, uint64_t{XXH3_64bits(out.data() + kHeadBytes, out.size() - kHeadBytes)});
  return out;
}

/// Every place of a JSON document, as pointers.
void for_each_place(const Json& j, const Json::json_pointer& at,
                    const std::function<void(const Json::json_pointer&, const Json&)>& visit) {
  visit(at, j);
  if (j.is_object()) {
    for (const auto& [key, value] : j.items()) for_each_place(value, at / key, visit);
  }
  if (j.is_array()) {
    for (size_t i = 0; i < j.size(); ++i) for_each_place(j[i], at / i, visit);
  }
}

/// Reads a file whose header was tampered with, then does all that is done with a program that
/// passes the checker. Anything but Error is a bug. Returns what became of it.
enum class Fate { refused, complained, fine };
Fate digest(const Bytes& bytes) {
  try {
    const Program p = read_program(bytes, "m.braid");
    if (!check(p).empty()) return Fate::complained;
    runtime::check_program(p);
    (void)to_text(p);
    (void)to_dot(p);
    (void)to_json(p, true);
    (void)write_program(p);
    return Fate::fine;
  } catch (const Error&) {
    return Fate::refused;
  }
}

Program with_all_parts(ir::HostWay way = ir::HostWay::script) {
  Graph g("parts");
  g.dim("B", 6);
  const Tensor x = g.input("x", {f32, {"B", 40}});
  const Tensor c = g.constant(random_tensor({f32, {Dim(40), Dim(16)}}, 5, "c"));
  Tensor h = matmul(x, c);
  g.repeat("block", 2);
  for (const char* name : {"block0", "block1"}) {
    const Scope s = g.scope(name);
    h = h + relu(linear(g, "l", h, 16));
  }
  const Tensor count = g.param("count", {i32, {}}, {.init = ir::Init::zeros});
  g.assign(count, count + 1.0);
  const std::vector<Tensor> told = g.host("tell", {h, count}, {{f32, {"B", 16}}, {i8, {2}}});
  const Outside outside = g.outside_graphs();
  g.output("y", h + exp(told[0]));
  g.host("see", {told[1]});
  Options o;
  o.host = way;
  Program p = compile(g, o);
  for (size_t m = 0; m < p.modules.size(); ++m) {  // stands for cubins
    const HostTensor image = random_tensor({u8, {Dim(100)}}, m, "image", 1.0, 0, 256);
    p.modules[m].image = image.bytes;
  }
  return p;
}

}  // namespace

TEST_CASE("a program is read as it was written, to the byte") {
  std::vector<Program> all{with_all_parts(ir::HostWay::script),
                           with_all_parts(ir::HostWay::handshake),
                           with_all_parts(ir::HostWay::node)};
  for (const Plan& plan : plans()) all.push_back(plan.program);
  for (const Program& p : all) {
    INFO(p.name);
    const Bytes bytes = write_program(p);
    const Program again = read_program(bytes);
    CHECK(write_program(again) == bytes);
    CHECK(to_text(again) == to_text(p));
    CHECK(to_json(again, true) == to_json(p, true));
    CHECK(to_dot(again) == to_dot(p));
    CHECK(check(again).empty());
    CHECK(again.constants == p.constants);
    REQUIRE(again.modules.size() == p.modules.size());
    for (size_t m = 0; m < p.modules.size(); ++m) {
      CHECK(again.modules[m].source == p.modules[m].source);
      CHECK(again.modules[m].image == p.modules[m].image);
    }
  }
}

TEST_CASE("no beginning of a file is taken for a file") {
  const Bytes bytes = write_program(with_all_parts());
  for (size_t n = 0; n < bytes.size(); n += n < 200 ? 1 : 37) {
    const std::string why = refusal(Bytes(bytes.begin(), bytes.begin() + static_cast<long>(n)));
    CHECK(contains(why, n < kHeadBytes ? "does not begin like one" : "cut short"));
  }
  Bytes longer = bytes;
  longer.push_back(std::byte{0});
  CHECK(contains(refusal(longer), "cut short or has something appended"));
}

TEST_CASE("no flipped byte goes unseen") {
  const Bytes bytes = write_program(with_all_parts());
  std::mt19937_64 random(7);
  for (size_t i = 0; i < bytes.size(); i += i < 200 ? 1 : 1 + random() % 60) {
    Bytes damaged = bytes;
    damaged[i] ^= static_cast<std::byte>(1 + random() % 255);
    CHECK_MESSAGE(!refusal(damaged).empty(), "byte ", i);
  }
}

TEST_CASE("another version is refused with what to do") {
  const Bytes bytes = write_program(with_all_parts());
  const auto other = [&](uint32_t major, uint32_t minor) {
    Bytes b = bytes;
    put_at(b, 8, major);
    put_at(b, 12, minor);
    return refusal(b);
  };
  CHECK(other(kProgramMajor, kProgramMinor).empty());
  const std::string range = fmt::format("this braid reads {}.0 to {}.{}: compile the model again",
                                        kProgramMajor, kProgramMajor, kProgramMinor);
  CHECK(contains(other(kProgramMajor + 1, 0), fmt::format("version is {}.0", kProgramMajor + 1)));
  CHECK(contains(other(kProgramMajor + 1, 0), range));
  CHECK(contains(other(0, 0), range));
  CHECK(contains(other(kProgramMajor, kProgramMinor + 1), range));
  CHECK(contains(other(UINT32_MAX, UINT32_MAX), range));
}

TEST_CASE("lengths that lie are refused without reading by them") {
  const Bytes bytes = write_program(with_all_parts());
  for (const size_t at : {size_t{16}, size_t{24}}) {
    for (const uint64_t x : {uint64_t{0}, UINT64_MAX, uint64_t{1} << 40, UINT64_MAX - 50}) {
      Bytes b = bytes;
      put_at(b, at, x);
      CHECK(contains(refusal(b), "cut short"));
    }
  }
  for (const char* key : {"source", "image"}) {
    for (const Json& range : {Json{0, UINT64_MAX}, Json{UINT64_MAX, 8}, Json{UINT64_MAX, 0},
                              Json{UINT64_MAX, 1}, Json{-1, 1}, Json{0.5, 1}, Json{0}, Json("x")}) {
      Json j = header_of(bytes);
      j["modules"][0][key] = range;
      CHECK(!refusal(with_header(bytes, j.dump())).empty());
    }
  }
}

TEST_CASE("a tampered header is refused, or the checker complains, and nothing crashes") {
  const std::vector<Json> numbers{0,
                                  -1,
                                  1,
                                  255,
                                  UINT32_MAX,
                                  uint64_t{UINT32_MAX} + 1,
                                  INT64_MAX,
                                  INT64_MIN,
                                  UINT64_MAX,
                                  1e300,
                                  0.5,
                                  nullptr,
                                  true,
                                  "1",
                                  Json::array(),
                                  Json::object()};
  const std::vector<Json> others{nullptr, 1, "", "\u0000x", Json::array(), Json::object(), "f64"};
  std::mt19937_64 random(11);
  int refused = 0, complained = 0, fine = 0;
  for (const ir::HostWay way : {ir::HostWay::script, ir::HostWay::handshake, ir::HostWay::node}) {
    const Bytes bytes = write_program(with_all_parts(way));
    CHECK(with_header(bytes, header_of(bytes).dump()) == bytes);
    const Json good = header_of(bytes);
    std::vector<std::pair<Json::json_pointer, bool>> places;
    for_each_place(good, Json::json_pointer(),
                   [&](const Json::json_pointer& at, const Json& value) {
                     places.emplace_back(at, value.is_number());
                   });
    REQUIRE(places.size() > 300);
    std::shuffle(places.begin(), places.end(), random);
    places.resize(test::rounds(places.size()));
    for (const auto& [at, is_number] : places) {
      const std::vector<Json>& values = is_number ? numbers : others;
      for (int tries = 0; tries < (way == ir::HostWay::script ? 3 : 1); ++tries) {
        Json j = good;
        const Json& value = values[random() % values.size()];
        j[at] = value;
        CAPTURE(at.to_string());
        CAPTURE(value.dump());
        Fate fate{};
        REQUIRE_NOTHROW(fate = digest(with_header(bytes, j.dump())));
        ++(fate == Fate::refused ? refused : fate == Fate::complained ? complained : fine);
        // An index is one of these; what is only shown may be anything.
        const std::string key = at.to_string();
        const bool index = key.ends_with("/kernel") || key.ends_with("/from") ||
                           key.ends_with("/to") || key.ends_with("/body") ||
                           (contains(key, "/nodes/") && contains(key, "/args/"));
        if (is_number && index && value != good[at]) CHECK(fate != Fate::fine);
      }
      if (at.empty()) continue;
      Json j = good;  // and without it
      Json& parent = j[at.parent_pointer()];
      if (parent.is_object()) parent.erase(at.back());
      if (parent.is_array()) parent.erase(parent.begin() + std::stol(at.back()));
      REQUIRE_NOTHROW(digest(with_header(bytes, j.dump())));
    }
  }
  CHECK(refused > test::rounds(100));
  CHECK(complained > test::rounds(100));
  CHECK(fine > 0);
}

TEST_CASE("numbers that the file's fields cannot hold are refused, not wrapped") {
  const Bytes bytes = write_program(with_all_parts());
  for (const Json& x : {Json(uint64_t{1} << 32), Json(-1), Json(0.0), Json(false), Json(1e99)}) {
    Json j = header_of(bytes);
    j["bodies"][0]["nodes"][0]["kernel"] = x;
    CHECK_MESSAGE(contains(refusal(with_header(bytes, j.dump())), "number"), x.dump());
  }
}

TEST_CASE("a file that asks for many lanes, or nests deeply, costs nothing") {
  const Bytes bytes = write_program(with_all_parts());
  Json j = header_of(bytes);
  j["bodies"][0]["streams"] = 4'000'000'000;
  CHECK(!refusal(with_header(bytes, j.dump())).empty());
  CHECK(!refusal(with_header(bytes, std::string(1'000'000, '['))).empty());
  CHECK(!refusal(with_header(bytes, "")).empty());
  CHECK(!refusal(with_header(bytes, "{}")).empty());
}

TEST_CASE("tampered kernel bodies are refused, or the checker complains") {
  const Bytes bytes = write_program(with_all_parts(ir::HostWay::handshake));
  const Json good = header_of(bytes);
  std::mt19937_64 random(3);
  int noticed = 0;
  for (size_t k = 0; k < good["kernels"].size(); ++k) {
    const auto text = good["kernels"][k]["body"].get<std::string>();
    for (int i = 0; i < 60; ++i) {
      std::string changed = text;
      const size_t at = random() % changed.size();
      if (i % 3 == 0) changed.erase(at, 1 + random() % 20);
      if (i % 3 == 1) changed[at] = static_cast<char>(random() % 128);
      if (i % 3 == 2) changed.insert(at, changed.substr(random() % changed.size(), 12));
      Json j = good;
      j["kernels"][k]["body"] = changed;
      CAPTURE(changed);
      Fate fate{};
      REQUIRE_NOTHROW(fate = digest(with_header(bytes, j.dump(-1, ' ', true))));
      noticed += fate != Fate::fine;
    }
    Json j = good;  // symbolic, where a plan's shapes are fixed
    j["kernels"][k]["body"] = std::string(text).replace(text.find('['), 1, "[N, ");
    CHECK(digest(with_header(bytes, j.dump())) != Fate::fine);
  }
  CHECK(noticed > 60);
}

TEST_CASE("the JSON dump is JSON with its schema, and sources only where asked") {
  const Program p = with_all_parts();
  const Json j = Json::parse(to_json(p));
  CHECK(j.begin().key() == "schema");
  CHECK(j["schema"] == "braid.program/1");
  CHECK(!j.contains("modules"));
  CHECK(j["bodies"][0]["nodes"].size() == p.bodies[0].nodes.size());
  CHECK(j["bodies"][0]["edges"].size() == p.bodies[0].edges.size());
  CHECK(j["buffers"].size() == p.buffers.size());
  CHECK(j["dims"]["B"] == 6);
  const Json with_source = Json::parse(to_json(p, true));
  CHECK(with_source["modules"][0]["source"] == p.modules[0].source);
  CHECK(to_json(p).back() == '\n');
}

TEST_CASE("the DOT dump has balanced braces and quotes, one box a node, one arrow an edge") {
  Graph g("a \"quoted\" \\ name {");
  const Tensor x = g.input("x \"{", {f32, {4, 4}});
  g.output("y\\", softmax(matmul(x, x)).named("s\"oft"));
  std::vector<Program> all{compile(g), with_all_parts()};
  for (const Plan& plan : plans()) all.push_back(plan.program);
  for (const Program& p : all) {
    const std::string dot = to_dot(p);
    int depth = 0;
    bool quoted = false;
    size_t boxes = 0, arrows = 0, between = 0;
    for (size_t i = 0; i < dot.size(); ++i) {
      if (quoted && dot[i] == '\\') {
        ++i;
      } else if (dot[i] == '"') {
        quoted = !quoted;
      } else if (!quoted) {
        depth += (dot[i] == '{') - (dot[i] == '}');
        boxes += dot.compare(i, 10, "[fillcolor") == 0;
        arrows += dot.compare(i, 4, " -> ") == 0;
        between += dot.compare(i, 13, "style=dotted]") == 0;
        CHECK(depth >= 0);
      }
    }
    CHECK(depth == 0);
    CHECK(!quoted);
    size_t nodes = 0, edges = 0;
    for (const Body& b : p.bodies) {
      nodes += b.nodes.size();
      edges += b.edges.size();
    }
    CHECK(boxes == nodes);
    CHECK(arrows == edges + between);
    CHECK((between > 0) == !p.calls.empty());
  }
}

TEST_CASE("two compilations of one graph give the same bytes") {
  for (void (*build)(Graph&) : {build_mlp, build_attention, build_swap, build_updates}) {
    Graph a("twice"), b("twice");
    build(a);
    build(b);
    const Program p = compile(a), q = compile(b);
    CHECK(write_program(p) == write_program(q));
    CHECK(to_text(p) == to_text(q));
    CHECK(to_json(p, true) == to_json(q, true));
    CHECK(to_dot(p) == to_dot(q));
  }
}

TEST_CASE("a place whose file name is not UTF-8 does not stop the dumps") {
  Program p = with_all_parts();
  p.bodies[0].nodes[0].place = "caf\xe9.toml:3:1";
  CHECK(Json::accept(to_json(p)));
  const Bytes bytes = write_program(p);
  CHECK(write_program(read_program(bytes)) == bytes);
}
