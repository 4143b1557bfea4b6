// Plans with regions as files, texts and pictures.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "control_programs.hpp"
#include "ir/program_json.hpp"
#include "passes/check.hpp"
#include "rounds.hpp"

using namespace braid;
using namespace braid::test;

namespace {

template <class Visit>
void each_place(const Json& j, const Json::json_pointer& at, const Visit& visit) {
  if (j.is_object()) {
    for (const auto& [key, value] : j.items()) each_place(value, at / key, visit);
  } else if (j.is_array()) {
    for (size_t i = 0; i < j.size(); ++i) each_place(j[i], at / i, visit);
  } else {
    visit(at, j);
  }
}

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("plans with regions are read as they were written, and shown whole") {
  size_t regions = 0, messages = 0, dissolved = 0;
  for (uint64_t seed = 0; seed < test::rounds<uint64_t>(60); ++seed) {
    const Program p = control_program(seed);
    const std::vector<std::byte> bytes = write_program(p);
    const Program again = read_program(bytes);
    REQUIRE(write_program(again) == bytes);
    REQUIRE(to_json(again) == to_json(p));
    REQUIRE(check(again).empty());
    const std::string text = to_text(p), dot = to_dot(p);
    REQUIRE(to_text(again) == text);
    REQUIRE(to_dot(again) == dot);
    // Every body and region is there once.
    CHECK(count(text, "\nregion r") + count(text, " region r") >= p.regions.size());
    const auto shown =
        static_cast<size_t>(std::count_if(p.bodies.begin(), p.bodies.end(), [](const Body& b) {
          return b.region == UINT32_MAX || !b.nodes.empty();  // the others are "nothing"
        }));
    CHECK(count(text, "graph g") == shown);
    CHECK(count(dot, "subgraph cluster_g") == shown);
    for (const Region& r : p.regions) CHECK(text.find(r.why) != text.npos);
    regions += p.regions.size();
    messages += p.messages.size();
    dissolved += p.dissolved.size();
  }
  CHECK(regions > test::rounds<size_t>(100));
  CHECK(messages > test::rounds<size_t>(100));
  CHECK(dissolved > test::rounds<size_t>(10));
}

TEST_CASE("a plan without regions loads without the fields of 1.3") {
  Program p = control_program(0);
  for (uint64_t seed = 1; !p.regions.empty() || !p.messages.empty(); ++seed) {
    RandomControlOptions random;
    random.sends = false;
    Options o;
    o.branches = ir::Lowering::select;
    p = run_passes(random_control(seed, random), o, "edges").program;
  }
  Json j = program_json(p);
  for (const char* key : {"regions", "dissolved", "messages"}) REQUIRE(j.erase(key) == 1);
  p.dissolved.clear();
  CHECK(to_json(program_from_json(j)) == to_json(p));
}

TEST_CASE("tampered regions are refused, or the checker complains, and nothing crashes") {
  std::mt19937_64 random(12);
  const std::vector<Json> values{0,     1,       -1,   255,    UINT32_MAX,    INT64_MAX,
                                 0.5,   nullptr, true, "node", Json::array(), Json::object(),
                                 "host"};
  size_t refused = 0, complained = 0;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    const Program p = control_program(seed);
    if (p.regions.empty() || p.regions.size() > 12) continue;
    const Json good = program_json(p);
    std::vector<Json::json_pointer> places;
    each_place(good, Json::json_pointer(), [&](const Json::json_pointer& at, const Json&) {
      const std::string where = at.to_string();
      if (where.starts_with("/regions") || where.starts_with("/bodies") ||
          where.ends_with("/region") || where.ends_with("/guard")) {
        places.push_back(at);
      }
    });
    REQUIRE(places.size() > 50);
    for (int tries = 0; tries < test::rounds(60); ++tries) {
      Json j = good;
      const Json::json_pointer& at = places[random() % places.size()];
      if (random() % 6 == 0) {
        Json& parent = j[at.parent_pointer()];
        if (parent.is_object()) parent.erase(at.back());
        if (parent.is_array()) parent.erase(parent.begin() + std::stol(at.back()));
      } else {
        j[at] = values[random() % values.size()];
      }
      CAPTURE(at.to_string());
      CAPTURE(j.contains(at) ? j[at].dump() : "gone");
      Program read;
      try {
        read = program_from_json(j);
      } catch (const std::exception&) {
        ++refused;
        continue;
      }
      read.constants = p.constants;
      std::vector<std::string> found;
      REQUIRE_NOTHROW(found = check(read));
      complained += !found.empty();
      if (found.empty()) REQUIRE_NOTHROW(to_text(read) + to_dot(read));
    }
  }
  CHECK(refused > test::rounds<size_t>(100));
  CHECK(complained > test::rounds<size_t>(100));
}
